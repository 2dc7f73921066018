//! The free content of `metadata`.

use std::collections::BTreeMap;

use prost_types::value::Kind as ValueKind;
use prost_types::{ListValue, Struct, Value};

use super::Reader;
use super::field::described;
use super::scalar::{Meaning, meaning};
use crate::policy::fault::{Position, quoted};
use crate::policy::yaml::{Entry, Kind, Node};

impl Reader<'_> {
    /// Metadata in the form in which answers carry it.
    pub(super) fn metadata(&mut self, node: &Node) -> Option<Struct> {
        if super::is_nothing(node) {
            return None;
        }
        let Kind::Map(entries) = &node.kind else {
            let what = format!("cannot read {} as a mapping", described(node));
            self.bad_metadata(node.at, &what);
            return None;
        };
        Some(self.structure(entries))
    }

    fn structure(&mut self, entries: &[Entry]) -> Struct {
        let mut fields = BTreeMap::new();
        for Entry { key, value, .. } in self.distinct(entries) {
            let value = self.value(value);
            match &key.kind {
                Kind::Scalar { text, .. } => {
                    fields.insert(text.to_string(), value);
                }
                Kind::List(_) | Kind::Map(_) => {
                    self.bad_metadata(key.at, &format!("{} cannot be a key", described(key)));
                }
            }
        }
        Struct { fields }
    }

    fn value(&mut self, node: &Node) -> Value {
        let kind = match &node.kind {
            Kind::Scalar { text, plain: false } => ValueKind::StringValue(text.to_string()),
            Kind::Scalar { text, plain: true } => self.plain(node.at, text),
            Kind::List(items) => {
                let values = items.iter().map(|item| self.value(item)).collect();
                ValueKind::ListValue(ListValue { values })
            }
            Kind::Map(entries) => ValueKind::StructValue(self.structure(entries)),
        };
        Value { kind: Some(kind) }
    }

    /// Nobody matches metadata against anything, so unquoted text may become
    /// what it means (YAML 1.2).
    fn plain(&mut self, at: Position, text: &str) -> ValueKind {
        let number = match serde_yaml::from_str(text) {
            Ok(serde_yaml::Value::Bool(value)) => return ValueKind::BoolValue(value),
            Ok(serde_yaml::Value::Number(number)) => number.as_f64(),
            Ok(_) | Err(_) if meaning(text) == Meaning::Nothing => return ValueKind::NullValue(0),
            Ok(_) | Err(_) => return ValueKind::StringValue(text.to_owned()),
        };
        match number {
            Some(number) if number.is_finite() => ValueKind::NumberValue(number),
            _ => {
                self.bad_metadata(at, &format!("{} is no number that JSON has", quoted(text)));
                ValueKind::NullValue(0)
            }
        }
    }

    fn bad_metadata(&mut self, at: Position, what: &str) {
        let fault = self.fault(at, format!("error parsing metadata: {what}"));
        self.report(fault.hint(
            "metadata becomes JSON: mappings with text as keys, lists, texts, numbers, \
             true, false and null",
        ));
    }
}
