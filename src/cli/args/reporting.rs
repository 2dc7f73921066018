//! Flags about metrics and who is told of them.

use std::collections::HashMap;
use std::num::NonZeroUsize;

use axum::http::uri::PathAndQuery;
use clap::{ArgAction, Args, ValueEnum};

use super::tracing::Traces;
use crate::app::{PrometheusOptions, ReportOptions};
use crate::cli::values::{Value, count, parsed, span, truth};
use crate::telemetry::metrics::{LABELS, MetricOptions};
use crate::telemetry::series::Sanitizer;
use crate::telemetry::statsd::{Dialect, Mogrifier, MogrifierError, Protocol, StatsdOptions};
use crate::transport::listen::HostPort;
use crate::units::Span;

/// How the service tells of itself.
#[derive(Debug, Args)]
#[command(next_help_heading = "Metrics")]
pub(super) struct Reporting {
    /// Most metric series that requests can name, where rules have
    /// `detailed_metric` or `value_to_metric`; the rest is counted in one series
    /// per domain.
    #[arg(
        long, env = "TIDEGATE_MAX_METRIC_SERIES", value_name = "COUNT", default_value = "10000",
        value_parser = Value(count::<NonZeroUsize>)
    )]
    max_metric_series: NonZeroUsize,
    /// Replace dots in the metric names of rules, which otherwise split them in
    /// statsd.
    #[arg(
        long, env = "SANITIZE_DESCRIPTOR_METRIC_DOTS", value_name = "BOOL",
        value_parser = Value(truth), num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "false", action = ArgAction::Set
    )]
    sanitize_metric_dots: bool,
    /// Tags that every metric carries: `name:value,name:value`.
    #[arg(long, env = "EXTRA_TAGS", value_name = "TAGS", value_parser = Value(tags))]
    extra_tags: Option<Tags>,
    /// Serve the metrics on a port of their own, too.
    #[arg(
        long, env = "USE_PROMETHEUS", value_name = "BOOL", value_parser = Value(truth),
        num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", action = ArgAction::Set
    )]
    prometheus: bool,
    /// Where that port listens.
    #[arg(
        long, env = "PROMETHEUS_ADDR", value_name = "ADDRESS", default_value = ":9090",
        value_parser = Value(go_address)
    )]
    prometheus_addr: HostPort,
    /// The path of the metrics there.
    #[arg(
        long, env = "PROMETHEUS_PATH", value_name = "PATH", default_value = "/metrics",
        value_parser = Value(path)
    )]
    prometheus_path: String,
    /// Names are fixed: a mapping has no effect.
    #[arg(long, env = "PROMETHEUS_MAPPER_YAML", value_name = "PATH", hide = true)]
    prometheus_mapper_yaml: Option<String>,
    /// Send metrics to a statsd server; on where `--statsd-host` is given.
    #[arg(
        long, env = "USE_STATSD", value_name = "BOOL", value_parser = Value(truth),
        num_args = 0..=1, require_equals = true, default_missing_value = "true",
        action = ArgAction::Set
    )]
    statsd: Option<bool>,
    /// Send metrics in the dialect of Datadog, by UDP.
    #[arg(
        long, env = "USE_DOG_STATSD", value_name = "BOOL", value_parser = Value(truth),
        num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", action = ArgAction::Set
    )]
    dog_statsd: bool,
    /// Names of mogrifiers, which turn parts of metric names into Datadog's tags:
    /// `NAME,NAME`, each described by `DOG_STATSD_MOGRIFIER_NAME_PATTERN`, `_NAME`
    /// and `_TAGS` in the environment.
    #[arg(long, env = "USE_DOG_STATSD_MOGRIFIERS", value_name = "NAMES", value_delimiter = ',')]
    dog_statsd_mogrifiers: Vec<String>,
    /// The host of the statsd server; localhost unless said otherwise.
    #[arg(long, env = "STATSD_HOST", value_name = "HOST")]
    statsd_host: Option<String>,
    /// The port of the statsd server.
    #[arg(long, env = "STATSD_PORT", value_name = "PORT", default_value = "8125")]
    statsd_port: u16,
    /// How the statsd server is reached.
    #[arg(
        long,
        env = "STATSD_PROTOCOL",
        value_name = "PROTOCOL",
        value_enum,
        default_value = "tcp"
    )]
    statsd_protocol: ProtocolArg,
    /// How often statsd is told.
    #[arg(
        long, env = "STATS_FLUSH_INTERVAL", value_name = "TIME", default_value = "10s",
        value_parser = Value(interval)
    )]
    stats_flush_interval: Span,
    /// Neither tell statsd nor serve a port for Prometheus. `/metrics` on the HTTP
    /// port stays.
    #[arg(
        long, env = "DISABLE_STATS", value_name = "BOOL", value_parser = Value(truth),
        num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", action = ArgAction::Set
    )]
    disable_stats: bool,
    /// Serve a debug port, `host:port`, with `/rlconfig` and `/stats`.
    #[arg(
        long, env = "TIDEGATE_DEBUG_LISTEN", value_name = "ADDRESS",
        value_parser = Value(parsed::<HostPort>)
    )]
    debug_listen: Option<HostPort>,
}

/// [`Protocol`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ProtocolArg {
    /// A connection.
    Tcp,
    /// Packets.
    Udp,
}

type Tags = Vec<(String, String)>;

/// Flags about metrics that contradict each other.
#[derive(Debug, thiserror::Error)]
pub enum ReportingError {
    /// Two dialects for one server.
    #[error(
        "USE_STATSD and USE_DOG_STATSD are both true, and one server is told in one way; set \
         USE_STATSD=false for Datadog"
    )]
    TwoDialects,
    /// A mogrifier cannot be used.
    #[error(transparent)]
    Mogrifier(#[from] MogrifierError),
}

