//! What has changed, as lines.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::mogrify::Mogrifier;
use super::{Dialect, StatsdOptions};
use crate::telemetry::calls::Sampled;
use crate::telemetry::dotted::{self, Stat, StatValue};
use crate::telemetry::metrics::Metrics;

/// Lines that are sent together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// One line per metric, each with its line end.
    pub text: String,
    /// The counters that it tells of and what they stood at.
    counters: Vec<(String, u64)>,
}

/// What the server knows already, and how it is told more.
#[derive(Debug)]
pub(super) struct Report {
    known: HashMap<String, u64>,
    room: usize,
    tags: Vec<(String, String)>,
    /// Tags stand after the type, and names are mogrified; else tags stand in
    /// the name.
    dog: Option<Vec<Mogrifier>>,
}

impl Report {
    pub(super) fn new(options: &StatsdOptions) -> Self {
        let mut tags = options.tags.clone();
        tags.sort();
        let dog = match &options.dialect {
            Dialect::Statsd => None,
            Dialect::DogStatsd(mogrifiers) => Some(mogrifiers.clone()),
        };
        Self { known: HashMap::new(), room: options.protocol.room(), tags, dog }
    }

    /// What the server does not know yet.
    pub(super) fn gather(&mut self, metrics: &Metrics) -> Vec<Batch> {
        let mut batches = Batches { room: self.room, full: Vec::new(), last: Batch::default() };
        for Stat { name, value } in dotted::stats(metrics) {
            match value {
                StatValue::Counter(count) => {
                    let known = self.known.get(&name).copied().unwrap_or_default();
                    let more = count.saturating_sub(known);
                    if more > 0 {
                        batches.add(&self.line(&name, format_args!("{more}|c")));
                        batches.last.counters.push((name, count));
                    }
                }
                StatValue::Gauge(gauge) => {
                    batches.add(&self.line(&name, format_args!("{gauge}|g")));
                }
                // Told call by call, below.
                StatValue::Times { .. } => {}
            }
        }
        for (method, sampled) in metrics.calls.take_samples() {
            let name = dotted::response_time(method.name());
            self.add_times(&name, &sampled, &mut batches);
        }
        batches.full.push(batches.last);
        batches.full.retain(|batch| !batch.text.is_empty());
        batches.full
    }

    /// The server knows this now.
    pub(super) fn sent(&mut self, batch: Batch) {
        self.known.extend(batch.counters);
    }

    #[allow(clippy::cast_precision_loss, reason = "a share of calls need not be exact")]
    fn add_times(&self, name: &str, sampled: &Sampled, batches: &mut Batches) {
        let all = sampled.micros.len() as u64 >= sampled.calls;
        let share = sampled.micros.len() as f64 / sampled.calls.max(1) as f64;
        for &micros in &sampled.micros {
            let millis = f64::from(micros) / 1_000.0;
            batches.add(&if all {
                self.line(name, format_args!("{millis}|ms"))
            } else {
                self.line(name, format_args!("{millis}|ms|@{share:.6}"))
            });
        }
    }

    fn line(&self, name: &str, value: std::fmt::Arguments<'_>) -> String {
        let mut line = String::with_capacity(name.len() + 24);
        // Writing to a string cannot fail.
        let _ = match &self.dog {
            None => {
                line.push_str(name);
                for (tag, value) in &self.tags {
                    let _ = write!(line, ".__{tag}={value}");
                }
                writeln!(line, ":{value}")
            }
            Some(mogrifiers) => {
                let mogrified = mogrifiers.iter().find_map(|mogrifier| mogrifier.apply(name));
                let (name, more) = mogrified.unwrap_or_else(|| (name.to_owned(), Vec::new()));
                let _ = write!(line, "{name}:{value}");
                for (number, (tag, value)) in self.tags.iter().chain(&more).enumerate() {
                    let before = if number == 0 { "|#" } else { "," };
                    let _ = write!(line, "{before}{tag}:{}", value.replace(',', "_"));
                }
                writeln!(line)
            }
        };
        line
    }
}

struct Batches {
    room: usize,
    full: Vec<Batch>,
    last: Batch,
}

