//! From the text of rule files to rules that can be looked up, and from bad
//! files to messages that help.

mod addresses;
mod algorithms;
mod amounts;
mod any_text;
mod calendar;
mod failures;
mod faults;
mod fields;
mod files;
mod leases;
mod rates;
mod vectors;

use tidegate::limit::{FixedWindow, Limit, Unit};
use tidegate::policy::{Grant, LoadError, LoadOptions, Policies, Quota, Rule, load_texts};
use tidegate::store::KeyBuf;
use tidegate::telemetry::metrics::Metrics;
use tidegate::units::Span;

/// Loads one file, named `rl.yaml`.
fn load_one(text: &str) -> Result<Policies, LoadError> {
    load_texts(&[("rl.yaml", text)], LoadOptions::default(), &Metrics::new())
}

fn loaded(text: &str) -> Policies {
    load_one(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// What is wrong with a file, one line per fault.
fn refusal(text: &str) -> String {
    match load_one(text) {
        Ok(policies) => panic!("accepted: {policies:#?}\n{text}"),
        Err(error) => error.to_string(),
    }
}

/// A domain `t` with one rule `k=x`, of which `change` is the body.
fn with_rate_limit(change: &str) -> String {
    format!("domain: t\ndescriptors:\n  - key: k\n    value: x\n    rate_limit: {change}\n")
}

/// The rule that a descriptor meets in domain `t`, and the key it counts on.
fn find<'p>(policies: &'p Policies, entries: &[(&str, &str)]) -> Option<(&'p Rule, String)> {
    let domain = policies.domain("t").expect("the domain t");
    let mut keys = KeyBuf::default();
    let mut writer = keys.writer("t");
    let rule = domain.find(entries.iter().copied(), &mut writer)?.rule;
    let Grant::Limited(quotas) = &rule.spec.grant else { return Some((rule, String::new())) };
    let key = writer.finish(quotas[0].limit());
    Some((rule, String::from_utf8_lossy(keys.get(key)).into_owned()))
}

fn quota(policies: &Policies, entries: &[(&str, &str)]) -> Option<Quota> {
    match &find(policies, entries)?.0.spec.grant {
        Grant::Limited(quotas) => quotas.first().cloned(),
        Grant::Unlimited => None,
    }
}

/// The limit of a descriptor in domain `t`: how many per which unit.
fn limit(policies: &Policies, entries: &[(&str, &str)]) -> Option<(u32, Unit)> {
    quota(policies, entries).map(|quota| (quota.requests_per_unit(), quota.unit()))
}

/// The limit of the rule `k=x`.
fn fixed_window(policies: &Policies) -> FixedWindow {
    match *quota(policies, &[("k", "x")]).expect("a limit").limit() {
        Limit::FixedWindow(limit) => limit,
        other => panic!("{other:?}"),
    }
}

/// The window of the rule `k=x`.
fn window(policies: &Policies) -> Span {
    fixed_window(policies).window()
}

/// The limits of a rule with this `rate_limit`.
fn quotas(rate_limit: &str) -> Vec<Quota> {
    let policies = loaded(&with_rate_limit(rate_limit));
    match &find(&policies, &[("k", "x")]).expect("a rule").0.spec.grant {
        Grant::Limited(quotas) => quotas.to_vec(),
        Grant::Unlimited => panic!("unlimited: {rate_limit}"),
    }
}

/// The only limit of a rule with this `rate_limit`.
fn only(rate_limit: &str) -> Quota {
    let mut quotas = quotas(rate_limit);
    assert_eq!(quotas.len(), 1, "{rate_limit}");
    quotas.remove(0)
}

/// What is wrong with a rule with this `rate_limit`, one line per fault.
fn refused(rate_limit: &str) -> Vec<String> {
    refusal(&with_rate_limit(rate_limit)).lines().map(str::to_owned).collect()
}

/// Asserts that a rule with this `rate_limit` has one fault, which says `what`.
#[track_caller]
fn assert_fault(rate_limit: &str, what: &str) {
    let found = refused(rate_limit);
    assert!(found.len() == 1 && found[0].contains(what), "{rate_limit}: {found:#?}");
}
