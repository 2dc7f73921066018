//! How long to wait before connecting again.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::time::Duration;

const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_millis(500);

/// Waits that double from 50 ms to 500 ms, each shortened at random by up to a
/// half, so that the lanes of many replicas do not come back all at once.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
    attempts: u32,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: SHORTEST, attempts: 0 }
    }
}

impl Backoff {
    /// How often it was waited.
    pub(super) const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// How long to wait now.
    pub(super) fn next_delay(&mut self) -> Duration {
        self.attempts = self.attempts.saturating_add(1);
        let whole = self.next;
        self.next = (whole * 2).min(LONGEST);
        // The standard library's source of randomness.
        let random = RandomState::new().hash_one(()) % 1_000;
        whole / 2 + whole * u32::try_from(random).unwrap_or_default() / 2_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_are_never_less_than_half() {
        let mut backoff = Backoff::default();
        for whole in [50, 100, 200, 400, 500, 500] {
            let (whole, delay) = (Duration::from_millis(whole), backoff.next_delay());
            assert!(delay >= whole / 2 && delay < whole, "{delay:?} of {whole:?}");
        }
    }
}
