//! What a descriptor's rule says, ready to be applied.

use std::sync::Arc;

use super::failure_mode::FailureMode;
use super::naming::Naming;
use crate::limit::{Limit, Unit};
use crate::store::{LeaseTerms, Tag};
use crate::telemetry::metrics::{Metrics, RuleStats};
use crate::telemetry::series::Counters;

/// A rule in force.
#[derive(Debug)]
pub struct Rule {
    /// What it says.
    pub spec: RuleSpec,
    /// Its name in metrics where no request has a say, as envoyproxy/ratelimit
    /// writes it: `domain.key_value.key`.
    pub stat_key: Box<str>,
    /// The rule's counters; where requests name them, those of requests for which
    /// there is no room.
    pub stats: RuleStats,
    /// How requests name its counters, if they do.
    pub naming: Option<Naming>,
}

/// What a rule says, checked.
#[derive(Debug)]
pub struct RuleSpec {
    /// Where the rule stands, for people: `domain > key=value > key`.
    pub path: Arc<str>,
    /// What it grants.
    pub grant: Grant,
    /// How hot keys take hits in advance, if they do.
    pub lease: Option<LeaseTerms>,
    /// The name that answers carry and that `replaces` refers to; may be empty.
    pub name: Arc<str>,
    /// Names of the rules of the same request that this one displaces.
    pub replaces: Box<[Arc<str>]>,
    /// Decided and counted, but answered OK.
    pub shadow_mode: bool,
    /// Refuses a request only together with all its other quota rules.
    pub quota_mode: bool,
    /// What to answer without a store, where it says so itself.
    pub failure_mode: Option<FailureMode>,
    /// All entries of the request name the rule's metrics.
    pub detailed_metric: bool,
    /// For each step of the path, the outermost first, whether the value in the
    /// request names the rule's metrics.
    pub value_to_metric: Box<[bool]>,
    /// Free content that answers carry as dynamic metadata while the rule passes.
    pub metadata: Option<Arc<prost_types::Struct>>,
}

impl Rule {
    /// The counters of a descriptor with these entries in `domain`.
    pub fn counters<'s>(
        &'s self,
        domain: &str,
        entries: &[(&str, &str)],
        metrics: &Metrics,
    ) -> Counters<'s> {
        let Some(naming) = &self.naming else { return Counters::Fixed(&self.stats) };
        let write = |name: &mut _, sanitizer| naming.write(entries, name, sanitizer);
        metrics.named(domain, write, &self.stats)
    }

    /// Whether this machine is not limited where nobody says: lockouts are for
    /// clients that might guess, and who is on the machine need not.
    pub fn exempts_loopback(&self) -> bool {
        self.spec.grant.has_lockout()
    }
}

/// What a rule grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Everything, uncounted.
    Unlimited,
    /// What all of these admit together; at least one.
    Limited(Box<[Quota]>),
}

impl Grant {
    /// Whether one of its limits is a lockout.
    pub fn has_lockout(&self) -> bool {
        let Self::Limited(quotas) = self else { return false };
        quotas.iter().any(|quota| matches!(quota.limit(), Limit::Lockout(_)))
    }
}

/// A limit together with the terms in which answers report it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    limit: Limit,
    tag: Tag,
    requests_per_unit: u32,
    unit: Unit,
}

impl Quota {
    /// `limit`, reported as `requests_per_unit` in each `unit`. For windows that
    /// are no unit, see [`Unit::reporting`].
    pub fn new(limit: Limit, requests_per_unit: u32, unit: Unit) -> Self {
        Self { limit, tag: Tag::of(&limit), requests_per_unit, unit }
    }

    /// The limit that is applied.
    pub const fn limit(&self) -> &Limit {
        &self.limit
    }

    /// What the keys of its counters say of it.
    pub const fn tag(&self) -> &Tag {
        &self.tag
    }

    /// The amount that answers report: that of one window, however long.
    pub const fn requests_per_unit(&self) -> u32 {
        self.requests_per_unit
    }

    /// The unit that answers report.
    pub const fn unit(&self) -> Unit {
        self.unit
    }
}
