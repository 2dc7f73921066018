//! Calls and how long they took.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter};

use super::maker::Maker;

/// The name of the histogram.
pub const RESPONSE_TIME: &str = "ratelimit_service_response_time_seconds";
/// Those of the reference, and finer ones within Envoy's 20 ms, in seconds.
const BUCKETS: [f64; 18] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.02, 0.025, 0.05, 0.1,
    0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];
/// Response times of one method that statsd is told of each time: enough for
/// the 99th percentile, and some 50 packets.
const SAMPLES: usize = 1024;

/// Ways to ask for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// By gRPC.
    ShouldRateLimit,
    /// As JSON over HTTP.
    Json,
}

impl Method {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::ShouldRateLimit, Self::Json];

    /// The label `grpc_method`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ShouldRateLimit => "ShouldRateLimit",
            Self::Json => "json",
        }
    }
}

/// Calls by method.
#[derive(Clone, Debug)]
pub struct Calls([Call; 2]);

/// Calls of one method.
#[derive(Clone, Debug)]
struct Call {
    requests: IntCounter,
    time: Histogram,
    samples: Arc<Samples>,
}

impl Calls {
    pub(super) fn new(make: &Maker, samples: bool) -> Self {
        let requests =
            make.labelled("ratelimit_service_total_requests", "Calls by method", "grpc_method");
        let options = HistogramOpts::new(RESPONSE_TIME, "Time to answer a call, by method");
        let options = options.buckets(BUCKETS.to_vec());
        let times = make.registered(HistogramVec::new(options, &["grpc_method"]));
        let call = |method: Method| Call {
            requests: requests.with_label_values(&[method.name()]),
            time: times.with_label_values(&[method.name()]),
            samples: Arc::new(Samples::new(if samples { SAMPLES } else { 0 })),
        };
        Self(Method::ALL.map(call))
    }

    /// A call was answered, with a decision or an error.
    pub fn answered(&self, method: Method, after: Duration) {
        let call = &self.0[method as usize];
        call.requests.inc();
        call.time.observe(after.as_secs_f64());
        call.samples.record(after);
    }

    /// Response times since this was last called.
    pub(super) fn take_samples(&self) -> impl Iterator<Item = (Method, Sampled)> {
        Method::ALL.into_iter().map(|method| (method, self.0[method as usize].samples.take()))
    }
}

/// Some response times out of many.
#[derive(Debug, Default)]
pub(super) struct Sampled {
    /// In microseconds.
    pub micros: Vec<u32>,
    /// How many calls there were.
    pub calls: u64,
}

/// A sample of the response times of an interval, in which each call is as
/// likely to be as any other. A call that ends while the sample is taken may
/// leave a time of the interval before in its place: nobody can tell.
#[derive(Debug)]
struct Samples {
    calls: AtomicU64,
    micros: Box<[AtomicU32]>,
}

impl Samples {
    fn new(most: usize) -> Self {
        let micros = (0..most).map(|_| AtomicU32::new(0)).collect();
        Self { calls: AtomicU64::new(0), micros }
    }

    fn record(&self, time: Duration) {
        if self.micros.is_empty() {
            return;
        }
        let before = self.calls.fetch_add(1, Ordering::Relaxed);
        let full = before >= self.micros.len() as u64;
        let place = if full { fastrand::u64(0..=before) } else { before };
        if let Some(slot) = usize::try_from(place).ok().and_then(|place| self.micros.get(place)) {
            slot.store(u32::try_from(time.as_micros()).unwrap_or(u32::MAX), Ordering::Relaxed);
        }
    }

    fn take(&self) -> Sampled {
        let calls = self.calls.swap(0, Ordering::Relaxed);
        let taken = usize::try_from(calls).unwrap_or(usize::MAX).min(self.micros.len());
        let taken = self.micros.iter().take(taken);
        Sampled { micros: taken.map(|slot| slot.load(Ordering::Relaxed)).collect(), calls }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_calls_are_all_told_and_of_many_a_fair_part() {
        let samples = Samples::new(100);
        for micros in [7, 8, 9] {
            samples.record(Duration::from_micros(micros));
        }
        let few = samples.take();
        assert_eq!((few.micros, few.calls), (vec![7, 8, 9], 3));
        assert_eq!(samples.take().calls, 0);

        for micros in 0..10_000 {
            samples.record(Duration::from_micros(micros));
        }
        let many = samples.take();
        assert_eq!((many.micros.len(), many.calls), (100, 10_000));
        let late = many.micros.iter().filter(|micros| **micros >= 5_000).count();
        assert!((10..=90).contains(&late), "{late} of 100 from the later half");
    }

    #[test]
    fn nothing_is_kept_where_nobody_asks() {
        let samples = Samples::new(0);
        samples.record(Duration::from_secs(1));
        assert_eq!(samples.take().calls, 0);
    }
}
