//! The decision: match every descriptor, charge in one step, combine.

mod combine;
mod fallback;
mod matching;
mod metadata;
mod request;
mod settings;

use std::sync::Arc;

use arc_swap::{ArcSwapOption, Guard};
use smallvec::smallvec;

pub use combine::{Applied, Code, Decision, HeaderValues, Status, Statuses};
pub use fallback::Fallback;
pub use request::{Descriptor, Override, Request, RequestError};
pub use settings::{FailureMode, HeaderNames, Settings};

use self::fallback::Modes;
use self::matching::{Match, Matches};
use crate::clock::Clock;
use crate::limit::sliding_log::MOST_LOGGED_HITS;
use crate::limit::{Cost, Verdict};
use crate::policy::{Domain, Policies};
use crate::store::{
    Answer, Charge, ChargeMode, HashTag, Partial, Plan, Role, Store, StoreError, Verdicts,
};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::series::Counters;
use crate::units::Hits;

/// Most counters of one request. Redis serves nobody else while it decides a
/// request, and so many already take it some 10 ms.
const MAX_CHARGES: usize = 1024;

/// How far a request has come.
#[allow(clippy::large_enum_variant, reason = "it lives for a moment; a box would cost more")]
enum Start<'s> {
    Decided(Decision<'s>),
    Asked(Asked<'s>),
}

/// What the store is asked for one request.
struct Asked<'s> {
    domain: &'s Domain,
    matches: Matches<'s>,
    plan: Plan,
}

/// Decides requests. Shared by all transports, behind an `Arc`.
#[derive(Debug)]
pub struct Decider {
    policies: ArcSwapOption<Policies>,
    store: Store,
    clock: Clock,
    settings: Settings,
    metrics: Metrics,
    fallback: Fallback,
}

impl Decider {
    /// A decider over `policies`, which may come later, and `store`.
    pub fn new(
        policies: Option<Policies>,
        store: Store,
        clock: Clock,
        settings: Settings,
        metrics: Metrics,
    ) -> Self {
        let fallback = Fallback::new(settings.replicas, settings.local_memory);
        for mode in FailureMode::ALL {
            // A series that is there from the start can be alerted on.
            metrics.degraded_decisions.with_label_values(&[mode.name()]);
        }
        let policies = ArcSwapOption::from_pointee(policies);
        Self { policies, store, clock, settings, metrics, fallback }
    }

    /// The rules in force, once there are some. Take them once per request: a
    /// request sees one set of rules, whatever a reload does meanwhile.
    pub fn policies(&self) -> Option<Arc<Policies>> {
        self.policies.load_full()
    }

    /// The rules in force, for a request that does not wait: cheaper, since
    /// threads do not share a count of who holds them.
    pub fn policies_now(&self) -> Guard<Option<Arc<Policies>>> {
        self.policies.load()
    }

    /// Puts other rules in force. Counters stay.
    pub fn replace_policies(&self, policies: Policies) {
        self.policies.store(Some(Arc::new(policies)));
    }

    /// The store behind the decisions.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// What decides when the store cannot.
    pub fn fallback(&self) -> &Fallback {
        &self.fallback
    }

