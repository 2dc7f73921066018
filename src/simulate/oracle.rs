//! The exact answers that algorithms are compared with, written as plainly as
//! their definitions: whole numbers, no ticks, nothing shared with `limit`.

use std::collections::VecDeque;

use super::Settings;
use crate::units::Timestamp;

/// An exact sliding window over what an algorithm has let pass.
#[derive(Clone, Debug)]
pub struct Oracle {
    limit: usize,
    window: u64,
    passed: VecDeque<u64>,
}

impl Oracle {
    /// One for the limit that is simulated.
    pub fn new(settings: &Settings) -> Self {
        Self {
            limit: settings.limit as usize,
            window: settings.window.as_micros(),
            passed: VecDeque::new(),
        }
    }

    /// Whether one more hit would be within the limit. A hit of exactly the
    /// window's age has left it.
    pub fn has_room(&mut self, now: Timestamp) -> bool {
        let now = now.as_micros();
        while self.passed.front().is_some_and(|&at| at + self.window <= now) {
            self.passed.pop_front();
        }
        self.passed.len() < self.limit
    }

    /// Notes that a hit has passed; tells how many the window then holds.
    pub fn admit(&mut self, now: Timestamp) -> u64 {
        self.passed.push_back(now.as_micros());
        self.passed.len() as u64
    }
}

/// What an algorithm promises, as one would write it down: asked hit by hit, it
/// says which pass.
#[derive(Clone, Debug)]
pub enum Definition {
    /// So many hits in each window of the clock.
    FixedWindow {
        /// The most.
        limit: i128,
        /// How long a window is.
        window: i128,
        /// Which window was last counted, and its count.
        count: (i128, i128),
    },
    /// So many in any stretch of a window.
    SlidingLog(Oracle),
    /// This window's hits, and the previous one's by the share that still counts.
    SlidingCounter {
        /// The most.
        limit: i128,
        /// How long a window is.
        window: i128,
        /// Which window was last counted, its count and that of the one before.
        counts: (i128, i128, i128),
    },
    /// Tokens that come back steadily.
    Bucket {
        /// Most tokens.
        capacity: i128,
        /// Tokens that come back …
        refill: i128,
        /// … in this time.
        period: i128,
        /// Tokens times the period, and when that was true.
        level: (i128, i128),
    },
    /// So many failures within a window lock for a while.
    Lockout {
        /// The failure that locks.
        most: usize,
        /// How long a failure counts.
        window: i128,
        /// How long a lock lasts.
        lock: i128,
        /// Moments of failures.
        failures: VecDeque<i128>,
        /// When the lock ends.
        until: i128,
    },
}

impl Definition {
    /// Whether the hit at `now` passes.
    pub fn admits(&mut self, now: Timestamp) -> bool {
        let at = i128::from(now.as_micros());
        match self {
            Self::FixedWindow { limit, window, count } => {
                if count.0 != at / *window {
                    *count = (at / *window, 0);
                }
                count.1 += 1;
                count.1 <= *limit
            }
            Self::SlidingLog(log) => {
                let passes = log.has_room(now);
                if passes {
                    log.admit(now);
                }
                passes
            }
            Self::SlidingCounter { limit, window, counts } => {
                let current = at / *window;
                if counts.0 != current {
                    let previous = if counts.0 + 1 == current { counts.1 } else { 0 };
                    *counts = (current, 0, previous);
                }
                let covered = *window - at % *window;
                let passes = counts.2 * covered + (counts.1 + 1) * *window <= *limit * *window;
                counts.1 += i128::from(passes);
                passes
            }
            Self::Bucket { capacity, refill, period, level } => {
                let come = level.0 + (at - level.1) * *refill;
                *level = (come.min(*capacity * *period), at);
                let passes = level.0 >= *period;
                level.0 -= if passes { *period } else { 0 };
                passes
            }
            Self::Lockout { most, window, lock, failures, until } => {
                if at < *until {
                    return false;
                }
                failures.retain(|&failure| failure + *window > at);
                failures.push_back(at);
                if failures.len() >= *most {
                    failures.clear();
                    *until = at + *lock;
                }
                true
            }
        }
    }
}
