//! Nodes to the types of fields.

use std::ops::RangeInclusive;
use std::rc::Rc;

use super::scalar::{Meaning, meaning};
use super::{Reader, is_nothing};
use crate::policy::fault::{clipped, quoted};
use crate::policy::raw::{Field, Located};
use crate::policy::yaml::{Entry, Kind, Node};

impl Reader<'_> {
    /// Text as written. Numbers and truth values are the text that writes them;
    /// numbers that readers of YAML print in another form than written are
    /// refused, since the value to match would be anybody's guess.
    pub(super) fn text(&mut self, name: &str, node: &Node) -> Field<String> {
        let Kind::Scalar { text, plain } = &node.kind else {
            return self.mistyped(name, node, "text", &format!("write {name}: TEXT"));
        };
        let refused = match meaning(text) {
            _ if !plain => None,
            Meaning::Nothing => return Field::Absent,
            Meaning::Fraction => Some("a number with a fraction or an exponent"),
            Meaning::Whole(value) if i64::try_from(value).is_err() => Some("too large a number"),
            Meaning::Whole(_) | Meaning::Truth(_) | Meaning::Text => None,
        };
        if let Some(what) = refused {
            let message = format!("error checking config: {} for {name} is {what}", quoted(text));
            let hint =
                format!("if it is meant as text, put it in quotes: {name}: \"{}\"", clipped(text));
            self.report(self.fault(node.at, message).hint(hint));
            return Field::Faulty;
        }
        Field::Given(Located { at: node.at, value: text.to_string() })
    }

    /// A truth value.
    pub(super) fn flag(&mut self, name: &str, node: &Node) -> Field<bool> {
        match unquoted(node) {
            Some((_, Meaning::Nothing)) => Field::Absent,
            Some((_, Meaning::Truth(value))) => Field::Given(Located { at: node.at, value }),
            _ => {
                let hint = format!("write {name}: true or {name}: false, without quotes");
                self.mistyped(name, node, "true or false", &hint)
            }
        }
    }

    /// A whole number in `range`.
    pub(super) fn whole(
        &mut self,
        name: &str,
        node: &Node,
        range: RangeInclusive<u32>,
    ) -> Field<u32> {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        let hint = match unquoted(node) {
            Some((_, Meaning::Nothing)) => return Field::Absent,
            Some((_, Meaning::Whole(value))) => {
                match u32::try_from(value).ok().filter(|value| range.contains(value)) {
                    Some(value) => return Field::Given(Located { at: node.at, value }),
                    None => "choose a number in this range".to_owned(),
                }
            }
            Some((text, Meaning::Fraction)) => {
                let shown = quoted(text);
                let message =
                    format!("error checking config: cannot read {shown} as {expected} for {name}");
                self.report(
                    self.fault(node.at, message).hint("write it without a point or exponent"),
                );
                return Field::Faulty;
            }
            Some((text, _)) if text.starts_with('0') => {
                let hint =
                    "write it without leading zeros, which mean octal to some readers of YAML";
                let octal = u32::from_str_radix(text, 8).ok();
                if let Some(value) = octal.filter(|value| range.contains(value))
                    && self.faults.slip(self.fault(node.at, format!("{name} is octal")).hint(hint))
                {
                    return Field::Given(Located { at: node.at, value });
                }
                hint.to_owned()
            }
            _ => format!("write it in digits and without quotes, such as {name}: 100"),
        };
        self.mistyped(name, node, &expected, &hint)
    }

    /// The items of a list; none where there is nothing or no list.
    pub(super) fn list(&mut self, name: &str, node: &Node) -> Rc<[Node]> {
        if let Kind::List(items) = &node.kind {
            return Rc::clone(items);
        }
        if !is_nothing(node) {
            self.mistyped::<()>(
                name,
                node,
                "a list",
                "begin each item with '- ' on a line of its own",
            );
        }
        Rc::new([])
    }

    /// The entries of a mapping.
    pub(super) fn map(&mut self, name: &str, node: &Node) -> Option<Rc<[Entry]>> {
        if let Kind::Map(entries) = &node.kind {
            return Some(Rc::clone(entries));
        }
        self.mistyped::<()>(
            name,
            node,
            "a mapping",
            "write its fields as `key: value`, one a line",
        );
        None
    }

    /// The entries of a mapping that is an item of a list.
    pub(super) fn item(&mut self, node: &Node, example: &str) -> Option<Rc<[Entry]>> {
        if let Kind::Map(entries) = &node.kind {
            return Some(Rc::clone(entries));
        }
        let shown = match &node.kind {
            Kind::Scalar { text, .. } if !text.is_empty() => clipped(text),
            _ => described(node),
        };
        let message =
            format!("config error, yaml file contains list of type other than map: {shown}");
        let hint = format!("write each item as a mapping, such as `{example}`");
        self.report(self.fault(node.at, message).hint(hint));
        None
    }

    pub(super) fn mistyped<T>(
        &mut self,
        name: &str,
        node: &Node,
        expected: &str,
        hint: &str,
    ) -> Field<T> {
        let message = format!(
            "error loading config file: yaml: unmarshal errors: cannot read {} as {expected} \
             for {name}",
            described(node)
        );
        self.report(self.fault(node.at, message).hint(hint));
        Field::Faulty
    }
}

/// Text without quotes and what it means.
pub(super) fn unquoted(node: &Node) -> Option<(&str, Meaning)> {
    match &node.kind {
        Kind::Scalar { text, plain: true } => Some((text, meaning(text))),
        Kind::Scalar { .. } | Kind::List(_) | Kind::Map(_) => None,
    }
}

/// A node as messages show it.
pub(super) fn described(node: &Node) -> String {
    match &node.kind {
        Kind::Scalar { text, plain: true } if text.is_empty() => "nothing".to_owned(),
        Kind::Scalar { text, plain: true } => quoted(text),
        Kind::Scalar { text, .. } => format!("the quoted text {}", quoted(text)),
        Kind::List(_) => "a list".to_owned(),
        Kind::Map(_) => "a mapping".to_owned(),
    }
}
