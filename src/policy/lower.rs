//! From [`raw`](super::raw) structs to checked rules.
//!
//! All checks of meaning are here, whatever the rules came from. Like reading,
//! lowering goes on after a fault; what it makes of the rest is thrown away,
//! but its faults are reported.

mod address;
mod algorithm;
mod amount;
mod domains;
mod lease;
mod limit;
mod rates;
mod span;
#[cfg(test)]
mod tests;
mod window;

use std::collections::HashMap;
use std::sync::Arc;

use super::draft::NodeDraft;
use super::failure_mode::FailureMode;
use super::fault::{Fault, Faults, Place, Position, quoted};
use super::pattern::Pattern;
use super::raw::{Field, RawDescriptor, RawRateLimit, RawReplace, label};
use super::rule::Quota;
use super::rule::RuleSpec;
use super::source::Layout;
use crate::store::ChargeMode;

pub use domains::lower;

/// The limits of a `rate_limit` that stands alone, of the text `source`. Empty
/// after a fault.
pub fn lower_rates(source: &Arc<str>, raw: &RawRateLimit, faults: &mut Faults) -> Vec<Quota> {
    let (charge, domain, trail) = (ChargeMode::default(), "", Vec::new());
    let mut lowering = Lowering { source, charge, domain, trail, faults };
    lowering.check_alone(raw);
    if !raw.unlimited.is_absent() {
        return Vec::new();
    }
    lowering.quotas(raw).unwrap_or_default()
}

/// How to read policies.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions {
    /// Which files of a directory count.
    pub layout: Layout,
    /// Several files (or documents) may hold rules of one domain.
    pub merge_domains: bool,
    /// What envoyproxy/ratelimit ignores is ignored and told, instead of refused.
    pub lenient: bool,
    /// Domains that do not say how they charge are `all_or_nothing`.
    pub all_or_nothing: bool,
}

const FAILURE_MODES: &str = "failure_mode is open, closed, local or error";

/// The keys and values of one level and where they stand.
type Seen = HashMap<(String, String), Place>;

/// The lowering of one document, and where in it we are.
struct Lowering<'a> {
    source: &'a Arc<str>,
    charge: ChargeMode,
    domain: &'a str,
    /// The nodes from the top level to here.
    trail: Vec<Step>,
    faults: &'a mut Faults,
}

/// One node on the way to a rule.
struct Step {
    /// For people: `key=value`.
    label: String,
    /// As envoyproxy/ratelimit writes it in messages: `key_value`.
    composite: String,
    value_to_metric: bool,
    /// Where it is said whether the values are addresses.
    address: Option<Position>,
}

