//! Every metric, in one file. Label values come from the configuration or from
//! a closed set; those that come from requests, since rules ask for it, are
//! bounded in number and length by [`series`](super::series).

mod store;

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use prometheus::proto::MetricFamily;
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder};

use super::calls::Calls;
use super::maker::Maker;
pub use super::maker::{Description, LABELS};
use super::series::{Counters, NameBuf, NamedSeries, Sanitizer};
use crate::limit::{Cost, Verdict};
use crate::units::Hits;
pub use store::StoreMetrics;

const RULE_LABELS: &[&str] = &["domain", "key1", "key2"];

/// What may be chosen about metrics.
#[derive(Clone, Debug)]
pub struct MetricOptions {
    /// Most series that requests can name.
    pub max_series: NonZeroUsize,
    /// How texts become parts of names.
    pub sanitizer: Sanitizer,
    /// Labels that every series carries.
    pub labels: HashMap<String, String>,
    /// Single response times are kept for statsd.
    pub samples: bool,
}

impl Default for MetricOptions {
    fn default() -> Self {
        const MAX_SERIES: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();
        let (sanitizer, labels) = (Sanitizer::default(), HashMap::new());
        Self { max_series: MAX_SERIES, sanitizer, labels, samples: false }
    }
}

/// All metrics of one service, with the names of envoyproxy/ratelimit where it
/// has them.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    described: Arc<[Description]>,
    rules: RuleMetrics,
    named: Arc<NamedSeries>,
    /// Calls answered, by method.
    pub calls: Calls,
    /// Decisions counted in an overflow series.
    pub series_overflow: IntCounter,
    /// Series that requests named.
    series: IntGauge,
    /// Failed calls, by `err_type`.
    pub errors: IntCounterVec,
    /// Requests whose refusal global shadow mode turned into OK.
    pub global_shadow_mode: IntCounter,
    /// Descriptors of unknown domains.
    pub domain_not_found: IntCounter,
    /// Configurations taken into force.
    pub config_load_success: IntCounter,
    /// Configurations refused.
    pub config_load_error: IntCounter,
    /// 1 while the newest configuration is refused and an older one is in force.
    pub config_stale: IntGauge,
    /// 1 under the version in force, if a control plane gave it one. One series:
    /// it is reset for every version.
    pub config_version: IntGaugeVec,
    /// 1 while the control plane is connected.
    pub xds_connected: IntGauge,
    /// Decisions answered by the failure mode instead of the store, by reason.
    pub store_errors: IntCounterVec,
    /// Requests answered in full or in part by a failure mode, by mode.
    pub degraded_decisions: IntCounterVec,
    /// What is known of the store.
    pub store: StoreMetrics,
    /// The same of the store for limits of one second, where there is another.
    pub per_second_store: StoreMetrics,
    /// Limits answered by the near cache.
    pub near_cache_hits: IntCounter,
    /// Refusals that the near cache knows.
    pub near_cache_entries: IntGauge,
    /// Refusals that the near cache gave up to stay within its bound.
    pub near_cache_evicted: IntCounter,
    /// Requests served from leases.
    pub lease_served: IntCounter,
    /// Hits leased.
    pub lease_taken: IntCounter,
    /// Leased hits given back.
    pub lease_returned: IntCounter,
    /// Keys held by the memory store.
    pub memory_keys: IntGauge,
    /// Bytes held by the memory store, estimated.
    pub memory_bytes: IntGauge,
    /// Live keys that the memory store gave up to stay within its bound.
    pub memory_evicted: IntCounter,
}

#[derive(Clone, Debug)]
struct RuleMetrics {
    total_hits: IntCounterVec,
    over_limit: IntCounterVec,
    over_limit_with_local_cache: IntCounterVec,
    near_limit: IntCounterVec,
    within_limit: IntCounterVec,
    shadow_mode: IntCounterVec,
}

/// The counters of one rule.
#[derive(Clone, Debug)]
pub struct RuleStats {
    total_hits: IntCounter,
    over_limit: IntCounter,
    over_limit_with_local_cache: IntCounter,
    near_limit: IntCounter,
    within_limit: IntCounter,
    shadow_mode: IntCounter,
}

impl Metrics {
    /// Fresh metrics in a registry of their own.
    pub fn new() -> Self {
        Self::with(MetricOptions::default())
    }

