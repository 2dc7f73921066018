//! What `tidegate simulate` shows: every algorithm under the same traffic, each
//! decision compared with what an exact sliding window would have said, and what
//! a counter takes in memory and in Redis.
//!
//! The traffic is made up from a seed and the clock is moved by hand: nothing
//! waits, and the same settings give the same scores.

mod chart;
mod contender;
mod footprint;
mod oracle;
mod table;
mod traffic;

use crate::clock::ManualClock;
use crate::limit::ParameterError;
use crate::limiter::Limiter;
use crate::store::StoreError;
use crate::store::redis::RedisConfigError;
use crate::units::{Span, Timestamp};

pub use contender::{Contender, contenders};
pub use footprint::Footprint;
pub use traffic::Traffic;

use oracle::Oracle;

/// Most hits of one kind of traffic: they are all kept.
pub const MAX_HITS: f64 = 5_000_000.0;

/// What is simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Hits that a window admits.
    pub limit: u32,
    /// How long it is.
    pub window: Span,
    /// Hits that a bucket holds, which comes back at the limit per window.
    pub burst: u32,
    /// Hits per second that come on average, where the traffic is random.
    pub rate: f64,
    /// For how long they come.
    pub duration: Span,
    /// The same seed makes the same traffic.
    pub seed: u64,
}

/// Why nothing can be shown.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// There is no such limit.
    #[error("this limit cannot be: {0}")]
    Limit(#[from] ParameterError),
    /// The traffic would not fit.
    #[error(
        "these are about {hits:.0} hits, more than {MAX_HITS:.0}; choose a shorter --duration or a smaller --rate"
    )]
    TooMuch {
        /// How many.
        hits: f64,
    },
    /// A store did not decide.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There can be no Redis store.
    #[error(transparent)]
    Redis(#[from] RedisConfigError),
    /// Redis does not tell how large a key is.
    #[error("Redis does not tell how much a key takes (MEMORY USAGE): {0}")]
    MemoryUsage(String),
}

/// How one algorithm did under one kind of traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Hits that came.
    pub asked: u64,
    /// Hits that passed.
    pub admitted: u64,
    /// Passed, although an exact sliding window, over what had passed before, was
    /// full.
    pub wrongly_admitted: u64,
    /// Did not pass, although it had room.
    pub wrongly_refused: u64,
    /// Most hits that passed within any stretch of a window's length.
    pub worst_window: u64,
    /// Decisions that the algorithm's own definition makes differently.
    pub off_definition: u64,
}

/// Of one kind of traffic, how each algorithm did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contest {
    /// The traffic.
    pub traffic: Traffic,
    /// Name and score of each algorithm.
    pub scores: Vec<(&'static str, Score)>,
}

/// Everything there is to show.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was simulated.
    pub settings: Settings,
    /// One for each kind of traffic.
    pub contests: Vec<Contest>,
    /// What a counter of each algorithm takes.
    pub footprints: Vec<Footprint>,
}

/// Simulates, in memory; with the URL of a Redis, also measures counters there.
///
/// # Errors
/// If there is no such limit, too much traffic, or no answer from Redis.
pub async fn run(settings: Settings, redis: Option<&str>) -> Result<Report, SimulateError> {
    let contenders = contenders(&settings)?;
    let contests = contests(&contenders, &settings).await?;
    let footprints = footprint::measure(&contenders, &settings, redis).await?;
    Ok(Report { settings, contests, footprints })
}

async fn contests(
    contenders: &[Contender],
    settings: &Settings,
) -> Result<Vec<Contest>, SimulateError> {
    let mut contests = Vec::new();
    for traffic in Traffic::ALL {
        let hits = traffic.hits(settings)?;
        let mut scores = Vec::new();
        for contender in contenders {
            scores.push((contender.name, score(contender, settings, &hits).await?));
        }
        contests.push(Contest { traffic, scores });
    }
    Ok(contests)
}

/// Has one algorithm decide every hit, and its oracles as well.
async fn score(
    contender: &Contender,
    settings: &Settings,
    hits: &[Timestamp],
) -> Result<Score, StoreError> {
    let clock = ManualClock::default();
    let limiter = Limiter::new(contender.name, contender.limit).with_clock(clock.clone().into());
    let mut oracle = Oracle::new(settings);
    let mut definition = contender.definition.clone();
    let mut score = Score::default();
    for &now in hits {
        clock.set(now);
        let admitted = contender.decide(&limiter, "key").await?;
        let has_room = oracle.has_room(now);
        score.asked += 1;
        score.admitted += u64::from(admitted);
        score.wrongly_admitted += u64::from(admitted && !has_room);
        score.wrongly_refused += u64::from(!admitted && has_room);
        score.off_definition += u64::from(definition.admits(now) != admitted);
        if admitted {
            score.worst_window = score.worst_window.max(oracle.admit(now));
        }
    }
    Ok(score)
}

impl Score {
    /// The worst window as a multiple of `limit`.
    pub fn worst(&self, limit: u32) -> f64 {
        ratio(self.worst_window, u64::from(limit))
    }

    /// The share of decisions that let a hit pass wrongly, from 0 to 1.
    pub fn wrongly_admitted_share(&self) -> f64 {
        ratio(self.wrongly_admitted, self.asked)
    }

    /// The share of decisions that wrongly refused a hit, from 0 to 1.
    pub fn wrongly_refused_share(&self) -> f64 {
        ratio(self.wrongly_refused, self.asked)
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of hits are far below 2^52")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests;
