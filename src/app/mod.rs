//! Puts the parts together, starts them and stops them.

mod adopt;
mod config;
mod options;
mod reload;
mod reports;
mod store;
mod supervise;
mod sweep;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub use options::{
    ByteSize, ConfigSource, LaneOptions, Options, PerSecondOptions, StopOptions, StoreArg,
    StoreOptions,
};
pub use reports::{PrometheusOptions, ReportOptions};
pub use supervise::StoreMissing;

use adopt::Adoption;
use config::{Configuration, Followed, Start};
use reports::Reports;
use supervise::Supervisor;

use crate::clock::Clock;
use crate::decide::Decider;
use crate::policy::LoadError;
use crate::store::Store;
use crate::store::redis::RedisConfigError;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::readiness::Readiness;
use crate::telemetry::spans::ExportError;
use crate::threads::Threads;
use crate::transport::call::Calls;
use crate::transport::grpc::{self, Health};
use crate::transport::http::Http;
use crate::transport::json::JsonError;
use crate::transport::listen::{Address, BindError, Bound, bind, bind_tcp};
use crate::transport::rls::Rls;
use crate::transport::tls::{Tls, TlsError};
use crate::transport::web;
use crate::transport::workers::{self, Terms};

/// How long the end of the process waits for leases to be given back.
const LEASES_GO_BACK_WITHIN: Duration = Duration::from_secs(1);