impl Lowering<'_> {
    fn level(&mut self, raws: Vec<RawDescriptor>, seen: &mut Seen) -> Vec<NodeDraft> {
        let mut nodes = Vec::with_capacity(raws.len());
        for (index, raw) in raws.into_iter().enumerate() {
            let (key, value) = (raw.key.text(), raw.value.text());
            let named = !key.is_empty();
            self.trail.push(Step {
                label: if named { label(key, value) } else { format!("descriptor {}", index + 1) },
                composite: composite(key, value),
                value_to_metric: raw.value_to_metric.is_set(),
                address: match &raw.address {
                    Field::Absent => None,
                    Field::Given(located) => Some(located.at),
                    Field::Faulty => Some(raw.at),
                },
            });
            self.check_names(&raw);
            if named {
                self.check_unseen(&raw, seen);
            }
            nodes.push(self.node(raw));
            self.trail.pop();
        }
        nodes
    }

    fn node(&mut self, raw: RawDescriptor) -> NodeDraft {
        let rule = raw.rate_limit.as_ref().and_then(|limit| self.rule(&raw, limit));
        let address = self.address(&raw, rule.as_ref());
        let children = self.level(raw.descriptors, &mut Seen::new());
        NodeDraft {
            key: raw.key.text().to_owned(),
            value: raw.value.text().to_owned(),
            share_threshold: raw.share_threshold.is_set(),
            address,
            rule,
            children,
        }
    }

    fn check_names(&mut self, raw: &RawDescriptor) {
        let key = raw.key.text();
        if key.is_empty() && !matches!(raw.key, Field::Faulty) {
            let at = raw.key.given().map_or(raw.at, |key| key.at);
            let fault = self.fault(at, "descriptor has empty key");
            self.faults.push(fault.hint("every descriptor needs `key: NAME`"));
        }
        let Some(share) = raw.share_threshold.given().filter(|share| share.value) else { return };
        if Pattern::parse(raw.value.text()).is_none() && !matches!(raw.value, Field::Faulty) {
            let message = format!(
                "share_threshold can only be used with wildcard values (containing '*'), \
                 but found key {}",
                quoted(&composite(key, raw.value.text()))
            );
            let hint = "add a '*' to the value or remove share_threshold";
            self.faults.push(self.fault(share.at, message).hint(hint));
        }
    }

    fn check_unseen(&mut self, raw: &RawDescriptor, seen: &mut Seen) {
        if matches!(raw.value, Field::Faulty) {
            return;
        }
        let here = Place { file: Arc::clone(self.source), at: raw.at };
        let name = (raw.key.text().to_owned(), raw.value.text().to_owned());
        let Some(first) = seen.get(&name) else {
            seen.insert(name, here);
            return;
        };
        let steps = self.trail.iter().map(|step| &*step.composite);
        let path: Vec<&str> = std::iter::once(self.domain).chain(steps).collect();
        let message = format!("duplicate descriptor composite key {}", quoted(&path.join(".")));
        let hint = format!("it stands at {first} already; keep one of the two");
        self.faults.push(self.fault(raw.at, message).hint(hint));
    }

    fn rule(&mut self, raw: &RawDescriptor, limit: &RawRateLimit) -> Option<RuleSpec> {
        self.check_replaces(limit);
        let grant = self.grant(limit);
        let lease = self.lease(limit, grant.as_ref());
        let grant = grant?;
        let name = |text: &str| Arc::from(text);
        Some(RuleSpec {
            path: self.path().join(" > ").into(),
            grant,
            lease,
            name: name(limit.name.text()),
            replaces: limit.replaces.iter().map(|replace| name(replace.name.text())).collect(),
            shadow_mode: raw.shadow_mode.is_set(),
            quota_mode: raw.quota_mode.is_set(),
            failure_mode: self.failure_mode(&raw.failure_mode),
            detailed_metric: raw.detailed_metric.is_set(),
            value_to_metric: self.trail.iter().map(|step| step.value_to_metric).collect(),
            metadata: raw.metadata.clone().map(Arc::new),
        })
    }

    fn failure_mode(&mut self, field: &Field<String>) -> Option<FailureMode> {
        let located = field.given()?;
        let mode = FailureMode::parse(&located.value);
        if mode.is_none() {
            let message = format!("invalid failure_mode {}", quoted(&located.value));
            self.faults.push(self.fault(located.at, message).hint(FAILURE_MODES));
        }
        mode
    }

    /// Reports what has a meaning only in a rule.
    fn check_alone(&mut self, raw: &RawRateLimit) {
        let unlimited = raw.unlimited.given().map(|field| ("unlimited", field.at));
        let name = raw.name.given().map(|field| ("name", field.at));
        let replaces = raw.replaces.first().map(|replace| ("replaces", replace.at));
        let lease = raw.lease.given().map(|field| ("lease", field.at));
        let found = unlimited.into_iter().chain(name).chain(replaces).chain(lease);
        for (name, at) in found.chain(raw.addresses.present()) {
            let message =
                format!("{name} has a meaning only in a rule, and this limit stands alone");
            self.faults.push(self.fault(at, message).hint(format!("remove {name}")));
        }
    }

    fn check_replaces(&mut self, limit: &RawRateLimit) {
        for RawReplace { at, name } in &limit.replaces {
            let at = name.given().map_or(*at, |name| name.at);
            if name.text().is_empty() && !matches!(name, Field::Faulty) {
                let fault = self.fault(at, "should not have an empty replaces entry");
                self.faults.push(fault.hint("write `- name: NAME`, the name of another rule"));
            } else if !name.text().is_empty() && name.text() == limit.name.text() {
                let message = "replaces should not contain name of same descriptor";
                let hint = "a rule cannot displace itself; name another rule";
                self.faults.push(self.fault(at, message).hint(hint));
            }
        }
    }

    fn path(&self) -> Vec<&str> {
        let steps = self.trail.iter().map(|step| &*step.label);
        std::iter::once(self.domain).filter(|domain| !domain.is_empty()).chain(steps).collect()
    }

    fn fault(&self, at: Position, message: impl Into<String>) -> Fault {
        let place = Place { file: Arc::clone(self.source), at };
        Fault::new(place, message).within(&self.path())
    }
}

fn composite(key: &str, value: &str) -> String {
    if value.is_empty() { key.to_owned() } else { format!("{key}_{value}") }
}
