//! Counters in Redis or Valkey, shared by all replicas.
//!
//! Decisions ride together: each lane has one connection and sends one script
//! call for all requests that wait in front of it. The script decides each
//! request as a whole, by the clock of Redis.

mod backoff;
mod config;
mod failure;
mod health;
mod lane;
mod msgpack;
mod parameters;
mod request;
mod script;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{Plan, StoreError, Verdicts};
use crate::units::Span;
use health::Health;
use lane::Lane;
use request::Request;

pub use config::{RedisConfig, RedisConfigError};

/// How long [`RedisStore::ping`] waits: it asks whether Redis answers at all.
const PING_DEADLINE: Span = Span::from_millis(500);

/// Counters in Redis.
#[derive(Debug)]
pub struct RedisStore {
    lanes: Vec<Lane>,
    next: AtomicUsize,
    deadline: Span,
    key_prefix: Box<str>,
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
        let server = config.server()?;
        if config.deadline.is_zero() {
            return Err(RedisConfigError::Deadline);
        }
        let runtime = Handle::try_current().map_err(|_| RedisConfigError::Runtime)?;
        let health = Arc::new(Health::default());
        let mut tasks = JoinSet::new();
        let mut lanes = Vec::new();
        for _ in 0..config.lanes.get() {
            let (lane, task) = Lane::new(&server, config, &health)?;
            tasks.spawn_on(task, &runtime);
            lanes.push(lane);
        }
        Ok(Self {
            lanes,
            next: AtomicUsize::new(0),
            deadline: config.deadline,
            key_prefix: config.key_prefix.as_str().into(),
            _tasks: tasks,
        })
    }

    /// Decides all charges of `plan` atomically.
    ///
    /// A caller that stops waiting may or may not have been counted.
    ///
    /// # Errors
    /// When Redis did not decide, or not within the deadline.
    pub async fn decide(&self, plan: &Plan) -> Result<Verdicts, StoreError> {
        if plan.charges.is_empty() {
            return Ok(Verdicts::new());
        }
        self.ask(plan, self.deadline).await
    }

    /// Asks Redis to decide nothing: shows that it can be reached and lets us
    /// run the script.
    ///
    /// # Errors
    /// When a decision would fail now; the error says why.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.ask(&Plan::default(), PING_DEADLINE.max(self.deadline)).await.map(drop)
    }

    async fn ask(&self, plan: &Plan, deadline: Span) -> Result<Verdicts, StoreError> {
        let (answer, answered) = oneshot::channel();
        let lane = self.lane().ok_or_else(gone)?;
        lane.submit(Request::new(plan, &self.key_prefix, answer))?;
        match timeout(deadline.into(), answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(gone()),
            Err(_) => Err(StoreError::Timeout(deadline)),
        }
    }

    /// The next lane in turn, past those that are down unless all are.
    fn lane(&self) -> Option<&Lane> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.lanes.len().max(1);
        let (before, after) = self.lanes.split_at_checked(turn)?;
        let mut in_turn = after.iter().chain(before);
        in_turn.clone().find(|lane| lane.is_up()).or_else(|| in_turn.next())
    }
}

/// The task behind a lane has ended, which happens when its runtime shuts down.
fn gone() -> StoreError {
    StoreError::Unavailable("the store is shutting down".into())
}
