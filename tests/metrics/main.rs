//! What operators see of a running service: names and values of metrics in
//! every form in which they are told.

#[path = "../support/mod.rs"]
mod support;

mod documents;
mod named;
mod ports;
mod splits;
mod statsd;
mod traces;

use support::ask;
use support::process::{Launch, Running};
use tempfile::TempDir;
use tidegate::proto::RateLimitRequest;
use tidegate::proto::rate_limit_service_client::RateLimitServiceClient;
use tonic::transport::Channel;

/// A service and what it was started with.
struct Service {
    running: Running,
    channel: Channel,
    directory: TempDir,
}

/// Starts the binary on these rules of domain `t`.
async fn start(rules: &str, args: &[&str]) -> Service {
    launch(rules, |launch| launch.args(args)).await
}

/// The same, with more to say about the start.
async fn launch(rules: &str, prepared: impl FnOnce(Launch) -> Launch) -> Service {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("config.yaml");
    std::fs::write(&config, format!("domain: t\ndescriptors:\n{rules}\n")).expect("a file");
    let running = prepared(Launch::serve(config)).start();
    let channel = running.channel().await;
    Service { running, channel, directory }
}

impl Service {
    /// Asks domain `t` in the notation of [`ask`].
    async fn ask(&self, text: &str) -> String {
        self.send(ask::request("t", text)).await
    }

    async fn send(&self, request: RateLimitRequest) -> String {
        let mut client = RateLimitServiceClient::new(self.channel.clone());
        let answered = client.should_rate_limit(request).await;
        match answered {
            Ok(response) => ask::answer(response.get_ref()),
            Err(status) => format!("error {:?}", status.code()),
        }
    }

    /// A counter of the rule with these labels.
    fn rule(&self, counter: &str, key1: &str, key2: &str) -> Option<u64> {
        let labels = format!("{{domain=\"t\",key1=\"{key1}\",key2=\"{key2}\"}}");
        self.running.metric(&format!("ratelimit_service_rate_limit_{counter}{labels} "))
    }

    /// Everything at `/metrics`.
    fn exposition(&self) -> String {
        support::http::get(&self.running.http, "/metrics").body
    }

    /// The `key1` and `key2` of all rules that were hit, sorted.
    fn hit(&self) -> Vec<String> {
        let exposition = self.exposition();
        let hits = exposition
            .lines()
            .filter_map(|line| line.strip_prefix("ratelimit_service_rate_limit_total_hits{"));
        let mut keys: Vec<String> = hits
            .filter(|line| !line.ends_with(" 0"))
            .filter_map(|line| {
                let (_, rest) = line.split_once("key1=\"")?;
                let (key1, rest) = rest.split_once("\",key2=\"")?;
                let (key2, _) = rest.rsplit_once("\"}")?;
                Some(format!("{key1} {key2}").trim_end().to_owned())
            })
            .collect();
        keys.sort_unstable();
        keys
    }
}
