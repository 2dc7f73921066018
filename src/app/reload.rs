//! Takes changed policies into force while the service runs.
//!
//! Files are looked at, not watched: it works the same on every file system,
//! through swapped symlinks (as Kubernetes updates a `ConfigMap`) and after a
//! directory was replaced, and it leaks no handles.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::decide::Decider;
use crate::policy::{LoadError, LoadOptions, Policies, Signature, load};
use crate::telemetry::readiness::Readiness;
use crate::units::Span;

/// Faults of one refused configuration that are logged, one line each.
const MAX_LOGGED: usize = 20;

/// Looks for changed policies and puts them in force.
#[derive(Debug)]
pub struct Reloader {
    path: PathBuf,
    options: LoadOptions,
    decider: Arc<Decider>,
    readiness: Arc<Readiness>,
    seen: Signature,
    suspect: bool,
}

impl Reloader {
    /// A reloader of the policies at `path`. `seen` is their signature from
    /// before they were first read, so that no change in between is missed.
    pub fn new(
        path: PathBuf,
        options: LoadOptions,
        decider: Arc<Decider>,
        readiness: Arc<Readiness>,
        seen: Signature,
    ) -> Self {
        Self { path, options, decider, readiness, seen, suspect: false }
    }

    /// Looks every `interval`, for ever.
    pub async fn run(mut self, interval: Span) {
        loop {
            tokio::time::sleep(Duration::from(interval)).await;
            // Reading files blocks, and a large configuration takes a while.
            let looked = tokio::task::spawn_blocking(move || {
                self.look();
                self
            });
            match looked.await {
                Ok(reloader) => self = reloader,
                Err(error) => {
                    tracing::error!(%error, "reloading has stopped: restart to load changes");
                    return;
                }
            }
        }
    }

    /// Looks once. Changed policies come into force at once if they are good.
    /// If not, they are looked at once more the next time: only then they are
    /// called bad, because they may have been half written.
    pub fn look(&mut self) {
        let signature = Signature::of(&self.path);
        let changed = signature != self.seen;
        if !changed && !self.suspect {
            return;
        }
        let loaded = load(&self.path, self.options, self.decider.metrics());
        self.seen = signature;
        match loaded {
            Ok(policies) => {
                self.suspect = false;
                self.accept(policies);
            }
            Err(_) if changed => self.suspect = true,
            Err(error) => {
                self.suspect = false;
                self.refuse(&error);
            }
        }
    }

    fn accept(&self, policies: Policies) {
        tracing::info!(
            config = %self.path.display(),
            domains = policies.len(),
            rules = policies.rule_count(),
            "the changed configuration is in force"
        );
        self.decider.replace_policies(policies);
        self.readiness.config_accepted();
        let metrics = self.decider.metrics();
        metrics.config_load_success.inc();
        metrics.config_stale.set(0);
    }

    fn refuse(&self, error: &LoadError) {
        let faults = error.to_string();
        for fault in faults.lines().take(MAX_LOGGED) {
            tracing::error!(config = %self.path.display(), "{fault}");
        }
        tracing::error!(
            config = %self.path.display(),
            lines_not_shown = faults.lines().count().saturating_sub(MAX_LOGGED),
            "the changed configuration is refused, the last good one stays in force"
        );
        self.readiness.config_refused(faults);
        let metrics = self.decider.metrics();
        metrics.config_load_error.inc();
        metrics.config_stale.set(1);
    }
}

#[cfg(test)]
mod tests;
