//! One replica's part of a limit, for when the replicas cannot share it.

use std::num::NonZeroU32;

use super::{FixedWindow, Gcra, Limit, Lockout, Rate, SlidingCounter, SlidingLog, TokenBucket};
use crate::units::Hits;

impl Limit {
    /// The part of one of so many `replicas`: amounts divided and rounded down,
    /// though never to nothing, rates stretched exactly. The parts together are
    /// therefore the whole, or less, or one hit each.
    #[must_use]
    pub fn share(&self, replicas: NonZeroU32) -> Self {
        let part = |whole| part(whole, replicas);
        match self {
            Self::FixedWindow(whole) => {
                let limit = FixedWindow::new(part(whole.limit()), whole.window());
                limit.map_or(*self, |limit| {
                    let limit = limit.with_align(whole.align());
                    Self::FixedWindow(limit.with_count_refused(whole.count_refused()))
                })
            }
            // Whatever makes a limit impossible, a smaller one is possible.
            Self::SlidingLog(whole) => {
                let limit = part(whole.limit());
                SlidingLog::new(limit, whole.window(), whole.block(), u32::MAX)
                    .map_or(*self, Self::SlidingLog)
            }
            Self::SlidingCounter(whole) => SlidingCounter::new(part(whole.limit()), whole.window())
                .map_or(*self, Self::SlidingCounter),
            Self::TokenBucket(whole) => {
                Self::TokenBucket(TokenBucket::new(whole.rate().share(replicas)))
            }
            Self::Gcra(whole) => Self::Gcra(Gcra::new(whole.rate().share(replicas))),
            Self::Lockout(whole) => {
                Lockout::new(part(whole.max_attempts()), whole.window(), whole.lockout())
                    .map_or(*self, Self::Lockout)
            }
        }
    }
}

impl Rate {
    /// The part of one of so many `replicas`.
    fn share(&self, replicas: NonZeroU32) -> Self {
        let capacity = part(self.capacity(), replicas);
        self.slower(capacity, replicas).unwrap_or_else(|| self.holding(capacity))
    }
}

fn part(whole: Hits, replicas: NonZeroU32) -> Hits {
    let part = whole.get() / u64::from(replicas.get());
    Hits::new(if whole.is_zero() { 0 } else { part.max(1) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::fixed_window::Align;
    use crate::limit::{Cost, Verdict};
    use crate::units::{Span, Timestamp};

    const MINUTE: Span = Span::from_secs(60);

    fn replicas(number: u32) -> NonZeroU32 {
        NonZeroU32::new(number).unwrap()
    }

    fn limits(amount: u64) -> [Limit; 6] {
        let hits = Hits::new(amount);
        let rate = Rate::new(hits, Hits::new(7), MINUTE).unwrap();
        let window = FixedWindow::new(hits, MINUTE).unwrap();
        [
            Limit::FixedWindow(window.with_align(Align::FirstHit).with_count_refused(false)),
            Limit::SlidingLog(SlidingLog::new(hits, MINUTE, MINUTE, 1_000).unwrap()),
            Limit::SlidingCounter(SlidingCounter::new(hits, MINUTE).unwrap()),
            Limit::TokenBucket(TokenBucket::new(rate)),
            Limit::Gcra(Gcra::new(rate)),
            Limit::Lockout(Lockout::new(hits.min(Hits::new(1_000)), MINUTE, MINUTE).unwrap()),
        ]
    }

    #[test]
    fn amounts_are_divided_and_never_to_nothing() {
        for (whole, count, expected) in [(10, 1, 10), (10, 3, 3), (10, 10, 1), (10, 1_000, 1)] {
            for limit in limits(whole) {
                let share = limit.share(replicas(count));
                assert_eq!(share.ceiling(), Hits::new(expected), "{limit:?} by {count}");
            }
        }
        let nothing = Limit::FixedWindow(FixedWindow::new(Hits::ZERO, MINUTE).unwrap());
        assert_eq!(nothing.share(replicas(3)), nothing);
    }

    #[test]
    fn the_only_replica_has_the_whole() {
        for limit in limits(12) {
            assert_eq!(limit.share(replicas(1)), limit);
        }
    }

    #[test]
    fn everything_but_the_amount_stays() {
        let Limit::FixedWindow(share) = limits(12)[0].share(replicas(3)) else { panic!("kind") };
        assert_eq!((share.align(), share.count_refused()), (Align::FirstHit, false));
        let Limit::SlidingLog(share) = limits(12)[1].share(replicas(3)) else { panic!("kind") };
        assert_eq!((share.window(), share.block()), (MINUTE, MINUTE));
        let Limit::Lockout(share) = limits(12)[5].share(replicas(3)) else { panic!("kind") };
        assert_eq!((share.window(), share.lockout()), (MINUTE, MINUTE));
    }

    /// 7 per minute over 3 replicas: what each refills is exact, not 2.
    #[test]
    fn rates_are_stretched_exactly() {
        for limit in &limits(12)[3..5] {
            let share = limit.share(replicas(3));
            let mut state = share.fresh();
            let start = Timestamp::from_secs(1_700_000_000);
            let ask = |state: &mut _, secs, hits| {
                let cost = Cost::Take(Hits::new(hits));
                share.step(state, start.plus(Span::from_secs(secs)), cost)
            };
            assert!(ask(&mut state, 0, 4).allowed, "a third of the burst");
            let refused: Verdict = ask(&mut state, 0, 1);
            assert_eq!(refused.retry_after.ceil_secs(), (3 * 60_u64).div_ceil(7));
            let mut admitted = 0;
            for secs in 0..=180 {
                admitted += u64::from(ask(&mut state, secs, 1).allowed);
            }
            assert_eq!(admitted, 7, "in three minutes");
        }
    }

    #[test]
    fn a_rate_that_cannot_be_stretched_keeps_its_pace() {
        let years = Span::from_secs(10 * 365 * 86_400);
        let rate = Rate::new(Hits::new(1_000_000), Hits::new(999_983), years).unwrap();
        let share = rate.share(replicas(u32::MAX));
        assert_eq!(share.capacity(), Hits::new(1));
    }
}
