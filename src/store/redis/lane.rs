//! A lane: a queue of requests, and a task that sends them over one connection.
//!
//! A request that finds the lane idle is sent at once. Those that come while a
//! batch is on its way gather, and are the next batch. Callers wait for their
//! part of the answer only; when they stop waiting, nothing is disturbed.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_redis::Connection;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::backoff::Backoff;
use super::breaker::Breaker;
use super::config::{RedisConfig, RedisConfigError};
use super::dial::{Dialer, Link, PATIENCE, Target};
use super::failure::{Failure, Refused};
use super::load::{Load, Outcomes};
use super::request::Request;
use super::runtime::ScriptRuntime;
use super::upstream::gone;
use crate::store::StoreError;
use crate::units::Span;

/// More waiting requests than anybody can want, so that no configuration asks
/// for more than the queue can be made for.
const MAX_QUEUE: usize = 1 << 20;

/// From which failed attempt on a line in the log is due: about 2 s after the
/// connection was lost.
const TELLING_ATTEMPT: u32 = 6;

/// The near end of a lane.
#[derive(Debug)]
pub(super) struct Lane {
    queue: mpsc::Sender<Request>,
    up: Arc<AtomicBool>,
}

impl Lane {
    /// A lane to `target`, and the task that must run for it. The task ends
    /// with the lane.
    pub(super) fn new(
        target: &Target,
        link: &Link,
        config: &RedisConfig,
        breaker: &Arc<Breaker>,
    ) -> Result<(Self, impl Future<Output = ()> + use<>), RedisConfigError> {
        let (queue, requests) = mpsc::channel(config.queue_max.get().min(MAX_QUEUE));
        let up = Arc::new(AtomicBool::new(false));
        let worker = Worker {
            dialer: Dialer::new(target, link)?,
            requests,
            held: None,
            served: false,
            told: false,
            up: Arc::clone(&up),
            breaker: Arc::clone(breaker),
            script: config.script,
            batch_max: config.batch_max.get(),
            deadline: config.deadline,
        };
        Ok((Self { queue, up }, worker.run()))
    }

    /// Whether the lane has a connection that answers in time.
    pub(super) fn is_up(&self) -> bool {
        self.up.load(Ordering::Relaxed)
    }

    /// Puts `request` into the queue.
    pub(super) fn submit(&self, request: Request) -> Result<(), StoreError> {
        self.queue.try_send(request).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => StoreError::Overloaded(self.queue.max_capacity()),
            mpsc::error::TrySendError::Closed(_) => gone(),
        })
    }
}

/// The far end of a lane.
struct Worker {
    dialer: Dialer,
    requests: mpsc::Receiver<Request>,
    /// A request that did not go into the last batch.
    held: Option<Request>,
    /// The connection has answered.
    served: bool,
    /// That it cannot be made again is in the log.
    told: bool,
    up: Arc<AtomicBool>,
    breaker: Arc<Breaker>,
    script: ScriptRuntime,
    batch_max: usize,
    deadline: Span,
}

/// Why a lane has no connection.
enum End {
    /// It was lost, or there never was one.
    Lost(Failure),
    /// The store was dropped: nobody will ask any more.
    Dropped,
}

impl Worker {
    /// Connects, serves, and connects again, until the store is dropped. The
    /// first requests wait for the first connection, and those that find it
    /// broken for one attempt to replace it; all others are answered at once.
    async fn run(mut self) {
        let mut backoff = Backoff::default();
        let mut attempt = self.dialer.dial().await.map_err(End::Lost);
        loop {
            let end = match attempt {
                Ok(connection) => self.serve(connection).await,
                Err(end) => end,
            };
            let End::Lost(failure) = end else { return };
            self.breaker.doubt();
            attempt = if std::mem::take(&mut self.served) {
                // It worked until now. If the next one does as well, hardly
                // anybody notices: those who ask may wait for it.
                backoff = Backoff::default();
                self.told = false;
                self.dialer.dial().await.map_err(End::Lost)
            } else {
                self.tell(&failure.error, backoff.attempts());
                self.reconnect(backoff.next_delay(), &failure.error).await
            };
        }
    }