impl Reporting {
    /// The same for the service.
    ///
    /// # Errors
    /// If what was given contradicts itself.
    pub(super) fn options(self, tracing: Traces) -> Result<ReportOptions, ReportingError> {
        if self.prometheus_mapper_yaml.is_some() {
            ::tracing::warn!(
                "PROMETHEUS_MAPPER_YAML has no effect: names and labels are always those of the \
                 default mapping"
            );
        }
        let statsd = if self.disable_stats { None } else { self.statsd()? };
        let prometheus = (self.prometheus && !self.disable_stats).then_some(PrometheusOptions {
            listen: self.prometheus_addr,
            path: self.prometheus_path,
        });
        let labels: HashMap<_, _> = self.extra_tags.unwrap_or_default().into_iter().collect();
        let metrics = MetricOptions {
            max_series: self.max_metric_series,
            sanitizer: Sanitizer { dots: self.sanitize_metric_dots },
            labels,
            samples: statsd.is_some(),
        };
        let (debug, spans) = (self.debug_listen, tracing.options());
        Ok(ReportOptions { metrics, statsd, prometheus, debug, spans })
    }

    fn statsd(&self) -> Result<Option<StatsdOptions>, ReportingError> {
        let host = self.statsd_host.as_deref().filter(|host| !host.is_empty());
        let wanted = self.statsd.unwrap_or(host.is_some() && !self.dog_statsd);
        let (protocol, dialect) = match (wanted, self.dog_statsd) {
            (true, true) => return Err(ReportingError::TwoDialects),
            (false, false) => return Ok(None),
            (true, false) => (self.statsd_protocol.into(), Dialect::Statsd),
            (false, true) => (Protocol::Udp, Dialect::DogStatsd(self.mogrifiers()?)),
        };
        Ok(Some(StatsdOptions {
            host: host.unwrap_or("localhost").to_owned(),
            port: self.statsd_port,
            protocol,
            dialect,
            tags: self.extra_tags.clone().unwrap_or_default(),
            interval: self.stats_flush_interval,
        }))
    }

    fn mogrifiers(&self) -> Result<Vec<Mogrifier>, MogrifierError> {
        let names = self.dog_statsd_mogrifiers.iter().map(|name| name.trim());
        let setting = |variable: &str| std::env::var(variable).ok();
        names
            .filter(|name| !name.is_empty())
            .map(|name| Mogrifier::from_settings(name, setting))
            .collect()
    }
}

impl From<ProtocolArg> for Protocol {
    fn from(arg: ProtocolArg) -> Self {
        match arg {
            ProtocolArg::Tcp => Self::Tcp,
            ProtocolArg::Udp => Self::Udp,
        }
    }
}

/// An address as Go writes it: without a host it stands for all interfaces.
fn go_address(text: &str) -> Result<HostPort, String> {
    if text.starts_with(':') { format!("0.0.0.0{text}").parse() } else { text.parse() }
}

/// A path that names one place: without a query, and nothing that routers take
/// for a wildcard.
fn path(text: &str) -> Result<String, String> {
    let plain = text.starts_with('/') && !text.contains(['{', '}', '*', ':', '?', '#']);
    match text.parse::<PathAndQuery>() {
        Ok(_) if plain => Ok(text.to_owned()),
        _ => Err("expected a path like /metrics".into()),
    }
}

/// A time that is not zero.
fn interval(text: &str) -> Result<Span, String> {
    match span(text)? {
        interval if interval < Span::from_millis(1) => Err("expected a time of 1ms or more".into()),
        interval => Ok(interval),
    }
}

/// `name:value,name:value`. The names are labels in Prometheus and must fit.
fn tags(text: &str) -> Result<Tags, String> {
    text.split(',').filter(|pair| !pair.is_empty()).map(tag).collect()
}

fn tag(pair: &str) -> Result<(String, String), String> {
    let (name, value) = pair.split_once(':').ok_or("expected name:value,name:value")?;
    let (name, value) = (name.trim(), value.trim());
    let fits =
        |at: usize, c: char| c == '_' || c.is_ascii_alphabetic() || (at > 0 && c.is_ascii_digit());
    if name.is_empty() || !name.chars().enumerate().all(|(at, c)| fits(at, c)) {
        return Err(format!(
            "\"{name}\" is no name of a tag: letters, digits and _, no digit first"
        ));
    }
    if LABELS.contains(&name) {
        return Err(format!("\"{name}\" is a label that metrics have already; take another name"));
    }
    if value.contains(|c: char| c.is_control() || matches!(c, '|' | ':' | '#')) {
        return Err(format!("the value of \"{name}\" has a character that separates metrics"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_may_leave_the_host_out_as_in_go() {
        assert_eq!(go_address(":9090"), "0.0.0.0:9090".parse());
        assert_eq!(go_address("127.0.0.1:1"), "127.0.0.1:1".parse());
        assert!(go_address("9090").is_err());
    }

    #[test]
    fn paths_are_plain() {
        assert_eq!(path("/a/b-c"), Ok("/a/b-c".into()));
        for text in ["", "metrics", "/{a}", "/a b", "/a?b", "/*"] {
            assert!(path(text).is_err(), "{text}");
        }
    }

    #[test]
    fn tags_are_pairs_with_names_that_labels_can_have() {
        let pairs = |text| tags(text).map(|tags| tags.len());
        assert_eq!((pairs("a:1,b_2:x.y"), pairs("")), (Ok(2), Ok(0)));
        for text in ["a", "1a:x", "a-b:x", "domain:x", "le:x", ":x", "a:b\nc", "a:x|y"] {
            assert!(tags(text).is_err(), "{text}");
        }
    }
}
