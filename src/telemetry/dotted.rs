//! The metrics under the dotted names of envoyproxy/ratelimit, for statsd and
//! for the debug port.

use prometheus::proto::{Metric, MetricFamily, MetricType};

use super::calls::RESPONSE_TIME;
use super::metrics::Metrics;

/// How names of metrics of our own begin, and those of the reference.
const OURS: (&str, &str) = ("tidegate_", "tidegate.");
const SERVICE: (&str, &str) = ("ratelimit_service_", "ratelimit.service.");

/// One metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Stat {
    /// Its dotted name, with the values of its labels.
    pub name: String,
    /// What it says.
    pub value: StatValue,
}

/// What a metric says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StatValue {
    /// So many since the start.
    Counter(u64),
    /// As much as now.
    Gauge(f64),
    /// So many observations, of these seconds together.
    Times {
        /// Since the start.
        count: u64,
        /// In seconds.
        sum: f64,
    },
}

/// All metrics, sorted by their names.
pub fn stats(metrics: &Metrics) -> Vec<Stat> {
    let families = metrics.gather();
    let family = |family: &MetricFamily| {
        let stats = family.get_metric().iter().map(|metric| stat(family, metric));
        stats.collect::<Vec<_>>()
    };
    let mut stats: Vec<Stat> = families.iter().flat_map(family).collect();
    stats.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    stats
}

/// The name of the timer of calls by `method`.
pub fn response_time(method: &str) -> String {
    format!("ratelimit_server.{method}.response_time")
}

fn stat(family: &MetricFamily, metric: &Metric) -> Stat {
    Stat { name: name(family.name(), metric), value: value(family, metric) }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "our counters are integers, which the library hands out as doubles"
)]
fn value(family: &MetricFamily, metric: &Metric) -> StatValue {
    match family.get_field_type() {
        MetricType::COUNTER => StatValue::Counter(metric.get_counter().get_value() as u64),
        MetricType::HISTOGRAM => {
            let histogram = metric.get_histogram();
            StatValue::Times {
                count: histogram.get_sample_count(),
                sum: histogram.get_sample_sum(),
            }
        }
        _ => StatValue::Gauge(metric.get_gauge().get_value()),
    }
}

fn name(family: &str, metric: &Metric) -> String {
    let label = |name: &str| {
        let label = metric.get_label().iter().find(|label| label.name() == name);
        label.map(|label| fit(label.value())).unwrap_or_default()
    };
    match family.strip_prefix(SERVICE.0) {
        Some("should_rate_limit_error") => {
            format!("ratelimit.service.call.should_rate_limit.{}", label("err_type"))
        }
        Some("total_requests") => {
            format!("ratelimit_server.{}.total_requests", label("grpc_method"))
        }
        // The reference has one for each domain that anybody names.
        Some("domain_not_found") => "ratelimit.service.rate_limit._unknown.domain_not_found".into(),
        _ if family == RESPONSE_TIME => response_time(&label("grpc_method")),
        Some(rest) => match rest.strip_prefix("rate_limit_") {
            Some(what) => {
                let key2 = label("key2");
                let dot = if key2.is_empty() { "" } else { "." };
                let (domain, key1) = (label("domain"), label("key1"));
                format!("ratelimit.service.rate_limit.{domain}.{key1}{dot}{key2}.{what}")
            }
            None => format!("{}{rest}", SERVICE.1),
        },
        None => {
            let rest = family.strip_prefix(OURS.0).unwrap_or(family);
            let labels = ["kind", "mode", "to"].map(label);
            let labels = labels.iter().filter(|label| !label.is_empty());
            labels.fold(format!("{}{rest}", OURS.1), |name, label| format!("{name}.{label}"))
        }
    }
}

/// A label as a part of a name. Those of rules are fit already, but for domains.
fn fit(label: &str) -> String {
    label.replace(|c: char| matches!(c, ':' | '|') || c.is_control(), "_")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::telemetry::calls::Method;

    #[test]
    fn names_are_those_of_the_reference() {
        let metrics = Metrics::new();
        metrics.rule("a:b", &["k_v"]);
        metrics.rule("d", &["k", "l_/x.y", "m"]);
        metrics.errors.with_label_values(&["redis_error"]).inc();
        metrics.store_errors.with_label_values(&["timeout"]).inc_by(3);
        metrics.calls.answered(Method::ShouldRateLimit, Duration::from_millis(250));
        let stats = stats(&metrics);
        let value = |name: &str| stats.iter().find(|stat| stat.name == name).map(|stat| stat.value);
        for name in [
            "ratelimit.service.rate_limit.a_b.k_v.total_hits",
            "ratelimit.service.rate_limit.d.k.l_/x.y.m.within_limit",
            "ratelimit.service.config_load_success",
            "ratelimit.service.rate_limit._unknown.domain_not_found",
            "ratelimit.service.global_shadow_mode",
        ] {
            assert_eq!(value(name), Some(StatValue::Counter(0)), "{name}");
        }
        let one = Some(StatValue::Counter(1));
        assert_eq!(value("ratelimit.service.call.should_rate_limit.redis_error"), one);
        assert_eq!(value("ratelimit_server.ShouldRateLimit.total_requests"), one);
        assert_eq!(value("tidegate.store_errors.timeout"), Some(StatValue::Counter(3)));
        assert_eq!(value("tidegate.store_up"), Some(StatValue::Gauge(0.0)));
        assert_eq!(
            value("ratelimit_server.ShouldRateLimit.response_time"),
            Some(StatValue::Times { count: 1, sum: 0.25 })
        );
    }
}
