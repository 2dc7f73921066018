//! Servers against each other: ratios within one round, the median of rounds.

use std::fmt;

use serde::Serialize;

use crate::results::{LaneResult, Sample, Setup};

/// The algorithms that are measured unless told otherwise: names of rules in
/// `rules.yaml`.
pub const ALGORITHMS: &str = "fixed_window,sliding_window_log,sliding_window_counter,\
                              token_bucket,gcra,lockout";
/// Ends the name of a lane with three descriptors in each request.
pub const THREE: &str = ", 3 descriptors";
/// Ends the name of a lane where most calls ask for one refused key.
pub const REFUSED: &str = ", 90% on a refused key";
/// The lane with three commands per decision on shared connections.
pub const COMMANDS: &str = "three commands, multiplexed";
/// The lane with three commands per decision on a connection of a pool.
pub const POOLED_COMMANDS: &str = "three commands, pooled";
/// Ends the name of the lane with many rules.
pub const MANY_RULES: &str = ", many rules";

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// CPU time of the server per decision.
    ServerCpu,
    /// CPU time of Redis per decision.
    RedisCpu,
    /// Decisions per second.
    Throughput,
    /// Mean latency.
    MeanLatency,
    /// What 99 of a hundred calls stay within.
    P99,
}

/// What is to be reached.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
}

/// One comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// The server in question.
    pub of: String,
    /// The one it is compared with; without one the value itself counts, in
    /// microseconds.
    pub against: Option<String>,
    /// In which respect.
    pub quantity: Quantity,
    /// What is to be reached.
    pub goal: Option<Goal>,
    /// The value of each round.
    pub values: Vec<f64>,
    /// Their median.
    pub median: f64,
    /// Whether the goal is reached, if there is one.
    pub reached: Option<bool>,
}

/// A comparison to be made.
struct Wanted {
    of: String,
    against: Option<String>,
    quantity: Quantity,
    goal: Option<Goal>,
}

/// Every comparison for which there are measurements.
pub fn all(setup: &Setup, lanes: &[LaneResult]) -> Vec<Figure> {
    wanted(setup).into_iter().filter_map(|wanted| wanted.figure(lanes)).collect()
}

/// The comparisons that matter, with the goals of this project.
fn wanted(setup: &Setup) -> Vec<Wanted> {
    use Goal::{AtLeast, AtMost};
    use Quantity::{MeanLatency, P99, RedisCpu, ServerCpu, Throughput};
    let three = |name: &str| format!("{name}{THREE}");
    let refused = |name: &str| format!("{name}{REFUSED}");
    let mut wanted = vec![
        ratio("memory", "no-op", ServerCpu, AtMost(0.9)),
        ratio("memory", "no-op", P99, AtMost(1.0)),
        ratio("memory", "no-op", Throughput, None),
        ratio("memory", "no-op per core", ServerCpu, AtMost(1.15)),
        ratio(&three("memory"), &three("no-op"), ServerCpu, AtMost(1.0)),
        ratio(&format!("memory{MANY_RULES}"), "memory", ServerCpu, AtMost(1.1)),
        ratio("Redis", POOLED_COMMANDS, Throughput, AtLeast(2.6)),
        ratio("Redis", POOLED_COMMANDS, MeanLatency, AtMost(0.5)),
        ratio("Redis", COMMANDS, Throughput, AtLeast(2.6)),
        ratio("Redis", COMMANDS, MeanLatency, AtMost(0.5)),
        ratio("Redis", "no-op", ServerCpu, AtMost(1.4)),
        ratio("Redis", "no-op", Throughput, AtLeast(0.62)),
        value("Redis", RedisCpu, AtMost(3.5)),
        ratio(&three("Redis"), "Redis", RedisCpu, AtMost(1.4)),
        ratio(&refused("Redis"), &refused("memory"), ServerCpu, AtMost(1.25)),
        ratio(&refused("Redis"), &refused("memory"), Throughput, AtLeast(0.8)),
    ];
    for algorithm in &setup.algorithms {
        wanted.push(ratio(&format!("memory {algorithm}"), "memory", ServerCpu, AtMost(1.05)));
        wanted.push(match algorithm.as_str() {
            "gcra" | "token_bucket" => value(&format!("Redis {algorithm}"), RedisCpu, AtMost(5.0)),
            _ => value(&format!("Redis {algorithm}"), RedisCpu, None),
        });
    }
    for peer in &setup.peers {
        for quantity in [Throughput, P99, ServerCpu, RedisCpu] {
            wanted.push(ratio(peer, "no-op", quantity, None));
            wanted.push(ratio("Redis", peer, quantity, None));
            wanted.push(ratio("memory", peer, quantity, None));
        }
    }
    wanted
}

fn ratio(of: &str, against: &str, quantity: Quantity, goal: impl Into<Option<Goal>>) -> Wanted {
    Wanted { of: of.into(), against: Some(against.into()), quantity, goal: goal.into() }
}

fn value(of: &str, quantity: Quantity, goal: impl Into<Option<Goal>>) -> Wanted {
    Wanted { of: of.into(), against: None, quantity, goal: goal.into() }
}

impl Wanted {
    /// `None` where one of the two was not measured.
    fn figure(self, lanes: &[LaneResult]) -> Option<Figure> {
        let find = |name: &str| lanes.iter().find(|lane| lane.name == name);
        let of = find(&self.of)?.samples.iter().map(|sample| self.quantity.of(sample));
        let values: Vec<f64> = match &self.against {
            None => of.flatten().collect(),
            Some(against) => of
                .zip(&find(against)?.samples)
                .filter_map(|(of, against)| {
                    let against = self.quantity.of(against)?;
                    (against > 0.0).then_some(of? / against)
                })
                .collect(),
        };
        let median = median(values.clone())?;
        let Self { of, against, quantity, goal } = self;
        let reached = goal.map(|goal| goal.is_reached_by(median));
        Some(Figure { of, against, quantity, goal, values, median, reached })
    }
}

impl Quantity {
    fn of(self, sample: &Sample) -> Option<f64> {
        match self {
            Self::ServerCpu => sample.server_us,
            Self::RedisCpu => sample.redis_us,
            Self::Throughput => Some(sample.decisions_per_second),
            Self::MeanLatency => Some(sample.mean_us),
            Self::P99 => Some(sample.p99_us),
        }
    }
}

impl Goal {
    fn is_reached_by(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }
}

/// The middle one, or the mean of the two in the middle; `None` of none.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = *values.get((values.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ServerCpu => "server CPU per decision",
            Self::RedisCpu => "Redis CPU per decision",
            Self::Throughput => "decisions per second",
            Self::MeanLatency => "mean latency",
            Self::P99 => "p99 latency",
        })
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "≤ {most:.2}"),
            Self::AtLeast(least) => write!(f, "≥ {least:.2}"),
        }
    }
}
