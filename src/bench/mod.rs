//! The load generator behind `tidegate bench`: asks any server of Envoy's
//! rate-limit protocol and measures decisions, latency and CPU time.
//!
//! A run is two rounds over the same connections, one to warm up and one that
//! counts. Nothing is in flight between them, so the CPU time read there
//! belongs to exactly the calls that are counted.

mod client;
pub mod cpu;
pub mod keys;
mod message;
pub mod report;
mod tally;
pub mod target;
mod tickets;

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

pub use cpu::{CpuError, Process};
pub use keys::{Distribution, Keys};
pub use message::{Shape, ShapeError};
pub use report::Report;
pub use target::{Target, TargetError};

use client::Client;
use message::Question;
use tally::Tally;
use tickets::Tickets;

use crate::units::Span;

/// Longest run, and longest warm-up.
pub const MAX_DURATION: Span = Span::from_secs(3_600);

/// What to ask.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The domain of every request.
    pub domain: String,
    /// The descriptors of every request.
    pub descriptors: Vec<Shape>,
    /// From how many keys each descriptor draws.
    pub keys: u32,
    /// How it draws.
    pub distribution: Distribution,
    /// The same seed asks the same keys in the same order.
    pub seed: u64,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whom to ask.
    pub target: Target,
    /// Ask also a server that is not on this machine.
    pub allow_remote: bool,
    /// What to ask.
    pub ask: Ask,
    /// How many connections to open.
    pub connections: NonZeroUsize,
    /// How many threads of this process serve them.
    pub threads: NonZeroUsize,
    /// How many calls may wait for their answer at once, over all connections.
    pub in_flight: NonZeroUsize,
    /// Calls per second, sent whether or not earlier ones are answered (open
    /// loop). Without it each answer is followed by the next call (closed loop).
    pub rate: Option<NonZeroU32>,
    /// How long to ask, at most [`MAX_DURATION`].
    pub duration: Span,
    /// How long to ask before that without counting.
    pub warm_up: Span,
    /// How many calls to count at most.
    pub requests: Option<u64>,
    /// How long to wait at the end for calls that are still open.
    pub patience: Span,
    /// Whose CPU time to measure.
    pub processes: Vec<Process>,
}

impl Options {
    /// How many connections there are: one that never has a call in flight is
    /// none.
    fn connections(&self) -> usize {
        self.connections.get().min(self.in_flight.get())
    }

    /// How many threads there are; each has a connection.
    fn threads(&self) -> usize {
        self.threads.get().min(self.connections())
    }
}

/// Why there is nothing to report.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The target may not or cannot be asked.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// No connection.
    #[error("cannot connect to {target}: {reason}; is the server running?")]
    Connect {
        /// Whom to.
        target: Target,
        /// What was wrong.
        reason: String,
    },
    /// The CPU time of a process cannot be read.
    #[error(transparent)]
    Cpu(#[from] CpuError),
    /// The machine gives no more threads or files.
    #[error("cannot start a client thread: {0}")]
    Runtime(#[source] std::io::Error),
    /// A bug in here.
    #[error("a client thread crashed, see above")]
    Crashed,
    /// The histogram refuses its bounds.
    #[error("cannot keep latencies: {0}")]
    Histogram(#[from] hdrhistogram::CreationError),
}

/// Does what `options` say and reports. Takes as long as they say: the warm-up,
/// the duration and, if the server stops answering, the patience after each.
///
/// # Errors
/// If the target is refused or not there, or a process to be watched is gone.
/// Calls that fail are counted, not errors.
pub fn run(options: &Options) -> Result<Report, BenchError> {
    if !options.allow_remote {
        options.target.check_local()?;
    }
    let question = Arc::new(Question::new(&options.ask));
    let clients = Client::all(options)?;
    if !options.warm_up.is_zero() {
        let tickets = Tickets::new(options.rate, None, options.warm_up, Instant::now());
        round(&clients, &question, tickets)?;
    }
    let client = Process::current("client");
    let before = (cpu::read_all(&options.processes)?, client.cpu_time());
    let tickets = Tickets::new(options.rate, options.requests, options.duration, Instant::now());
    let tally = round(&clients, &question, tickets)?;
    let used = cpu::used_since(&options.processes, &before.0)?;
    // Nobody asked for our own time; where the system does not tell it, so be it.
    let own = client.cpu_time().and_then(|after| Ok(after.saturating_sub(before.1?))).ok();
    Ok(Report::new(options, &tally, &used, own.map(|used| (client, used))))
}

/// All clients ask until the tickets are used up.
fn round(
    clients: &[Client],
    question: &Arc<Question>,
    tickets: Tickets,
) -> Result<Tally, BenchError> {
    let tickets = Arc::new(tickets);
    let tally = Arc::new(tally::Shared::new(Tally::new()?));
    let workers: usize = clients.iter().map(Client::workers).sum();
    let finished = thread::scope(|scope| {
        let pacer = scope.spawn(|| tickets.pace(workers));
        let asking: Vec<_> = clients
            .iter()
            .map(|client| scope.spawn(|| client.round(question, &tickets, &tally)))
            .collect();
        // All are waited for, also when one has failed.
        let clients: Vec<_> = asking.into_iter().map(thread::ScopedJoinHandle::join).collect();
        pacer.join().is_ok() && clients.iter().all(Result::is_ok)
    });
    if !finished {
        return Err(BenchError::Crashed);
    }
    let mut tally = tally.take(Tally::new()?);
    tally.close(&tickets);
    Ok(tally)
}

#[cfg(test)]
mod tests;
