//! Hits that are taken in advance, on their way from the store.

use smallvec::smallvec;

use super::account::{Counted, Lease};
use super::{LeaseBook, LeaseTerms, Name};
use crate::limit::{Cost, Limit, Verdict};
use crate::store::{Charge, ChargeMode, Plan};
use crate::units::{Hits, Timestamp};

/// A request together with hits in advance: two charges on one key that are
/// decided in one step. If there are not so many hits any more, the request itself
/// is decided as ever.
#[derive(Debug)]
pub struct Advance<'a> {
    book: &'a LeaseBook,
    name: Name<'a>,
    plan: Box<Plan>,
    asked: Timestamp,
    generation: u64,
}

impl<'a> Advance<'a> {
    pub(super) fn new(
        book: &'a LeaseBook,
        name: Name<'a>,
        plan: &Plan,
        more: Hits,
        (asked, generation): (Timestamp, u64),
    ) -> Option<Self> {
        let charge = plan.charges.first()?;
        // A refusal must not be counted: nobody has asked for so many.
        let limit = charge.limit.refusing_for_free();
        let ahead = Charge { limit, cost: Cost::Take(more), ..*charge };
        let plan = Plan {
            mode: ChargeMode::Independent,
            quota_passes: plan.quota_passes,
            charges: smallvec![*charge, ahead],
            keys: plan.keys.clone(),
            now: plan.now,
            pinned: plan.pinned,
        };
        Some(Self { book, name, plan: Box::new(plan), asked, generation })
    }

    /// What to ask.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Keeps what the store gave `at` a moment of its clock, if it did.
    pub fn receive(&self, verdicts: &[Verdict], at: Timestamp) {
        let (Some(charge), Some(verdict)) = (self.plan.charges.get(1), verdicts.get(1)) else {
            return;
        };
        let Cost::Take(left) = charge.cost else { return };
        let lease = verdict.allowed.then(|| self.lease(charge, left, verdict, at));
        self.book.receive(self.name, self.generation, lease, self.asked);
    }

    fn lease(&self, charge: &Charge, left: Hits, verdict: &Verdict, at: Timestamp) -> Lease {
        let ttl = charge.lease.unwrap_or(LeaseTerms::DEFAULT).ttl();
        let windowed = matches!(charge.limit, Limit::FixedWindow(_));
        let lasts = if windowed { ttl.min(verdict.reset_after) } else { ttl };
        Lease {
            left,
            asked: self.asked,
            until: self.asked.plus(lasts),
            counted: windowed.then(|| Counted { at, until: at.plus(verdict.reset_after) }),
            remaining: verdict.remaining,
            reset_after: verdict.reset_after,
        }
    }
}

impl Drop for Advance<'_> {
    /// Whatever came of it, the next one may ask.
    fn drop(&mut self) {
        self.book.land(self.name);
    }
}
