//! From YAML nodes to [`raw`](super::raw) structs.
//!
//! Strict, and strict about places: a key that nobody knows, or that stands
//! where it has no effect, is a fault, because a limit that silently does not
//! apply is worse than one that does not load. Reading goes on after a fault.

mod field;
mod keys;
mod limit;
mod metadata;
mod scalar;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use self::keys::Section;
use super::fault::{Fault, Faults, Place, Position, quoted};
use super::raw::{Field, RawDescriptor, RawDomain, RawRateLimit, label};
use super::yaml::{Entry, Kind, Node};

/// Reads one document of the file `source`.
pub fn document(source: &Arc<str>, root: &Node, faults: &mut Faults) -> RawDomain {
    Reader { source, path: Vec::new(), faults }.document(root)
}

/// Reads the body of a `rate_limit` that stands alone: the only document of the
/// text `source`.
pub fn rate_limit(
    source: &Arc<str>,
    documents: &[Node],
    faults: &mut Faults,
) -> Option<RawRateLimit> {
    let mut reader = Reader { source, path: Vec::new(), faults };
    if let Some(second) = documents.get(1) {
        let fault = reader.fault(second.at, "there can be only one limit".to_owned());
        reader.report(fault.hint("several that must all pass are rates: [10/s, 100/m]"));
    }
    let Some(root) = documents.first().filter(|root| !is_nothing(root)) else {
        let fault = reader.fault(Position::START, "there is no limit".to_owned());
        reader.report(fault.hint("write one, such as {rate: 10/s}"));
        return None;
    };
    reader.rate_limit(root)
}

/// A reader of one document, and where in it the reader is.
struct Reader<'a> {
    source: &'a Arc<str>,
    path: Vec<String>,
    faults: &'a mut Faults,
}

/// A field that is there.
struct Given<'n> {
    name: &'n str,
    /// Where its name stands.
    at: Position,
    node: &'n Node,
}

