//! Limits for embedding: the algorithms and stores without the service.
//!
//! ```
//! use tidegate::clock::ManualClock;
//! use tidegate::limiter::Limiter;
//! use tidegate::units::{Span, Timestamp};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! // The algorithm is configuration: change it here, and no caller changes.
//! let clock = ManualClock::at(Timestamp::from_secs(1_796_004_780));
//! let logins = Limiter::from_yaml("login", "{algorithm: sliding_window_log, limit: 5, window: 60s}")
//!     .unwrap()
//!     .with_clock(clock.clone().into());
//!
//! for _ in 0..5 {
//!     assert!(logins.check("203.0.113.9", 1).await.unwrap().allowed);
//! }
//! let refused = logins.check("203.0.113.9", 1).await.unwrap();
//! assert!(!refused.allowed);
//! assert_eq!(refused.retry_after, Span::from_secs(60));
//!
//! clock.advance(refused.retry_after);
//! assert!(logins.check("203.0.113.9", 1).await.unwrap().allowed);
//! # });
//! ```
//!
//! A lockout counts failures instead:
//!
//! ```
//! use tidegate::limiter::Limiter;
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let guard = Limiter::from_yaml(
//!     "auth",
//!     "{algorithm: lockout, max_attempts: 3, window: 60s, lockout: 300s}",
//! )
//! .unwrap();
//! // Scopes are part of the key: they isolate counters.
//! let client = "device-token/203.0.113.9";
//! for _ in 0..3 {
//!     guard.record_failure(client).await.unwrap();
//! }
//! assert!(!guard.peek(client).await.unwrap().allowed);
//! assert!(guard.peek("shared-secret/203.0.113.9").await.unwrap().allowed);
//!
//! guard.reset(client).await.unwrap();
//! assert!(guard.peek(client).await.unwrap().allowed);
//! # });
//! ```

use std::sync::Arc;

use smallvec::SmallVec;

use crate::clock::Clock;
use crate::limit::{Cost, Limit, Verdict};
use crate::policy::{LoadError, rates_from_yaml};
use crate::store::memory::MemoryStore;
use crate::store::{Charge, ChargeMode, Plan, Role, Store, StoreError};
use crate::units::Hits;

/// One limit, or several that must all pass, for any number of keys.
#[derive(Clone, Debug)]
pub struct Limiter {
    name: Arc<str>,
    limits: SmallVec<[Limit; 2]>,
    store: Arc<Store>,
    clock: Clock,
}

impl Limiter {
    /// A limiter in memory. `name` tells its keys from those of others in the
    /// same store.
    pub fn new(name: &str, limit: Limit) -> Self {
        Self {
            name: name.into(),
            limits: SmallVec::from_slice(&[limit]),
            store: Arc::new(Store::Memory(MemoryStore::default())),
            clock: Clock::default(),
        }
    }

    /// A limiter as a rule's `rate_limit` writes it, several `rates` included.
    ///
    /// # Errors
    /// Every fault in `yaml`.
    pub fn from_yaml(name: &str, yaml: &str) -> Result<Self, LoadError> {
        let mut rates = rates_from_yaml(name, yaml)?.into_iter();
        let first = rates.next().map(|quota| quota.limit);
        let more = rates.map(|quota| quota.limit);
        // A rate_limit that was accepted has at least one rate.
        let first = first.ok_or_else(|| LoadError::without_limit(name))?;
        Ok(more.fold(Self::new(name, first), Self::and))
    }

    /// The same with one more limit: what one refuses consumes nothing in any.
    #[must_use]
    pub fn and(mut self, limit: Limit) -> Self {
        self.limits.push(limit);
        self
    }

    /// The same on another store, which other limiters and processes may share.
    #[must_use]
    pub fn with_store(self, store: Arc<Store>) -> Self {
        Self { store, ..self }
    }

    /// The same under another clock.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Takes `cost` hits if they may pass; 0 only looks.
    ///
    /// # Errors
    /// If the store could not decide.
    pub async fn check(&self, key: &str, cost: u64) -> Result<Verdict, StoreError> {
        self.decide(key, Cost::take(Hits::new(cost))).await
    }

    /// Looks whether one more hit would pass (in a fixed window: whether usage
    /// is within the limit).
    ///
    /// # Errors
    /// If the store could not decide.
    pub async fn peek(&self, key: &str) -> Result<Verdict, StoreError> {
        self.decide(key, Cost::Check).await
    }

    /// Reports one failure to a lockout: the same as taking one hit.
    ///
    /// # Errors
    /// If the store could not decide.
    pub async fn record_failure(&self, key: &str) -> Result<Verdict, StoreError> {
        self.check(key, 1).await
    }

    /// Gives `cost` hits back; to a lockout, reports a success.
    ///
    /// # Errors
    /// If the store could not decide.
    pub async fn refund(&self, key: &str, cost: u64) -> Result<Verdict, StoreError> {
        self.decide(key, Cost::refund(Hits::new(cost))).await
    }

    /// Forgets `key`: its usage, its block, its lock.
    ///
    /// # Errors
    /// If the store could not decide.
    pub async fn reset(&self, key: &str) -> Result<Verdict, StoreError> {
        self.decide(key, Cost::Reset).await
    }

    async fn decide(&self, key: &str, cost: Cost) -> Result<Verdict, StoreError> {
        let pinned = self.clock.pinned();
        let mut plan = Plan {
            mode: ChargeMode::AllOrNothing,
            now: pinned.unwrap_or_else(|| self.clock.now()),
            pinned: pinned.is_some(),
            ..Plan::default()
        };
        for limit in &self.limits {
            let mut writer = plan.keys.writer(&self.name);
            writer.entry("", key);
            let key = writer.finish(limit);
            let limit = if self.limits.len() > 1 { limit.refusing_for_free() } else { *limit };
            plan.charges.push(Charge { limit, key, cost, role: Role::Enforced, joined: false });
        }
        let verdicts = self.store.decide(&plan).await?;
        let strictest = Verdict::strictest(&verdicts).map(|(_, verdict)| verdict);
        strictest.ok_or_else(|| StoreError::Protocol("no verdict".to_owned()))
    }
}
