//! What is known of a store, for operators and platforms.

use std::sync::Arc;
use std::time::Instant;

use super::StoreError;

/// Whether a store is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Circuit {
    /// Yes: it answers.
    #[default]
    Closed,
    /// No: decisions follow the failure mode at once.
    Open,
    /// Not yet: one question of our own is on its way, to see whether it answers
    /// again.
    HalfOpen,
}

impl Circuit {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Closed, Self::Open, Self::HalfOpen];

    /// Its name in metrics and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }

    /// Its number in metrics.
    pub const fn number(self) -> u8 {
        match self {
            Self::Closed => 0,
            Self::HalfOpen => 1,
            Self::Open => 2,
        }
    }
}

/// The state of a store.
#[derive(Clone, Debug, Default)]
pub struct StoreHealth {
    /// Whether it is asked.
    pub circuit: Circuit,
    /// Whether it ever answered.
    pub proven: bool,
    /// Since when it is not asked.
    pub away_since: Option<Instant>,
    /// Why it is not asked.
    pub error: Option<Arc<StoreError>>,
    /// How often it came into each state of [`Circuit::ALL`].
    pub transitions: [u64; 3],
    /// The masters of a cluster; none of a single server.
    pub masters: Option<Masters>,
}

/// How the masters of a cluster are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Masters {
    /// How many have slots.
    pub all: usize,
    /// How many of these answer.
    pub up: usize,
}

impl StoreHealth {
    /// Whether it answers, as far as is known.
    pub fn is_up(&self) -> bool {
        self.proven && self.circuit == Circuit::Closed
    }
}
