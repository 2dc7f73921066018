//! A steady rate in exact integers: what token bucket and GCRA have in common.
//!
//! `refill` hits in each `period` are reduced by their common divisor to
//! `refill'` in `period'` ticks. One hit is worth `period'` units and one tick
//! brings `refill'` units, so neither hits nor time are ever rounded. A tick is
//! a microsecond or, where amounts would no longer be exact in Lua, a
//! millisecond or a second.

use std::num::NonZeroU32;

use super::ParameterError;
use crate::units::{Hits, Span, Timestamp};

/// The largest number of units: exact in a double, sums of two included.
const MAX_UNITS: u64 = Hits::MAX.get();

/// A bucket is full again within 50 years: a moment as far away is exact in Lua.
const LONGEST_FILL: Span = Span::from_secs(50 * 365 * 86_400);

const TICKS: [Span; 3] = [Span::from_micros(1), Span::from_millis(1), Span::from_secs(1)];

/// A rate with room for `capacity` hits at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    capacity: Hits,
    refill: u64,
    period: u64,
    tick: Span,
}

impl Rate {
    /// `refill` hits in each `period`, at most `capacity` at once.
    ///
    /// # Errors
    /// If nothing is refilled, if the period is empty, if a full capacity takes
    /// too long to come back, or if the amounts are too large and too uneven to be
    /// exact.
    pub fn new(capacity: Hits, refill: Hits, period: Span) -> Result<Self, ParameterError> {
        if period.is_zero() {
            return Err(ParameterError::EmptyWindow);
        }
        if refill.is_zero() {
            return Err(ParameterError::NoRefill);
        }
        for tick in TICKS {
            if !period.as_micros().is_multiple_of(tick.as_micros()) {
                continue;
            }
            let ticks = period.as_micros() / tick.as_micros();
            let divisor = gcd(refill.get(), ticks);
            let rate =
                Self { capacity, refill: refill.get() / divisor, period: ticks / divisor, tick };
            let units = rate.period.checked_mul(capacity.get().max(1));
            if units.is_some_and(|units| units.saturating_add(rate.refill) <= MAX_UNITS) {
                let slow = ParameterError::TooSlow { capacity, refill, period };
                return if rate.fill_time() <= LONGEST_FILL { Ok(rate) } else { Err(slow) };
            }
        }
        Err(ParameterError::TooFine { limit: refill, window: period })
    }

    /// The same rate a number of times slower, with room for `capacity`; `None`
    /// where that cannot be exact.
    pub(super) fn slower(&self, capacity: Hits, times: NonZeroU32) -> Option<Self> {
        let ticks = self.period.checked_mul(u64::from(times.get()))?;
        let period = ticks.checked_mul(self.tick.as_micros())?;
        Self::new(capacity, Hits::new(self.refill), Span::from_micros(period)).ok()
    }

    /// The same rate with room for `capacity`, which must not be more.
    pub(super) fn holding(&self, capacity: Hits) -> Self {
        Self { capacity: capacity.min(self.capacity), ..*self }
    }

    /// The most hits at once.
    pub const fn capacity(&self) -> Hits {
        self.capacity
    }

    /// Units that a tick brings.
    pub const fn refill(&self) -> u64 {
        self.refill
    }

    /// Units that a hit is worth.
    pub const fn period(&self) -> u64 {
        self.period
    }

    /// The length of a tick.
    pub const fn tick(&self) -> Span {
        self.tick
    }

    /// Units of a full bucket.
    pub(super) const fn full(&self) -> u64 {
        self.capacity.get() * self.period
    }

    /// Ticks in which an empty bucket fills.
    pub(super) const fn full_ticks(&self) -> u64 {
        self.full().div_ceil(self.refill)
    }

    /// The tick that `now` is in.
    pub(super) const fn tick_of(&self, now: Timestamp) -> u64 {
        now.as_micros() / self.tick.as_micros()
    }

    /// The moment at which a tick begins.
    pub(super) const fn moment(&self, tick: u64) -> Timestamp {
        Timestamp::from_micros(tick.saturating_mul(self.tick.as_micros()))
    }

    /// Units of `hits`, or of one hit more than fits: that is refused alike.
    pub(super) fn units(&self, hits: Hits) -> u64 {
        hits.min(self.capacity.plus(Hits::new(1))).get() * self.period
    }

    /// Whole hits that are left when `missing` units are gone.
    pub(super) const fn left(&self, missing: u64) -> Hits {
        Hits::new(self.full().saturating_sub(missing) / self.period)
    }

    /// How long until `units` have come, counted from the start of the tick
    /// `from` and told from `now`.
    pub(super) fn wait(&self, units: u64, from: u64, now: Timestamp) -> Span {
        self.moment(from.saturating_add(units.div_ceil(self.refill))).since(now)
    }

    /// How long so many hits, at most the capacity, take to come back, up to a
    /// whole tick.
    pub fn time_for(&self, hits: Hits) -> Span {
        let ticks = self.units(hits).div_ceil(self.refill);
        Span::from_micros(ticks.saturating_mul(self.tick.as_micros()))
    }

    /// How long an empty bucket takes to fill.
    pub const fn fill_time(&self) -> Span {
        Span::from_micros(self.full_ticks().saturating_mul(self.tick.as_micros()))
    }
}

impl std::fmt::Display for Rate {
    /// `refill'/period'`, with the tick where it is not a microsecond: what the
    /// units of a stored state depend on.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.refill, Span::from_micros(self.period * self.tick.as_micros()))?;
        if self.tick == TICKS[0] { Ok(()) } else { write!(f, "@{}", self.tick) }
    }
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
