//! One server: the lanes to it and the breaker in front of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::breaker::Breaker;
use super::cluster::News;
use super::config::{RedisConfig, RedisConfigError};
use super::dial::{Link, Target};
use super::failure::Refused;
use super::lane::Lane;
use super::part::Part;
use super::probe::{self, Question};
use super::request::{Answer, Manner, Request};
use crate::store::{Cause, StoreError};
use crate::threads;
use crate::units::Span;

/// See the module.
#[derive(Debug)]
pub(super) struct Upstream {
    lanes: Vec<Lane>,
    next: AtomicUsize,
    breaker: Arc<Breaker>,
    key_prefix: Box<str>,
    question: Question,
    /// What to tell the cluster that it is a node of.
    news: Option<Arc<News>>,
}

/// Until when an answer is waited for, and how long that was from the start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) end: Instant,
    pub(super) deadline: Span,
}

impl Patience {
    /// So long from now.
    pub(super) fn new(deadline: Span) -> Self {
        Self { end: Instant::now() + Duration::from(deadline), deadline }
    }

    /// It is at its end.
    pub(super) fn error(&self) -> StoreError {
        StoreError::Timeout(self.deadline)
    }
}

impl Upstream {
    /// The lanes to `target`. What serves them is spawned into `tasks`.
    ///
    /// # Errors
    /// When no connection could ever be made.
    pub(super) fn start(
        target: &Target,
        link: &Link,
        config: &RedisConfig,
        news: Option<Arc<News>>,
        (tasks, runtime): (&mut JoinSet<()>, &Handle),
    ) -> Result<Arc<Self>, RedisConfigError> {
        let breaker = Arc::new(Breaker::new(&target.name(), news.clone()));
        let mut lanes = Vec::new();
        for number in 0..config.lanes.get() {
            let (lane, task) = Lane::new(target, link, config, &breaker)?;
            lanes.push(lane);
            tasks.spawn_on(task, config.thread(number, runtime));
        }
        let (key_prefix, question) = (config.key_prefix.as_str().into(), Question::default());
        let next = AtomicUsize::new(0);
        let upstream = Arc::new(Self { lanes, next, breaker, key_prefix, question, news });
        tasks.spawn_on(probe::watch(Arc::clone(&upstream), config.deadline), runtime);
        Ok(upstream)
    }

    /// The breaker in front of the lanes.
    pub(super) fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    /// What it is asked when nobody else asks.
    pub(super) fn question(&self) -> &Question {
        &self.question
    }

    /// Has `part` decided in time, if the breaker lets it.
    pub(super) async fn decide(
        &self,
        part: &Part<'_>,
        manner: Manner,
        patience: Patience,
    ) -> Answer {
        self.breaker.admit()?;
        let outcome = self.ask(part, manner, patience).await;
        match &outcome {
            Ok(_) => self.breaker.learn(&Ok(())),
            // It has answered. That a cluster changes is no failure.
            Err(refused) if self.is_redirect(refused) => self.breaker.learn(&Ok(())),
            Err(refused) => self.breaker.learn(&Err::<(), _>(refused.error.clone())),
        }
        outcome
    }

    /// The same whatever the breaker says, and it is not told.
    pub(super) async fn ask(&self, part: &Part<'_>, manner: Manner, patience: Patience) -> Answer {
        let (answer, answered) = oneshot::channel();
        let lane = self.lane().ok_or_else(gone)?;
        lane.submit(Request::new(part, manner, &self.key_prefix, answer))?;
        match timeout_at(patience.end, answered).await {
            Ok(Ok(answer)) => {
                if let (Some(news), Err(refused)) = (&self.news, &answer)
                    && refused.is_stale()
                {
                    news.stale.notify_one();
                }
                answer
            }
            Ok(Err(_)) => Err(gone().into()),
            Err(_) => Err(patience.error().into()),
        }
    }

    /// Whether a node of our cluster sends us elsewhere.
    pub(super) fn is_redirect(&self, refused: &Refused) -> bool {
        self.news.is_some() && refused.redirect.is_some()
    }

    /// The lane of this thread, elsewhere the next in turn; past those that are
    /// down unless all are.
    fn lane(&self) -> Option<&Lane> {
        let turn = threads::number().unwrap_or_else(|| self.next.fetch_add(1, Ordering::Relaxed));
        let turn = turn % self.lanes.len().max(1);
        let (before, after) = self.lanes.split_at_checked(turn)?;
        let mut in_turn = after.iter().chain(before);
        in_turn.clone().find(|lane| lane.is_up()).or_else(|| in_turn.next())
    }
}

/// The task behind a lane has ended, which happens when its runtime shuts down.
pub(super) fn gone() -> StoreError {
    StoreError::unavailable(Cause::Other, "the store is shutting down")
}
