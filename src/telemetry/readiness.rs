//! Whether the service should get traffic, and what operators should know.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use serde::Serialize;
use tokio::sync::watch;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

/// What the process knows about its own state; shared by all that change or
/// tell it.
#[derive(Debug)]
pub struct Readiness {
    draining: AtomicBool,
    store_missing: AtomicBool,
    config_missing: AtomicBool,
    rules_missing: AtomicBool,
    rules_needed: AtomicBool,
    config: RwLock<ConfigState>,
    changes: watch::Sender<bool>,
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
            rules_missing: AtomicBool::new(false),
            rules_needed: AtomicBool::new(false),
            config: RwLock::new(config),
            changes: watch::Sender::new(!needed),
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
        self.config_missing.store(false, Ordering::Release);
        self.tell();
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
        self.tell();
    }

    /// Whether the service lacks a store that it cannot do without.
    pub fn store_missing(&self, missing: bool) {
        self.store_missing.store(missing, Ordering::Release);
        self.tell();
    }

    /// Whether the service should get traffic. A refused configuration does not
    /// count: the one in force goes on deciding.
    pub fn is_ready(&self) -> bool {
        let needed = |flag: &AtomicBool| flag.load(Ordering::Acquire);
        let rules_missing = needed(&self.rules_needed) && needed(&self.rules_missing);
        let missing = [&self.draining, &self.store_missing, &self.config_missing];
        !rules_missing && !missing.into_iter().any(needed)
    }

    /// Whether there must be rules of at least one domain.
    pub fn need_rules(&self, needed: bool) {
        self.rules_needed.store(needed, Ordering::Release);
        self.tell();
    }

    /// How many domains there are rules for.
    pub fn domains(&self, count: usize) {
        self.rules_missing.store(count == 0, Ordering::Release);
        self.tell();
    }

    /// Tells whenever [`Readiness::is_ready`] changes.
    pub fn changes(&self) -> watch::Receiver<bool> {
        self.changes.subscribe()
    }

    fn tell(&self) {
        let ready = self.is_ready();
        self.changes.send_if_modified(|told| std::mem::replace(told, ready) != ready);
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
