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
        let link = Link { metrics: metrics.clone(), up: false, reasons: Vec::new() };
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
            link.down(&options, &why);
            tracing::debug!(?delay, "the control plane is tried again after a pause");
            tokio::time::sleep(delay).await;
        }
    }
}

/// Longest reason in a log, in characters.
const MAX_REASON: usize = 1_000;

/// Reasons of one outage that are told; more of them alternate for ever.
const MAX_REASONS: usize = 8;

/// What was last said about the connection: every change is told once.
#[derive(Debug)]
struct Link {
    metrics: Metrics,
    /// Whether a response has come since it was last told that none comes.
    up: bool,
    /// Why there is no connection, as told since there was one.
    reasons: Vec<String>,
}

impl Link {
    /// A response came.
    fn up(&mut self, options: &XdsOptions) {
        self.reasons.clear();
        if !std::mem::replace(&mut self.up, true) {
            tracing::info!(server = %options.server, "the control plane answers");
        }
    }

    /// The connection, if there was one, is gone.
    fn down(&mut self, options: &XdsOptions, why: &str) {
        self.up = false;
        let why = one_line(why);
        if self.reasons.len() < MAX_REASONS && !self.reasons.contains(&why) {
            tracing::warn!(
                server = %options.server,
                %why,
                "no connection to the control plane, what it sent last stays in force; trying on"
            );
            self.reasons.push(why);
        }
    }
}

/// A reason as logs may hold it. Parts of it are the server's own words.
fn one_line(text: &str) -> String {
    let plain = |char: char| if char.is_control() { ' ' } else { char };
    text.chars().take(MAX_REASON).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_cannot_write_lines_of_the_log() {
        assert_eq!(
            one_line("gone\n2026-11-30 INFO all is well"),
            "gone 2026-11-30 INFO all is well"
        );
        assert_eq!(one_line(&"x".repeat(10_000)).len(), MAX_REASON);
    }
}
