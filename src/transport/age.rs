//! How old connections may become.

use std::time::Duration;

use crate::units::Span;

/// A bound for the age of connections, so that clients come to know of new
/// instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Age {
    /// After this time a client is told to connect anew; zero for never.
    pub most: Span,
    /// How long its calls in flight may take after that; zero for as long as they
    /// will.
    pub grace: Span,
}

/// By how many percent a connection may become older, or is ended sooner, than
/// asked for, so that those which were made together do not all end together.
const SPREAD: u64 = 10;

impl Age {
    /// Any age.
    pub const ANY: Self = Self { most: Span::ZERO, grace: Span::ZERO };

    /// When to end one connection, if ever.
    pub(super) fn one(self) -> Option<Duration> {
        let most = self.most.as_micros();
        let percent = fastrand::u64(100 - SPREAD..=100 + SPREAD);
        let micros = u128::from(most) * u128::from(percent) / 100;
        let micros = u64::try_from(micros).unwrap_or(u64::MAX);
        (!self.most.is_zero()).then(|| Duration::from(Span::from_micros(micros)))
    }

    /// Waits until calls in flight have had their time.
    pub(super) async fn grace(self) {
        if self.grace.is_zero() {
            std::future::pending::<()>().await;
        } else {
            tokio::time::sleep(Duration::from(self.grace)).await;
        }
    }
}

/// Waits until `after`, if it ever comes.
pub(super) async fn over(after: Option<Duration>) {
    match after {
        Some(after) => tokio::time::sleep(after).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_spread_around_what_was_asked_for() {
        let age = Age { most: Span::from_secs(100), grace: Span::ZERO };
        let ages: Vec<u64> = (0..200).filter_map(|_| Some(age.one()?.as_secs())).collect();
        assert!(ages.iter().all(|age| (90..=110).contains(age)), "{ages:?}");
        assert!(ages.iter().min() < ages.iter().max());
        assert_eq!(Age::ANY.one(), None);
    }
}
