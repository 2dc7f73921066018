//! Rules that passed every check but are not in force yet: they have no
//! counters, so that refused configurations leave no metrics behind.

use std::sync::Arc;

use super::address::AddressPolicy;
use super::failure_mode::FailureMode;
use super::naming::{NamedStep, Naming};
use super::rule::{Rule, RuleSpec};
use super::tree::{Domain, Level, Node, Policies};
use crate::store::{ChargeMode, HashTag};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::series::{OVERFLOW, OVERRIDE};

/// A domain to be.
#[derive(Debug)]
pub struct DomainDraft {
    /// Its name.
    pub name: String,
    /// How the descriptors of one request hang together.
    pub charge: ChargeMode,
    /// What to answer without a store, where the domain says so.
    pub failure_mode: Option<FailureMode>,
    /// Which of its keys lie together in Redis Cluster, where it says so.
    pub hash_tag: Option<HashTag>,
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
    pub rule: Option<RuleSpec>,
    /// What may follow.
    pub children: Vec<NodeDraft>,
}

/// Puts checked rules in force.
pub fn enact(drafts: Vec<DomainDraft>, metrics: &Metrics) -> Policies {
    let mut policies = Policies::default();
    for DomainDraft { name, charge, failure_mode, hash_tag, nodes } in drafts {
        let root = Enacting { domain: &name, trail: Vec::new(), metrics }.level(nodes);
        let override_stats = metrics.rule(&name, &[OVERRIDE]);
        let known_as = name.as_str().into();
        let domain =
            Domain { name: known_as, charge, failure_mode, hash_tag, root, override_stats };
        policies.domains.insert(name.into(), domain);
    }
    policies
}

/// The way to the nodes of one domain.
struct Enacting<'a> {
    domain: &'a str,
    trail: Vec<NamedStep>,
    metrics: &'a Metrics,
}

impl Enacting<'_> {
    fn level(&mut self, nodes: Vec<NodeDraft>) -> Level {
        let mut level = Level::default();
        for NodeDraft { key, value, share_threshold, address, rule, children } in nodes {
            self.trail.push(NamedStep {
                key: key.as_str().into(),
                value: value.as_str().into(),
                shared: share_threshold,
                address: address.clone(),
            });
            let rule = rule.map(|spec| Arc::new(self.rule(spec)));
            let children = self.level(children);
            self.trail.pop();
            let inserted =
                level.insert(&key, Some(&value), Node { rule, share_threshold, address, children });
            debug_assert_eq!(inserted, Ok(()), "drafts have no duplicates");
        }
        level
    }

    fn rule(&self, spec: RuleSpec) -> Rule {
        let steps: Vec<String> = self.trail.iter().map(NamedStep::configured).collect();
        let naming = Naming::new(&self.trail, &spec.value_to_metric, spec.detailed_metric);
        let stats = match naming {
            None => self.metrics.rule(self.domain, &steps),
            Some(_) => self.metrics.rule(self.domain, &[OVERFLOW]),
        };
        let stat_key = format!("{}.{}", self.domain, steps.join("."));
        Rule { spec, stat_key: stat_key.into(), stats, naming }
    }
}
