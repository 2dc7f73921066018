//! Answers without the store, each charge by its failure mode.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use crate::limit::{Cost, Verdict};
use crate::policy::FailureMode;
use crate::store::memory::MemoryStore;
use crate::store::{Charge, ChargeMode, Group, Plan, Role, Verdicts};
use crate::units::{Hits, Span, Timestamp};

/// What a limit that could not be asked reports as its reset: soon, since the
/// store may be back by then.
const UNKNOWN_RESET: Span = Span::from_secs(1);

/// How long the store must be back before local counters are forgotten. An
/// outage that comes and goes is one, in which a client has one local share and
/// not one each time.
const FORGET_AFTER: Span = Span::from_secs(10);

/// The failure mode of each charge of a plan.
pub(super) type Modes = SmallVec<[FailureMode; 4]>;

/// Decides when the store cannot.
#[derive(Debug)]
pub struct Fallback {
    /// The counters of [`FailureMode::Local`].
    store: MemoryStore,
    replicas: NonZeroU32,
    /// When a local counter was last used, in microseconds; 0: there is none.
    used: AtomicU64,
}

impl Fallback {
    /// One of so many `replicas`, with about `memory_limit` bytes for counters.
    pub fn new(replicas: NonZeroU32, memory_limit: usize) -> Self {
        Self { store: MemoryStore::new(memory_limit), replicas, used: AtomicU64::new(0) }
    }

    /// The local counters.
    pub fn store(&self) -> &MemoryStore {
        &self.store
    }

    /// Forgets the local counters if they have not been used for a while; to be
    /// called again and again while the store is back.
    pub fn store_is_back(&self, now: Timestamp) {
        let used = self.used.load(Ordering::Relaxed);
        if used != 0 && now.since(Timestamp::from_micros(used)) >= FORGET_AFTER {
            self.used.store(0, Ordering::Relaxed);
            self.store.clear();
        }
    }

    /// Forgets what `plan` resets.
    pub(super) fn reset(&self, plan: &Plan) {
        if self.used.load(Ordering::Relaxed) != 0 {
            self.store.decide(plan);
        }
    }

    /// Decides by their `modes` the charges of `plan` whose verdict is not
    /// `known`; none of these is [`FailureMode::Error`]. Local charges get their
    /// share as their limit.
    pub(super) fn decide(
        &self,
        plan: &mut Plan,
        modes: &Modes,
        known: &[Option<Verdict>],
    ) -> Verdicts {
        let mut local: SmallVec<[bool; 4]> = SmallVec::new();
        let mut verdicts = Verdicts::new();
        for (nth, (charge, mode)) in plan.charges.iter_mut().zip(modes).enumerate() {
            let known = known.get(nth).copied().flatten();
            local.push(known.is_none() && *mode == FailureMode::Local);
            verdicts.push(match (known, mode) {
                (Some(verdict), _) => verdict,
                (None, FailureMode::Open) => substitute(charge, true),
                (None, FailureMode::Closed | FailureMode::Error) => substitute(charge, false),
                (None, FailureMode::Local) => {
                    charge.limit = charge.limit.share(self.replicas);
                    substitute(charge, true)
                }
            });
        }
        if local.contains(&true) {
            self.decide_locally(plan, &local, &mut verdicts);
        }
        verdicts
    }

    /// Puts the verdicts of the local charges in place of those that stand in
    /// for them.
    fn decide_locally(&self, plan: &mut Plan, is_local: &[bool], verdicts: &mut Verdicts) {
        self.used.store(plan.now.as_micros(), Ordering::Relaxed);
        // With all local charges passing; so the others alone refuse it.
        let refused = plan.refused_by(verdicts);
        let mut local = Plan {
            mode: plan.mode,
            quota_passes: plan.quota_passes,
            keys: std::mem::take(&mut plan.keys),
            now: plan.now,
            pinned: plan.pinned,
            ..Plan::default()
        };
        let all = plan.charges.iter().zip(is_local).zip(&*verdicts);
        for ((charge, is_local), verdict) in all {
            if *is_local {
                local.charges.push(*charge);
            } else {
                local.quota_passes |= charge.role == Role::Quota && verdict.allowed;
            }
        }
        if refused {
            consume_nothing(&mut local);
        }
        let decided = self.store.decide(&local);
        let places = verdicts.iter_mut().zip(is_local).filter(|(_, is_local)| **is_local);
        for ((place, _), verdict) in places.zip(decided) {
            *place = verdict;
        }
        plan.keys = local.keys;
    }
}

/// Makes a request that others refuse cost nothing, where that is the rule.
fn consume_nothing(plan: &mut Plan) {
    if plan.mode == ChargeMode::Independent {
        return;
    }
    let whole = Group { charges: &[], one_rule: false, quota_passes: false };
    for charge in &mut plan.charges {
        if let Some(cost) = whole.cost_after_refusal(charge, true) {
            charge.cost = cost;
        }
    }
}

/// The verdict of a limit that nobody asked. What is given back is always taken.
fn substitute(charge: &Charge, allowed: bool) -> Verdict {
    let untouched = charge.limit.ceiling();
    let allowed = allowed || matches!(charge.cost, Cost::Refund(_) | Cost::Reset);
    let cost = if let Cost::Take(hits) = charge.cost { hits } else { Hits::ZERO };
    Verdict {
        allowed,
        remaining: if allowed { untouched.minus(cost) } else { Hits::ZERO },
        remaining_before: untouched,
        retry_after: if allowed { Span::ZERO } else { UNKNOWN_RESET },
        reset_after: UNKNOWN_RESET,
    }
}
