//! From descriptors to limits to charge.

use std::sync::Arc;

use smallvec::SmallVec;

use super::request::{Descriptor, Request};
use super::settings::Settings;
use crate::policy::{Domain, Grant, Quota, Rule};
use crate::store::{Charge, ChargeMode, KeyBuf, KeyRef, Plan, Role};

/// What applies to one descriptor.
#[derive(Clone, Copy, Debug)]
pub enum Match<'s> {
    /// Nothing.
    None,
    /// A rule without a limit.
    Unlimited(&'s Rule),
    /// A limit, which is the next charge of the plan.
    Limited(Limited<'s>),
}

/// A limit that applies.
#[derive(Clone, Copy, Debug)]
pub struct Limited<'s> {
    /// The limit and the terms in which it is reported.
    pub quota: Quota,
    /// The rule it comes from; none for an override.
    pub rule: Option<&'s Rule>,
    /// Its counter.
    key: KeyRef,
}

/// What applies to each descriptor, in order.
pub type Matches<'s> = SmallVec<[Match<'s>; 4]>;

impl Limited<'_> {
    /// Whether the rule is in shadow mode.
    pub fn shadow(&self) -> bool {
        self.rule.is_some_and(|rule| rule.shadow_mode)
    }

    /// Whether the limit only refuses together with all other quotas.
    pub fn quota_mode(&self, settings: &Settings) -> bool {
        settings.quota_mode || self.rule.is_some_and(|rule| rule.quota_mode)
    }
}

/// Finds what applies to each descriptor and plans what to charge.
pub fn plan<'s>(
    domain: &'s Domain,
    request: &Request<'_>,
    settings: &Settings,
) -> (Matches<'s>, Plan) {
    let mut plan = Plan { mode: domain.charge, ..Plan::default() };
    let mut matches: Matches<'s> =
        request.descriptors.iter().map(|one| find(domain, one, &mut plan.keys)).collect();
    drop_replaced(&mut matches);
    let free = plan.mode == ChargeMode::AllOrNothing;
    for (found, descriptor) in matches.iter().zip(&request.descriptors) {
        let limited = match found {
            Match::Limited(limited) => limited,
            // In quota mode whatever has no limit is a quota that passes.
            Match::None => {
                plan.quota_passes |= settings.quota_mode;
                continue;
            }
            Match::Unlimited(_) => continue,
        };
        let role = match (limited.shadow(), limited.quota_mode(settings)) {
            (true, quota) => {
                plan.quota_passes |= quota;
                Role::Shadow
            }
            (false, true) => Role::Quota,
            (false, false) => Role::Enforced,
        };
        let limit = limited.quota.limit;
        let limit = if free { limit.refusing_for_free() } else { limit };
        let cost = request.cost(descriptor);
        plan.charges.push(Charge { limit, key: limited.key, cost, role, joined: false });
    }
    if settings.shadow_mode {
        // Nothing is refused, so everything is counted.
        plan.mode = ChargeMode::Independent;
    }
    (matches, plan)
}

fn find<'s>(domain: &'s Domain, descriptor: &Descriptor<'_>, keys: &mut KeyBuf) -> Match<'s> {
    let mut key = keys.writer(&domain.name);
    if let Some(wanted) = descriptor.limit {
        // An override looks at no rule, but it counts where a rule would.
        for (name, value) in &descriptor.entries {
            key.entry(name, value);
        }
        let quota = wanted.quota();
        let key = key.finish(&quota.limit);
        return Match::Limited(Limited { quota, rule: None, key });
    }
    match domain.find(descriptor.entries.iter().copied(), &mut key).map(Arc::as_ref) {
        None => Match::None,
        Some(rule) => match rule.grant {
            Grant::Unlimited => Match::Unlimited(rule),
            Grant::Limited(quota) => {
                let key = key.finish(&quota.limit);
                Match::Limited(Limited { quota, rule: Some(rule), key })
            }
        },
    }
}

/// Forgets every match whose rule is named by the `replaces` of a matched rule,
/// wherever in the request that one stands.
fn drop_replaced(matches: &mut Matches<'_>) {
    let replaced: SmallVec<[&Arc<str>; 4]> =
        matches.iter().filter_map(Match::rule).flat_map(|rule| &rule.replaces).collect();
    if replaced.is_empty() {
        return;
    }
    for found in matches.iter_mut() {
        if found.rule().is_some_and(|rule| replaced.contains(&&rule.name)) {
            *found = Match::None;
        }
    }
}

impl<'s> Match<'s> {
    /// The rule that applies, if it is one.
    pub fn rule(&self) -> Option<&'s Rule> {
        match self {
            Self::None => None,
            Self::Unlimited(rule) => Some(rule),
            Self::Limited(limited) => limited.rule,
        }
    }
}
