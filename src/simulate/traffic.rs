//! Made-up traffic: when hits come.

use std::fmt;

use super::{MAX_HITS, Settings, SimulateError};
use crate::bench::keys::random_of;
use crate::units::{MICROS_PER_SECOND, Span, Timestamp};

/// Somewhere in the present. Windows are aligned to the epoch, and so is this.
const START: Timestamp = Timestamp::from_secs(1_796_040_000);

/// How much denser bursts are than the traffic on average …
const BURST_FACTOR: f64 = 10.0;
/// … and how long one lasts on average, in windows.
const BURST_WINDOWS: f64 = 0.2;

/// A kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// The whole limit in the last hundredth of a window, and once more in the
    /// first hundredth of the next: what fixed windows let pass. Every second
    /// boundary is left out, so that each finds windows unused.
    Boundary,
    /// Hits that know nothing of each other.
    Poisson,
    /// The same in bursts, with nothing between them.
    Bursty,
}

impl Traffic {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Boundary, Self::Poisson, Self::Bursty];

    /// When hits come, in order.
    ///
    /// # Errors
    /// If they are too many.
    pub fn hits(self, settings: &Settings) -> Result<Vec<Timestamp>, SimulateError> {
        let windows = settings.duration.as_micros().div_ceil(settings.window.as_micros().max(1));
        // A burst has one hit at least, so there are never fewer than windows.
        let hits = as_float(windows).max(match self {
            Self::Boundary => as_float(windows) * f64::from(settings.limit),
            Self::Poisson | Self::Bursty => settings.rate * seconds(settings.duration),
        });
        if settings.rate.is_nan() || hits > MAX_HITS {
            return Err(SimulateError::TooMuch { hits });
        }
        let start = START.as_micros().next_multiple_of(settings.window.as_micros().max(1));
        let start = Timestamp::from_micros(start);
        Ok(match self {
            Self::Boundary => boundary(settings, start),
            Self::Poisson => poisson(settings, start),
            Self::Bursty => bursty(settings, start),
        })
    }
}

fn boundary(settings: &Settings, start: Timestamp) -> Vec<Timestamp> {
    let window = settings.window.as_micros();
    let spread = |from: Timestamp| {
        let hits = u64::from(settings.limit);
        (0..hits).map(move |hit| from.plus(Span::from_micros(window / 100 * hit / hits)))
    };
    let boundaries = (1..).step_by(2).map(|nth: u64| Span::from_micros(window.saturating_mul(nth)));
    let boundaries = boundaries.take_while(|after| *after <= settings.duration);
    boundaries
        .flat_map(|after| {
            let turn = start.plus(after);
            spread(turn.minus(Span::from_micros(window / 100))).chain(spread(turn))
        })
        .collect()
}

fn poisson(settings: &Settings, start: Timestamp) -> Vec<Timestamp> {
    let mut random = random_of(settings.seed, 0);
    let end = start.plus(settings.duration);
    let mut now = start;
    std::iter::from_fn(|| {
        now = now.plus(pause(&mut random, settings.rate));
        (now < end).then_some(now)
    })
    .collect()
}

fn bursty(settings: &Settings, start: Timestamp) -> Vec<Timestamp> {
    let mut random = random_of(settings.seed, 1);
    let end = start.plus(settings.duration);
    let burst = 1.0 / (BURST_WINDOWS * seconds(settings.window));
    let (mut now, mut hits) = (start, Vec::new());
    while now < end {
        let over = now.plus(pause(&mut random, burst)).min(end);
        while now < over {
            hits.push(now);
            now = now.plus(pause(&mut random, BURST_FACTOR * settings.rate));
        }
        // Between them so much that the average is that of the settings.
        now = over.plus(pause(&mut random, burst / (BURST_FACTOR - 1.0)));
    }
    hits
}

/// A pause until the next of what comes so often per second; at least a
/// microsecond, so that time goes on.
#[expect(clippy::cast_possible_truncation, reason = "saturates, and is cut to what fits")]
#[expect(clippy::cast_sign_loss, reason = "a logarithm of less than one, negated")]
fn pause(random: &mut fastrand::Rng, per_second: f64) -> Span {
    let seconds = -(1.0 - random.f64()).ln() / per_second;
    Span::from_micros(((seconds * as_float(MICROS_PER_SECOND)) as u64).max(1))
}

fn seconds(span: Span) -> f64 {
    as_float(span.as_micros()) / as_float(MICROS_PER_SECOND)
}

#[expect(clippy::cast_precision_loss, reason = "spans are below 2^53 microseconds")]
fn as_float(number: u64) -> f64 {
    number as f64
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Boundary => "boundary",
            Self::Poisson => "poisson",
            Self::Bursty => "bursty",
        })
    }
}
