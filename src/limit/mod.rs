//! The algorithms: pure state machines without I/O, keys or clocks.
//!
//! Each algorithm is one file here and one of the same name in `lua/limit/`;
//! the two implement one specification and tests hold them equal. An algorithm
//! has parameters (made only by a checking constructor), a state (whose
//! `Default` is that of a key never seen) and one function, `step`, from state,
//! moment and cost to a [`Verdict`], changing the state in place.

pub mod calendar;
pub mod fixed_window;
pub mod gcra;
pub mod lockout;
pub mod rate;
mod share;
pub mod sliding_counter;
pub mod sliding_log;
pub mod token_bucket;
mod unit;

use std::fmt;

pub use fixed_window::FixedWindow;
pub use gcra::Gcra;
pub use lockout::Lockout;
pub use rate::Rate;
pub use sliding_counter::SlidingCounter;
pub use sliding_log::SlidingLog;
pub use token_bucket::TokenBucket;
pub use unit::Unit;

use crate::units::{Hits, Span, Timestamp};

/// What a request asks of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Look only: nothing is counted.
    Check,
    /// Take this many hits (at least one).
    Take(Hits),
    /// Give this many hits back; usage does not go below zero.
    Refund(Hits),
    /// Forget the key, a block or lock included.
    Reset,
}

impl Cost {
    /// A cost of `hits`, where none is only a check.
    pub const fn take(hits: Hits) -> Self {
        if hits.is_zero() { Self::Check } else { Self::Take(hits) }
    }

    /// A refund of `hits`, where none is only a check.
    pub const fn refund(hits: Hits) -> Self {
        if hits.is_zero() { Self::Check } else { Self::Refund(hits) }
    }
}

/// The answer of a limit to one cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the cost may pass. A refund always may.
    pub allowed: bool,
    /// What is left after this cost; zero when refused.
    pub remaining: Hits,
    /// What was left before this cost, for metrics that split a cost which
    /// crosses a threshold.
    pub remaining_before: Hits,
    /// When refused: how long until the same cost can pass, or
    /// [`Span::FOREVER`] if it is more than the limit. Otherwise zero.
    pub retry_after: Span,
    /// How long until the limit is as good as untouched.
    pub reset_after: Span,
}

impl Verdict {
    /// What several limits on one thing come to: the refusal that lasts longest
    /// or, if all pass, the least that is left. Gives its place as well; `None`
    /// of none.
    pub fn strictest(verdicts: &[Self]) -> Option<(usize, Self)> {
        let strictness = |verdict: &Self| {
            let wait = if verdict.allowed { Span::ZERO } else { verdict.retry_after };
            (verdict.allowed, std::cmp::Reverse(wait), verdict.remaining)
        };
        verdicts.iter().copied().enumerate().min_by_key(|(_, verdict)| strictness(verdict))
    }
}

/// Parameters that make no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// A window, period or lockout of no length.
    #[error("the window must be longer than nothing")]
    EmptyWindow,
    /// A rate of nothing.
    #[error("nothing is ever refilled; write how many hits come back in each period")]
    NoRefill,
    /// Amounts that doubles cannot tell apart.
    #[error(
        "{limit} in {window} is too fine to be counted exactly; \
         write a rounder amount, a shorter window or a smaller capacity"
    )]
    TooFine {
        /// The amount.
        limit: Hits,
        /// The window.
        window: Span,
    },
    /// A burst that hardly ever comes back.
    #[error(
        "{capacity} hits at once take {} days to come back, and at most 36500 are counted \
         exactly; write a smaller burst or a faster rate", .fill.as_micros() / 86_400_000_000
    )]
    TooSlow {
        /// The most hits at once.
        capacity: Hits,
        /// How long all of them take.
        fill: Span,
    },
    /// A log that would outgrow its bound.
    #[error(
        "a log of {limit} hits is above max_window_size {max_window_size}; \
         raise it, or use token_bucket or sliding_window_counter, which keep no log"
    )]
    LogTooLarge {
        /// The limit asked for.
        limit: Hits,
        /// The bound.
        max_window_size: u32,
    },
    /// No attempts, or too many.
    #[error("max_attempts is {max_attempts}; write a number from 1 to {most}")]
    Attempts {
        /// As many as were asked for.
        max_attempts: Hits,
        /// As many as there may be.
        most: u32,
    },
}

/// A limit: one algorithm with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// A counter per window.
    FixedWindow(FixedWindow),
    /// The moment of each hit.
    SlidingLog(SlidingLog),
    /// Two counters, the older one fading out.
    SlidingCounter(SlidingCounter),
    /// Tokens that come back steadily.
    TokenBucket(TokenBucket),
    /// The same, kept as one moment.
    Gcra(Gcra),
    /// Failures that lock.
    Lockout(Lockout),
}

