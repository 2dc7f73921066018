//! A lane: a queue of requests, and a task that sends them over one connection.
//!
//! A request that finds the lane idle is sent at once. Those that come while a
//! batch is on its way gather, and are the next batch. Callers wait for their
//! part of the answer only; when they stop waiting, nothing is disturbed.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_redis::redis::{AsyncConnectionConfig, PushInfo, PushKind, Value};
use deadpool_redis::{Connection, Manager, Pool, Runtime};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::backoff::Backoff;
use super::config::{RedisConfig, RedisConfigError, Server};
use super::failure::Failure;
use super::health::Health;
use super::request::Request;
use super::script::Batch;
use crate::store::StoreError;
use crate::units::Span;

/// How long a connection attempt or an answer may take before the connection
/// is given up. Much longer than a decision may take: a server that is slow
/// for a moment is not helped by everybody connecting again.
const PATIENCE: Span = Span::from_secs(1);

/// More waiting requests than anybody can want, so that no configuration asks
/// for more than the queue can be made for.
const MAX_QUEUE: usize = 1 << 20;

/// The near end of a lane.
#[derive(Debug)]
pub(super) struct Lane {
    queue: mpsc::Sender<Request>,
    up: Arc<AtomicBool>,
}

impl Lane {
    /// A lane to `server`, and the task that must run for it. The task ends
    /// with the lane.
    pub(super) fn new(
        server: &Server,
        config: &RedisConfig,
        health: &Arc<Health>,
    ) -> Result<(Self, impl Future<Output = ()> + use<>), RedisConfigError> {
        let (queue, requests) = mpsc::channel(config.queue_max.get().min(MAX_QUEUE));
        let (pushes, news) = mpsc::unbounded_channel();
        let up = Arc::new(AtomicBool::new(false));
        let worker = Worker {
            pool: pool(server, pushes)?,
            server: server.name.clone(),
            requests,
            news,
            held: None,
            up: Arc::clone(&up),
            health: Arc::clone(health),
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
            mpsc::error::TrySendError::Closed(_) => super::gone(),
        })
    }
}

/// A pool for the one connection of a lane. It is checked out when the lane
/// connects and not for each decision, since a check-out costs a round trip.
fn pool(
    server: &Server,
    pushes: mpsc::UnboundedSender<PushInfo>,
) -> Result<Pool, RedisConfigError> {
    let connection = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE.into()))
        .set_response_timeout(None)
        .set_push_sender(pushes);
    let manager = Manager::new_with_config(server.info.clone(), connection)
        .map_err(|error| RedisConfigError::Url(error.to_string()))?;
    Pool::builder(manager)
        .max_size(1)
        .create_timeout(Some(PATIENCE.into()))
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|_| RedisConfigError::Runtime)
}

/// The far end of a lane.
struct Worker {
    pool: Pool,
    server: String,
    requests: mpsc::Receiver<Request>,
    /// What the server says unasked; here, that a connection was closed.
    news: mpsc::UnboundedReceiver<PushInfo>,
    /// A request that did not go into the last batch.
    held: Option<Request>,
    up: Arc<AtomicBool>,
    health: Arc<Health>,
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
    /// first requests wait for the first connection; later ones are answered
    /// at once while there is none.
    async fn run(mut self) {
        let mut backoff = Backoff::default();
        let mut attempt = connect(&self.pool, &mut self.news, &self.server).await;
        loop {
            let end = match attempt {
                Ok(connection) => {
                    backoff = Backoff::default();
                    self.health.lane_is_up(&self.server);
                    self.serve(connection).await
                }
                Err(end) => end,
            };
            let End::Lost(failure) = end else { return };
            self.set_up(false);
            self.health.lane_is_down(&failure.error);
            attempt = self.reconnect(backoff.next_delay(), &failure.error).await;
        }
    }

