//! The service and its Redis, and what must hold after every fault.

use std::time::Duration;

use tempfile::TempDir;
use tonic::Code;
use tonic::transport::Channel;

use crate::http;
use crate::load::{ask_once, send};
use crate::process::{Launch, PATIENCE, Running};

/// One rule for each failure mode that no test exhausts, one that load exhausts,
/// and one to count with.
const RULES: &str = "\
domain: t
descriptors:
  - {key: open, failure_mode: open, rate_limit: {unit: year, requests_per_unit: 1000000}}
  - {key: closed, failure_mode: closed, rate_limit: {unit: year, requests_per_unit: 1000000}}
  - {key: local, failure_mode: local, rate_limit: {unit: year, requests_per_unit: 1000000}}
  - {key: capped, failure_mode: closed, rate_limit: {unit: year, requests_per_unit: 100}}
  - {key: error, failure_mode: error, rate_limit: {unit: year, requests_per_unit: 1000000}}
  - {key: three, failure_mode: error, rate_limit: {unit: year, requests_per_unit: 3}}
";

/// The rules of which every call is answered.
pub const ANSWERING: &[&str] = &["open", "closed", "local", "capped"];

/// How many hits the rule `capped` admits.
pub const CAP: usize = 100;

/// A running service.
pub struct Rig {
    pub gate: Running,
    pub channel: Channel,
    fresh: usize,
    _directory: TempDir,
}

impl Rig {
    /// The service with its counters in the Redis at `url`, and `args`.
    pub async fn start(url: &str, args: &[&str]) -> Self {
        Self::launch(url, |launch| launch.args(args)).await
    }

    /// The same with any change to how it is started.
    pub async fn launch(url: &str, change: impl FnOnce(Launch) -> Launch) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let config = directory.path().join("config.yaml");
        std::fs::write(&config, RULES).expect("a file");
        let launch = Launch::serve(&config).args(["--store", url]);
        let gate = change(launch).start();
        let channel = gate.channel().await;
        Self { gate, channel, fresh: 0, _directory: directory }
    }

    /// Asks one rule for one value.
    pub async fn ask(&self, rule: &str, value: &str) -> String {
        ask_once(self.channel.clone(), rule, value).await
    }

    /// Asks until a call fails for a reason that has this text, and gives it.
    pub async fn until_told(&self, rule: &str, value: &str, text: &str) -> String {
        let start = std::time::Instant::now();
        loop {
            let answer = send(self.channel.clone(), rule, value).await;
            match &answer {
                Err(status) if status.message().contains(text) => {
                    assert_eq!(status.code(), Code::Unavailable, "{status}");
                    return status.message().to_owned();
                }
                _ => {}
            }
            assert!(start.elapsed() < PATIENCE, "{answer:?}, not {text}; {}", self.gate.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Asks until the answer is this.
    pub async fn until(&self, rule: &str, answer: &str) {
        let start = std::time::Instant::now();
        loop {
            let seen = self.ask(rule, "until").await;
            if seen == answer {
                return;
            }
            let log = || self.gate.log();
            assert!(start.elapsed() < PATIENCE, "{rule} is {seen}, not {answer}; log:\n{}", log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Asserts that limits are kept to the unit again. A call that a busy machine
    /// delays beyond the deadline tells nothing; its counter only proves that
    /// not too much was admitted.
    pub async fn is_exact(&mut self) {
        let (mut exact, mut tries) = (0, 0);
        while exact < 5 {
            tries += 1;
            assert!(tries < 100, "hardly a decision succeeds; log:\n{}", self.gate.log());
            self.fresh += 1;
            let value = format!("fresh-{}", self.fresh);
            let mut answers = Vec::new();
            for _ in 0..5 {
                answers.push(self.ask("three", &value).await);
            }
            let admitted = answers.iter().filter(|answer| *answer == "OK").count();
            assert!(admitted <= 3, "{answers:?}");
            if answers.iter().all(|answer| answer != "Unavailable") {
                assert_eq!(answers, ["OK", "OK", "OK", "OVER", "OVER"]);
                exact += 1;
            }
        }
    }

    /// The value of a metric line that begins with `series`.
    pub fn metric(&self, series: &str) -> u64 {
        self.gate.metric(series).unwrap_or_else(|| panic!("no {series}"))
    }

    /// The body of `/readyz`, and its status.
    pub fn readyz(&self) -> (u16, serde_json::Value) {
        let answer = http::get(&self.gate.http, "/readyz");
        (answer.status, answer.json())
    }
}
