//! What a run came to: as values, as JSON, as a table and as a picture.

mod chart;
mod table;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::tally::Tally;
use super::{Options, Process};

/// What a run came to. Serializes to what `--json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Who was asked.
    pub target: String,
    /// What was asked, and how.
    pub load: Load,
    /// What came of the calls.
    pub calls: Calls,
    /// From the first call to the last answer.
    pub seconds: f64,
    /// Calls with a decision, OK or over the limit, per second.
    pub decisions_per_second: f64,
    /// How long answers took.
    pub latency: Latency,
    /// The CPU time of the processes that were to be watched.
    pub cpu: Vec<CpuUse>,
    /// The CPU time of this process, where the system tells it.
    pub client: Option<CpuUse>,
}

/// The load of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Load {
    /// How many connections there were.
    pub connections: usize,
    /// How many client threads served them.
    pub threads: usize,
    /// How many calls could wait for their answer at once.
    pub in_flight: usize,
    /// Calls due per second; absent in the closed loop.
    pub rate: Option<u32>,
    /// The domain of all requests.
    pub domain: String,
    /// The descriptors of all requests, as on the command line.
    pub descriptors: Vec<String>,
    /// From how many keys each descriptor drew.
    pub keys: u32,
    /// How it drew.
    pub distribution: String,
    /// What the sequence of keys follows from.
    pub seed: u64,
}

/// What came of the calls. All that were sent are in `ok`, `over_limit` or
/// `errors`.
#[derive(Clone, Debug, Serialize)]
pub struct Calls {
    /// Calls sent.
    pub sent: u64,
    /// Calls answered OK.
    pub ok: u64,
    /// Calls answered `OVER_LIMIT`.
    pub over_limit: u64,
    /// Calls without a decision, by gRPC status, and `unanswered` ones.
    pub errors: BTreeMap<String, u64>,
    /// Calls that fell due in the open loop but were not sent, because as many
    /// as may be in flight waited for answers.
    pub unsent: u64,
}

/// Latencies in microseconds, failed calls included and unanswered ones not.
/// In the open loop they count from when a call was due.
#[derive(Clone, Debug, Serialize)]
pub struct Latency {
    /// The mean.
    pub mean_us: f64,
    /// Half of the calls took at most this long.
    pub p50_us: u64,
    /// Nine of ten.
    pub p90_us: u64,
    /// 99 of a hundred.
    pub p99_us: u64,
    /// 999 of a thousand.
    pub p99_9_us: u64,
    /// All.
    pub max_us: u64,
    /// Points between, closer together towards the slow end.
    pub curve: Vec<Point>,
}

/// A point of the distribution of latencies.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Point {
    /// Which share of all calls, in percent …
    pub percentile: f64,
    /// … took at most this many microseconds.
    pub us: u64,
}

/// The CPU time of one process.
#[derive(Clone, Debug, Serialize)]
pub struct CpuUse {
    /// Which process.
    pub label: String,
    /// Its id.
    pub pid: u32,
    /// CPU time in seconds, of all its threads, in user and kernel mode.
    pub seconds: f64,
    /// The same in microseconds for each decision, if there was one.
    pub us_per_decision: Option<f64>,
}

impl Report {
    /// The report of a run, with the CPU time that each process of `options`
    /// used, and this process.
    pub(super) fn new(
        options: &Options,
        tally: &Tally,
        used: &[Duration],
        client: Option<(Process, Duration)>,
    ) -> Self {
        let decisions = tally.decisions();
        let watched = options.processes.iter().zip(used);
        Self {
            target: options.target.to_string(),
            load: Load::new(options),
            calls: Calls {
                sent: tally.sent,
                ok: tally.ok,
                over_limit: tally.over_limit,
                errors: tally.errors.clone(),
                unsent: tally.unsent,
            },
            seconds: tally.elapsed.as_secs_f64(),
            decisions_per_second: ratio(float(decisions), tally.elapsed.as_secs_f64())
                .unwrap_or_default(),
            latency: Latency::new(tally),
            cpu: watched.map(|(process, used)| CpuUse::new(process, *used, decisions)).collect(),
            client: client.map(|(process, used)| CpuUse::new(&process, used, decisions)),
        }
    }

    /// Calls with a decision.
    pub fn decisions(&self) -> u64 {
        self.calls.ok + self.calls.over_limit
    }

    /// Calls without a decision.
    pub fn errors(&self) -> u64 {
        self.calls.errors.values().sum()
    }

    /// The CPU time per decision, in microseconds, of the process with this
    /// label.
    pub fn cpu_of(&self, label: &str) -> Option<f64> {
        self.cpu.iter().find(|process| process.label == label)?.us_per_decision
    }
}

impl Load {
    fn new(options: &Options) -> Self {
        let ask = &options.ask;
        Self {
            connections: options.connections(),
            threads: options.threads(),
            in_flight: options.in_flight.get(),
            rate: options.rate.map(std::num::NonZero::get),
            domain: ask.domain.clone(),
            descriptors: ask.descriptors.iter().map(ToString::to_string).collect(),
            keys: ask.keys,
            distribution: ask.distribution.to_string(),
            seed: ask.seed,
        }
    }
}

impl Latency {
    fn new(tally: &Tally) -> Self {
        let latency = &tally.latency;
        Self {
            mean_us: latency.mean(),
            p50_us: latency.value_at_quantile(0.5),
            p90_us: latency.value_at_quantile(0.9),
            p99_us: latency.value_at_quantile(0.99),
            p99_9_us: latency.value_at_quantile(0.999),
            max_us: latency.max(),
            curve: curve(tally),
        }
    }
}

/// Ten points for each further nine, as far as there are calls enough to tell.
fn curve(tally: &Tally) -> Vec<Point> {
    let calls = float(tally.latency.len());
    (0..=50)
        .map(|tenths| 10_f64.powf(-f64::from(tenths) / 10.0))
        .take_while(|rest| calls * rest >= 1.0)
        .map(|rest| Point {
            percentile: 100.0 * (1.0 - rest),
            us: tally.latency.value_at_quantile(1.0 - rest),
        })
        .collect()
}

impl CpuUse {
    fn new(process: &Process, used: Duration, decisions: u64) -> Self {
        let seconds = used.as_secs_f64();
        Self {
            label: process.label.clone(),
            pid: process.pid,
            seconds,
            us_per_decision: ratio(seconds * 1e6, float(decisions)),
        }
    }
}

/// `a / b` where there is any.
pub fn ratio(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}

#[allow(clippy::cast_precision_loss, reason = "counts of one run are far below 2^52")]
fn float(count: u64) -> f64 {
    count as f64
}
