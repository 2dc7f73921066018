//! Where time comes from. Nothing else in the crate reads a clock to decide.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::units::{Span, Timestamp};

/// The source of "now" for decisions.
///
/// With the Redis store, decisions use the time of Redis instead, so that
/// replicas whose clocks differ still share one window; [`Clock::pinned`] says
/// when a test wants otherwise.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The clock of this machine.
    System(SystemClock),
    /// A clock that only moves when told to; for tests and simulations.
    Manual(ManualClock),
}

impl Clock {
    /// The current moment.
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System(clock) => clock.now(),
            Self::Manual(clock) => clock.now(),
        }
    }

    /// The moment that the store must use instead of its own clock, if any.
    pub fn pinned(&self) -> Option<Timestamp> {
        match self {
            Self::System(_) => None,
            Self::Manual(clock) => Some(clock.now()),
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::System(SystemClock::default())
    }
}

/// The wall clock as it was at the start, and what has passed since by the
/// monotonic clock: somebody who sets the wall clock moves no window.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    wall: Timestamp,
    start: Instant,
}

impl SystemClock {
    /// The current moment.
    pub fn now(&self) -> Timestamp {
        self.wall.plus(Span::from(self.start.elapsed()))
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { wall: Timestamp::from_micros(Span::from(since).as_micros()), start: Instant::now() }
    }
}

/// A clock under the control of whoever holds it; clones share one time.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// A clock that stands at `now`.
    pub fn at(now: Timestamp) -> Self {
        Self(Arc::new(AtomicU64::new(now.as_micros())))
    }

    /// The moment at which the clock stands.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::Acquire))
    }

    /// Moves the clock to `now`, forward or backward.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.as_micros(), Ordering::Release);
    }

    /// Moves the clock forward by `span`.
    pub fn advance(&self, span: Span) {
        self.set(self.now().plus(span));
    }
}

impl From<ManualClock> for Clock {
    fn from(clock: ManualClock) -> Self {
        Self::Manual(clock)
    }
}
