//! Dynamic metadata: what was asked, and what the rules that passed say of
//! themselves, for Envoy's later filters.

use std::collections::BTreeMap;

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};

use super::combine::{Code, Statuses};
use super::matching::{Match, Matches};
use super::request::{Descriptor, Override, Request};
use crate::limit::Unit;

/// `{domain, descriptors: [{entries: ["k=v"], limit, hitsAddend}], hitsAddend,
/// metadata}`, as envoyproxy/ratelimit has it.
pub fn dynamic_metadata(
    request: &Request<'_>,
    matches: &Matches<'_>,
    statuses: &Statuses<'_>,
) -> Struct {
    let mut fields = BTreeMap::new();
    fields.insert("domain".to_owned(), text(request.domain));
    let descriptors = request.descriptors.iter().map(descriptor).collect();
    fields.insert("descriptors".to_owned(), list(descriptors));
    if request.hits_addend > 0 {
        fields.insert("hitsAddend".to_owned(), number(f64::from(request.hits_addend)));
    }
    let mut merged = Struct::default();
    for (found, status) in matches.iter().zip(statuses) {
        if let (Match::Limited(limited), Code::Ok) = (found, status.code)
            && let Some(metadata) = limited.rule().and_then(|rule| rule.spec.metadata.as_ref())
        {
            merge(&mut merged, metadata);
        }
    }
    if !merged.fields.is_empty() {
        fields.insert("metadata".to_owned(), structure(merged));
    }
    Struct { fields }
}

fn descriptor(descriptor: &Descriptor<'_>) -> Value {
    let mut fields = BTreeMap::new();
    let entries = descriptor.entries.iter().map(|(key, value)| text(&format!("{key}={value}")));
    fields.insert("entries".to_owned(), list(entries.collect()));
    if let Some(limit) = descriptor.limit {
        fields.insert("limit".to_owned(), text(&override_text(limit)));
    }
    if let Some(hits) = descriptor.hits_addend {
        // A double is all that a Struct offers.
        #[allow(clippy::cast_precision_loss)]
        fields.insert("hitsAddend".to_owned(), number(hits as f64));
    }
    structure(Struct { fields })
}

/// A limit as the text format of protocol buffers writes the message that it
/// came in: zeros are left out, and of weeks that message knows only the number.
fn override_text(limit: Override) -> String {
    let unit = match limit.unit {
        Unit::Week => "7".to_owned(),
        unit => unit.name().to_ascii_uppercase(),
    };
    match limit.requests_per_unit {
        0 => format!("unit:{unit}"),
        amount => format!("requests_per_unit:{amount} unit:{unit}"),
    }
}

/// Adds what `into` does not have yet; the first rule that names a field wins,
/// and maps are merged inside. Depth is bounded by that of the configuration.
fn merge(into: &mut Struct, from: &Struct) {
    for (name, value) in &from.fields {
        match into.fields.get_mut(name) {
            None => {
                into.fields.insert(name.clone(), value.clone());
            }
            Some(Value { kind: Some(Kind::StructValue(known)) }) => {
                if let Some(Kind::StructValue(more)) = &value.kind {
                    merge(known, more);
                }
            }
            Some(_) => {}
        }
    }
}

fn text(text: &str) -> Value {
    Value { kind: Some(Kind::StringValue(text.to_owned())) }
}

fn number(number: f64) -> Value {
    Value { kind: Some(Kind::NumberValue(number)) }
}

fn list(values: Vec<Value>) -> Value {
    Value { kind: Some(Kind::ListValue(ListValue { values })) }
}

fn structure(fields: Struct) -> Value {
    Value { kind: Some(Kind::StructValue(fields)) }
}
