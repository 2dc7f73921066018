//! Whether the service should get traffic, and what operators should know.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use serde::Serialize;
use tokio::sync::Notify;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

/// What the process knows about its own state; shared by all that change or
/// tell it.
#[derive(Debug)]
pub struct Readiness {
    draining: AtomicBool,
    store_missing: AtomicBool,
    config_missing: AtomicBool,
    config: RwLock<ConfigState>,
    turned: Notify,
}

/// The configuration in force and the newest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConfigState {
    /// Where it is read from.
    pub path: String,
    /// When the one in force was read, in RFC 3339 notation, UTC; nothing while
    /// there is none.
    pub loaded_at: Option<String>,
    /// What the control plane that sent it calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether the newest is refused, so that an older one is in force.
    pub stale: bool,
    /// Why it is refused.
    pub error: Option<String>,
}

impl Readiness {
    /// A service that is ready, with the configuration of `path` just read.
    pub fn new(path: String) -> Self {
        let ready = Self::awaiting(path, false);
        ready.config.write().loaded_at = Some(now());
        ready
    }

    /// A service without a configuration yet, which is to come from `path`. If
    /// it is `needed`, the service is not ready before.
    pub fn awaiting(path: String, needed: bool) -> Self {
        let config =
            ConfigState { path, loaded_at: None, version: None, stale: false, error: None };
        Self {
            draining: AtomicBool::new(false),
            store_missing: AtomicBool::new(false),
            config_missing: AtomicBool::new(needed),
            config: RwLock::new(config),
            turned: Notify::new(),
        }
    }

    /// A new configuration has come into force.
    pub fn config_accepted(&self, version: Option<&str>) {
        let mut config = self.config.write();
        config.loaded_at = Some(now());
        config.version = version.map(Into::into);
        config.stale = false;
        config.error = None;
        drop(config);
        if self.config_missing.swap(false, Ordering::AcqRel) {
            self.turned.notify_one();
        }
    }

    /// The new configuration is refused; the one in force stays.
    pub fn config_refused(&self, error: String) {
        let mut config = self.config.write();
        config.stale = true;
        config.error = Some(error);
    }

    /// The service is about to stop and should get no more traffic.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Whether the service lacks a store that it cannot do without. Returns
    /// whether that is new.
    pub fn store_missing(&self, missing: bool) -> bool {
        self.store_missing.swap(missing, Ordering::AcqRel) != missing
    }

    /// Whether the service should get traffic. A refused configuration does not
    /// count: the one in force goes on deciding.
    pub fn is_ready(&self) -> bool {
        [&self.draining, &self.store_missing, &self.config_missing]
            .iter()
            .all(|obstacle| !obstacle.load(Ordering::Acquire))
    }

    /// Waits until the configuration that was missing has come; for one waiter.
    pub async fn turned(&self) {
        self.turned.notified().await;
    }

    /// The state of the configuration.
    pub fn config(&self) -> ConfigState {
        self.config.read().clone()
    }
}

/// The present moment as `2026-01-31T12:00:00.000000Z`.
fn now() -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    text
}
