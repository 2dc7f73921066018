//! From descriptors to limits to charge.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use super::request::{Descriptor, Override, Request};
use super::settings::Settings;
use crate::limit::{Limit, Unit};
use crate::policy::{Domain, Grant, Quota, Rule};
use crate::store::{Charge, ChargeMode, HashTag, KeyRef, KeyWriter, Plan, Role, Tag};

/// What applies to one descriptor.
#[derive(Clone, Debug)]
pub enum Match<'s> {
    /// Nothing.
    None,
    /// A rule without a limit.
    Unlimited(&'s Rule),
    /// A rule that does not limit this client.
    Exempt(&'s Rule, &'s Quota),
    /// A limit: the next charges of the plan, one per rate.
    Limited(Limited<'s>),
}

/// A limit that applies.
#[derive(Clone, Debug)]
pub struct Limited<'s> {
    /// Where it comes from.
    pub source: Source<'s>,
    /// Its counters, one per rate.
    pub keys: Keys,
}

/// Where a limit comes from.
#[derive(Clone, Copy, Debug)]
pub enum Source<'s> {
    /// A rule, with its rates.
    Rule(&'s Rule, &'s [Quota]),
    /// The request.
    Override(Override),
}

/// Counters of one descriptor.
type Keys = SmallVec<[KeyRef; 2]>;

/// What applies to each descriptor, in order.
pub type Matches<'s> = SmallVec<[Match<'s>; 4]>;

impl<'s> Limited<'s> {
    /// The rule that the limit comes from; none for an override.
    pub const fn rule(&self) -> Option<&'s Rule> {
        match self.source {
            Source::Rule(rule, _) => Some(rule),
            Source::Override(_) => None,
        }
    }

    /// One of its rates: as many requests in each such unit.
    pub fn terms(&self, rate: usize) -> Option<(u32, Unit)> {
        match self.source {
            Source::Rule(_, quotas) => {
                quotas.get(rate).map(|quota| (quota.requests_per_unit(), quota.unit()))
            }
            Source::Override(wanted) => Some((wanted.requests_per_unit, wanted.unit)),
        }
    }

    fn limit(&self, rate: usize) -> Option<Limit> {
        match self.source {
            Source::Rule(_, quotas) => quotas.get(rate).map(|quota| *quota.limit()),
            Source::Override(wanted) => Some(wanted.limit()),
        }
    }

    /// Whether the rule is in shadow mode.
    pub fn shadow(&self) -> bool {
        self.rule().is_some_and(|rule| rule.spec.shadow_mode)
    }

    /// Whether the limit only refuses together with all other quotas.
    pub fn quota_mode(&self, settings: &Settings) -> bool {
        settings.quota_mode || self.rule().is_some_and(|rule| rule.spec.quota_mode)
    }
}

/// Finds what applies to each descriptor and plans what to charge, on keys with
/// this hash tag.
pub fn plan<'s>(
    domain: &'s Domain,
    request: &Request<'_>,
    settings: &Settings,
    tag: Option<HashTag>,
) -> (Matches<'s>, Plan) {
    let mut plan = Plan { mode: domain.charge, ..Plan::default() };
    let find = |one| find(domain, one, plan.keys.tagged_writer(&domain.name, tag));
    let mut matches: Matches<'s> = request.descriptors.iter().map(find).collect();
    drop_replaced(&mut matches);
    for (found, descriptor) in matches.iter().zip(&request.descriptors) {
        match found {
            Match::Limited(limited) => {
                let role = role(limited, settings, &mut plan);
                charge(limited, request, descriptor, role, &mut plan);
            }
            // In quota mode whatever has no limit is a quota that passes.
            Match::None | Match::Exempt(..) => plan.quota_passes |= settings.quota_mode,
            Match::Unlimited(_) => {}
        }
    }
    if settings.shadow_mode {
        // Nothing is refused, so everything is counted.
        plan.mode = ChargeMode::Independent;
    }
    (matches, plan)
}

fn role(limited: &Limited<'_>, settings: &Settings, plan: &mut Plan) -> Role {
    match (limited.shadow(), limited.quota_mode(settings)) {
        (true, quota) => {
            plan.quota_passes |= quota;
            Role::Shadow
        }
        (false, true) => Role::Quota,
        (false, false) => Role::Enforced,
    }
}

fn charge(
    limited: &Limited<'_>,
    request: &Request<'_>,
    descriptor: &Descriptor<'_>,
    role: Role,
    plan: &mut Plan,
) {
    let cost = request.cost(descriptor);
    // What is refused together with something else must cost nothing.
    let free = plan.mode == ChargeMode::AllOrNothing || limited.keys.len() > 1;
    for (rate, &key) in limited.keys.iter().enumerate() {
        let Some(limit) = limited.limit(rate) else { continue };
        let limit = if free { limit.refusing_for_free() } else { limit };
        let lease = limited.rule().and_then(|rule| rule.spec.lease);
        plan.charges.push(Charge { limit, key, cost, role, joined: rate > 0, lease });
    }
}

fn find<'s>(domain: &'s Domain, descriptor: &Descriptor<'_>, mut key: KeyWriter<'_>) -> Match<'s> {
    if let Some(wanted) = descriptor.limit {
        // An override looks at no rule, but it counts where a rule would.
        for (name, value) in &descriptor.entries {
            key.entry(name, value);
        }
        let keys = smallvec![key.finish_as(&Tag::of(&wanted.limit()))];
        return Match::Limited(Limited { source: Source::Override(wanted), keys });
    }
    let Some(found) = domain.find(descriptor.entries.iter().copied(), &mut key) else {
        key.discard();
        return Match::None;
    };
    match &found.rule.spec.grant {
        Grant::Limited(quotas) => match &**quotas {
            [] => Match::None,
            [quota, ..] if found.exempt => Match::Exempt(found.rule, quota),
            quotas => {
                let source = Source::Rule(found.rule, quotas);
                Match::Limited(Limited { source, keys: keys_of(quotas, key) })
            }
        },
        Grant::Unlimited => Match::Unlimited(found.rule),
    }
}

/// The counters of a rule's rates: the same entries, each with its own window.
fn keys_of(quotas: &[Quota], mut key: KeyWriter<'_>) -> Keys {
    let Some((last, others)) = quotas.split_last() else { return Keys::new() };
    let mut keys: Keys = others.iter().map(|quota| key.branch(quota.tag())).collect();
    keys.push(key.finish_as(last.tag()));
    keys
}

/// Forgets every limit whose rule is named by the `replaces` of a matched rule,
/// wherever in the request that one stands.
fn drop_replaced(matches: &mut Matches<'_>) {
    let replaced: SmallVec<[&Arc<str>; 4]> =
        matches.iter().filter_map(Match::rule).flat_map(|rule| &rule.spec.replaces).collect();
    if replaced.is_empty() {
        return;
    }
    for found in matches.iter_mut() {
        let unlimited = matches!(found, Match::Unlimited(_));
        if !unlimited && found.rule().is_some_and(|rule| replaced.contains(&&rule.spec.name)) {
            *found = Match::None;
        }
    }
}

impl<'s> Match<'s> {
    /// The rule that applies, if it is one.
    pub fn rule(&self) -> Option<&'s Rule> {
        match self {
            Self::None => None,
            Self::Unlimited(rule) | Self::Exempt(rule, _) => Some(rule),
            Self::Limited(limited) => limited.rule(),
        }
    }
}
