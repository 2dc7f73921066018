//! The algorithms that are compared, all with the same limit.

use std::collections::VecDeque;

use super::Settings;
use super::oracle::{Definition, Oracle};
use crate::limit::{
    FixedWindow, Gcra, Limit, Lockout, ParameterError, Rate, SlidingCounter, SlidingLog,
    TokenBucket, lockout,
};
use crate::limiter::Limiter;
use crate::store::StoreError;
use crate::units::Hits;

/// An algorithm with its parameters and its definition.
#[derive(Clone, Debug)]
pub struct Contender {
    /// What rules call it.
    pub name: &'static str,
    /// The algorithm.
    pub limit: Limit,
    /// What it promises.
    pub definition: Definition,
}

impl Contender {
    /// How many hits fill a counter. A lockout forgets failures when it locks.
    pub fn fills_with(&self) -> u64 {
        let most = self.limit.ceiling().get();
        if matches!(self.limit, Limit::Lockout(_)) { most - 1 } else { most }
    }

    /// Whether one more hit passes. To a lockout each is a failed attempt: it is
    /// asked first, and told of the failure if the attempt could be made.
    ///
    /// # Errors
    /// If the store does not decide.
    pub async fn decide(&self, limiter: &Limiter, key: &str) -> Result<bool, StoreError> {
        if !matches!(self.limit, Limit::Lockout(_)) {
            return Ok(limiter.check(key, 1).await?.allowed);
        }
        let may_try = limiter.peek(key).await?.allowed;
        if may_try {
            limiter.record_failure(key).await?;
        }
        Ok(may_try)
    }
}

/// Every algorithm that can hold the limit. A lockout locks for as long as its
/// window is, and has at most [`lockout::MOST_ATTEMPTS`] attempts.
///
/// # Errors
/// If there is no such limit.
pub fn contenders(settings: &Settings) -> Result<Vec<Contender>, ParameterError> {
    let Settings { limit: amount, window: span, burst, .. } = *settings;
    let (hits, window) = (Hits::from(amount), i128::from(span.as_micros()));
    let limit = i128::from(amount);
    let rate = Rate::new(Hits::from(burst), hits, span)?;
    let bucket = || Definition::Bucket {
        capacity: burst.into(),
        refill: limit,
        period: window,
        level: (i128::from(burst) * window, 0),
    };
    let counter = Definition::SlidingCounter { limit, window, counts: (0, 0, 0) };
    let log = SlidingLog::new(hits, span, crate::units::Span::ZERO, amount)?;
    let mut all = vec![
        contender(
            Limit::FixedWindow(FixedWindow::new(hits, span)?),
            Definition::FixedWindow { limit, window, count: (0, 0) },
        ),
        contender(Limit::SlidingLog(log), Definition::SlidingLog(Oracle::new(settings))),
        contender(Limit::SlidingCounter(SlidingCounter::new(hits, span)?), counter),
        contender(Limit::TokenBucket(TokenBucket::new(rate)), bucket()),
        contender(Limit::Gcra(Gcra::new(rate)), bucket()),
    ];
    if amount <= lockout::MOST_ATTEMPTS {
        let failures = VecDeque::new();
        let definition =
            Definition::Lockout { most: amount as usize, window, lock: window, failures, until: 0 };
        all.push(contender(Limit::Lockout(Lockout::new(hits, span, span)?), definition));
    }
    Ok(all)
}

fn contender(limit: Limit, definition: Definition) -> Contender {
    let name = match limit {
        Limit::FixedWindow(_) => "fixed_window",
        Limit::SlidingLog(_) => "sliding_window_log",
        Limit::SlidingCounter(_) => "sliding_window_counter",
        Limit::TokenBucket(_) => "token_bucket",
        Limit::Gcra(_) => "gcra",
        Limit::Lockout(_) => "lockout",
    };
    Contender { name, limit, definition }
}
