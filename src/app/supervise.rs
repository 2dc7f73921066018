//! Follows what is known of the store and of the first configuration, and tells:
//! in metrics, in readiness and in the health that gRPC clients see.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::decide::{Decider, FailureMode};
use crate::store::redis::RedisStore;
use crate::store::{Store, StoreError, StoreHealth};
use crate::telemetry::metrics::StoreMetrics;
use crate::telemetry::readiness::Readiness;
use crate::transport::grpc::Health;
use crate::units::Span;

/// How long a start waits for a store that is required.
const START_PATIENCE: Span = Span::from_secs(5);
/// How long it waits before it asks again.
const PAUSE: Duration = Duration::from_millis(100);

/// A store that is required does not answer, or not what it must.
#[derive(Debug, thiserror::Error)]
#[error(
    "the store was of no use for {waited}, and --require-store is set: {why}; {}leave \
     --require-store out to start without it",
    if why.is_silence() { "start it first, or " } else { "" }
)]
pub struct StoreMissing {
    waited: Span,
    why: StoreError,
}

/// Waits for the store until it is known whether it answers.
///
/// # Errors
/// If it must answer and does not.
pub(super) async fn first_answer(store: &Store, required: bool) -> Result<(), StoreMissing> {
    let Store::Redis(redis) = store else { return Ok(()) };
    let answer = redis.ping().await;
    if required { answer_in_time(redis, answer).await } else { Ok(()) }
}

async fn answer_in_time(
    redis: &RedisStore,
    mut answer: Result<(), StoreError>,
) -> Result<(), StoreMissing> {
    let end = Instant::now() + Duration::from(START_PATIENCE);
    while let Err(why) = answer {
        if Instant::now() >= end {
            return Err(StoreMissing { waited: START_PATIENCE, why });
        }
        sleep(PAUSE).await;
        answer = redis.ping().await;
    }
    Ok(())
}

/// What tells of the store.
#[derive(Debug)]
pub(super) struct Supervisor {
    metrics: StoreMetrics,
    readiness: Arc<Readiness>,
    health: Health,
    /// Whether a service without a store should get no traffic: only where it
    /// has no answer of its own. Any other answer is what the operator wants,
    /// and nobody at all would not give it.
    needed: bool,
    /// Transitions that were counted.
    counted: [u64; 3],
}

impl Supervisor {
    /// A supervisor for the store behind `decider`, which has told nothing yet.
    pub(super) fn new(decider: &Decider, readiness: Arc<Readiness>, health: Health) -> Self {
        let metrics = decider.metrics().store.clone();
        metrics.begin();
        let needed = decider.settings().failure_mode == FailureMode::Error;
        Self { metrics, readiness, health, needed, counted: [0; 3] }
    }

    /// Tells what is known now.
    pub(super) async fn tell(&mut self, store: &Store) {
        match store {
            Store::Memory(_) => self.metrics.is_here(),
            Store::Redis(redis) => {
                let health = redis.health().borrow().clone();
                self.follow(&health);
            }
        }
        self.turn().await;
    }

    /// Tells every change of the store, if it can change, and of readiness, for
    /// ever.
    pub(super) async fn run(mut self, mut store: Option<watch::Receiver<StoreHealth>>) {
        let mut readiness = self.readiness.changes();
        loop {
            if let Some(store) = &mut store {
                let health = store.borrow_and_update().clone();
                self.follow(&health);
            }
            readiness.mark_unchanged();
            self.turn().await;
            tokio::select! {
                () = changed(&mut store) => {}
                told = readiness.changed() => if told.is_err() { return },
            }
        }
    }

    /// Takes note of what is known of the store.
    fn follow(&mut self, health: &StoreHealth) {
        self.metrics.tell(health, &mut self.counted);
        self.readiness.store_missing(self.needed && !health.is_up());
    }

    /// Turns health to what readiness is.
    async fn turn(&self) {
        if self.readiness.is_ready() {
            self.health.serving().await;
        } else {
            self.health.not_serving().await;
        }
    }
}

/// Tells every change of the store for limits of one second, for ever. Where
/// clients should go does not depend on it: the others have their answer.
pub(super) async fn watch_per_second(
    metrics: StoreMetrics,
    mut changes: watch::Receiver<StoreHealth>,
) {
    let mut counted = [0; 3];
    metrics.begin();
    loop {
        let health = changes.borrow_and_update().clone();
        metrics.tell(&health, &mut counted);
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Waits for the next change, if there can be one.
async fn changed(store: &mut Option<watch::Receiver<StoreHealth>>) {
    if let Some(store) = store
        && store.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}
