//! What a descriptor's rule says, ready to be applied.

use std::sync::Arc;

use crate::limit::Unit;
use crate::limit::{FixedWindow, Limit};
use crate::telemetry::metrics::RuleStats;
use crate::units::Hits;

/// A rule in force.
#[derive(Debug)]
pub struct Rule {
    /// Where the rule stands, for people: `domain > key=value > key`.
    pub path: Arc<str>,
    /// What it grants.
    pub grant: Grant,
    /// The name that answers carry and that `replaces` refers to; may be empty.
    pub name: Arc<str>,
    /// Names of the rules of the same request that this one displaces.
    pub replaces: Box<[Arc<str>]>,
    /// Decided and counted, but answered OK.
    pub shadow_mode: bool,
    /// Refuses a request only together with all its other quota rules.
    pub quota_mode: bool,
    /// All entries of the request name the rule's metrics.
    pub detailed_metric: bool,
    /// For each step of the path, the outermost first, whether the value in the
    /// request names the rule's metrics.
    pub value_to_metric: Box<[bool]>,
    /// Free content that answers carry as dynamic metadata while the rule passes.
    pub metadata: Option<Arc<prost_types::Struct>>,
    /// The rule's counters.
    pub stats: RuleStats,
}

/// What a rule grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Everything, uncounted.
    Unlimited,
    /// What all of these admit together; at least one.
    Limited(Box<[Quota]>),
}

/// A limit together with the terms in which answers report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The limit that is applied.
    pub limit: Limit,
    /// The amount that answers report: that of one window, however long.
    pub requests_per_unit: u32,
    /// The unit that answers report; for windows that are no unit, see
    /// [`Unit::reporting`].
    pub unit: Unit,
}

impl Quota {
    /// `requests_per_unit` in each epoch-aligned window of one `unit`.
    pub fn per_unit(requests_per_unit: u32, unit: Unit) -> Self {
        let window = FixedWindow::of_unit(Hits::from(requests_per_unit), unit);
        Self { limit: Limit::FixedWindow(window), requests_per_unit, unit }
    }
}
