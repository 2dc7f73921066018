//! Plans for tests of stores.

#![allow(dead_code, reason = "each test binary that includes this uses a part of it")]

use tidegate::limit::{
    Cost, FixedWindow, Gcra, Limit, Lockout, Rate, SlidingCounter, SlidingLog, TokenBucket,
};
use tidegate::store::{Charge, ChargeMode, Plan, Role};
use tidegate::units::{Hits, Span, Timestamp};

/// 365 days: a window that does not end during a test, save one in a million.
pub const YEAR: Span = Span::from_secs(31_536_000);

/// At most `limit` hits in each `window`, with the defaults of the reference.
pub fn fixed_window(limit: u64, window: Span) -> Limit {
    Limit::FixedWindow(FixedWindow::new(Hits::new(limit), window).expect("a window"))
}

/// Each algorithm with room for `limit` hits (at most 1000) in each `window`.
pub fn every_algorithm(limit: u64, window: Span) -> [Limit; 6] {
    let hits = Hits::new(limit);
    let rate = Rate::new(hits, hits, window).expect("a rate");
    [
        fixed_window(limit, window),
        Limit::SlidingLog(SlidingLog::new(hits, window, Span::ZERO, 1000).expect("a log")),
        Limit::SlidingCounter(SlidingCounter::new(hits, window).expect("a counter")),
        Limit::TokenBucket(TokenBucket::new(rate)),
        Limit::Gcra(Gcra::new(rate)),
        Limit::Lockout(Lockout::new(hits, window, window).expect("a lockout")),
    ]
}

/// A request that charges nothing yet, by the clock of the store.
pub fn plan() -> Plan {
    Plan::default()
}

/// A request with one enforced charge of `hits` (0: a check) on the counter of
/// `name`.
pub fn take(name: &str, limit: Limit, hits: u64) -> Plan {
    plan().with(name, limit, Cost::take(Hits::new(hits)), Role::Enforced)
}

/// Adds to a plan.
pub trait PlanExt {
    /// One more charge.
    fn with(self, name: &str, limit: Limit, cost: Cost, role: Role) -> Self;
    /// Nothing is charged if the request is refused.
    fn all_or_nothing(self) -> Self;
    /// Decided at `now`, whatever the clock says.
    fn at(self, now: Timestamp) -> Self;
}

impl PlanExt for Plan {
    fn with(mut self, name: &str, limit: Limit, cost: Cost, role: Role) -> Self {
        let mut key = self.keys.writer("test");
        key.entry("name", name);
        let key = key.finish(&limit);
        self.charges.push(Charge { limit, key, cost, role, joined: false, lease: None });
        self
    }

    fn all_or_nothing(mut self) -> Self {
        self.mode = ChargeMode::AllOrNothing;
        self
    }

    fn at(mut self, now: Timestamp) -> Self {
        self.now = now;
        self.pinned = true;
        self
    }
}
