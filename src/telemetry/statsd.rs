//! Tells a statsd server what was counted, in steady intervals.
//!
//! The counters are there already, so all that is sent is by how much each has
//! grown. What could not be sent is part of the next difference: there is no
//! queue that could fill up, and no decision waits for anything here.
//!
//! The lines are written by hand: client libraries count for themselves, one
//! packet per event, and the usual one (cadence) does not speak TCP, which is
//! what the reference uses by default.

mod lines;
mod mogrify;
mod target;

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

pub use mogrify::{Mogrifier, MogrifierError};
pub use target::Protocol;

use self::lines::{Batch, Report};
use self::target::Target;
use super::metrics::Metrics;
use crate::units::Span;

/// How long one report may take to be sent, and the last one to hold up the end
/// of the process.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whom to tell what, and how.
#[derive(Clone, Debug)]
pub struct StatsdOptions {
    /// Name or address of the server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How it is reached.
    pub protocol: Protocol,
    /// How tags are written.
    pub dialect: Dialect,
    /// What every metric carries.
    pub tags: Vec<(String, String)>,
    /// How often to tell.
    pub interval: Span,
}

/// How tags are written.
#[derive(Clone, Debug)]
pub enum Dialect {
    /// As the library of the reference does, into the name: `name.__tag=value`.
    Statsd,
    /// As Datadog has it, after the type: `|#tag:value`; with parts of names made
    /// into tags.
    DogStatsd(Vec<Mogrifier>),
}

/// What tells the server.
#[derive(Debug)]
pub struct Statsd {
    options: StatsdOptions,
    metrics: Metrics,
    report: Report,
    target: Target,
    /// Whether the last report did not arrive.
    failing: bool,
}

impl Statsd {
    /// A teller of `metrics`. Nothing is sent yet.
    pub fn new(options: StatsdOptions, metrics: Metrics) -> Self {
        let target = Target::new(options.protocol, &options.host, options.port);
        let report = Report::new(&options);
        Self { options, metrics, report, target, failing: false }
    }

    /// Tells every interval until `closing`, then once more.
    pub async fn run(mut self, closing: CancellationToken) {
        let mut ticks = interval(Duration::from(self.options.interval));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first one comes at once, when nothing has happened yet.
        ticks.tick().await;
        loop {
            tokio::select! {
                () = closing.cancelled() => break,
                _ = ticks.tick() => self = self.tell().await,
            }
        }
        self.tell().await;
    }

    async fn tell(self) -> Self {
        // Thousands of series take a while.
        let gathered = tokio::task::spawn_blocking(move || {
            let Self { options, metrics, mut report, target, failing } = self;
            let batch = report.gather(&metrics);
            (Self { options, metrics, report, target, failing }, batch)
        });
        let (mut told, batches) = match gathered.await {
            Ok(gathered) => gathered,
            // The runtime is going down, and nothing else ends such a task.
            Err(_) => std::future::pending().await,
        };
        let sent = timeout(PATIENCE, told.send(batches)).await;
        let sent = sent.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
        told.note(sent);
        told
    }

    /// Sends batch by batch; what was sent is not sent again.
    async fn send(&mut self, batches: Vec<Batch>) -> std::io::Result<()> {
        self.target.open().await?;
        for batch in batches {
            self.target.send(batch.text.as_bytes()).await?;
            self.report.sent(batch);
        }
        Ok(())
    }

    /// Logs changes, not every failure.
    fn note(&mut self, sent: std::io::Result<()>) {
        let (host, port) = (&self.options.host, self.options.port);
        let protocol = self.options.protocol.name();
        match sent {
            Ok(()) if self.failing => {
                tracing::info!(host, port, protocol, "statsd takes metrics again");
                self.failing = false;
            }
            Ok(()) => {}
            Err(error) => {
                self.target.close();
                if !self.failing {
                    tracing::warn!(
                        host, port, protocol, %error,
                        "statsd takes no metrics; they are sent when it is back. Check STATSD_HOST, \
                         STATSD_PORT and STATSD_PROTOCOL, or switch it off with USE_STATSD=false"
                    );
                }
                self.failing = true;
            }
        }
    }
}
