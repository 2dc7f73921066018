//! Parts of a request: each has the charges that one call of the script can
//! decide, because one server has all their keys, in Redis Cluster in one slot.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::limit::Limit;
use crate::limit::fixed_window::FixedWindow;
use crate::store::{Charge, ChargeMode, Group, KeyBuf, Plan, Role};
use crate::units::{Span, Timestamp};

/// One part.
#[derive(Clone, Debug)]
pub(super) struct Part<'p> {
    /// What it charges.
    pub(super) charges: Cow<'p, [Charge]>,
    /// Where the names of the counters are.
    pub(super) keys: &'p KeyBuf,
    /// The slot of the counters, in Redis Cluster.
    pub(super) slot: u16,
    /// The moment to decide at, as in the plan.
    pub(super) now: Timestamp,
    pub(super) pinned: bool,
    mode: ChargeMode,
    quota_passes: bool,
}

/// Where a counter lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Home {
    /// In the Redis for limits per second.
    pub(super) per_second: bool,
    /// In which slot there.
    pub(super) slot: u16,
}

/// A part, where it is decided, and where its charges stand in the plan.
#[derive(Debug)]
pub(super) struct Share<'p> {
    pub(super) home: Home,
    pub(super) part: Part<'p>,
    pub(super) places: SmallVec<[usize; 4]>,
}

impl<'p> Part<'p> {
    /// All of `plan`.
    pub(super) fn whole(plan: &'p Plan) -> Self {
        Self {
            charges: Cow::Borrowed(&plan.charges),
            keys: &plan.keys,
            slot: 0,
            now: plan.now,
            pinned: plan.pinned,
            mode: plan.mode,
            quota_passes: plan.quota_passes,
        }
    }

    /// The charges as they are decided.
    pub(super) fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        Group::of(&self.charges, self.mode, self.quota_passes)
    }

    /// Each group by itself, if they may be decided apart and there are several.
    pub(super) fn apart(&self) -> Option<Vec<Part<'_>>> {
        if self.mode == ChargeMode::AllOrNothing || self.groups().nth(1).is_none() {
            return None;
        }
        let alone =
            |group: Group<'_>| Part { charges: Cow::Owned(group.charges.to_vec()), ..self.clone() };
        Some(self.groups().map(alone).collect())
    }
}

/// Splits `plan` by where its counters lie. The charges of one rule stay
/// together; `home` is told all of them.
pub(super) fn split(plan: &Plan, home: impl Fn(&[Charge]) -> Home) -> Vec<Share<'_>> {
    let mut rules: SmallVec<[(Home, usize, usize); 8]> = SmallVec::new();
    let mut start = 0;
    for rule in plan.charges.chunk_by(|_, next| next.joined) {
        rules.push((home(rule), start, start + rule.len()));
        start += rule.len();
    }
    rules.sort_unstable();
    let mut shares: Vec<_> = rules
        .chunk_by(|one, next| one.0 == next.0)
        .map(|rules| {
            let places = rules.iter().flat_map(|&(_, start, end)| start..end);
            share(plan, rules.first().map(|rule| rule.0), places.collect())
        })
        .collect();
    let with_quota = |share: &&Share<'_>| has_quota(&share.part.charges);
    if shares.iter().filter(with_quota).nth(1).is_some() {
        // Whether all quotas refuse is seen when all have answered.
        for share in &mut shares {
            share.part.quota_passes = true;
        }
    }
    shares
}

fn share(plan: &Plan, home: Option<Home>, places: SmallVec<[usize; 4]>) -> Share<'_> {
    let home = home.unwrap_or(Home { per_second: false, slot: 0 });
    let mut part = Part { slot: home.slot, ..Part::whole(plan) };
    if places.len() < plan.charges.len() {
        let charges = places.iter().filter_map(|&place| plan.charges.get(place).copied());
        part.charges = Cow::Owned(charges.collect());
    }
    Share { home, part, places }
}

fn has_quota(charges: &[Charge]) -> bool {
    charges.iter().any(|charge| charge.role == Role::Quota)
}

/// Whether all these limits, the rates of one rule, are for one second each.
pub(super) fn are_per_second(rule: &[Charge]) -> bool {
    let second = |window: &FixedWindow| window.window() == Span::from_secs(1);
    rule.iter().all(|charge| matches!(&charge.limit, Limit::FixedWindow(it) if second(it)))
}
