//! How the metrics of a rule are named.
//!
//! As in envoyproxy/ratelimit, a name has one part per step of the rule:
//! `key_value`, or `key` where the rule takes any value. With `value_to_metric`
//! a step carries the value of the request instead, with `detailed_metric` all
//! steps do; but values that share a counter keep the pattern.

use super::address::AddressPolicy;
use crate::telemetry::series::{NameBuf, Sanitizer};

/// A step on the way to a rule, as far as its name is concerned.
#[derive(Clone, Debug)]
pub struct NamedStep {
    /// The key.
    pub key: Box<str>,
    /// The configured value, empty for any.
    pub value: Box<str>,
    /// All values that match the wildcard share one counter, and a name.
    pub shared: bool,
    /// Values are client addresses: all forms of one have the same name.
    pub address: Option<AddressPolicy>,
}

impl NamedStep {
    /// The part of the name where no request has a say.
    pub fn configured(&self) -> String {
        if self.value.is_empty() {
            self.key.to_string()
        } else {
            format!("{}_{}", self.key, self.value)
        }
    }
}

/// One part of a name that depends on the request.
#[derive(Clone, Debug)]
enum Part {
    Configured(Box<str>),
    /// The key and the value in the request.
    Requested {
        key: Box<str>,
        address: Option<AddressPolicy>,
        /// An empty value is written like another: `key_`.
        even_empty: bool,
    },
}

/// A name to which requests contribute.
#[derive(Clone, Debug)]
pub struct Naming {
    parts: Box<[Part]>,
}

impl Naming {
    /// The name of a rule with these steps, for each of which it is told whether
    /// it carries the value of the request. `None` if all requests have one name.
    pub fn new(steps: &[NamedStep], value_to_metric: &[bool], detailed: bool) -> Option<Self> {
        // The reference has two ways to write detailed names, and takes this one
        // where nothing is shared.
        let even_empty = detailed && !steps.iter().any(|step| step.shared);
        let flags = value_to_metric.iter().chain(std::iter::repeat(&false));
        let parts = steps.iter().zip(flags).map(|(step, &value_to_metric)| {
            if !step.shared && (detailed || value_to_metric) {
                let (key, address) = (step.key.clone(), step.address.clone());
                Part::Requested { key, address, even_empty }
            } else {
                Part::Configured(step.configured().into())
            }
        });
        let parts: Box<[Part]> = parts.collect();
        let requested = |part: &Part| matches!(part, Part::Requested { .. });
        parts.iter().any(requested).then_some(Self { parts })
    }

    /// Writes the name for a descriptor with these entries, one per step.
    pub fn write(&self, entries: &[(&str, &str)], name: &mut NameBuf, sanitizer: Sanitizer) {
        for (part, (_, value)) in self.parts.iter().zip(entries) {
            name.step(sanitizer);
            match part {
                Part::Configured(text) => name.push(text),
                Part::Requested { key, address, even_empty } => {
                    name.push(key);
                    if *even_empty || !value.is_empty() {
                        name.push("_");
                        let client = address.as_ref().and_then(|policy| policy.read(value));
                        name.push(client.as_ref().map_or(*value, |client| client.counted()));
                    }
                }
            }
        }
    }
}
