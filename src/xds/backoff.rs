//! How long to wait before trying again.

use std::time::Duration;

use crate::units::Span;

/// How waits grow, and how they are spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// After an attempt to connect that failed.
    pub connect: Span,
    /// After a stream that ended.
    pub stream: Span,
    /// No wait is longer.
    pub longest: Span,
    /// By which share of itself a wait may be shortened at random, so that many
    /// replicas do not come back all at once.
    pub jitter: f64,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// There was no connection.
    Connecting,
    /// There was one, and it or its stream ended.
    Streaming,
}

/// Waits that double with every failure until something was received.
#[derive(Debug)]
pub(super) struct Backoff {
    pace: Pace,
    failures: u32,
}

impl Backoff {
    pub(super) const fn new(pace: Pace) -> Self {
        Self { pace, failures: 0 }
    }

    /// Something was received: all is well.
    pub(super) const fn reset(&mut self) {
        self.failures = 0;
    }

    /// How long to wait now. `random` is from 0 to 1.
    pub(super) fn next_delay(&mut self, failed: Failed, random: f64) -> Duration {
        let first = match failed {
            Failed::Connecting => self.pace.connect,
            Failed::Streaming => self.pace.stream,
        };
        // A server that ends every stream at once is not to be asked without a pause.
        let first = Duration::from(first).max(Duration::from_millis(10));
        let whole = first.saturating_mul(1 << self.failures.min(16));
        let whole = whole.min(Duration::from(self.pace.longest).max(first));
        self.failures = self.failures.saturating_add(1);
        whole.mul_f64(1.0 - self.pace.jitter.clamp(0.0, 1.0) * random.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backoff(jitter: f64) -> Backoff {
        let (connect, stream) = (Span::from_secs(3), Span::from_secs(10));
        Backoff::new(Pace { connect, stream, longest: Span::from_secs(60), jitter })
    }

    #[test]
    fn waits_double_to_a_bound_until_something_comes() {
        let mut backoff = backoff(0.0);
        for seconds in [3, 6, 12, 24, 48, 60, 60] {
            let delay = backoff.next_delay(Failed::Connecting, 0.5);
            assert_eq!(delay, Duration::from_secs(seconds));
        }
        backoff.reset();
        assert_eq!(backoff.next_delay(Failed::Streaming, 0.5), Duration::from_secs(10));
        assert_eq!(backoff.next_delay(Failed::Connecting, 0.5), Duration::from_secs(6));
    }

    #[test]
    fn waits_are_shortened_at_random() {
        for (random, millis) in [(0.0, 3000), (0.5, 2250), (1.0, 1500)] {
            let delay = backoff(0.5).next_delay(Failed::Connecting, random);
            assert_eq!(delay, Duration::from_millis(millis));
        }
    }

    #[test]
    fn nothing_makes_it_hurry_without_end() {
        let none =
            Pace { connect: Span::ZERO, stream: Span::ZERO, longest: Span::ZERO, jitter: 0.0 };
        let mut backoff = Backoff::new(none);
        for _ in 0..100 {
            assert!(backoff.next_delay(Failed::Streaming, 0.0) >= Duration::from_millis(10));
        }
    }
}
