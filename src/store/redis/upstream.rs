//! One server: the lanes to it and the breaker in front of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::breaker::Breaker;
use super::config::{RedisConfig, RedisConfigError};
use super::dial::{Link, Target};
use super::lane::Lane;
use super::request::{Answer, Request};
use crate::store::{Cause, Plan, StoreError};
use crate::units::{Span, Timestamp};

/// See the module.
#[derive(Debug)]
pub(super) struct Upstream {
    lanes: Vec<Lane>,
    next: AtomicUsize,
    breaker: Arc<Breaker>,
    key_prefix: Box<str>,
}

impl Upstream {
    /// The lanes to `target`, and the tasks that must run for them.
    ///
    /// # Errors
    /// When no connection could ever be made.
    pub(super) fn new(
        target: &Target,
        link: &Link,
        config: &RedisConfig,
    ) -> Result<(Self, Vec<impl Future<Output = ()> + use<>>), RedisConfigError> {
        let breaker = Arc::new(Breaker::new(&target.name()));
        let (mut lanes, mut tasks) = (Vec::new(), Vec::new());
        for _ in 0..config.lanes.get() {
            let (lane, task) = Lane::new(target, link, config, &breaker)?;
            lanes.push(lane);
            tasks.push(task);
        }
        let key_prefix = config.key_prefix.as_str().into();
        Ok((Self { lanes, next: AtomicUsize::new(0), breaker, key_prefix }, tasks))
    }

    /// The breaker in front of the lanes.
    pub(super) fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    /// Has `plan` decided within `deadline`, if the breaker lets it.
    pub(super) async fn decide(&self, plan: &Plan, deadline: Span) -> Answer {
        self.breaker.admit()?;
        let outcome = self.ask(plan, deadline).await;
        self.breaker.learn(&outcome);
        outcome
    }

    /// The same whatever the breaker says, and it is not told.
    pub(super) async fn ask(&self, plan: &Plan, deadline: Span) -> Answer {
        let (answer, answered) = oneshot::channel();
        self.send(Request::new(plan, &self.key_prefix, answer), answered, deadline).await
    }

    /// Gives back what `plan` refunds, unless Redis has come to the moment `due`.
    pub(super) async fn give_back(&self, plan: &Plan, due: Timestamp, deadline: Span) -> Answer {
        self.breaker.admit()?;
        let (answer, answered) = oneshot::channel();
        let request = Request::new(plan, &self.key_prefix, answer).before(due);
        let outcome = self.send(request, answered, deadline).await;
        self.breaker.learn(&outcome);
        outcome
    }

    async fn send(
        &self,
        request: Request,
        answered: oneshot::Receiver<Answer>,
        deadline: Span,
    ) -> Answer {
        self.lane().ok_or_else(gone)?.submit(request)?;
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
pub(super) fn gone() -> StoreError {
    StoreError::unavailable(Cause::Other, "the store is shutting down")
}
