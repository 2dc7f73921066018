//! The algorithms: pure state machines without I/O, keys or clocks.
//!
//! Each algorithm is one file here and one of the same name in `lua/limit/`;
//! the two implement one specification and tests hold them equal. An algorithm
//! has parameters (made only by a checking constructor), a state (whose
//! `Default` is that of a key never seen) and one function, `step`, from state,
//! moment and cost to a [`Verdict`], changing the state in place.

pub mod fixed_window;
mod unit;

use std::fmt;

pub use fixed_window::FixedWindow;
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
    /// When refused: how long until the same cost can pass. Otherwise zero.
    pub retry_after: Span,
    /// How long until the limit is as good as untouched.
    pub reset_after: Span,
}

/// A limit: one algorithm with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// A counter per window.
    FixedWindow(FixedWindow),
}

/// The state that a limit keeps for one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Of [`Limit::FixedWindow`].
    FixedWindow(fixed_window::State),
}

impl Limit {
    /// The state of a key that was never seen.
    pub fn fresh(&self) -> State {
        match self {
            Self::FixedWindow(_) => State::FixedWindow(fixed_window::State::default()),
        }
    }

    /// Decides `cost` at `now` and updates `state`. A state of another
    /// algorithm counts as fresh (keys carry their algorithm, so it cannot
    /// meet one but by a fault).
    pub fn step(&self, state: &mut State, now: Timestamp, cost: Cost) -> Verdict {
        match (self, &mut *state) {
            (Self::FixedWindow(limit), State::FixedWindow(state)) => limit.step(state, now, cost),
        }
    }

    /// The same limit with refused hits not counted, as `all_or_nothing` needs.
    #[must_use]
    pub fn refusing_for_free(self) -> Self {
        match self {
            Self::FixedWindow(limit) => Self::FixedWindow(limit.with_count_refused(false)),
        }
    }

    /// The amount that the limit admits at most at once.
    pub fn ceiling(&self) -> Hits {
        match self {
            Self::FixedWindow(limit) => limit.limit(),
        }
    }
}

impl State {
    /// The moment from which the state says nothing that a fresh one does not.
    pub fn expires_at(&self) -> Timestamp {
        match self {
            Self::FixedWindow(state) => state.expires_at(),
        }
    }

    /// How much is lost if the state is: the hits that it remembers. A store
    /// that must give up a key gives up a light one.
    pub fn weight(&self) -> u64 {
        match self {
            Self::FixedWindow(state) => state.count.get(),
        }
    }

    /// Bytes that the state holds on the heap.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Self::FixedWindow(_) => 0,
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
        }
    }
}
