//! Puts configurations in force, whatever they came from, and tells.

use std::sync::Arc;

use crate::decide::Decider;
use crate::policy::{LoadError, Policies};
use crate::telemetry::readiness::Readiness;

/// Faults of one refused configuration that are logged, one line each.
const MAX_LOGGED: usize = 20;

/// Where configurations come into force.
#[derive(Clone, Debug)]
pub(super) struct Adoption {
    pub(super) decider: Arc<Decider>,
    pub(super) readiness: Arc<Readiness>,
    /// Where they come from, for people.
    pub(super) origin: String,
}

impl Adoption {
    /// Puts `policies` in force. `version` is what their origin calls them.
    pub(super) fn accept(&self, policies: Policies, version: Option<&str>) {
        tell_slips(&policies);
        tracing::info!(
            config = self.origin,
            version,
            domains = policies.len(),
            rules = policies.rule_count(),
            "the changed configuration is in force"
        );
        self.readiness.domains(policies.len());
        self.decider.replace_policies(policies);
        let metrics = self.decider.metrics();
        metrics.config_load_success.inc();
        metrics.config_stale.set(0);
        metrics.config_version.reset();
        if let Some(version) = version {
            metrics.config_version.with_label_values(&[version]).set(1);
        }
        self.readiness.config_accepted(version);
    }

    /// Tells why a configuration stays out of force.
    pub(super) fn refuse(&self, error: &LoadError, version: Option<&str>) {
        let faults = error.to_string();
        for fault in faults.lines().take(MAX_LOGGED) {
            tracing::error!(config = self.origin, "{fault}");
        }
        let consequence = match self.decider.policies() {
            Some(_) => "the last good one stays in force",
            None => "and there is no other: calls end in an error",
        };
        tracing::error!(
            config = self.origin,
            version,
            lines_not_shown = faults.lines().count().saturating_sub(MAX_LOGGED),
            "the configuration is refused, {consequence}"
        );
        self.readiness.config_refused(faults);
        let metrics = self.decider.metrics();
        metrics.config_load_error.inc();
        metrics.config_stale.set(1);
    }
}

/// Tells what was let pass.
pub(super) fn tell_slips(policies: &Policies) {
    let slips = policies.slips();
    for slip in slips.iter().take(MAX_LOGGED) {
        tracing::warn!("ignored, as by envoyproxy/ratelimit: {slip}");
    }
    if slips.len() > MAX_LOGGED {
        tracing::warn!(not_shown = slips.len() - MAX_LOGGED, "more is ignored");
    }
}
