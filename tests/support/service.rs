//! The service in this process, on either store, under a clock that the test
//! moves.

use std::sync::Arc;

use tidegate::clock::ManualClock;
use tidegate::decide::{Decider, Settings};
use tidegate::policy::{LoadOptions, load_texts};
use tidegate::proto::rate_limit_response::DescriptorStatus;
use tidegate::proto::{RateLimitRequest, RateLimitResponse, ResetRequest};
use tidegate::store::Store;
use tidegate::store::memory::MemoryStore;
use tidegate::store::redis::{RedisConfig, RedisStore};
use tidegate::telemetry::metrics::Metrics;
use tidegate::transport::rls::Rls;
use tidegate::units::{Span, Timestamp};
use tonic::Status;

use super::ask;
use super::redis::RedisServer;

/// 2026-11-30 02:12:49 UTC: in the middle of every window.
pub const NOW: Timestamp = Timestamp::from_secs(1_796_004_769);

/// Which store a test runs on.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Memory,
    Redis,
}

/// What a test sets up.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    pub files: Vec<(String, String)>,
    pub settings: Settings,
    pub merge_domains: bool,
    pub all_or_nothing: bool,
    pub reference_codes: bool,
}

/// A running service.
pub struct Service {
    pub rls: Rls,
    pub decider: Arc<Decider>,
    pub clock: ManualClock,
    pub metrics: Metrics,
    pub redis: Option<RedisServer>,
}

impl Setup {
    /// One file of one domain `t`, whose `rules` are the list under
    /// `descriptors:`.
    pub fn rules(rules: &str) -> Self {
        Self::file("t.yaml", &format!("domain: t\ndescriptors:\n{rules}\n"))
    }

    /// One file.
    pub fn file(name: &str, text: &str) -> Self {
        Self { files: vec![(name.into(), text.into())], ..Self::default() }
    }

    /// The same with `change` made to the settings.
    pub fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Starts the service on a store of this kind; `None` where there is no
    /// Redis to run and none is required.
    pub fn start(&self, kind: Kind) -> Option<Service> {
        let (store, redis) = match kind {
            Kind::Memory => (Store::Memory(MemoryStore::default()), None),
            Kind::Redis => {
                let server = RedisServer::redis()?;
                // A busy machine must not turn an answer into a failure.
                let deadline = Span::from_secs(10);
                let config = RedisConfig { deadline, ..RedisConfig::new(server.url()) };
                let store = RedisStore::connect(&config).unwrap_or_else(|error| panic!("{error}"));
                (Store::Redis(store), Some(server))
            }
        };
        Some(self.start_on(store, redis))
    }

    /// Starts the service on a given store.
    pub fn start_on(&self, store: Store, redis: Option<RedisServer>) -> Service {
        let metrics = Metrics::new();
        let files: Vec<(&str, &str)> =
            self.files.iter().map(|(name, text)| (&**name, &**text)).collect();
        let options = LoadOptions {
            merge_domains: self.merge_domains,
            all_or_nothing: self.all_or_nothing,
            ..LoadOptions::default()
        };
        let policies =
            load_texts(&files, options, &metrics).unwrap_or_else(|error| panic!("{error}"));
        let clock = ManualClock::at(NOW);
        let decider = Arc::new(Decider::new(
            Some(policies),
            store,
            clock.clone().into(),
            self.settings.clone(),
            metrics.clone(),
        ));
        let rls = Rls::new(decider.clone(), self.reference_codes);
        Service { rls, decider, clock, metrics, redis }
    }
}

impl Service {
    /// Asks domain `t`, in the notation of [`ask`]; errors read
    /// `error Code: message`.
    pub async fn ask(&self, text: &str) -> String {
        self.ask_in("t", text).await
    }

    /// Asks another domain.
    pub async fn ask_in(&self, domain: &str, text: &str) -> String {
        self.send(&ask::request(domain, text)).await.map_or_else(
            |status| format!("error {:?}: {}", status.code(), status.message()),
            |response| ask::answer(&response),
        )
    }

    /// Asks domain `t` several times.
    pub async fn ask_all<const N: usize>(&self, texts: [&str; N]) -> [String; N] {
        let mut answers = [const { String::new() }; N];
        for (text, answer) in texts.iter().zip(&mut answers) {
            *answer = self.ask(text).await;
        }
        answers
    }

    /// The status of the only descriptor in `text`.
    pub async fn status(&self, text: &str) -> DescriptorStatus {
        let response = self.send(&ask::request("t", text)).await.expect("an answer");
        response.statuses.first().cloned().expect("one status")
    }

    /// Asks, and says in how many seconds it resets as well: `OVER, 300s`.
    pub async fn told(&self, domain: &str, text: &str) -> String {
        let response = self.send(&ask::request(domain, text)).await.expect("an answer");
        let status = response.statuses.first().expect("a status");
        let reset = status.duration_until_reset.map(|reset| format!(", {}s", reset.seconds));
        format!("{}{}", ask::answer(&response), reset.unwrap_or_default())
    }

    /// The limit that applies to the only descriptor in `text`.
    pub async fn limit(&self, text: &str) -> Option<u32> {
        self.status(text).await.current_limit.map(|limit| limit.requests_per_unit)
    }

    /// Sends a request as it is.
    pub async fn send(&self, request: &RateLimitRequest) -> Result<RateLimitResponse, Status> {
        self.rls.answer(request).await
    }

    /// Forgets what was counted for descriptors of domain `t`; gives the number
    /// of counters.
    pub async fn reset(&self, text: &str) -> u32 {
        self.forget(ask::request("t", text)).await.expect("an answer")
    }

    /// The same for whatever a request asks.
    pub async fn forget(&self, request: RateLimitRequest) -> Result<u32, Status> {
        let RateLimitRequest { domain, descriptors, .. } = request;
        let forgotten = self.rls.forget(&ResetRequest { domain, descriptors }).await;
        forgotten.map(|answer| answer.counters)
    }

    /// The value of a metric line that begins with `series`.
    pub fn metric(&self, series: &str) -> Option<u64> {
        let text = self.metrics.render();
        let line = text.lines().find(|line| line.starts_with(series))?;
        line.rsplit(' ').next()?.parse().ok()
    }
}

/// Defines one test per store from one async function of a [`Kind`].
#[macro_export]
macro_rules! on_both_stores {
    ($($name:ident),+ $(,)?) => {
        mod in_memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name($crate::support::service::Kind::Memory).await;
            })+
        }
        mod in_redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name($crate::support::service::Kind::Redis).await;
            })+
        }
    };
}

/// Starts a [`Setup`] on a [`Kind`], or leaves the test where it cannot run.
#[macro_export]
macro_rules! start {
    ($setup:expr, $kind:expr) => {
        match $setup.start($kind) {
            Some(service) => service,
            None => return,
        }
    };
}
