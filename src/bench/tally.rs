//! What came of the calls of one round.

use std::collections::BTreeMap;
use std::mem;
use std::time::{Duration, Instant};

use hdrhistogram::{CreationError, Histogram};
use parking_lot::Mutex;

use super::tickets::Tickets;

/// Longest latency that is told apart, in microseconds.
const MAX_MICROS: u64 = 60_000_000;
/// Digits of a latency that are kept.
const DIGITS: u8 = 3;
/// Name of calls that were still open when patience ended.
pub const UNANSWERED: &str = "unanswered";

/// What came of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// May pass.
    Ok,
    /// May not.
    OverLimit,
    /// No decision; the name of the gRPC status, or what was wrong.
    Failed(String),
}

/// Counts and latencies.
#[derive(Debug)]
pub struct Tally {
    /// Calls sent.
    pub sent: u64,
    /// Calls answered OK.
    pub ok: u64,
    /// Calls answered `OVER_LIMIT`.
    pub over_limit: u64,
    /// Calls without a decision, by name.
    pub errors: BTreeMap<String, u64>,
    /// Calls that fell due and were not even sent.
    pub unsent: u64,
    /// Microseconds from when a call was due to its answer, whatever it was.
    pub latency: Histogram<u64>,
    /// From the start of the round to the last answer.
    pub elapsed: Duration,
    last: Option<Instant>,
}

/// A tally that all threads write to. They hold it for some nanoseconds per
/// call.
#[derive(Debug)]
pub struct Shared(Mutex<Tally>);

impl Tally {
    /// Nothing yet.
    pub fn new() -> Result<Self, CreationError> {
        Ok(Self {
            sent: 0,
            ok: 0,
            over_limit: 0,
            errors: BTreeMap::new(),
            unsent: 0,
            latency: Histogram::new_with_bounds(1, MAX_MICROS, DIGITS)?,
            elapsed: Duration::ZERO,
            last: None,
        })
    }

    /// Counts a call that was due at `due` and answered at `answered`.
    pub fn record(&mut self, due: Instant, answered: Instant, outcome: Outcome) {
        let latency = answered.saturating_duration_since(due).as_micros();
        self.latency.saturating_record(u64::try_from(latency).unwrap_or(u64::MAX));
        self.last = self.last.max(Some(answered));
        match outcome {
            Outcome::Ok => self.ok += 1,
            Outcome::OverLimit => self.over_limit += 1,
            Outcome::Failed(name) => *self.errors.entry(name).or_default() += 1,
        }
    }

    /// Calls with a decision.
    pub fn decisions(&self) -> u64 {
        self.ok + self.over_limit
    }

    /// Adds what can be known only at the end of the round.
    pub fn close(&mut self, tickets: &Tickets) {
        let open = self.sent - self.decisions() - self.errors.values().sum::<u64>();
        if open > 0 {
            self.errors.insert(UNANSWERED.into(), open);
        }
        self.unsent = tickets.untaken();
        let last = self.last.unwrap_or_else(Instant::now);
        self.elapsed = last.saturating_duration_since(tickets.start());
    }
}

impl Shared {
    /// Shares `tally`.
    pub fn new(tally: Tally) -> Self {
        Self(Mutex::new(tally))
    }

    /// Counts a call that is being sent.
    pub fn sent(&self) {
        self.0.lock().sent += 1;
    }

    /// See [`Tally::record`].
    pub fn record(&self, due: Instant, answered: Instant, outcome: Outcome) {
        self.0.lock().record(due, answered, outcome);
    }

    /// Everything counted so far, with `fresh` in its place.
    pub fn take(&self, fresh: Tally) -> Tally {
        mem::replace(&mut self.0.lock(), fresh)
    }
}
