//! Which keys are asked: the same ones in the same order for the same seed.

use std::fmt;
use std::sync::Arc;

/// Most keys that can be drawn from.
pub const MAX_KEYS: u32 = 10_000_000;

/// An odd number with well-mixed bits: steps from one seed to the next.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// How often each key is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// All alike.
    Uniform,
    /// The k-th as often as 1/k^exponent.
    Zipf {
        /// Zero is uniform; real traffic is often near one.
        exponent: f64,
    },
    /// The first with this share, the others alike.
    Hot {
        /// From 0 to 1.
        share: f64,
    },
}

/// Keys to draw from: the numbers below their count.
#[derive(Clone, Debug)]
pub struct Keys {
    count: u32,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    Uniform,
    /// The share of all keys up to each one.
    Zipf(Arc<[f64]>),
    Hot(f64),
}

impl Keys {
    /// `count` keys (at least one, at most [`MAX_KEYS`]), asked as often as
    /// `distribution` says.
    pub fn new(count: u32, distribution: Distribution) -> Self {
        let count = count.clamp(1, MAX_KEYS);
        let shape = match distribution {
            Distribution::Uniform => Shape::Uniform,
            Distribution::Hot { share } => Shape::Hot(share),
            Distribution::Zipf { exponent } => Shape::Zipf(cumulated(count, exponent)),
        };
        Self { count, shape }
    }

    /// How many keys there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The next key that `random` picks.
    pub fn draw(&self, random: &mut fastrand::Rng) -> u32 {
        match &self.shape {
            Shape::Uniform => random.u32(..self.count),
            Shape::Hot(share) if self.count == 1 || random.f64() < *share => 0,
            Shape::Hot(_) => random.u32(1..self.count),
            Shape::Zipf(cumulated) => {
                let at = random.f64();
                let key = cumulated.partition_point(|&upto| upto <= at);
                u32::try_from(key).unwrap_or(u32::MAX).min(self.count - 1)
            }
        }
    }
}

/// The randomness of the call with this number: calls can be handed out to any
/// thread and still ask the same keys.
pub fn random_of(seed: u64, number: u64) -> fastrand::Rng {
    fastrand::Rng::with_seed(seed.wrapping_add(number.wrapping_mul(STEP)))
}

fn cumulated(count: u32, exponent: f64) -> Arc<[f64]> {
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=count)
        .map(|rank| {
            sum += f64::from(rank).powf(-exponent);
            sum
        })
        .collect();
    sums.into_iter().map(|part| part / sum).collect()
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf { exponent } => write!(f, "zipf {exponent}"),
            Self::Hot { share } => write!(f, "{}% on one", share * 100.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u32 = 200_000;

    /// The share of each key in many draws.
    fn shares(count: u32, distribution: Distribution) -> Vec<f64> {
        let keys = Keys::new(count, distribution);
        let mut seen = vec![0_u32; count as usize];
        for number in 0..DRAWS {
            seen[keys.draw(&mut random_of(7, number.into())) as usize] += 1;
        }
        seen.into_iter().map(|times| f64::from(times) / f64::from(DRAWS)).collect()
    }

    fn assert_near(share: f64, expected: f64) {
        // Five standard deviations of a share in so many draws.
        let tolerance = 5.0 * (expected * (1.0 - expected) / f64::from(DRAWS)).sqrt();
        assert!((share - expected).abs() <= tolerance, "{share} instead of {expected}");
    }

    #[test]
    fn uniform_keys_are_asked_alike() {
        for share in shares(20, Distribution::Uniform) {
            assert_near(share, 0.05);
        }
    }

    #[test]
    fn the_hot_key_has_its_share_and_the_others_the_rest() {
        let shares = shares(11, Distribution::Hot { share: 0.9 });
        assert_near(shares[0], 0.9);
        for share in &shares[1..] {
            assert_near(*share, 0.01);
        }
    }

    #[test]
    fn zipf_falls_with_the_rank() {
        // 1 + 1/2 + 1/3 + 1/4 = 25/12.
        let shares = shares(4, Distribution::Zipf { exponent: 1.0 });
        for (rank, share) in (1..).zip(&shares) {
            assert_near(*share, 12.0 / 25.0 / f64::from(rank));
        }
    }

    #[test]
    fn zipf_without_exponent_is_uniform() {
        for share in shares(5, Distribution::Zipf { exponent: 0.0 }) {
            assert_near(share, 0.2);
        }
    }

    #[test]
    fn keys_stay_below_their_count() {
        for distribution in [
            Distribution::Uniform,
            Distribution::Zipf { exponent: 1.0 },
            Distribution::Hot { share: 0.0 },
            Distribution::Hot { share: 1.0 },
        ] {
            let keys = Keys::new(1, distribution);
            assert!((0..1_000).all(|n| keys.draw(&mut random_of(1, n)) == 0), "{distribution}");
        }
    }

    #[test]
    fn a_seed_says_everything() {
        let keys = Keys::new(1_000, Distribution::Zipf { exponent: 1.0 });
        let asked = |seed| -> Vec<u32> {
            (0..100).map(|number| keys.draw(&mut random_of(seed, number))).collect()
        };
        assert_eq!(asked(1), asked(1));
        assert_ne!(asked(1), asked(2));
    }
}
