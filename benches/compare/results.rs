//! What was measured, as values.

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate::bench::Report;

use crate::figures::{self, Figure};

/// Everything. Serializes to `compare.json`.
#[derive(Debug, Serialize)]
pub struct Results {
    /// Where it was measured.
    pub machine: Machine,
    /// How.
    pub setup: Setup,
    /// The servers.
    pub lanes: Vec<LaneResult>,
    /// What they are to each other.
    pub figures: Vec<Figure>,
}

/// A machine and what runs on it.
#[derive(Debug, Serialize)]
pub struct Machine {
    /// The date, UTC.
    pub date: String,
    /// The model of its processor.
    pub processor: String,
    /// How many of its threads may be used.
    pub cores: usize,
    /// The operating system's kernel.
    pub kernel: String,
    /// Processes that wanted to run when the measurement began, on average over
    /// a minute: above zero, others disturbed it.
    pub load_before: String,
    /// Versions of programs and libraries.
    pub versions: Vec<String>,
}

/// How it was measured.
#[derive(Debug, Serialize)]
pub struct Setup {
    /// How often each server was measured.
    pub rounds: u32,
    /// How long each time.
    pub seconds: f64,
    /// Connections of the client.
    pub connections: usize,
    /// Threads of the client.
    pub client_threads: usize,
    /// Calls in flight.
    pub in_flight: usize,
    /// Algorithms that were asked for.
    pub algorithms: Vec<String>,
    /// Other servers.
    pub peers: Vec<String>,
}

/// One server, asked for one thing.
#[derive(Debug, Serialize)]
pub struct LaneResult {
    /// What it is called.
    pub name: String,
    /// What was measured in each round.
    pub samples: Vec<Sample>,
}

/// One measurement.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sample {
    /// Decisions per second.
    pub decisions_per_second: f64,
    /// Mean latency in microseconds.
    pub mean_us: f64,
    /// Median latency in microseconds.
    pub p50_us: f64,
    /// 99 of a hundred calls took at most this many microseconds.
    pub p99_us: f64,
    /// CPU time of the server per decision in microseconds.
    pub server_us: Option<f64>,
    /// CPU time of its Redis per decision in microseconds.
    pub redis_us: Option<f64>,
    /// CPU time of the client per decision in microseconds.
    pub client_us: Option<f64>,
    /// Calls answered OK.
    pub ok: u64,
    /// Calls answered `OVER_LIMIT`.
    pub over_limit: u64,
    /// Calls without a decision, by what they ended with.
    pub failed: BTreeMap<String, u64>,
}

impl Results {
    /// Puts together what was measured.
    pub fn new(machine: Machine, setup: Setup, lanes: Vec<LaneResult>) -> Self {
        let figures = figures::all(&setup, &lanes);
        Self { machine, setup, lanes, figures }
    }
}

impl LaneResult {
    /// The median over the rounds of what `quantity` says, if it is known.
    pub fn median(&self, quantity: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        figures::median(self.samples.iter().filter_map(quantity).collect())
    }
}

impl From<&Report> for Sample {
    fn from(report: &Report) -> Self {
        let latency = &report.latency;
        Self {
            decisions_per_second: report.decisions_per_second,
            mean_us: latency.mean_us,
            p50_us: float(latency.p50_us),
            p99_us: float(latency.p99_us),
            server_us: report.cpu_of("server"),
            redis_us: report.cpu_of("redis"),
            client_us: report.client.as_ref().and_then(|client| client.us_per_decision),
            ok: report.calls.ok,
            over_limit: report.calls.over_limit,
            failed: report.calls.errors.clone(),
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "latencies are far below 2^52 microseconds")]
fn float(micros: u64) -> f64 {
    micros as f64
}
