//! The rules in the shape in which they are looked up.
//!
//! A descriptor walks down one level per entry. On each level the first of
//! these that fits is taken, and never taken back: the exact key and value,
//! then wildcard values in the order written, then the key alone. The rule
//! applies that stands where the last entry arrives.

mod survey;

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;

use super::address::AddressPolicy;
use super::failure_mode::FailureMode;
use super::fault::Fault;
use super::pattern::Pattern;
use super::rule::Rule;
use crate::store::key::KeyWriter;
use crate::store::{ChargeMode, HashTag};
use crate::telemetry::metrics::RuleStats;

type Map<V> = HashMap<Box<str>, V, RandomState>;

/// All rules in force: immutable, replaced as a whole by a reload.
#[derive(Debug, Default)]
pub struct Policies {
    pub(super) domains: Map<Domain>,
    slips: Vec<Fault>,
}

/// One namespace of rules.
#[derive(Debug)]
pub struct Domain {
    /// Its name.
    pub name: Arc<str>,
    /// How the descriptors of one request hang together.
    pub charge: ChargeMode,
    /// What to answer without a store, where the domain says so.
    pub failure_mode: Option<FailureMode>,
    /// Which of its keys lie together in Redis Cluster, where the domain says so.
    pub hash_tag: Option<HashTag>,
    /// The top level of its rules.
    pub root: Level,
    /// The counters of limits that come with requests, all in one.
    pub override_stats: RuleStats,
}

/// One level of rules: what may follow a given place.
#[derive(Debug, Default)]
pub struct Level {
    keys: Map<KeyRules>,
}

/// The rules for one key on one level.
#[derive(Debug, Default)]
struct KeyRules {
    exact: Map<Node>,
    wild: Vec<(Pattern, Node)>,
    any: Option<Node>,
}

/// A place in the tree.
#[derive(Debug, Default)]
pub struct Node {
    /// The rule for descriptors that end here.
    pub rule: Option<Arc<Rule>>,
    /// All values that match this wildcard share one counter.
    pub share_threshold: bool,
    /// Values are client addresses, read like this.
    pub address: Option<AddressPolicy>,
    /// What may follow.
    pub children: Level,
}

/// A key and value that stand twice on one level.
#[derive(Debug, PartialEq, Eq)]
pub struct Duplicate;

impl Policies {
    /// The same with what was let pass in the files that they come from.
    #[must_use]
    pub(super) fn with_slips(self, slips: Vec<Fault>) -> Self {
        Self { slips, ..self }
    }

    /// What is wrong with the files that they come from, but let pass.
    pub fn slips(&self) -> &[Fault] {
        &self.slips
    }

    /// The domain of this name.
    pub fn domain(&self, name: &str) -> Option<&Domain> {
        self.domains.get(name)
    }

    /// All domains, in no particular order.
    pub fn domains(&self) -> impl Iterator<Item = &Domain> {
        self.domains.values()
    }

    /// How many domains there are.
    pub fn len(&self) -> usize {
        self.domains.len()
    }

    /// Whether there is no domain at all.
    pub fn is_empty(&self) -> bool {
        self.domains.is_empty()
    }
}

impl Level {
    /// Adds a node for `key` with this `value`; an absent or empty value stands
    /// for any.
    ///
    /// # Errors
    /// If that key and value are there already.
    pub fn insert(&mut self, key: &str, value: Option<&str>, node: Node) -> Result<(), Duplicate> {
        let rules = self.keys.entry(key.into()).or_default();
        let Some(value) = value.filter(|value| !value.is_empty()) else {
            return match rules.any.replace(node) {
                Some(_) => Err(Duplicate),
                None => Ok(()),
            };
        };
        match Pattern::parse(value) {
            Some(pattern) if rules.wild.iter().any(|(known, _)| *known == pattern) => {
                Err(Duplicate)
            }
            Some(pattern) => {
                rules.wild.push((pattern, node));
                Ok(())
            }
            None => match rules.exact.insert(value.into(), node) {
                Some(_) => Err(Duplicate),
                None => Ok(()),
            },
        }
    }

    fn step(&self, key: &str, value: &str) -> Option<(&Node, Option<&Pattern>)> {
        let rules = self.keys.get(key)?;
        if let Some(node) = rules.exact.get(value) {
            return Some((node, None));
        }
        let wild = rules.wild.iter().find(|(pattern, _)| pattern.matches(value));
        match wild {
            Some((pattern, node)) => Some((node, Some(pattern))),
            None => rules.any.as_ref().map(|node| (node, None)),
        }
    }
}

/// The rule that a descriptor meets.
#[derive(Clone, Copy, Debug)]
pub struct Found<'s> {
    /// The rule.
    pub rule: &'s Rule,
    /// The descriptor names a client address that is never limited.
    pub exempt: bool,
}

impl Domain {
    /// Finds the rule for a descriptor and writes the descriptor's entries to
    /// `key` on the way, as they are counted: with the pattern in place of a
    /// shared value and the client in place of its address.
    ///
    /// `None` where no rule applies: unknown entries, a descriptor shorter or
    /// longer than the rules, or a place without a rule.
    pub fn find<'s, 'e>(
        &'s self,
        entries: impl IntoIterator<Item = (&'e str, &'e str)>,
        key: &mut KeyWriter<'_>,
    ) -> Option<Found<'s>> {
        let (mut level, mut rule) = (&self.root, None);
        let (mut exempt, mut loopback) = (false, false);
        for (entry_key, value) in entries {
            let (node, pattern) = level.step(entry_key, value)?;
            let client = node.address.as_ref().and_then(|policy| policy.read(value));
            exempt |= client.is_some_and(|client| client.exempt);
            loopback |= client.is_some_and(|client| client.loopback);
            let counted = match (pattern, &client) {
                (Some(pattern), _) if node.share_threshold => pattern.text(),
                (_, Some(client)) => client.counted(),
                _ => value,
            };
            key.entry(entry_key, counted);
            level = &node.children;
            rule = node.rule.as_deref();
        }
        let rule = rule?;
        let exempt = exempt || (loopback && rule.exempts_loopback());
        Some(Found { rule, exempt })
    }
}