    /// Waits `delay` and tries to connect; meanwhile gives `error` to all who
    /// ask.
    async fn reconnect(&mut self, delay: Duration, error: &StoreError) -> Result<Connection, End> {
        if let Some(request) = self.held.take() {
            request.answer(Err(error.clone()));
        }
        let Self { pool, news, server, requests, .. } = self;
        let mut attempt = pin!(async {
            sleep(delay).await;
            connect(pool, news, server).await
        });
        loop {
            tokio::select! {
                request = requests.recv() => match request {
                    Some(request) => request.answer(Err(error.clone())),
                    None => return Err(End::Dropped),
                },
                attempt = &mut attempt => return attempt,
            }
        }
    }

    /// Serves until there is no connection any more, and tells why.
    async fn serve(&mut self, mut connection: Connection) -> End {
        self.set_up(true);
        let end = loop {
            let batch = match self.next_batch().await {
                Ok(batch) => batch,
                Err(end) => break end,
            };
            match self.exchange(&mut connection, &batch).await {
                Ok(reply) => batch.answer(&reply),
                Err(failure) => {
                    batch.fail(&failure.error);
                    if failure.lost {
                        break End::Lost(failure);
                    }
                }
            }
        };
        // Out of the pool with it, or the pool would check it and hand it out
        // again.
        drop(Connection::take(connection));
        end
    }

    /// Waits for requests and takes as many as may go together.
    async fn next_batch(&mut self) -> Result<Batch, End> {
        let mut batch = Batch::new(self.next_request().await?);
        while batch.len() < self.batch_max {
            let Ok(request) = self.requests.try_recv() else { break };
            if request.is_abandoned() {
                continue;
            }
            if let Some(request) = batch.add(request) {
                self.held = Some(request);
                break;
            }
        }
        Ok(batch)
    }

    /// Waits for a request that somebody waits for.
    async fn next_request(&mut self) -> Result<Request, End> {
        loop {
            let request = if let Some(request) = self.held.take() {
                request
            } else {
                tokio::select! {
                    biased;
                    () = disconnection(&mut self.news) => {
                        return Err(End::Lost(Failure::closed(&self.server)));
                    }
                    request = self.requests.recv() => request.ok_or(End::Dropped)?,
                }
            };
            if !request.is_abandoned() {
                return Ok(request);
            }
        }
    }

    /// Sends `batch` and waits for the answer, even when the callers have
    /// given up: as long as one is due nothing else is sent, so that a server
    /// that hangs does not find a pile of stale decisions when it wakes.
    async fn exchange(&self, connection: &mut Connection, batch: &Batch) -> Result<Value, Failure> {
        let patience = PATIENCE.max(self.deadline);
        let mut answer = pin!(batch.decide(connection));
        let mut outcome = timeout(self.deadline.into(), &mut answer).await;
        if outcome.is_err() {
            self.set_up(false);
            outcome = timeout(patience.into(), answer).await;
            self.set_up(outcome.is_ok());
        }
        match outcome {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => Err(Failure::of(&error, &self.server)),
            Err(_) => Err(Failure::silent(&self.server, patience)),
        }
    }

    fn set_up(&self, up: bool) {
        self.up.store(up, Ordering::Relaxed);
    }
}

/// One attempt to connect.
async fn connect(
    pool: &Pool,
    news: &mut mpsc::UnboundedReceiver<PushInfo>,
    server: &str,
) -> Result<Connection, End> {
    // What is still there is about connections of the past.
    while news.try_recv().is_ok() {}
    let attempt = pool.get().await;
    attempt.map_err(|error| End::Lost(Failure::to_connect(&error, server, PATIENCE)))
}

/// Waits until the server has closed the connection.
async fn disconnection(news: &mut mpsc::UnboundedReceiver<PushInfo>) {
    // The pool holds the other end for as long as the lane lives.
    while let Some(push) = news.recv().await {
        if push.kind == PushKind::Disconnection {
            return;
        }
    }
    std::future::pending::<()>().await;
}
