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

use super::{Partial, Plan, StoreError, StoreHealth, Verdicts};
use crate::units::Span;
use backend::{Backend, Backends};
use part::Part;
use upstream::Patience;

pub use config::{RedisConfig, RedisConfigError};
pub use credentials::{Credentials, Password, Secret};
pub use runtime::ScriptRuntime;
pub use tls::{Identity, Tls};

/// How long [`RedisStore::ping`] waits: it asks whether Redis answers at all.
const PING_DEADLINE: Span = Span::from_millis(500);

/// Counters in Redis.
#[derive(Debug)]
pub struct RedisStore {
    backends: Arc<Backends>,
    deadline: Span,
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
        Ok(Self { backends, deadline: config.deadline })
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
        if plan.charges.is_empty() {
            return Ok(Verdicts::new());
        }
        match &*self.backends {
            Backends { main, per_second: None } if !main.is_cluster() => {
                main.decide(&Part::whole(plan), Patience::new(self.deadline)).await
            }
            _ => spread::decide(&self.backends, plan, self.deadline).await,
        }
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
