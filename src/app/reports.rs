//! What tells of the service beside its own ports: to statsd, on a port for
//! Prometheus and on one for debugging.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::decide::Decider;
use crate::telemetry::metrics::MetricOptions;
use crate::telemetry::spans::{ExportError, SpanOptions, Spans};
use crate::telemetry::statsd::{Statsd, StatsdOptions};
use crate::transport::listen::{BindError, HostPort, bind_tcp};
use crate::transport::{stats, web};

/// How long the last report to statsd may hold up the end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whom the service tells of itself.
#[derive(Clone, Debug, Default)]
pub struct ReportOptions {
    /// What may be chosen about metrics.
    pub metrics: MetricOptions,
    /// The statsd server, if there is one.
    pub statsd: Option<StatsdOptions>,
    /// Where Prometheus finds the metrics, beside the HTTP port.
    pub prometheus: Option<PrometheusOptions>,
    /// Where the debug port listens.
    pub debug: Option<HostPort>,
    /// How calls are traced, if they are.
    pub spans: Option<SpanOptions>,
}

/// A port for Prometheus.
#[derive(Clone, Debug)]
pub struct PrometheusOptions {
    /// Where it listens.
    pub listen: HostPort,
    /// The path of the metrics; begins with a slash.
    pub path: String,
}

/// What makes spans, if calls are traced.
pub(super) fn spans(options: &ReportOptions) -> Result<Spans, ExportError> {
    options.spans.clone().map_or_else(|| Ok(Spans::default()), Spans::start)
}

/// Open ports, and what tells statsd.
#[derive(Debug)]
pub(super) struct Reports {
    prometheus: Option<Port>,
    debug: Option<Port>,
    statsd: Option<Statsd>,
    spans: Spans,
}

#[derive(Debug)]
struct Port {
    listener: TcpListener,
    address: SocketAddr,
    router: Router,
}

impl Port {
    async fn open(listen: &HostPort, router: Router) -> Result<Self, BindError> {
        let (listener, address) = bind_tcp(listen).await?;
        Ok(Self { listener, address, router })
    }
}

impl Reports {
    /// Opens what was asked for.
    pub(super) async fn open(
        options: &ReportOptions,
        decider: &Arc<Decider>,
        spans: Spans,
    ) -> Result<Self, BindError> {
        let metrics = decider.metrics();
        let prometheus = match &options.prometheus {
            None => None,
            Some(PrometheusOptions { listen, path }) => {
                Some(Port::open(listen, stats::prometheus(path, metrics.clone())).await?)
            }
        };
        let debug = match &options.debug {
            None => None,
            Some(listen) => Self::debug_port(listen, decider).await,
        };
        let statsd = options.statsd.clone().map(|statsd| Statsd::new(statsd, metrics.clone()));
        Ok(Self { prometheus, debug, statsd, spans })
    }

    /// The debug port. Nobody's requests depend on it, so the service does without
    /// where it cannot be had, as the reference does.
    async fn debug_port(listen: &HostPort, decider: &Arc<Decider>) -> Option<Port> {
        let opened = Port::open(listen, stats::debug(decider.clone())).await;
        opened.map_err(|error| tracing::error!(%error, "there is no debug port")).ok()
    }

    /// Where Prometheus finds the metrics.
    pub(super) fn prometheus(&self) -> Option<SocketAddr> {
        self.prometheus.as_ref().map(|port| port.address)
    }

    /// Where the debug port is.
    pub(super) fn debug(&self) -> Option<SocketAddr> {
        self.debug.as_ref().map(|port| port.address)
    }

    /// Serves the ports as members of `servers` until `closing`, and tells statsd.
    pub(super) fn start(self, servers: &mut JoinSet<()>, closing: &CancellationToken) -> Telling {
        for Port { listener, router, .. } in [self.prometheus, self.debug].into_iter().flatten() {
            let bounds = web::Bounds::default();
            servers.spawn(web::serve(listener, router, bounds, closing.clone()));
        }
        let stop = CancellationToken::new();
        let statsd = self.statsd.map(|statsd| tokio::spawn(statsd.run(stop.clone())));
        Telling { stop, statsd, spans: self.spans }
    }
}

/// What is telling statsd and collectors.
#[derive(Debug)]
pub(super) struct Telling {
    stop: CancellationToken,
    statsd: Option<JoinHandle<()>>,
    spans: Spans,
}

impl Telling {
    /// Tells them the rest.
    pub(super) async fn finish(self) {
        self.stop.cancel();
        if let Some(statsd) = self.statsd
            && timeout(PATIENCE, statsd).await.is_err()
        {
            tracing::warn!("statsd has not taken the last metrics");
        }
        self.spans.finish().await;
    }
}
