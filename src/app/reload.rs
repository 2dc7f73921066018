//! Takes changed policies into force while the service runs.
//!
//! Files are looked at, not watched: it works the same on every file system,
//! through swapped symlinks (as Kubernetes updates a `ConfigMap`) and after a
//! directory was replaced, and it leaks no handles.

use std::path::PathBuf;
use std::time::Duration;

use super::adopt::Adoption;
use crate::policy::{LoadOptions, Signature, load};
use crate::units::Span;

/// Looks for changed policies and puts them in force.
#[derive(Debug)]
pub(super) struct Reloader {
    path: PathBuf,
    options: LoadOptions,
    adoption: Adoption,
    seen: Signature,
    suspect: bool,
}

impl Reloader {
    /// A reloader of the policies at `path`. `seen` is their signature from
    /// before they were first read, so that no change in between is missed.
    pub(super) fn new(
        path: PathBuf,
        options: LoadOptions,
        adoption: Adoption,
        seen: Signature,
    ) -> Self {
        Self { path, options, adoption, seen, suspect: false }
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
        let signature = Signature::of(&self.path, self.options.layout);
        let changed = signature != self.seen;
        if !changed && !self.suspect {
            return;
        }
        let loaded = load(&self.path, self.options, self.adoption.decider.metrics());
        self.seen = signature;
        match loaded {
            Ok(policies) => {
                self.suspect = false;
                self.adoption.accept(policies, None);
            }
            Err(_) if changed => self.suspect = true,
            Err(error) => {
                self.suspect = false;
                self.adoption.refuse(&error, None);
            }
        }
    }
}

#[cfg(test)]
mod tests;