    /// Tells that there is no connection after so many attempts to get one. That
    /// the store is away is told by the breaker, once for all lanes; but where
    /// other lanes go on, one that cannot be opened would go unnoticed.
    fn tell(&mut self, error: &StoreError, attempts: u32) {
        if attempts >= TELLING_ATTEMPT && !self.told && self.breaker.is_calm() {
            self.told = true;
            tracing::warn!(%error, "one of the connections to the store cannot be made again");
        } else {
            tracing::debug!(%error, attempts, "no connection to the store; trying to connect");
        }
    }

    /// Waits `delay` and tries to connect; meanwhile gives `error` to all who
    /// ask.
    async fn reconnect(&mut self, delay: Duration, error: &StoreError) -> Result<Connection, End> {
        if let Some(request) = self.held.take() {
            request.answer(Err(Refused::from(error.clone())));
        }
        let Self { dialer, requests, .. } = self;
        let mut attempt = pin!(async {
            sleep(delay).await;
            dialer.dial().await.map_err(End::Lost)
        });
        loop {
            tokio::select! {
                request = requests.recv() => match request {
                    Some(request) => request.answer(Err(Refused::from(error.clone()))),
                    None => return Err(End::Dropped),
                },
                attempt = &mut attempt => return attempt,
            }
        }
    }

    /// Serves until there is no connection any more, and tells why.
    async fn serve(&mut self, mut connection: Connection) -> End {
        self.set_up(true);
        // Whether the store is back is worth a question.
        self.breaker.doubt();
        let end = loop {
            let load = match self.next_load().await {
                Ok(load) => load,
                Err(end) => break end,
            };
            let lost = match self.exchange(&mut connection, &load).await {
                Ok(outcomes) => {
                    self.served |= outcomes.iter().any(Result::is_ok);
                    load.answer(outcomes, self.dialer.name())
                }
                Err(failure) => {
                    load.fail(&failure);
                    Some(failure).filter(|failure| failure.lost)
                }
            };
            if let Some(failure) = lost {
                break End::Lost(failure);
            }
        };
        self.set_up(false);
        // Out of the pool with it, or the pool would keep it.
        drop(Connection::take(connection));
        end
    }

    /// Waits for requests and takes as many as may go together.
    async fn next_load(&mut self) -> Result<Load, End> {
        let mut load = Load::new(self.next_request().await?);
        while load.len() < self.batch_max {
            let Ok(request) = self.requests.try_recv() else { break };
            if request.is_abandoned() {
                continue;
            }
            if let Some(request) = load.add(request) {
                self.held = Some(request);
                break;
            }
        }
        Ok(load)
    }

    /// Waits for a request that somebody waits for.
    async fn next_request(&mut self) -> Result<Request, End> {
        loop {
            let request = if let Some(request) = self.held.take() {
                request
            } else {
                tokio::select! {
                    biased;
                    failure = self.dialer.disconnection() => return Err(End::Lost(failure)),
                    request = self.requests.recv() => request.ok_or(End::Dropped)?,
                }
            };
            if !request.is_abandoned() {
                return Ok(request);
            }
        }
    }

    /// Sends `load` and waits for the answer, even when the callers have
    /// given up: as long as one is due nothing else is sent, so that a server
    /// that hangs does not find a pile of stale decisions when it wakes.
    async fn exchange(
        &self,
        connection: &mut Connection,
        load: &Load,
    ) -> Result<Outcomes, Failure> {
        let patience = PATIENCE.max(self.deadline);
        let mut answer = pin!(load.decide(self.script, connection));
        let mut outcome = timeout(self.deadline.into(), &mut answer).await;
        if outcome.is_err() {
            self.set_up(false);
            outcome = timeout(patience.into(), answer).await;
            self.set_up(outcome.is_ok());
        }
        match outcome {
            Ok(Ok(outcomes)) => Ok(outcomes),
            Ok(Err(error)) => Err(Failure::of(&error, self.dialer.name())),
            Err(_) => Err(Failure::silent(self.dialer.name(), patience)),
        }
    }

    fn set_up(&self, up: bool) {
        self.up.store(up, Ordering::Relaxed);
    }
}
