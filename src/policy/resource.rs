//! From the messages of a control plane to [`raw`](super::raw) structs.
//!
//! A message cannot be misspelt, so there is little to find fault with. Fields
//! that hold what they hold when nobody set them say nothing.

use std::sync::Arc;

use prost::Message as _;
use prost_types::value::Kind;
use prost_types::{Any, Struct, Value};

use super::fault::{Fault, Faults, Place, Position, quoted};
use super::raw::{
    Field, Located, RawDescriptor, RawDomain, RawLimit, RawRateLimit, RawReplace, label,
};
use crate::proto::ratelimit::config::ratelimit::v3::{
    RateLimitConfig, RateLimitDescriptor, RateLimitPolicy, RateLimitReplace, RateLimitUnit,
};

/// The type of the resources, as control planes call it.
pub const TYPE_URL: &str = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

/// Unpacks resources. What is of another type, or damaged, is a fault.
pub fn unpack(resources: &[Any], faults: &mut Faults) -> Vec<RateLimitConfig> {
    let mut unpacked = Vec::with_capacity(resources.len());
    for (index, resource) in resources.iter().enumerate() {
        let fault = |message: String, hint: &str| {
            let file = format!("resource {}", index + 1).into();
            Fault::new(Place { file, at: Position::UNKNOWN }, message).hint(hint)
        };
        if resource.type_url != TYPE_URL {
            let message = format!("is of type {}", quoted(&resource.type_url));
            faults.push(fault(message, &format!("send only {TYPE_URL}")));
            continue;
        }
        match RateLimitConfig::decode(&*resource.value) {
            Ok(config) => unpacked.push(config),
            Err(error) => {
                let message = format!("cannot be decoded as a RateLimitConfig: {error}");
                faults
                    .push(fault(message, "send it whole; descriptors may nest some ninety levels"));
            }
        }
    }
    unpacked
}

/// Reads one resource.
pub fn document(resource: RateLimitConfig, faults: &mut Faults) -> RawDomain {
    let RateLimitConfig { name, domain, descriptors } = resource;
    let source: Arc<str> = match (&*name, &*domain) {
        ("", "") => "a resource without a name".into(),
        ("", domain) => domain.into(),
        (name, _) => name.into(),
    };
    let path = if domain.is_empty() { Vec::new() } else { vec![domain.clone()] };
    let mut reader = Reader { source: &source, path, faults };
    let descriptors = reader.level(descriptors);
    let raw = RawDomain::new(source, Position::UNKNOWN);
    RawDomain { domain: text(domain), descriptors, ..raw }
}

/// A reader of one resource, and where in it the reader is.
struct Reader<'a> {
    source: &'a Arc<str>,
    path: Vec<String>,
    faults: &'a mut Faults,
}

impl Reader<'_> {
    /// Descriptors nest no deeper than messages are decoded.
    fn level(&mut self, descriptors: Vec<RateLimitDescriptor>) -> Vec<RawDescriptor> {
        descriptors.into_iter().map(|descriptor| self.descriptor(descriptor)).collect()
    }

    fn descriptor(&mut self, descriptor: RateLimitDescriptor) -> RawDescriptor {
        self.path.push(label(&descriptor.key, &descriptor.value));
        if descriptor.metadata.as_ref().is_some_and(|metadata| !is_json(metadata)) {
            self.no_json();
        }
        let raw = RawDescriptor {
            key: text(descriptor.key),
            value: text(descriptor.value),
            rate_limit: descriptor.rate_limit.map(rate_limit),
            descriptors: self.level(descriptor.descriptors),
            shadow_mode: flag(descriptor.shadow_mode),
            quota_mode: flag(descriptor.quota_mode),
            detailed_metric: flag(descriptor.detailed_metric),
            metadata: descriptor.metadata,
            ..RawDescriptor::default()
        };
        self.path.pop();
        raw
    }

    fn no_json(&mut self) {
        let place = Place { file: Arc::clone(self.source), at: Position::UNKNOWN };
        let message = "error parsing metadata: a number is not finite";
        let fault = Fault::new(place, message).within(&self.path);
        self.faults.push(fault.hint("metadata becomes JSON, which has only finite numbers"));
    }
}

fn rate_limit(policy: RateLimitPolicy) -> RawRateLimit {
    let unit = RateLimitUnit::try_from(policy.unit);
    let unit = unit.map_or_else(|_| policy.unit.to_string(), |unit| unit.as_str_name().into());
    let limit = RawLimit {
        requests_per_unit: unless(policy.requests_per_unit, &0),
        unit: text(unit),
        ..RawLimit::default()
    };
    let replaces = policy.replaces.into_iter();
    RawRateLimit {
        unlimited: flag(policy.unlimited),
        name: text(policy.name),
        replaces: replaces
            .map(|RateLimitReplace { name }| RawReplace { at: Position::UNKNOWN, name: text(name) })
            .collect(),
        limit,
        ..RawRateLimit::default()
    }
}

fn is_json(metadata: &Struct) -> bool {
    metadata.fields.values().all(is_json_value)
}

fn is_json_value(value: &Value) -> bool {
    match &value.kind {
        Some(Kind::NumberValue(number)) => number.is_finite(),
        Some(Kind::StructValue(metadata)) => is_json(metadata),
        Some(Kind::ListValue(list)) => list.values.iter().all(is_json_value),
        _ => true,
    }
}

fn text(value: String) -> Field<String> {
    unless(value, "")
}

fn flag(value: bool) -> Field<bool> {
    unless(value, &false)
}

/// What `value` says, if it is not what an unset field holds.
fn unless<T, U>(value: T, unset: &U) -> Field<T>
where
    T: PartialEq<U>,
    U: ?Sized,
{
    if value == *unset {
        Field::Absent
    } else {
        Field::Given(Located { at: Position::UNKNOWN, value })
    }
}
