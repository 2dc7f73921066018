//! GCRA: the generic cell rate algorithm, a token bucket kept as one moment.
//!
//! That moment, the theoretical arrival time, is when the bucket would be full;
//! where a hit's interval is no whole number of ticks, the rest is kept beside
//! it in fractions of a tick. While the clock goes forward the answers are those
//! of a token bucket. Lua twin: `lua/limit/gcra.lua`.

use std::fmt;

use super::rate::Rate;
use super::{Cost, Verdict};
use crate::units::{Span, Timestamp};

/// The parameters of GCRA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gcra {
    rate: Rate,
}

/// The state of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The theoretical arrival time, at the start of a tick …
    pub arrival: Timestamp,
    /// … and parts of a tick, `refill'` of which make one.
    pub part: u64,
}

impl Gcra {
    /// At most `rate`, with its capacity as burst.
    pub const fn new(rate: Rate) -> Self {
        Self { rate }
    }

    /// Its rate.
    pub const fn rate(&self) -> &Rate {
        &self.rate
    }

    /// Decides `cost` at `now`.
    pub fn step(&self, state: &mut State, now: Timestamp, cost: Cost) -> Verdict {
        let (rate, tick) = (&self.rate, self.rate.tick_of(now));
        let missing = self.missing(state, tick);
        let (allowed, after, wanted) = rate.charge(missing, cost);
        if after != missing {
            *state = match after {
                0 => State::default(),
                missing => State {
                    arrival: rate.moment(tick + missing / rate.refill()),
                    part: missing % rate.refill(),
                },
            };
        }
        rate.verdict(allowed, missing, after, wanted, tick, now)
    }

    /// Units missing from a full bucket at `tick`. An arrival time further away
    /// than an empty bucket's comes from a clock that has stepped back. By a
    /// little: the bucket counts as empty. By more than the time it takes to
    /// fill: what it meant is unknown, and nobody shall wait for the whole step.
    fn missing(&self, state: &State, tick: u64) -> u64 {
        let arrival = self.rate.tick_of(state.arrival);
        let ahead = arrival.saturating_sub(tick);
        if arrival < tick || ahead > 2 * self.rate.full_ticks() {
            return 0;
        }
        (ahead * self.rate.refill() + state.part).min(self.rate.full())
    }
}

impl State {
    /// When the state is as good as none; parts of a tick may need a whole one,
    /// which is a second at most.
    pub const fn expires_at(&self) -> Timestamp {
        if self.part == 0 { self.arrival } else { self.arrival.plus(Span::from_secs(1)) }
    }
}

impl fmt::Display for Gcra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gc{}", self.rate)
    }
}
