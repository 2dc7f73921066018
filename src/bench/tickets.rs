//! When each call is due.
//!
//! In the closed loop a call is due when a worker takes it. In the open loop
//! calls are due at fixed moments, whatever becomes of earlier ones, and their
//! latency counts from there: a server that stalls is charged for every call
//! that had to wait, not only for the few that it held (no coordinated
//! omission).

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::units::Span;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// The calls of one round. Shared by all workers.
#[derive(Debug)]
pub struct Tickets {
    next: AtomicU64,
    count: u64,
    start: Instant,
    end: Instant,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    rate: NonZeroU32,
    /// One permit for each call that has fallen due.
    due: Semaphore,
}

/// Leave to make one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Which call of the round.
    pub number: u64,
    /// The moment from which its latency counts.
    pub due: Instant,
}

impl Tickets {
    /// Calls for `duration` from `start` on, at most `count`; `rate` of them per
    /// second, or as fast as they are taken.
    pub fn new(
        rate: Option<NonZeroU32>,
        count: Option<u64>,
        duration: Span,
        start: Instant,
    ) -> Self {
        Self {
            next: AtomicU64::new(0),
            count: count.unwrap_or(u64::MAX),
            start,
            end: start + Duration::from(duration),
            open: rate.map(|rate| Open { rate, due: Semaphore::new(0) }),
        }
    }

    /// When the round began.
    pub fn start(&self) -> Instant {
        self.start
    }

    /// When the last call may be sent.
    pub fn end(&self) -> Instant {
        self.end
    }

    /// The next call, once it is due; `None` when the round is over.
    pub async fn take(&self) -> Option<Ticket> {
        if let Some(open) = &self.open {
            open.due.acquire().await.ok()?.forget();
        }
        let now = Instant::now();
        if now >= self.end {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number >= self.count {
            return None;
        }
        let due = self.open.as_ref().map_or(now, |open| self.start + open.time_of(number));
        Some(Ticket { number, due })
    }

    /// Calls that fell due and were never taken, because all workers waited for
    /// answers until the end.
    pub fn untaken(&self) -> u64 {
        let Some(open) = &self.open else { return 0 };
        // One that is due at the very end cannot be sent any more.
        let within = (self.end - self.start).saturating_sub(Duration::from_nanos(1));
        let due = open.due_within(within).min(self.count);
        due.saturating_sub(self.next.load(Ordering::Relaxed))
    }

    /// Lets calls fall due until the round is over, then lets all `workers`
    /// find out. For a thread of its own: the timers of a runtime are too
    /// coarse, they tick in milliseconds.
    pub fn pace(&self, workers: usize) {
        let Some(open) = &self.open else { return };
        let mut released = 0;
        loop {
            let now = Instant::now();
            let past = now.saturating_duration_since(self.start).min(self.end - self.start);
            let due = open.due_within(past).min(self.count);
            self.release(usize::try_from(due - released).unwrap_or(0));
            released = due;
            if now >= self.end || released == self.count {
                break;
            }
            let next = self.start + open.time_of(released);
            thread::sleep(next.min(self.end).saturating_duration_since(Instant::now()));
        }
        self.release(workers);
    }

    /// Lets so many more workers go on.
    pub fn release(&self, calls: usize) {
        if let Some(open) = &self.open {
            open.due.add_permits(calls);
        }
    }
}

impl Open {
    /// When, from the start, the call with this number is due.
    fn time_of(&self, number: u64) -> Duration {
        let nanos = u128::from(number) * u128::from(NANOS_PER_SECOND) / u128::from(self.rate.get());
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// How many calls are due in the time `past`; the first is at once.
    fn due_within(&self, past: Duration) -> u64 {
        let due = past.as_nanos() * u128::from(self.rate.get()) / u128::from(NANOS_PER_SECOND);
        u64::try_from(due).unwrap_or(u64::MAX).saturating_add(1)
    }
}
