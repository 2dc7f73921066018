//! Counters in Redis or Valkey, shared by all replicas.
//!
//! Decisions ride together: each lane has one connection and sends one script
//! call for all requests that wait in front of it. The script decides each
//! request as a whole, by the clock of Redis.
//!
//! Behind a circuit breaker: while Redis is away, decisions fail at once.
//!
//! A request whose counters lie in several places, slots of a cluster or the
//! Redis for limits of one second, is decided part by part.

mod backend;
mod backoff;
mod breaker;
mod cluster;
mod config;
mod credentials;
mod dial;
mod failure;
mod lane;
mod leasing;
mod load;
mod msgpack;
mod parameters;
mod part;
mod probe;
mod request;
mod runtime;
mod script;
mod sentinel;
mod spread;
mod tls;
mod upstream;
mod url;

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::lease::LeaseUsage;
use super::near::{NearCache, NearUsage, Rest};
use super::{Answer, Partial, Plan, StoreError, StoreHealth, Verdicts};
use crate::units::{Span, Timestamp};
use backend::{Backend, Backends};
use leasing::Leasing;

pub use config::{RedisConfig, RedisConfigError};
pub use credentials::{Credentials, Password, Secret};
pub use runtime::ScriptRuntime;
pub use tls::{Identity, Tls};

/// How long [`RedisStore::ping`] waits: it asks whether Redis answers at all.
const PING_DEADLINE: Span = Span::from_millis(500);

/// Whether connections to the Redis at `url` are encrypted; not if it is none.
pub fn is_encrypted(url: &str) -> bool {
    url::read(url).is_ok_and(|place| place.is_encrypted())
}

/// Counters in Redis.
#[derive(Debug)]
pub struct RedisStore {
    backends: Arc<Backends>,
    near: Option<Arc<NearCache>>,
    leasing: Arc<Leasing>,
    deadline: Span,
    /// What gives leases back; ended when the store is dropped.
    _tasks: JoinSet<()>,
}

impl RedisStore {
    /// A store in the Redis that `config` names. Does not wait for it: while
    /// it is away, decisions fail, and once it is there they succeed.
    ///
    /// # Errors
    /// When `config` cannot work, or outside a Tokio runtime.
    pub fn connect(config: &RedisConfig) -> Result<Self, RedisConfigError> {
        if config.deadline.is_zero() {
            return Err(RedisConfigError::Deadline);
        }
        let runtime = Handle::try_current().map_err(|_| RedisConfigError::Runtime)?;
        let main = Backend::connect(config, &runtime)?;
        let per_second = match &config.per_second {
            Some(other) => {
                let other = RedisConfig { deadline: config.deadline, ..(**other).clone() };
                let connected = Backend::connect(&other, &runtime);
                Some(connected.map_err(|error| RedisConfigError::PerSecond(error.into()))?)
            }
            None => None,
        };
        let backends = Arc::new(Backends { main, per_second });
        let near = config.near.map(|config| Arc::new(NearCache::new(config)));
        let leasing = Leasing::new(Arc::clone(&backends), near.clone(), config.deadline);
        let leasing = Arc::new(leasing);
        let mut tasks = JoinSet::new();
        tasks.spawn_on(Arc::clone(&leasing).run(), &runtime);
        Ok(Self { backends, near, leasing, deadline: config.deadline, _tasks: tasks })
    }

    /// Decides all charges of `plan`: atomically, if all counters are on one
    /// server and, in a cluster, in one slot; else each such part by itself, at
    /// the same time. With `all_or_nothing`, what parts took is given back if
    /// the request is refused.
    ///
    /// A caller that stops waiting may or may not have been counted.
    ///
    /// # Errors
    /// When Redis did not decide, or not within the deadline;
    /// [`StoreError::Partial`] if that concerns some of the parts.
    pub async fn decide(&self, plan: &Plan) -> Result<Verdicts, StoreError> {
        self.answer(plan).await.map(|answer| answer.verdicts)
    }

    /// The same, and where the verdicts come from.
    ///
    /// # Errors
    /// The same.
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
            Rest::Nothing => Ok(Verdicts::new()),
            Rest::Everything => self.leasing.decide(plan).await,
            Rest::Part(part) => {
                let said = spread::decide(&self.backends, &part, None, self.deadline).await;
                said.map(|said| said.verdicts)
            }
        };
        match said {
            Ok(said) => Ok(question.complete(said)),
            Err(error) => Err(question.fail(error)),
        }
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

    /// Gives back what the parts of a refused request took that were decided,
    /// beside everything else.
    pub fn take_back(&self, plan: &Plan, partial: &Partial) {
        spread::take_back(&self.backends, plan, &partial.verdicts, self.deadline);
    }

    /// Whether keys need a hash tag, because they lie in a cluster.
    pub fn is_clustered(&self) -> bool {
        self.backends.all().any(Backend::is_cluster)
    }

    /// Asks Redis for a decision that nobody needs, now and with more patience
    /// than callers have: shows that it can be reached and lets us decide.
    /// Decisions follow from what comes of it.
    ///
    /// # Errors
    /// When a decision would fail now; the error says why.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let patience = PING_DEADLINE.max(self.deadline);
        for backend in self.backends.all() {
            backend.ping(patience).await?;
        }
        Ok(())
    }

    /// What is known of Redis, and what will be.
    pub fn health(&self) -> watch::Receiver<StoreHealth> {
        self.backends.main.health()
    }

    /// The same of the Redis for limits of one second, if there is another.
    pub fn per_second_health(&self) -> Option<watch::Receiver<StoreHealth>> {
        self.backends.per_second.as_ref().map(Backend::health)
    }
}