/// The state that a limit keeps for one key. Rare and large ones are boxed, so
/// that the common ones stay small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Of [`Limit::FixedWindow`].
    FixedWindow(fixed_window::State),
    /// Of [`Limit::SlidingLog`].
    SlidingLog(Box<sliding_log::State>),
    /// Of [`Limit::SlidingCounter`].
    SlidingCounter(sliding_counter::State),
    /// Of [`Limit::TokenBucket`].
    TokenBucket(token_bucket::State),
    /// Of [`Limit::Gcra`].
    Gcra(gcra::State),
    /// Of [`Limit::Lockout`].
    Lockout(Box<lockout::State>),
}

impl Limit {
    /// The state of a key that was never seen.
    pub fn fresh(&self) -> State {
        match self {
            Self::FixedWindow(_) => State::FixedWindow(fixed_window::State::default()),
            Self::SlidingLog(_) => State::SlidingLog(Box::default()),
            Self::SlidingCounter(_) => State::SlidingCounter(sliding_counter::State::default()),
            Self::TokenBucket(_) => State::TokenBucket(token_bucket::State::default()),
            Self::Gcra(_) => State::Gcra(gcra::State::default()),
            Self::Lockout(_) => State::Lockout(Box::default()),
        }
    }

    /// Decides `cost` at `now` and updates `state`. A state of another
    /// algorithm counts as fresh (keys carry their algorithm, so it cannot
    /// meet one but by a fault).
    pub fn step(&self, state: &mut State, now: Timestamp, cost: Cost) -> Verdict {
        if cost == Cost::Reset {
            *state = self.fresh();
            return self.step(state, now, Cost::Refund(Hits::ZERO));
        }
        match (self, &mut *state) {
            (Self::FixedWindow(limit), State::FixedWindow(state)) => limit.step(state, now, cost),
            (Self::SlidingLog(limit), State::SlidingLog(state)) => limit.step(state, now, cost),
            (Self::SlidingCounter(limit), State::SlidingCounter(state)) => {
                limit.step(state, now, cost)
            }
            (Self::TokenBucket(limit), State::TokenBucket(state)) => limit.step(state, now, cost),
            (Self::Gcra(limit), State::Gcra(state)) => limit.step(state, now, cost),
            (Self::Lockout(limit), State::Lockout(state)) => limit.step(state, now, cost),
            _ => {
                *state = self.fresh();
                self.step(state, now, cost)
            }
        }
    }

    /// The same limit with refused hits not counted, as `all_or_nothing` needs.
    /// Only fixed windows ever count them.
    #[must_use]
    pub fn refusing_for_free(self) -> Self {
        match self {
            Self::FixedWindow(limit) => Self::FixedWindow(limit.with_count_refused(false)),
            other => other,
        }
    }

    /// The amount that the limit admits at most at once.
    pub fn ceiling(&self) -> Hits {
        match self {
            Self::FixedWindow(limit) => limit.limit(),
            Self::SlidingLog(limit) => limit.limit(),
            Self::SlidingCounter(limit) => limit.limit(),
            Self::TokenBucket(limit) => limit.rate().capacity(),
            Self::Gcra(limit) => limit.rate().capacity(),
            Self::Lockout(limit) => limit.max_attempts(),
        }
    }
}

impl State {
    /// The moment from which the state says nothing that a fresh one does not.
    pub fn expires_at(&self) -> Timestamp {
        match self {
            Self::FixedWindow(state) => state.expires_at(),
            Self::SlidingLog(state) => state.expires_at(),
            Self::SlidingCounter(state) => state.expires_at(),
            Self::TokenBucket(state) => state.expires_at(),
            Self::Gcra(state) => state.expires_at(),
            Self::Lockout(state) => state.expires_at(),
        }
    }

    /// How much is lost if the state is: roughly the hits that it remembers,
    /// and more than anything a block. A store that must give up a key gives
    /// up a light one.
    pub fn weight(&self) -> u64 {
        match self {
            Self::FixedWindow(state) => state.count.get(),
            Self::SlidingLog(state) if state.is_blocked() => u64::MAX,
            Self::SlidingLog(state) => state.total(),
            Self::SlidingCounter(state) => u64::from(state.current) + u64::from(state.previous),
            // Units of different limits do not compare; that one was used does.
            Self::TokenBucket(_) | Self::Gcra(_) => 1,
            Self::Lockout(state) if state.is_locked() => u64::MAX,
            Self::Lockout(state) => state.failures(),
        }
    }

    /// Bytes that the state holds on the heap.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Self::SlidingLog(state) => size_of_val(&**state) + state.heap_bytes(),
            Self::Lockout(state) => size_of_val(&**state) + state.heap_bytes(),
            _ => 0,
        }
    }
}

impl fmt::Display for Limit {
    /// What the key of a counter says of its limit: the algorithm and the
    /// parameters that give the state its meaning, but not the amounts, which
    /// may change without losing the count.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FixedWindow(limit) => limit.fmt(f),
            Self::SlidingLog(limit) => limit.fmt(f),
            Self::SlidingCounter(limit) => limit.fmt(f),
            Self::TokenBucket(limit) => limit.fmt(f),
            Self::Gcra(limit) => limit.fmt(f),
            Self::Lockout(limit) => limit.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
