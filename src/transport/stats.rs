//! Ports of their own for statistics: Prometheus' and the one for debugging.
//!
//! Neither shows a profiler or takes orders, but both tell of the rules, and the
//! metrics of some carry what clients sent; so they are off unless asked for.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

use crate::decide::Decider;
use crate::policy::{Grant, Policies, Rule};
use crate::telemetry::dotted::{self, Stat, StatValue};
use crate::telemetry::metrics::Metrics;

/// What the paths of the debug port are for.
const INDEX: &str = "\
/: this list
/rlconfig: the rules in force
/stats: all statistics
";

/// The metrics at `path`, and nothing else.
pub fn prometheus(path: &str, metrics: Metrics) -> Router {
    let other = format!("not found; the metrics are at {path}\n");
    Router::new()
        .route(path, get(async move || exposition(&metrics)))
        .fallback(async move || (StatusCode::NOT_FOUND, other))
}

/// All metrics in Prometheus' text format.
pub fn exposition(metrics: &Metrics) -> Response {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], metrics.render()).into_response()
}

/// The debug port, with the paths and formats of envoyproxy/ratelimit. Unknown
/// paths show what there is.
pub fn debug(decider: Arc<Decider>) -> Router {
    let metrics = decider.metrics().clone();
    Router::new()
        .route(
            "/rlconfig",
            get(async move || {
                decider.policies().map_or_else(String::new, |policies| rules(&policies))
            }),
        )
        .route("/stats", get(async move || statistics(&metrics)))
        .route("/", get(async || INDEX))
        .fallback(async || (StatusCode::NOT_FOUND, format!("not found; there are:\n{INDEX}")))
}

/// One line per limit, sorted.
fn rules(policies: &Policies) -> String {
    let mut lines: Vec<String> = policies.rules().into_iter().flat_map(limits).collect();
    lines.sort_unstable();
    lines.concat()
}

/// The lines of one rule: one, or one for each of its rates.
fn limits(rule: &Rule) -> Vec<String> {
    let line = |unit: &str, requests_per_unit: u32| {
        let spec = &rule.spec;
        // One line is one limit, whatever stands in a rule.
        let key = rule.stat_key.replace(char::is_control, "_");
        format!(
            "{key}: unit={unit} requests_per_unit={requests_per_unit}, shadow_mode: {}, \
             quota_mode: {}\n",
            spec.shadow_mode, spec.quota_mode
        )
    };
    match &rule.spec.grant {
        Grant::Unlimited => vec![line("UNKNOWN", 0)],
        Grant::Limited(quotas) => {
            let terms = quotas.iter().map(|quota| (quota.unit(), quota.requests_per_unit()));
            terms.map(|(unit, amount)| line(&unit.name().to_ascii_uppercase(), amount)).collect()
        }
    }
}

/// One line per statistic, `name: value`; of response times how many there were
/// and how many milliseconds they took together.
fn statistics(metrics: &Metrics) -> String {
    let mut text = String::new();
    for Stat { name, value } in dotted::stats(metrics) {
        // Writing to a string cannot fail.
        let _ = match value {
            StatValue::Counter(count) => writeln!(text, "{name}: {count}"),
            StatValue::Gauge(gauge) => writeln!(text, "{name}: {gauge}"),
            StatValue::Times { count, sum } => {
                writeln!(text, "{name}.count: {count}\n{name}.sum_ms: {:.3}", sum * 1_000.0)
            }
        };
    }
    text
}