    /// The same, not as usual. Labels that every series carries must not have
    /// the names of other labels.
    ///
    /// # Panics
    /// Never: names are constants, each registered once in a new registry.
    pub fn with(options: MetricOptions) -> Self {
        let make = Maker::new(options.labels);
        Self {
            rules: RuleMetrics::new(&make),
            named: Arc::new(NamedSeries::new(options.max_series, options.sanitizer)),
            calls: Calls::new(&make, options.samples),
            series_overflow: make.counter(
                "tidegate_metric_series_overflow",
                "Decisions that were counted in an overflow series",
            ),
            series: make.gauge("tidegate_metric_series", "Rule series that requests have named"),
            errors: errors(&make),
            global_shadow_mode: make.counter(
                "ratelimit_service_global_shadow_mode",
                "Requests whose refusal the global shadow mode let pass",
            ),
            domain_not_found: make.counter(
                "ratelimit_service_domain_not_found",
                "Descriptors that came with an unknown domain",
            ),
            config_load_success: make.counter(
                "ratelimit_service_config_load_success",
                "Configurations taken into force",
            ),
            config_load_error: make
                .counter("ratelimit_service_config_load_error", "Configurations refused"),
            config_stale: make.gauge(
                "tidegate_config_stale",
                "1 while the newest configuration is refused and an older one is in force",
            ),
            config_version: make.registered(IntGaugeVec::new(
                Opts::new(
                    "tidegate_config_version_info",
                    "1, under the version that the control plane gave the configuration in force",
                ),
                &["version"],
            )),
            xds_connected: make.gauge(
                "tidegate_xds_connected",
                "1 while there is a connection to the control plane that sends the configuration",
            ),
            store_errors: make.labelled(
                "tidegate_store_errors",
                "Decisions that the store failed to make, by reason, asked or not",
                "kind",
            ),
            degraded_decisions: make.labelled(
                "tidegate_degraded_decisions",
                "Requests answered, in full or in part, by a failure mode",
                "mode",
            ),
            store: StoreMetrics::new(&make, "", "the store"),
            per_second_store: StoreMetrics::new(
                &make,
                "per_second_",
                "the store for limits of one second, if there is another",
            ),
            near_cache_hits: make.counter(
                "tidegate_near_cache_hits",
                "Limits that were known to refuse, so that the store was not asked",
            ),
            near_cache_entries: make
                .gauge("tidegate_near_cache_entries", "Refusals that the near cache knows"),
            near_cache_evicted: make.counter(
                "tidegate_near_cache_evicted",
                "Refusals that the near cache gave up while it still believed them",
            ),
            lease_served: make.counter(
                "tidegate_lease_served",
                "Requests that passed by hits leased before, so that the store was not asked",
            ),
            lease_taken: make
                .counter("tidegate_lease_taken", "Hits that the store counted in advance"),
            lease_returned: make
                .counter("tidegate_lease_returned", "Leased hits that were given back unused"),
            memory_keys: make.gauge("tidegate_memory_keys", "Counters held in memory"),
            memory_bytes: make.gauge("tidegate_memory_bytes", "Memory held by counters, estimated"),
            memory_evicted: make.counter(
                "tidegate_memory_evicted",
                "Live counters given up to stay within the memory bound",
            ),
            described: make.descriptions(),
            registry: make.registry(),
        }
    }

    /// The counters of the rule with this place, the outermost step first; the
    /// same place has the same counters, across reloads.
    pub fn rule<S: AsRef<str>>(&self, domain: &str, steps: &[S]) -> RuleStats {
        let sanitizer = self.named.sanitizer();
        let mut parts = steps.iter().map(|step| sanitizer.part(step.as_ref()));
        let key1 = parts.next().unwrap_or_default();
        let key2 = parts.collect::<Vec<_>>().join(".");
        self.series(domain, &key1, &key2)
    }