    /// The metrics that decisions count in.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// How it decides.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The clock it decides by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Decides `request` by `policies`.
    ///
    /// # Errors
    /// When the store could not decide and the failure mode says to tell, or the
    /// request counts on too much.
    pub async fn decide<'s>(
        &self,
        policies: &'s Policies,
        request: &Request<'_>,
    ) -> Result<Decision<'s>, StoreError> {
        let asked = match self.start(policies, request)? {
            Start::Decided(decision) => return Ok(decision),
            Start::Asked(asked) => asked,
        };
        let Asked { domain, matches, mut plan } = asked;
        let verdicts = match self.store.answer(&plan).await {
            Ok(answer) => {
                self.count(domain, request, &matches, &plan, &answer, |_| true);
                answer.verdicts
            }
            Err(error) => self.without_store(domain, request, &matches, &mut plan, error)?,
        };
        Ok(self.decision(request, &matches, &plan, &verdicts))
    }

    /// Decides `request` if it can be and that needs no waiting:
    /// [`Decider::waits`] tells.
    pub fn decide_now<'s>(
        &self,
        policies: &'s Policies,
        request: &Request<'_>,
    ) -> Option<Decision<'s>> {
        match self.start(policies, request).ok()? {
            Start::Decided(decision) => Some(decision),
            Start::Asked(_) => None,
        }
    }

    /// Whether decisions have to wait for the store.
    pub const fn waits(&self) -> bool {
        matches!(self.store, Store::Redis(_))
    }

    /// Decides as much as needs no waiting.
    fn start<'s>(
        &self,
        policies: &'s Policies,
        request: &Request<'_>,
    ) -> Result<Start<'s>, StoreError> {
        let Some(domain) = policies.domain(request.domain) else {
            self.metrics.domain_not_found.inc_by(request.descriptors.len() as u64);
            let matches: Matches<'s> = smallvec![Match::None; request.descriptors.len()];
            let decision = self.decision(request, &matches, &Plan::default(), &[]);
            return Ok(Start::Decided(decision));
        };
        let (matches, mut plan) = self.plan(domain, request)?;
        if plan.charges.is_empty() {
            return Ok(Start::Decided(self.decision(request, &matches, &plan, &[])));
        }
        self.set_time(&mut plan);
        Ok(match &self.store {
            Store::Memory(store) => {
                let answer = Answer::from(store.decide(&plan));
                self.count(domain, request, &matches, &plan, &answer, |_| true);
                Start::Decided(self.decision(request, &matches, &plan, &answer.verdicts))
            }
            Store::Redis(_) => Start::Asked(Asked { domain, matches, plan }),
        })
    }

    /// Forgets what was counted for the descriptors of `request`, whatever they
    /// cost; also what this process counted while the store was away. Gives the
    /// number of counters.
    ///
    /// # Errors
    /// When the store could not do it, or that is too much at once.
    pub async fn reset(
        &self,
        policies: &Policies,
        request: &Request<'_>,
    ) -> Result<usize, StoreError> {
        let Some(domain) = policies.domain(request.domain) else { return Ok(0) };
        let (_, mut plan) = self.plan(domain, request)?;
        for charge in &mut plan.charges {
            charge.cost = Cost::Reset;
        }
        self.set_time(&mut plan);
        self.fallback.reset(&plan);
        self.store.decide(&plan).await.map(|verdicts| verdicts.len())
    }

    /// What applies to each descriptor, and what to charge, within the bound.
    fn plan<'s>(
        &self,
        domain: &'s Domain,
        request: &Request<'_>,
    ) -> Result<(Matches<'s>, Plan), StoreError> {
        let tag = || domain.hash_tag.unwrap_or(self.settings.hash_tag);
        let tag: Option<HashTag> = self.store.is_clustered().then(tag);
        let (matches, plan) = matching::plan(domain, request, &self.settings, tag);
        let (sent, most) = (plan.charges.len(), MAX_CHARGES);
        if sent > most {
            return Err(StoreError::TooMuch { sent, most });
        }
        // Into all logs together, no more than the largest can hold.
        let (sent, most) =
            (plan.charges.iter().map(Charge::logged).sum(), u64::from(MOST_LOGGED_HITS));
        if sent > most {
            return Err(StoreError::TooManyLogged { sent, most });
        }
        Ok((matches, plan))
    }

    fn set_time(&self, plan: &mut Plan) {
        let pinned = self.clock.pinned();
        plan.pinned = pinned.is_some();
        plan.now = pinned.unwrap_or_else(|| self.clock.now());
    }

    fn decision<'s>(
        &self,
        request: &Request<'_>,
        matches: &Matches<'s>,
        plan: &Plan,
        verdicts: &[Verdict],
    ) -> Decision<'s> {
        let settings = &self.settings;
        let (overall, statuses) = combine::combine(matches, plan, verdicts, settings);
        let headers = settings.response_headers.as_ref();
        let headers = headers.and_then(|_| combine::headers(matches, &statuses, settings));
        let metadata = settings
            .dynamic_metadata
            .then(|| metadata::dynamic_metadata(request, matches, &statuses));
        if settings.shadow_mode && plan.refused_by(verdicts) {
            self.metrics.global_shadow_mode.inc();
        }
        Decision { overall, statuses, headers, metadata }
    }

    /// Counts what each charge came to, in the counters of its rule, if it was
    /// decided.
    fn count(
        &self,
        domain: &Domain,
        request: &Request<'_>,
        matches: &Matches<'_>,
        plan: &Plan,
        answer: &Answer,
        decided: impl Fn(usize) -> bool,
    ) {
        let near_hits = answer.near.iter().filter(|near| **near).count();
        if near_hits > 0 {
            self.metrics.near_cache_hits.inc_by(near_hits as u64);
        }
        let mut next = 0;
        for (found, descriptor) in matches.iter().zip(&request.descriptors) {
            let Match::Limited(limited) = found else { continue };
            let own = next..next + limited.keys.len();
            next = own.end;
            if !decided(own.start) {
                continue;
            }
            let (Some(charges), Some(verdicts)) =
                (plan.charges.get(own.clone()), answer.verdicts.get(own.clone()))
            else {
                return;
            };
            // A rule with several rates counts once, by the strictest.
            let Some((rate, verdict)) = Verdict::strictest(verdicts) else { continue };
            let Some(charge) = charges.get(rate) else { continue };
            let limit = charge.limit.ceiling();
            let near = near_limit(limit, self.settings.near_limit_ratio);
            let stats = match limited.rule() {
                None => Counters::Fixed(&domain.override_stats),
                Some(rule) => rule.counters(&domain.name, &descriptor.entries, &self.metrics),
            };
            stats.record(limit, near, charge.cost, &verdict, limited.shadow());
            if answer.is_near(own.start + rate) {
                stats.record_near(limit, charge.cost, &verdict);
            }
        }
    }

    /// Answers each limit that was not decided by its failure mode. Where one of
    /// them is to tell, nothing else is answered.
    fn without_store(
        &self,
        domain: &Domain,
        request: &Request<'_>,
        matches: &Matches<'_>,
        plan: &mut Plan,
        error: StoreError,
    ) -> Result<Verdicts, StoreError> {
        self.metrics.store_errors.with_label_values(&[error.kind()]).inc();
        let degraded = |mode: FailureMode| {
            self.metrics.degraded_decisions.with_label_values(&[mode.name()]).inc();
        };
        let partial =
            if let StoreError::Partial(partial) = &error { Some(&**partial) } else { None };
        let known = partial.map(|partial| &*partial.verdicts).unwrap_or_default();
        let is_known = |charge| known.get(charge).is_some_and(Option::is_some);
        let modes = self.failure_modes(domain, matches);
        let at_work = |mode: &FailureMode| {
            modes.iter().enumerate().any(|(charge, own)| own == mode && !is_known(charge))
        };
        if at_work(&FailureMode::Error) {
            degraded(FailureMode::Error);
            self.take_back(plan, partial);
            return Err(error);
        }
        FailureMode::ALL.into_iter().filter(at_work).for_each(degraded);
        let mut verdicts = self.fallback.decide(plan, &modes, known);
        if plan.refused_by(&verdicts) && self.take_back(plan, partial) {
            let pairs = verdicts.iter_mut().zip(&plan.charges).enumerate();
            let returned =
                pairs.filter(|(nth, (_, charge))| is_known(*nth) && charge.role != Role::Shadow);
            returned.for_each(|(_, (verdict, _))| verdict.remaining = verdict.remaining_before);
        }
        let is_local = |charge| modes.get(charge) == Some(&FailureMode::Local);
        let decided = |charge| is_known(charge) || is_local(charge);
        let answer = Answer::from(verdicts);
        self.count(domain, request, matches, plan, &answer, decided);
        Ok(answer.verdicts)
    }

    /// A request that is refused takes nothing, where that is the rule, also of
    /// what a part of the store has decided already. Whether there is such a part.
    fn take_back(&self, plan: &Plan, partial: Option<&Partial>) -> bool {
        let partial = partial.filter(|_| plan.mode == ChargeMode::AllOrNothing);
        if let Some(partial) = partial {
            self.store.take_back(plan, partial);
        }
        partial.is_some()
    }

    /// The failure mode of each charge. Whoever refuses nothing fails nothing
    /// either.
    fn failure_modes(&self, domain: &Domain, matches: &Matches<'_>) -> Modes {
        let unsaid = domain.failure_mode.unwrap_or(self.settings.failure_mode);
        let mut modes = Modes::new();
        for found in matches {
            let Match::Limited(limited) = found else { continue };
            let mode = limited.rule().and_then(|rule| rule.spec.failure_mode).unwrap_or(unsaid);
            let harmless = limited.shadow() || self.settings.shadow_mode;
            let mode = match mode {
                FailureMode::Error if harmless => FailureMode::Open,
                mode => mode,
            };
            modes.extend(std::iter::repeat_n(mode, limited.keys.len()));
        }
        modes
    }
}

/// The reference's arithmetic, to the unit: single precision, rounded down.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "limits are below 2^32 and the ratio is from 0 to 1"
)]
fn near_limit(limit: Hits, ratio: f32) -> Hits {
    Hits::new((limit.get() as f32 * ratio).floor() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_is_rounded_down_as_in_the_reference() {
        let expected =
            [(0, 0), (1, 0), (2, 1), (3, 2), (5, 4), (8, 6), (10, 8), (14, 11), (15, 12), (20, 16)];
        for (limit, near) in expected {
            assert_eq!(near_limit(Hits::new(limit), 0.8).get(), near, "limit {limit}");
        }
    }
}
