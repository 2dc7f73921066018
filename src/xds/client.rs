//! Stays connected: whatever happens, it tries again.

use std::sync::Arc;

use super::backoff::{Backoff, Failed};
use super::dial::dial;
use super::options::XdsOptions;
use super::stream::{Update, Verdict, follow};
use crate::policy::LoadError;
use crate::telemetry::metrics::Metrics;

/// A client of one control plane.
#[derive(Debug)]
pub struct Client {
    options: XdsOptions,
    link: Link,
}

impl Client {
    /// A client that is not connected yet.
    pub fn new(options: XdsOptions, metrics: &Metrics) -> Self {
        let link = Link { metrics: metrics.clone(), trouble: None, known: false };
        Self { options, link }
    }

    /// Follows the control plane, for ever. All rules that it sends are put to
    /// `take`, which says what is wrong with them.
    pub async fn run<T>(self, take: T)
    where
        T: Fn(Update) -> Result<(), LoadError> + Send + Sync + 'static,
    {
        let Self { options, mut link } = self;
        let take = Arc::new(take);
        let mut backoff = Backoff::new(options.pace);
        let mut verdict = Verdict::default();
        loop {
            let (failed, why) = match dial(&options).await {
                Ok(channel) => {
                    link.metrics.xds_connected.set(1);
                    let received = || {
                        backoff.reset();
                        link.up(&options);
                    };
                    let ended = follow(channel, &options, &mut verdict, &take, received).await;
                    link.metrics.xds_connected.set(0);
                    (Failed::Streaming, ended.to_string())
                }
                Err(error) => (Failed::Connecting, error.to_string()),
            };
            let delay = backoff.next_delay(failed, fastrand::f64());
            link.down(&options, why);
            tracing::debug!(?delay, "the control plane is tried again after a pause");
            tokio::time::sleep(delay).await;
        }
    }
}

/// What was last said about the connection: every change is told once.
#[derive(Debug)]
struct Link {
    metrics: Metrics,
    trouble: Option<String>,
    known: bool,
}

impl Link {
    /// A response came.
    fn up(&mut self, options: &XdsOptions) {
        if self.trouble.take().is_some() || !self.known {
            self.known = true;
            tracing::info!(server = %options.server, "the control plane answers");
        }
    }

    fn down(&mut self, options: &XdsOptions, why: String) {
        if self.trouble.as_ref() != Some(&why) {
            tracing::warn!(
                server = %options.server,
                %why,
                "no connection to the control plane, what it sent last stays in force; trying on"
            );
            self.trouble = Some(why);
        }
    }
}