impl Batches {
    /// Adds a line, in a new batch where it does not fit.
    fn add(&mut self, line: &str) {
        if !self.last.text.is_empty() && self.last.text.len() + line.len() > self.room {
            self.full.push(std::mem::take(&mut self.last));
        }
        self.last.text.push_str(line);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Protocol;
    use super::*;
    use crate::telemetry::calls::Method;
    use crate::telemetry::metrics::MetricOptions;
    use crate::units::Span;

    fn options(dialect: Dialect) -> StatsdOptions {
        let tags = vec![("zone".into(), "b".into()), ("env".into(), "prod".into())];
        let (protocol, interval) = (Protocol::Udp, Span::from_secs(1));
        StatsdOptions { host: String::new(), port: 0, protocol, dialect, tags, interval }
    }

    fn metrics() -> Metrics {
        Metrics::with(MetricOptions { samples: true, ..MetricOptions::default() })
    }

    fn lines(batches: &[Batch], part: &str) -> Vec<String> {
        let lines = batches.iter().flat_map(|batch| batch.text.lines());
        lines.filter(|line| line.contains(part)).map(str::to_owned).collect()
    }

    #[test]
    fn counters_are_told_by_how_much_they_grew_since_it_was_sent() {
        let (metrics, mut report) = (metrics(), Report::new(&options(Dialect::Statsd)));
        assert!(lines(&report.gather(&metrics), "|c").is_empty(), "nothing has happened");
        metrics.config_load_success.inc_by(2);
        let name = "ratelimit.service.config_load_success.__env=prod.__zone=b";
        let first = report.gather(&metrics);
        assert_eq!(lines(&first, "|c"), [format!("{name}:2|c")]);
        assert_eq!(lines(&report.gather(&metrics), "|c").len(), 1, "it was not sent");
        metrics.config_load_success.inc();
        let second = report.gather(&metrics);
        assert_eq!(lines(&second, "|c"), [format!("{name}:3|c")]);
        for batch in second {
            report.sent(batch);
        }
        metrics.config_load_success.inc();
        assert_eq!(lines(&report.gather(&metrics), "|c"), [format!("{name}:1|c")]);
    }

    #[test]
    fn no_packet_is_larger_than_what_fits() {
        let (metrics, mut report) = (metrics(), Report::new(&options(Dialect::Statsd)));
        for number in 0..200 {
            let _ = metrics.rule("d", &[format!("key_{number}")]);
        }
        for micros in 0..3_000 {
            metrics.calls.answered(Method::Json, Duration::from_micros(micros));
        }
        let batches = report.gather(&metrics);
        assert!(batches.len() > 10);
        assert!(batches.iter().all(|batch| batch.text.len() <= 1432 && batch.text.ends_with('\n')));
        let times = lines(&batches, "ratelimit_server.json.response_time");
        assert_eq!(times.len(), 1024);
        assert!(times.iter().all(|line| line.ends_with("|ms|@0.341333")), "{}", times[0]);
        assert!(lines(&report.gather(&metrics), "response_time").is_empty());
    }

    #[test]
    fn datadog_gets_tags_after_the_type() {
        let mogrifier = Mogrifier::from_settings("X", |variable| {
            let text = match variable {
                "DOG_STATSD_MOGRIFIER_X_PATTERN" => r"^tidegate\.store_errors\.(.*)$",
                "DOG_STATSD_MOGRIFIER_X_NAME" => "store.errors",
                _ => "kind:$1",
            };
            Some(text.to_owned())
        });
        let dialect = Dialect::DogStatsd(vec![mogrifier.unwrap()]);
        let (metrics, mut report) = (metrics(), Report::new(&options(dialect)));
        metrics.store_errors.with_label_values(&["a,b"]).inc();
        metrics.config_load_error.inc();
        metrics.calls.answered(Method::ShouldRateLimit, Duration::from_micros(1_250));
        let batches = report.gather(&metrics);
        assert_eq!(lines(&batches, "store.errors"), ["store.errors:1|c|#env:prod,zone:b,kind:a_b"]);
        let told = lines(&batches, "config_load_error");
        assert_eq!(told, ["ratelimit.service.config_load_error:1|c|#env:prod,zone:b"]);
        let told = lines(&batches, "response_time");
        let timer = "ratelimit_server.ShouldRateLimit.response_time";
        assert_eq!(told, [format!("{timer}:1.25|ms|#env:prod,zone:b")]);
    }
}