/// Why the service cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The policies are missing or bad.
    #[error("the configuration is refused:\n{0}")]
    Config(#[from] LoadError),
    /// There are no threads to serve on.
    #[error("no thread for connections: {0}; lower --threads, or let the process have more")]
    Threads(#[source] io::Error),
    /// The store cannot be what was asked for.
    #[error(transparent)]
    Store(#[from] RedisConfigError),
    /// There is a Redis for some limits, and none for the others.
    #[error(
        "--store-per-second and --store must both name a Redis; remove the one or write the other"
    )]
    HalfInRedis,
    /// The store does not answer and must.
    #[error(transparent)]
    Missing(#[from] StoreMissing),
    /// An address cannot be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// Calls cannot be traced.
    #[error(transparent)]
    Tracing(#[from] ExportError),
    /// TLS cannot be spoken.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The JSON face cannot be made.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// Reflection cannot be made.
    #[error("reflection cannot be offered: {0}")]
    Reflection(#[from] Box<tonic_reflection::server::Error>),
}

/// Why the service ended other than by a signal.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A part of the service ended by itself, which it never should.
    #[error("a server ended unexpectedly")]
    Ended,
    /// A part of the service panicked.
    #[error("a server crashed: {0}")]
    Crashed(#[from] JoinError),
}

/// Where the service listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Of gRPC.
    pub grpc: Address,
    /// Of HTTP.
    pub http: SocketAddr,
    /// Of the port for Prometheus, if there is one.
    pub prometheus: Option<SocketAddr>,
    /// Of the debug port, if there is one.
    pub debug: Option<SocketAddr>,
}

/// The service, listening but not yet answering.
#[derive(Debug)]
pub struct App {
    decider: Arc<Decider>,
    readiness: Arc<Readiness>,
    grpc: Grpc,
    http: (TcpListener, axum::Router),
    addresses: Addresses,
    followed: Followed,
    supervisor: Supervisor,
    reports: Reports,
    threads: Threads,
    stop: StopOptions,
}

#[derive(Debug)]
struct Grpc {
    bound: Bound,
    calls: Arc<Calls>,
    terms: Terms,
    health: Health,
}

/// Reads the policies, opens the store and the listeners and puts everything
/// together. The ports are open afterwards; [`App::run`] answers.
///
/// # Errors
/// If the policies are bad, or anything cannot be opened.
pub async fn build(options: Options) -> Result<App, StartError> {
    let metrics = Metrics::with(options.report.metrics.clone());
    let start = Start { load: options.load, with_bad: options.start_with_bad_config };
    let origin = options.config.to_string();
    let configuration = Configuration::first(options.config, start, &metrics)?;
    let threads = Threads::start(options.threads).map_err(StartError::Threads)?;
    let store = store::open(&options.store, &threads)?;
    supervise::first_answer(&store, options.store.required).await?;
    let Configuration { policies, readiness, source, refused } = configuration;
    let decider = Decider::new(policies, store, Clock::default(), options.decide, metrics);
    let (decider, readiness) = (Arc::new(decider), Arc::new(readiness));
    readiness.need_rules(options.healthy_with_config);
    readiness.domains(decider.policies().map_or(0, |policies| policies.len()));
    let adoption = Adoption { decider: decider.clone(), readiness: readiness.clone(), origin };
    if let Some(error) = refused {
        adoption.refuse(&error, None);
    }

    let tls = options.tls.map(Tls::load).transpose()?;
    let terms = Terms { tls, age: options.age };
    let bound = bind(&options.grpc).await?;
    let (http_listener, http) = bind_tcp(&options.http).await?;
    let spans = reports::spans(&options.report)?;
    let reports = Reports::open(&options.report, &decider, spans.clone()).await?;
    let addresses = Addresses {
        grpc: bound.address.clone(),
        http,
        prometheus: reports.prometheus(),
        debug: reports.debug(),
    };

    let rls = Rls::new(decider.clone(), options.reference_codes).with_spans(spans);
    let health = Health::starting().await;
    let mut supervisor = Supervisor::new(&decider, readiness.clone(), health.clone());
    supervisor.tell(decider.store()).await;
    let calls = Arc::new(Calls::new(rls.clone(), grpc::services(rls.clone(), &health)?));
    let router = Http::new(rls, decider.clone(), readiness.clone())?.router();
    let followed = source.followed(options.load, adoption);
    Ok(App {
        decider,
        readiness,
        grpc: Grpc { bound, calls, terms, health },
        http: (http_listener, router),
        addresses,
        followed,
        supervisor,
        reports,
        threads,
        stop: options.stop,
    })
}

impl App {
    /// Where it listens.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Whether gRPC connections are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.grpc.terms.tls.is_some()
    }

    /// What decides.
    pub fn decider(&self) -> &Arc<Decider> {
        &self.decider
    }

    /// Answers until `stop`, then turns health, waits the drain delay, closes
    /// the listeners and lets calls in flight finish within the grace time.
    ///
    /// # Errors
    /// If a server breaks down.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), RunError> {
        let closing = CancellationToken::new();
        let Grpc { bound: Bound { listener, file: _file, .. }, calls, terms, mut health } =
            self.grpc;
        let (http_listener, router) = self.http;

        let mut servers = JoinSet::new();
        let (threads, close) = (self.threads.clone(), closing.clone());
        let tls = terms.tls.clone();
        servers.spawn(async move {
            workers::serve(listener, &threads, &calls, &terms, close).await;
        });
        let bounds = web::Bounds::default();
        servers.spawn(web::serve(http_listener, router, bounds, closing.clone()));
        let telling = self.reports.start(&mut servers, &closing);
        tracing::info!(grpc = %self.addresses.grpc, http = %self.addresses.http, "serving");
        let mut supervision = JoinSet::new();
        let changes = match self.decider.store() {
            Store::Memory(_) => None,
            Store::Redis(redis) => Some(redis.health()),
        };
        supervision.spawn(self.supervisor.run(changes));
        if let Store::Redis(redis) = self.decider.store()
            && let Some(health) = redis.per_second_health()
        {
            let metrics = self.decider.metrics().per_second_store.clone();
            supervision.spawn(supervise::watch_per_second(metrics, health));
        }
        let decider = Arc::clone(&self.decider);
        let mut background = start_background(self.followed, self.decider);
        if let Some(tls) = tls {
            background.spawn(tls.follow());
        }

        tokio::select! {
            () = stop => {}
            ended = servers.join_next() => return Err(failure(ended)),
        }
        tracing::info!(
            drain_delay = %self.stop.drain_delay,
            grace = %self.stop.grace,
            "stopping: health is NOT_SERVING, a second signal ends the process at once"
        );
        self.readiness.drain();
        // A store that comes back now must not turn health again.
        supervision.shutdown().await;
        health.not_serving().await;
        tokio::time::sleep(Duration::from(self.stop.drain_delay)).await;
        closing.cancel();
        health.end_watches().await;
        let drained = timeout(Duration::from(self.stop.grace), drain(&mut servers)).await;
        // Everything that will be counted has been.
        telling.finish().await;
        if let Ok(ended) = drained {
            ended?;
        } else {
            tracing::warn!("the grace time is over, calls in flight are cut off");
        }
        if let Store::Redis(redis) = decider.store() {
            // Those that cannot be given back in time run out.
            let _ =
                timeout(LEASES_GO_BACK_WITHIN, redis.return_leases(decider.clock().pinned())).await;
        }
        tracing::info!("stopped");
        Ok(())
    }
}

/// Waits until all servers have ended in order.
async fn drain(servers: &mut JoinSet<()>) -> Result<(), RunError> {
    while let Some(ended) = servers.join_next().await {
        ended?;
    }
    Ok(())
}

/// What it means that a server ended although nobody told it to.
fn failure(ended: Option<Result<(), JoinError>>) -> RunError {
    match ended {
        Some(Err(crashed)) => RunError::Crashed(crashed),
        Some(Ok(())) | None => RunError::Ended,
    }
}

/// Starts what goes on beside the calls. It ends when the set is dropped.
fn start_background(followed: Followed, decider: Arc<Decider>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(followed.run());
    tasks.spawn(sweep::run(decider));
    tasks
}
