//! Numbers with a meaning: instants, spans of time and amounts of hits.
//!
//! Everything that reaches a limit fits exactly into an IEEE double, because
//! the same arithmetic also runs in Lua inside Redis: amounts stay below
//! [`Hits::MAX`] (2^52) and instants, in microseconds, below 2^53 until the
//! year 2255.

use std::fmt;
use std::time::Duration;

/// Microseconds in a second.
pub const MICROS_PER_SECOND: u64 = 1_000_000;

/// A span of time in whole microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// Longer than any wait: what was asked for can never pass.
    pub const FOREVER: Self = Self(u64::MAX);

    /// A span of `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// A span of `millis` milliseconds, saturating.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// A span of `secs` seconds, saturating.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(MICROS_PER_SECOND))
    }

    /// The span in microseconds.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The span in whole seconds, rounded up, so that whoever waits that long
    /// has waited long enough.
    pub const fn ceil_secs(self) -> u64 {
        self.0.div_ceil(MICROS_PER_SECOND)
    }

    /// The span in whole milliseconds, rounded up.
    pub const fn ceil_millis(self) -> u64 {
        self.0.div_ceil(1_000)
    }

    /// Whether the span is empty.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl From<Duration> for Span {
    /// Saturates; a span of 2^64 microseconds is 584,000 years.
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        Self::from_micros(span.0)
    }
}

impl fmt::Display for Span {
    /// `90s`, `1500ms` or `7us`: the coarsest unit that loses nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            us if us.is_multiple_of(MICROS_PER_SECOND) => write!(f, "{}s", us / MICROS_PER_SECOND),
            us if us.is_multiple_of(1_000) => write!(f, "{}ms", us / 1_000),
            us => write!(f, "{us}us"),
        }
    }
}

/// A moment: microseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The moment `micros` microseconds after the epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// The moment `secs` seconds after the epoch, saturating.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(MICROS_PER_SECOND))
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this moment is; zero when it is before, since
    /// clocks do step back.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// The moment `span` later, saturating.
    #[must_use]
    pub const fn plus(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The moment `span` earlier, not before the epoch.
    #[must_use]
    pub const fn minus(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

/// An amount of hits: a limit, a cost or a count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hits(u64);

impl Hits {
    /// No hits.
    pub const ZERO: Self = Self(0);
    /// The largest amount that is told apart. Larger ones count as this: it is
    /// far above any limit (below 2^32), and sums of two stay exact in Lua.
    pub const MAX: Self = Self(1 << 52);

    /// An amount, capped at [`Hits::MAX`].
    pub const fn new(hits: u64) -> Self {
        if hits > Self::MAX.0 { Self::MAX } else { Self(hits) }
    }

    /// The amount as a number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The sum, capped at [`Hits::MAX`].
    #[must_use]
    pub const fn plus(self, more: Self) -> Self {
        Self::new(self.0 + more.0)
    }

    /// The difference, not below zero.
    #[must_use]
    pub const fn minus(self, less: Self) -> Self {
        Self(self.0.saturating_sub(less.0))
    }

    /// The amount as the wire carries it, capped at `u32::MAX`.
    pub fn to_u32(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }

    /// Whether there is nothing.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl From<u32> for Hits {
    fn from(hits: u32) -> Self {
        Self(u64::from(hits))
    }
}

impl fmt::Display for Hits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_up_so_that_waiting_them_is_enough() {
        assert_eq!(Span::from_micros(1).ceil_secs(), 1);
        assert_eq!(Span::from_secs(3).ceil_secs(), 3);
        assert_eq!(Span::from_micros(3_000_001).ceil_secs(), 4);
    }

    #[test]
    fn amounts_neither_wrap_nor_go_below_zero() {
        assert_eq!(Hits::new(u64::MAX), Hits::MAX);
        assert_eq!(Hits::MAX.plus(Hits::MAX), Hits::MAX);
        assert_eq!(Hits::new(3).minus(Hits::new(5)), Hits::ZERO);
        assert_eq!(Hits::MAX.to_u32(), u32::MAX);
    }

    #[test]
    fn spans_print_in_the_coarsest_exact_unit() {
        assert_eq!(Span::from_secs(90).to_string(), "90s");
        assert_eq!(Span::from_millis(1500).to_string(), "1500ms");
        assert_eq!(Span::from_micros(7).to_string(), "7us");
    }
}