    /// The counters that `request` names, or `overflow` where there is no room
    /// for more.
    pub fn named<'s>(
        &self,
        domain: &str,
        request: impl FnOnce(&mut NameBuf, Sanitizer),
        overflow: &'s RuleStats,
    ) -> Counters<'s> {
        let mut name = NameBuf::new(domain);
        request(&mut name, self.named.sanitizer());
        let made = |domain: &str, key1: &str, key2: &str| self.series(domain, key1, key2);
        if let Some(known) = self.named.get(name, made) {
            Counters::Named(known)
        } else {
            self.series_overflow.inc();
            Counters::Fixed(overflow)
        }
    }

    fn series(&self, domain: &str, key1: &str, key2: &str) -> RuleStats {
        let labels = &[domain, key1, key2];
        RuleStats {
            total_hits: self.rules.total_hits.with_label_values(labels),
            over_limit: self.rules.over_limit.with_label_values(labels),
            over_limit_with_local_cache: self
                .rules
                .over_limit_with_local_cache
                .with_label_values(labels),
            near_limit: self.rules.near_limit.with_label_values(labels),
            within_limit: self.rules.within_limit.with_label_values(labels),
            shadow_mode: self.rules.shadow_mode.with_label_values(labels),
        }
    }

    /// All metrics, also those without a series yet.
    pub fn descriptions(&self) -> &[Description] {
        &self.described
    }

    /// Everything, as it is now.
    pub fn gather(&self) -> Vec<MetricFamily> {
        self.series.set(i64::try_from(self.named.len()).unwrap_or(i64::MAX));
        self.registry.gather()
    }

    /// Everything in Prometheus' text format.
    pub fn render(&self) -> String {
        TextEncoder::new().encode_to_string(&self.gather()).unwrap_or_default()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

fn errors(make: &Maker) -> IntCounterVec {
    let (name, help) = ("should_rate_limit_error", "Calls that ended in an error");
    let errors = make.labelled(&format!("ratelimit_service_{name}"), help, "err_type");
    for kind in ["service_error", "redis_error"] {
        // A series that is there from the start can be alerted on.
        errors.with_label_values(&[kind]);
    }
    errors
}

impl RuleMetrics {
    fn new(make: &Maker) -> Self {
        let rule = |name: &str, help: &str| {
            let name = format!("ratelimit_service_rate_limit_{name}");
            make.registered(IntCounterVec::new(Opts::new(name, help), RULE_LABELS))
        };
        Self {
            total_hits: rule("total_hits", "Hits asked of a rule, whatever came of them"),
            over_limit: rule("over_limit", "Hits above the limit of a rule"),
            over_limit_with_local_cache: rule(
                "over_limit_with_local_cache",
                "Hits above the limit of a rule that the near cache refused",
            ),
            near_limit: rule("near_limit", "Hits in the last fifth of a rule's limit"),
            within_limit: rule("within_limit", "Hits within the limit of a rule"),
            shadow_mode: rule("shadow_mode", "Hits over the limit that shadow mode let pass"),
        }
    }
}

impl RuleStats {
    /// Counts one decision. A cost that crosses a threshold is split: only the
    /// part above the limit is over, only the part above `near` is near.
    pub fn record(&self, limit: Hits, near: Hits, cost: Cost, verdict: &Verdict, shadow: bool) {
        let Cost::Take(hits) = cost else { return };
        self.total_hits.inc_by(hits.get());
        let before = limit.minus(verdict.remaining_before);
        let after = before.plus(hits);
        if verdict.allowed {
            self.within_limit.inc_by(hits.get());
            self.near_limit.inc_by(after.minus(near.max(before)).get());
            return;
        }
        let over = over(limit, hits, verdict);
        self.over_limit.inc_by(over.get());
        self.near_limit.inc_by(limit.minus(near.max(before)).get());
        if shadow {
            self.shadow_mode.inc_by(over.get());
        }
    }

    /// Counts a refusal by the near cache, which is counted like any other as well.
    pub fn record_near(&self, limit: Hits, cost: Cost, verdict: &Verdict) {
        if let Cost::Take(hits) = cost {
            self.over_limit_with_local_cache.inc_by(over(limit, hits, verdict).get());
        }
    }
}

/// The part of `hits` that is above the limit.
fn over(limit: Hits, hits: Hits, verdict: &Verdict) -> Hits {
    let before = limit.minus(verdict.remaining_before);
    before.plus(hits).minus(limit.max(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arithmetic of the reference, at limit 20 with near 16.
    #[test]
    fn a_cost_that_crosses_a_threshold_is_split() {
        // (used before, cost) -> (over, near, within)
        let cases = [
            ((2, 3), (0, 0, 3)),
            ((16, 3), (0, 3, 3)),
            ((15, 3), (0, 2, 3)),
            ((19, 3), (2, 1, 0)),
            ((15, 7), (2, 4, 0)),
            ((20, 3), (3, 0, 0)),
        ];
        for ((used, cost), expected) in cases {
            let stats = Metrics::new().rule("d", &["k"]);
            let (limit, near, cost) = (Hits::new(20), Hits::new(16), Hits::new(cost));
            let verdict = Verdict {
                allowed: Hits::new(used).plus(cost) <= limit,
                remaining_before: limit.minus(Hits::new(used)),
                ..Verdict::default()
            };
            stats.record(limit, near, Cost::Take(cost), &verdict, false);
            let seen = (stats.over_limit.get(), stats.near_limit.get(), stats.within_limit.get());
            assert_eq!(seen, expected, "{used} used, {cost} asked");
        }
    }
}
