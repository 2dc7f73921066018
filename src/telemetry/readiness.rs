//! Whether the service should get traffic, and what operators should know.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use serde::Serialize;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

/// What the process knows about its own state; shared by all that change or
/// tell it.
#[derive(Debug)]
pub struct Readiness {
    draining: AtomicBool,
    store_missing: AtomicBool,
    config: RwLock<ConfigState>,
}

/// The configuration in force and the one on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConfigState {
    /// Where it is read from.
    pub path: String,
    /// When the one in force was read, in RFC 3339 notation, UTC.
    pub loaded_at: String,
    /// Whether the one on disk is refused, so that an older one is in force.
    pub stale: bool,
    /// Why it is refused.
    pub error: Option<String>,
}

impl Readiness {
    /// A service that is ready, with the configuration of `path` just read.
    pub fn new(path: String) -> Self {
        let config = ConfigState { path, loaded_at: now(), stale: false, error: None };
        let (draining, store_missing) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { draining, store_missing, config: RwLock::new(config) }
    }

    /// The configuration on disk has come into force.
    pub fn config_accepted(&self) {
        let mut config = self.config.write();
        config.loaded_at = now();
        config.stale = false;
        config.error = None;
    }

    /// The configuration on disk is refused; the one in force stays.
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
        !self.draining.load(Ordering::Acquire) && !self.store_missing.load(Ordering::Acquire)
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
