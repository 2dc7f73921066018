//! Token bucket: `capacity` tokens, refilled steadily, a hit takes one.
//!
//! The state is what is missing from a full bucket, so that a key never seen is
//! all zeros, and when it will be full, which says as of when it was missing. Refused hits take nothing. Lua twin: `lua/limit/token_bucket.lua`.

use std::fmt;

use super::rate::Rate;
use super::{Cost, Verdict};
use crate::units::{Hits, Span, Timestamp};

/// The parameters of a token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    rate: Rate,
}

/// The state of one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Units missing from a full bucket …
    pub missing: u64,
    /// … so many that it is full at this moment, the end of a tick.
    pub full_at: Timestamp,
}

impl TokenBucket {
    /// A bucket that holds and refills as `rate` says.
    pub const fn new(rate: Rate) -> Self {
        Self { rate }
    }

    /// Its rate.
    pub const fn rate(&self) -> &Rate {
        &self.rate
    }

    /// Decides `cost` at `now`.
    pub fn step(&self, state: &mut State, now: Timestamp, cost: Cost) -> Verdict {
        let rate = &self.rate;
        let (missing, at) = self.refilled(state, now);
        let (allowed, after, wanted) = rate.charge(missing, cost);
        if after != missing || (missing > 0 && at < rate.tick_missing(state)) {
            let full = at + after.div_ceil(rate.refill());
            *state = match after {
                0 => State::default(),
                missing => State { missing, full_at: rate.moment(full) },
            };
        }
        rate.verdict(allowed, missing, after, wanted, at, now)
    }

    /// What is missing at `now`, and the tick up to which that is true.
    ///
    /// When the clock has stepped back by no more than the time to fill, the
    /// bucket waits for it, since refilling twice would admit too much; after a
    /// larger step it goes on from `now` without a refill.
    fn refilled(&self, state: &State, now: Timestamp) -> (u64, u64) {
        let (rate, tick) = (&self.rate, self.rate.tick_of(now));
        let (missing, at) = (state.missing.min(rate.full()), rate.tick_missing(state));
        if tick >= at {
            let ticks = (tick - at).min(rate.full_ticks());
            return (missing.saturating_sub(ticks * rate.refill()), tick);
        }
        (missing, if at - tick <= rate.full_ticks() { at } else { tick })
    }
}

impl Rate {
    /// The tick as of which a state says what is missing.
    fn tick_missing(&self, state: &State) -> u64 {
        self.tick_of(state.full_at).saturating_sub(state.missing.div_ceil(self.refill()))
    }

    /// Whether `cost` passes when `missing` units are gone, how many are gone
    /// after it, and how many must not be for it to pass.
    pub(super) fn charge(&self, missing: u64, cost: Cost) -> (bool, u64, u64) {
        match cost {
            // A check asks whether one more hit would pass.
            Cost::Check => {
                let one = self.units(Hits::new(1));
                (missing + one <= self.full(), missing, one)
            }
            Cost::Take(hits) => {
                let units = self.units(hits);
                let allowed = missing + units <= self.full();
                (allowed, if allowed { missing + units } else { missing }, units)
            }
            Cost::Refund(hits) => (true, missing.saturating_sub(self.units(hits)), 0),
            Cost::Reset => (true, 0, 0),
        }
    }

    /// The verdict on a charge of `wanted` units that left `after` missing as
    /// of tick `at`.
    pub(super) fn verdict(
        &self,
        allowed: bool,
        before: u64,
        after: u64,
        wanted: u64,
        at: u64,
        now: Timestamp,
    ) -> Verdict {
        let retry_after = if allowed {
            Span::ZERO
        } else if wanted > self.full() {
            Span::FOREVER
        } else {
            self.wait(after + wanted - self.full(), at, now).min(self.fill_time())
        };
        Verdict {
            allowed,
            remaining: if allowed { self.left(after) } else { Hits::ZERO },
            remaining_before: self.left(before),
            retry_after,
            reset_after: self.wait(after, at, now).min(self.fill_time()),
        }
    }
}

impl State {
    /// When the bucket is full, and the state as good as none.
    pub const fn expires_at(&self) -> Timestamp {
        self.full_at
    }
}

impl fmt::Display for TokenBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tb{}", self.rate)
    }
}
