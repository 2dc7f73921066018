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
    /// Nothing is given back to a counter that is younger than this moment of the
    /// clock of Redis.
    pub(super) since: Option<Timestamp>,
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
            since: None,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Cost;
    use crate::store::HashTag;
    use crate::store::redis::cluster::slot_of;
    use crate::units::Hits;

    /// A plan of rules, each with so many rates; their windows are 1 s, 2 s, ….
    fn plan(rules: &[(usize, Role)]) -> Plan {
        let mut plan = Plan::default();
        for (nth, &(rates, role)) in rules.iter().enumerate() {
            for rate in 0..rates {
                let window = Span::from_secs(rate as u64 + 1);
                let limit = Limit::FixedWindow(FixedWindow::new(Hits::new(1), window).unwrap());
                let mut key = plan.keys.tagged_writer("d", Some(HashTag::Entries));
                key.entry("k", &nth.to_string());
                let key = key.finish(&limit);
                let cost = Cost::Take(Hits::new(1));
                plan.charges.push(Charge { limit, key, cost, role, joined: rate > 0, lease: None });
            }
        }
        plan
    }

    fn split_by_slot(plan: &Plan) -> Vec<Share<'_>> {
        split(plan, |rule| {
            let slots = rule.iter().map(|charge| slot_of("", plan.keys.get(charge.key)));
            let slots: Vec<u16> = slots.collect();
            assert!(slots.windows(2).all(|two| two[0] == two[1]), "a rule in two slots");
            Home { per_second: are_per_second(rule), slot: slots[0] }
        })
    }

    #[test]
    fn every_charge_is_in_one_part_with_the_other_rates_of_its_rule() {
        let plan = plan(&[(1, Role::Enforced), (3, Role::Enforced), (2, Role::Shadow)]);
        let shares = split_by_slot(&plan);
        assert_eq!(shares.len(), 3);
        let mut places: Vec<usize> = Vec::new();
        for share in &shares {
            assert_eq!(share.part.charges.len(), share.places.len());
            assert_eq!(share.home.per_second, share.places[..] == [0], "one rate of 1 s");
            for (&place, charge) in share.places.iter().zip(&*share.part.charges) {
                assert_eq!(charge.key, plan.charges[place].key);
            }
            places.extend(&share.places);
        }
        places.sort_unstable();
        assert_eq!(places, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_plan_of_one_slot_is_one_part() {
        let plan = plan(&[(2, Role::Enforced), (2, Role::Enforced)]);
        let shares = split(&plan, |_| Home { per_second: false, slot: 7 });
        assert_eq!((shares.len(), shares[0].part.slot), (1, 7));
        assert!(matches!(shares[0].part.charges, Cow::Borrowed(_)));
        assert_eq!(shares[0].part.apart().map(|groups| groups.len()), Some(2));
    }

    #[test]
    fn quotas_in_several_parts_are_judged_together() {
        for (roles, apart) in [
            ([Role::Quota, Role::Quota], true),
            ([Role::Quota, Role::Enforced], false),
            ([Role::Enforced, Role::Shadow], false),
        ] {
            let plan = plan(&roles.map(|role| (1, role)));
            let shares = split_by_slot(&plan);
            assert_eq!(shares.len(), 2);
            assert!(shares.iter().all(|share| share.part.quota_passes == apart), "{roles:?}");
        }
    }
}
