//! Rules that passed every check but are not in force yet: they have no
//! counters, so that refused configurations leave no metrics behind.

use std::sync::Arc;

use super::address::AddressPolicy;
use super::failure_mode::FailureMode;
use super::rule::{Rule, RuleSpec};
use super::tree::{Domain, Level, Node, Policies};
use crate::store::ChargeMode;
use crate::telemetry::metrics::Metrics;

/// A domain to be.
#[derive(Debug)]
pub struct DomainDraft {
    /// Its name.
    pub name: String,
    /// How the descriptors of one request hang together.
    pub charge: ChargeMode,
    /// What to answer without a store, where the domain says so.
    pub failure_mode: Option<FailureMode>,
    /// The top level of its rules.
    pub nodes: Vec<NodeDraft>,
}

/// A place in the tree to be.
#[derive(Debug)]
pub struct NodeDraft {
    /// The key. With its value it stands once on its level.
    pub key: String,
    /// The value, empty for any.
    pub value: String,
    /// All values that match the wildcard share one counter.
    pub share_threshold: bool,
    /// Values are client addresses, read like this.
    pub address: Option<AddressPolicy>,
    /// The rule for descriptors that end here.
    pub rule: Option<RuleDraft>,
    /// What may follow.
    pub children: Vec<NodeDraft>,
}

/// A rule to be.
#[derive(Debug)]
pub struct RuleDraft {
    /// What it says.
    pub spec: RuleSpec,
    /// The metric labels `key1` and `key2`.
    pub labels: [String; 2],
}

/// Puts checked rules in force.
pub fn enact(drafts: Vec<DomainDraft>, metrics: &Metrics) -> Policies {
    let mut policies = Policies::default();
    for DomainDraft { name, charge, failure_mode, nodes } in drafts {
        let root = level(&name, nodes, metrics);
        // No rule has an empty key, so no rule shares these counters.
        let override_stats = metrics.rule(&name, "", "");
        let known_as = name.as_str().into();
        let domain = Domain { name: known_as, charge, failure_mode, root, override_stats };
        policies.domains.insert(name.into(), domain);
    }
    policies
}

fn level(domain: &str, nodes: Vec<NodeDraft>, metrics: &Metrics) -> Level {
    let mut level = Level::default();
    for NodeDraft { key, value, share_threshold, address, rule, children } in nodes {
        let rule = rule.map(|rule| Arc::new(enact_rule(domain, rule, metrics)));
        let children = self::level(domain, children, metrics);
        let inserted =
            level.insert(&key, Some(&value), Node { rule, share_threshold, address, children });
        debug_assert_eq!(inserted, Ok(()), "drafts have no duplicates");
    }
    level
}

fn enact_rule(domain: &str, draft: RuleDraft, metrics: &Metrics) -> Rule {
    let [key1, key2] = draft.labels;
    Rule { spec: draft.spec, stats: metrics.rule(domain, &key1, &key2) }
}
