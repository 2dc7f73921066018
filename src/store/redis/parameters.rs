//! Limits as the script reads them: the number of the algorithm, then its
//! parameters, in the order that its file in `lua/limit/` tells.

use super::request::Integers;
use crate::limit::fixed_window::Align;
use crate::limit::{FixedWindow, Limit, Rate};
use crate::units::Timestamp;

/// How the flags of a fixed window are written.
const FIRST_HIT: u64 = 1;
const COUNT_REFUSED: u64 = 2;
const CALENDAR: u64 = 4;
const LEASED: u64 = 8;

impl Integers {
    /// Writes `limit` as it is in force at `now`, and whether replicas lease hits of
    /// it.
    pub(super) fn limit(&mut self, limit: &Limit, leased: bool, now: Timestamp) {
        match limit {
            Limit::FixedWindow(limit) => self.fixed_window(limit, leased, now),
            Limit::SlidingLog(limit) => {
                let (window, block) = (limit.window(), limit.block());
                self.put_all([2, limit.limit().get(), window.as_micros(), block.as_micros()]);
            }
            Limit::SlidingCounter(limit) => {
                let (window, tick) = (limit.window(), limit.tick());
                self.put_all([3, limit.limit().get(), window.as_micros(), tick.as_micros()]);
            }
            Limit::TokenBucket(limit) => self.rate(4, limit.rate()),
            Limit::Gcra(limit) => self.rate(5, limit.rate()),
            Limit::Lockout(limit) => {
                let (window, lockout) = (limit.window(), limit.lockout());
                let attempts = limit.max_attempts().get();
                self.put_all([6, attempts, window.as_micros(), lockout.as_micros()]);
            }
        }
    }

    /// Redis knows no time zones: it is told where the windows around the
    /// present one begin and end, and finds its own by its own clock.
    fn fixed_window(&mut self, limit: &FixedWindow, leased: bool, now: Timestamp) {
        let (flags, bounds) = match limit.align() {
            Align::Epoch => (0, None),
            Align::FirstHit => (FIRST_HIT, None),
            Align::Calendar(calendar) => (CALENDAR, Some(calendar.bounds(now))),
        };
        let flags = flags | if limit.count_refused() { COUNT_REFUSED } else { 0 };
        let flags = flags | if leased { LEASED } else { 0 };
        self.put_all([1, limit.limit().get(), limit.window().as_micros(), flags]);
        for bound in bounds.iter().flatten() {
            self.put(bound.as_micros());
        }
    }

    fn rate(&mut self, number: u64, rate: &Rate) {
        let (refill, period, tick) = (rate.refill(), rate.period(), rate.tick());
        self.put_all([number, rate.capacity().get(), refill, period, tick.as_micros()]);
    }
}
