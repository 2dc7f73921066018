//! Counters in Redis or Valkey, shared by all replicas.
//!
//! Decisions ride together: each lane has one connection and sends one script
//! call for all requests that wait in front of it. The script decides each
//! request as a whole, by the clock of Redis.
//!
//! Behind a circuit breaker: while Redis is away, decisions fail at once.

mod backoff;
mod breaker;
mod config;
mod credentials;
mod dial;
mod failure;
mod lane;
mod leasing;
mod msgpack;
mod parameters;
mod probe;
mod request;
mod runtime;
mod script;
mod sentinel;
mod tls;
mod upstream;
mod url;

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::lease::LeaseUsage;
use super::near::{NearCache, NearUsage, Rest};
use super::{Answer, Plan, StoreError, StoreHealth, Verdicts};
use crate::units::{Span, Timestamp};
use dial::{Link, Target};
use leasing::Leasing;
use sentinel::Sentinels;
use upstream::Upstream;
use url::Place;

pub use config::{RedisConfig, RedisConfigError};
pub use credentials::{Credentials, Password, Secret};
pub use runtime::ScriptRuntime;
pub use tls::{Identity, Tls};

/// How long [`RedisStore::ping`] waits: it asks whether Redis answers at all.
const PING_DEADLINE: Span = Span::from_millis(500);

/// Counters in Redis.
#[derive(Debug)]
pub struct RedisStore {
    upstream: Arc<Upstream>,
    near: Option<Arc<NearCache>>,
    leasing: Arc<Leasing>,
    deadline: Span,
    /// What serves the lanes; ended when the store is dropped.
    _tasks: JoinSet<()>,
}

impl RedisStore {
    /// A store in the Redis that `config` names. Does not wait for it: while
    /// it is away, decisions fail, and once it is there they succeed.
    ///
    /// # Errors
    /// When `config` cannot work, or outside a Tokio runtime.
    pub fn connect(config: &RedisConfig) -> Result<Self, RedisConfigError> {
        let place = config.place()?;
        if config.deadline.is_zero() {
            return Err(RedisConfigError::Deadline);
        }
        let runtime = Handle::try_current().map_err(|_| RedisConfigError::Runtime)?;
        let mut tasks = JoinSet::new();
        let (tls, script) = (config.tls.clone(), config.script);
        let target = match place {
            Place::Server(server) => Target::Server(Arc::new(server)),
            Place::Sentinel(watched) => {
                let credentials = config.sentinel_credentials.clone();
                let link = Link { credentials, tls: tls.clone(), script };
                let sentinels = Arc::new(Sentinels::new(watched, link));
                tasks.spawn_on(Arc::clone(&sentinels).follow(), &runtime);
                Target::Master(sentinels)
            }
        };
        let link = Link { credentials: config.credentials.clone(), tls, script };
        let (upstream, lanes) = Upstream::new(&target, &link, config)?;
        for lane in lanes {
            tasks.spawn_on(lane, &runtime);
        }
        let upstream = Arc::new(upstream);
        tasks.spawn_on(probe::watch(Arc::clone(&upstream), config.deadline), &runtime);
        let near = config.near.map(|config| Arc::new(NearCache::new(config)));
        let leasing = Leasing::new(Arc::clone(&upstream), near.clone(), config.deadline);
        let leasing = Arc::new(leasing);
        tasks.spawn_on(Arc::clone(&leasing).run(), &runtime);
        Ok(Self { upstream, near, leasing, deadline: config.deadline, _tasks: tasks })
    }

    /// Decides all charges of `plan` atomically.
    ///
    /// A caller that stops waiting may or may not have been counted.
    ///
    /// # Errors
    /// When Redis did not decide, or not within the deadline.
    pub async fn decide(&self, plan: &Plan) -> Result<Verdicts, StoreError> {
        self.answer(plan).await.map(|answer| answer.verdicts)
    }

    /// The same, and where the verdicts come from.
    ///
    /// # Errors
    /// When Redis did not decide, or not within the deadline.
    pub async fn answer(&self, plan: &Plan) -> Result<Answer, StoreError> {
        if plan.charges.is_empty() {
            return Ok(Answer::default());
        }
        if let Some(verdict) = self.leasing.serve(plan) {
            return Ok(Answer::from(Verdicts::from_iter([verdict])));
        }
        let _forgetting = self.leasing.forgetting(plan);
        let Some(near) = &self.near else {
            return self.leasing.decide(plan).await.map(Answer::from);
        };
        let question = near.question(plan);
        let said = match question.rest() {
            Rest::Nothing => Verdicts::new(),
            Rest::Everything => self.leasing.decide(plan).await?,
            Rest::Part(part) => self.upstream.decide(&part, self.deadline).await?.verdicts,
        };
        Ok(question.complete(said))
    }

    /// Gives back what is leased, as before the process ends. `pinned` is what a
    /// manual clock shows, where plans follow one.
    pub async fn return_leases(&self, pinned: Option<Timestamp>) {
        self.leasing.end_all(pinned).await;
    }

    /// What was done with leases since the start.
    pub fn lease_usage(&self) -> LeaseUsage {
        self.leasing.usage()
    }

    /// Frees what is past in the near cache, and tells what it then holds; `None`
    /// if there is no near cache.
    pub fn sweep(&self) -> Option<NearUsage> {
        let near = self.near.as_ref()?;
        near.sweep();
        Some(near.usage())
    }

    /// Asks Redis for a decision that nobody needs, now and with more patience
    /// than callers have: shows that it can be reached and lets us decide.
    /// Decisions follow from what comes of it.
    ///
    /// # Errors
    /// When a decision would fail now; the error says why.
    pub async fn ping(&self) -> Result<(), StoreError> {
        probe::ask(&self.upstream, PING_DEADLINE.max(self.deadline)).await
    }

    /// What is known of Redis, and what will be.
    pub fn health(&self) -> watch::Receiver<StoreHealth> {
        self.upstream.breaker().health()
    }
}
