//! Where the configuration comes from, at the start and later.

use std::path::PathBuf;

use super::adopt::{Adoption, tell_slips};
use super::options::ConfigSource;
use super::reload::Reloader;
use crate::policy::{LoadError, LoadOptions, Policies, Signature, load, load_resources};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::readiness::Readiness;
use crate::units::Span;
use crate::xds::{Client, Update, XdsOptions};

/// What there is at the start.
pub(super) struct Configuration {
    /// The rules, unless they come later.
    pub(super) policies: Option<Policies>,
    pub(super) readiness: Readiness,
    pub(super) source: Source,
    /// Why there are no rules although they were read.
    pub(super) refused: Option<LoadError>,
}

/// How to begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// How to read rules.
    pub(super) load: LoadOptions,
    /// With bad files, too.
    pub(super) with_bad: bool,
}

/// What changes will come from.
pub(super) enum Source {
    Files { path: PathBuf, seen: Signature, interval: Span },
    Xds(Box<XdsOptions>),
}

/// What is followed while the service runs.
#[derive(Debug)]
pub(super) enum Followed {
    Files { reloader: Reloader, interval: Span },
    Xds { client: Box<Client>, load: LoadOptions, adoption: Adoption },
}

impl Configuration {
    /// Reads files. A control plane is not waited for: who asks meanwhile is
    /// told so.
    pub(super) fn first(
        source: ConfigSource,
        start: Start,
        metrics: &Metrics,
    ) -> Result<Self, LoadError> {
        let origin = source.to_string();
        match source {
            ConfigSource::Files { path, reload_interval } => {
                let seen = Signature::of(&path, start.load.layout);
                let loaded = load(&path, start.load, metrics);
                let source = Source::Files { path, seen, interval: reload_interval };
                match loaded {
                    Ok(policies) => {
                        tell_slips(&policies);
                        metrics.config_load_success.inc();
                        let readiness = Readiness::new(origin);
                        Ok(Self { policies: Some(policies), readiness, source, refused: None })
                    }
                    Err(error) if start.with_bad => {
                        let readiness = Readiness::awaiting(origin, false);
                        Ok(Self { policies: None, readiness, source, refused: Some(error) })
                    }
                    Err(error) => Err(error),
                }
            }
            ConfigSource::Xds(xds) => Ok(Self {
                policies: None,
                readiness: Readiness::awaiting(origin, !xds.start_without_config),
                source: Source::Xds(xds),
                refused: None,
            }),
        }
    }
}

impl Source {
    /// What is to be followed; what comes of it is put in force by `adoption`.
    pub(super) fn followed(self, load: LoadOptions, adoption: Adoption) -> Followed {
        match self {
            Self::Files { path, seen, interval } => {
                let reloader = Reloader::new(path, load, adoption, seen);
                Followed::Files { reloader, interval }
            }
            Self::Xds(options) => {
                let client = Box::new(Client::new(*options, adoption.decider.metrics()));
                Followed::Xds { client, load, adoption }
            }
        }
    }
}

impl Followed {
    /// Takes changes into force, as long as there can be any.
    pub(super) async fn run(self) {
        match self {
            Self::Files { interval, .. } if interval.is_zero() => {}
            Self::Files { reloader, interval } => reloader.run(interval).await,
            Self::Xds { client, load, adoption } => {
                client.run(move |update| adopted(&adoption, load, &update)).await;
            }
        }
    }
}

/// Puts the rules of `update` in force if they are good.
fn adopted(adoption: &Adoption, load: LoadOptions, update: &Update) -> Result<(), LoadError> {
    let Update { version, resources } = update;
    let version = (!version.is_empty()).then_some(&**version);
    match load_resources(resources, load, adoption.decider.metrics()) {
        Ok(policies) => adoption.accept(policies, version),
        Err(error) => {
            adoption.refuse(&error, version);
            return Err(error);
        }
    }
    Ok(())
}
