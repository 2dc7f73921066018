//! Limits for embedding: the algorithms and stores without the service. All
//! that it takes is re-exported here.
//!
//! ```
//! use tidegate::limiter::{Limiter, ManualClock, Span, Timestamp};
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
//! Several rates must all pass; what one refuses consumes nothing in the others,
//! and the strictest answers:
//!
//! ```
//! use tidegate::limiter::{Hits, Limiter, ManualClock, Span, Timestamp};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let clock = ManualClock::at(Timestamp::from_secs(1_796_004_780));
//! let api = Limiter::from_yaml("api", "{algorithm: gcra, rates: [10/s, 12/m]}")
//!     .unwrap()
//!     .with_clock(clock.clone().into());
//! assert_eq!(api.check("key", 10).await.unwrap().remaining, Hits::ZERO);
//!
//! clock.advance(Span::from_secs(1));
//! let refused = api.check("key", 3).await.unwrap();
//! assert!(!refused.allowed);
//! // 10 of 12 are gone, and one comes back every five seconds.
//! assert_eq!(refused.retry_after, Span::from_secs(4));
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
//!
//! Limits can be made without YAML as well, and share a store:
//!
//! ```
//! use std::sync::Arc;
//! use tidegate::limiter::{Hits, Limit, Limiter, MemoryStore, Rate, Span, Store, TokenBucket};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! // 100 a minute, at most 10 at once; counters take 16 MiB at most.
//! let rate = Rate::new(Hits::new(10), Hits::new(100), Span::from_secs(60)).unwrap();
//! let store = Arc::new(Store::Memory(MemoryStore::new(16 << 20)));
//! let users = Limiter::new("users", Limit::TokenBucket(TokenBucket::new(rate)))
//!     .with_store(store.clone());
//! assert_eq!(users.check("all", 4).await.unwrap().remaining, Hits::new(6));
//! # });
//! ```

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

pub use crate::clock::{Clock, ManualClock};
pub use crate::limit::calendar::{Calendar, Tz};
pub use crate::limit::fixed_window::Align;
pub use crate::limit::{
    FixedWindow, Gcra, Limit, Lockout, ParameterError, Rate, SlidingCounter, SlidingLog,
    TokenBucket, Unit, Verdict,
};
pub use crate::policy::LoadError;
pub use crate::policy::address::{AddressPolicy, IpNet};
pub use crate::store::memory::MemoryStore;
pub use crate::store::{Store, StoreError};
pub use crate::units::{Hits, Span, Timestamp};

use crate::limit::Cost;
use crate::policy::rates_from_yaml;
use crate::store::{Charge, ChargeMode, HashTag, Plan, Role, Tag};

/// One limit, or several that must all pass, for any number of keys.
#[derive(Clone, Debug)]
pub struct Limiter {
    name: Arc<str>,
    limits: SmallVec<[(Limit, Tag); 2]>,
    store: Arc<Store>,
    clock: Clock,
}

impl Limiter {
    /// A limiter in memory. `name` tells its keys from those of others in the
    /// same store.
    pub fn new(name: &str, limit: Limit) -> Self {
        Self::of(name, smallvec![(limit, Tag::of(&limit))])
    }

    fn of(name: &str, limits: SmallVec<[(Limit, Tag); 2]>) -> Self {
        Self {
            name: name.into(),
            limits,
            store: Arc::new(Store::Memory(MemoryStore::default())),
            clock: Clock::default(),
        }
    }

    /// A limiter as a rule's `rate_limit` writes it, several `rates` included.
    ///
    /// # Errors
    /// Every fault in `yaml`.
    pub fn from_yaml(name: &str, yaml: &str) -> Result<Self, LoadError> {
        let rates = rates_from_yaml(name, yaml)?;
        let limits = rates.iter().map(|rate| (*rate.limit(), rate.tag().clone()));
        Ok(Self::of(name, limits.collect()))
    }

    /// The same with one more limit: what one refuses consumes nothing in any.
    #[must_use]
    pub fn and(mut self, limit: Limit) -> Self {
        self.limits.push((limit, Tag::of(&limit)));
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
        let hash_tag = self.store.is_clustered().then_some(HashTag::Entries);
        for (limit, tag) in &self.limits {
            let mut writer = plan.keys.tagged_writer(&self.name, hash_tag);
            writer.entry("", key);
            let key = writer.finish_as(tag);
            let limit = if self.limits.len() > 1 { limit.refusing_for_free() } else { *limit };
            plan.charges.push(Charge {
                limit,
                key,
                cost,
                role: Role::Enforced,
                joined: false,
                lease: None,
            });
        }
        let verdicts = self.store.decide(&plan).await?;
        let strictest = Verdict::strictest(&verdicts).map(|(_, verdict)| verdict);
        strictest.ok_or_else(|| StoreError::Protocol("no verdict".to_owned()))
    }
}