impl Reader<'_> {
    fn document(&mut self, root: &Node) -> RawDomain {
        let mut raw = RawDomain::new(Arc::clone(self.source), root.at);
        if is_nothing(root) {
            return raw;
        }
        self.path.extend(scalar_at(root, "domain").map(str::to_owned));
        let Some(entries) = self.map("a rule file", root) else {
            raw.domain = Field::Faulty;
            return raw;
        };
        for Given { name, at, node } in self.fields(Section::Root, &entries) {
            match name {
                "domain" => raw.domain = self.text(name, node),
                "charge" => raw.charge = self.text(name, node),
                "failure_mode" => raw.failure_mode = self.text(name, node),
                "hash_tag" => raw.hash_tag = self.text(name, node),
                "descriptors" => raw.descriptors = self.descriptors(node),
                _ => self.unknown(Section::Root, name, at),
            }
        }
        raw
    }

    fn descriptors(&mut self, node: &Node) -> Vec<RawDescriptor> {
        let mut raw = Vec::new();
        for (index, item) in self.list("descriptors", node).iter().enumerate() {
            self.path.push(match scalar_at(item, "key") {
                Some(key) => label(key, scalar_at(item, "value").unwrap_or_default()),
                None => format!("descriptor {}", index + 1),
            });
            if let Some(entries) = self.item(item, "- key: NAME") {
                raw.push(self.descriptor(item.at, &entries));
            }
            self.path.pop();
        }
        raw
    }

    fn descriptor(&mut self, at: Position, entries: &[Entry]) -> RawDescriptor {
        let mut raw = RawDescriptor { at, ..RawDescriptor::default() };
        for Given { name, at, node } in self.fields(Section::Descriptor, entries) {
            match name {
                "key" => raw.key = self.key(node),
                "value" => raw.value = self.text(name, node),
                "rate_limit" => raw.rate_limit = self.rate_limit(node),
                "descriptors" => raw.descriptors = self.descriptors(node),
                "address" => raw.address = self.address(node),
                "shadow_mode" => raw.shadow_mode = self.flag(name, node),
                "quota_mode" => raw.quota_mode = self.flag(name, node),
                "failure_mode" => raw.failure_mode = self.text(name, node),
                "detailed_metric" => raw.detailed_metric = self.flag(name, node),
                "value_to_metric" => raw.value_to_metric = self.flag(name, node),
                "share_threshold" => raw.share_threshold = self.flag(name, node),
                "metadata" => raw.metadata = self.metadata(node),
                _ => self.unknown(Section::Descriptor, name, at),
            }
        }
        raw
    }

    /// The key of a descriptor. Who writes a `*` into it means a wildcard, which
    /// it is not. (Control planes name keys after routes, which may hold one.)
    fn key(&mut self, node: &Node) -> Field<String> {
        let key = self.text("key", node);
        if key.text().contains('*') {
            let message = format!("descriptor key {} contains '*'", quoted(key.text()));
            let hint = "keys are compared whole, only values may hold wildcards";
            self.report(self.fault(node.at, message).hint(hint));
        }
        key
    }

    /// The fields of a mapping. Its other entries are faults.
    fn fields<'n>(&mut self, section: Section, entries: &'n [Entry]) -> Vec<Given<'n>> {
        let mut fields = Vec::with_capacity(entries.len());
        for Entry { key, value, .. } in self.distinct(entries) {
            match &key.kind {
                Kind::Scalar { text, plain } if !plain || is_text(text) => {
                    fields.push(Given { name: text, at: key.at, node: value });
                }
                _ => {
                    let shown = field::described(key);
                    let message = format!("config error, key is not of type string: {shown}");
                    let hint = format!("the keys here are {}", section.listed());
                    self.report(self.fault(key.at, message).hint(hint));
                }
            }
        }
        fields
    }

    /// The entries of a mapping without those that repeat a key.
    fn distinct<'n>(&mut self, entries: &'n [Entry]) -> Vec<&'n Entry> {
        let mut distinct = Vec::with_capacity(entries.len());
        for entry in entries {
            let (Some(first), Kind::Scalar { text, .. }) = (entry.repeats, &entry.key.kind) else {
                distinct.push(entry);
                continue;
            };
            let (at, key) = (entry.key.at, quoted(text));
            let message = format!(
                "error loading config file: yaml: line {}: mapping key {key} already defined \
                 at line {}",
                at.line, first.line
            );
            let fault = self.fault(at, message).hint("keep one of the two");
            if self.faults.slip(fault) {
                // The last one counts there.
                let same = |other: &&Entry| matches!(&other.key.kind, Kind::Scalar { text: it, .. } if it == text);
                distinct.retain(|other| !same(other));
                distinct.push(entry);
            }
        }
        distinct
    }

    fn unknown(&mut self, section: Section, name: &str, at: Position) {
        let message = format!("config error, unknown key {}", quoted(name));
        let fault = self.fault(at, message).hint(keys::advice(section, name));
        if keys::known_to_reference(name) {
            self.faults.slip(fault);
        } else {
            self.report(fault);
        }
    }

    fn fault(&self, at: Position, message: String) -> Fault {
        Fault::new(Place { file: Arc::clone(self.source), at }, message).within(&self.path)
    }

    fn report(&mut self, fault: Fault) {
        self.faults.push(fault);
    }
}

/// Whether nothing stands where a value might.
fn is_nothing(node: &Node) -> bool {
    match &node.kind {
        Kind::Scalar { text, plain } => *plain && scalar::meaning(text) == scalar::Meaning::Nothing,
        Kind::List(_) | Kind::Map(_) => false,
    }
}

/// Whether unquoted text is only text.
fn is_text(text: &str) -> bool {
    scalar::meaning(text) == scalar::Meaning::Text
}

/// The text at `key` of a mapping, to name it by before it is read.
fn scalar_at<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    let Kind::Map(entries) = &node.kind else { return None };
    let mut found = entries.iter().filter_map(|entry| match (&entry.key.kind, &entry.value.kind) {
        (Kind::Scalar { text, .. }, Kind::Scalar { text: value, .. }) if &**text == key => {
            (!is_nothing(&entry.value) && !value.is_empty()).then_some(&**value)
        }
        _ => None,
    });
    found.next()
}
