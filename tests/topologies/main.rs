//! The whole service in front of every kind of Redis: real processes.

#![allow(dead_code, reason = "the support modules serve other test binaries as well")]

#[path = "../support/ask.rs"]
mod ask;
#[path = "../support/certificates.rs"]
mod certificates;
#[path = "../support/cluster.rs"]
mod cluster;
#[path = "../support/crowd.rs"]
mod crowd;
#[path = "../support/http.rs"]
mod http;
#[path = "../support/plans.rs"]
mod plans;
#[path = "../support/process.rs"]
mod process;
#[path = "../support/redis.rs"]
mod redis;

#[path = "../support/sentinel.rs"]
mod sentinel;

mod cluster_failover;
mod cluster_limits;
mod cluster_moves;
mod cluster_parts;
mod cluster_reached;
mod failover;
mod per_second;
mod single;
mod unreached;

use std::path::PathBuf;

use process::{Launch, Running};
use tempfile::TempDir;
use tidegate::proto::rate_limit_service_client::RateLimitServiceClient;
use tonic::transport::Channel;

/// A rule that a test can exhaust, and whose window does not turn.
const RULES: &str = "\
domain: t
descriptors:
  - {key: three, failure_mode: error, rate_limit: {unit: year, requests_per_unit: 3}}
  - {key: open, failure_mode: open, rate_limit: {unit: year, requests_per_unit: 1000000}}
  - {key: closed, failure_mode: closed, rate_limit: {unit: year, requests_per_unit: 1000000}}
  - {key: local, failure_mode: local, rate_limit: {unit: year, requests_per_unit: 1000000}}
";

/// Those of the rules that answer while the store is away.
const ANSWERING: [&str; 3] = ["open", "closed", "local"];

/// The service on the store at `url`, whose calls wait long enough for a busy
/// machine.
fn serve(url: &str, directory: &TempDir) -> Launch {
    serve_within("5s", url, directory)
}

/// The service on the store at `url`, whose calls wait for so long.
fn serve_within(deadline: &str, url: &str, directory: &TempDir) -> Launch {
    serve_rules(RULES, deadline, url, directory)
}

/// The same with other rules.
fn serve_rules(rules: &str, deadline: &str, url: &str, directory: &TempDir) -> Launch {
    let config: PathBuf = directory.path().join("config.yaml");
    std::fs::write(&config, rules).expect("a file");
    let args = ["--store", url, "--store-deadline", deadline, "--failure-mode", "error"];
    Launch::serve(&config).args(args)
}

/// What `three` answers to its first four hits.
const EXACT: [&str; 4] = ["OK r2", "OK r1", "OK r0", "OVER"];

/// Starts the service on a cluster and waits until it has found the masters: a
/// busy machine may take its time.
fn start_on(cluster: &cluster::Cluster, launch: Launch) -> Running {
    let gate = launch.start();
    let masters = cluster.nodes.len().min(3) as u64;
    process::eventually("the masters are found", || {
        gate.metric("tidegate_cluster_masters_up") == Some(masters)
    });
    gate
}

/// What `three` answers to so many requests for `value`.
async fn answers(gate: &Running, value: &str, count: usize) -> Vec<String> {
    let channel = gate.channel().await;
    let mut said = Vec::new();
    for _ in 0..count {
        said.push(ask_once(channel.clone(), "three", value).await);
    }
    said
}

/// What `rule` answers to one request for `value`.
async fn ask_once(channel: Channel, rule: &str, value: &str) -> String {
    ask_for(channel, &format!("[{rule}={value}]")).await
}

/// What is answered to a request in the notation of [`ask`].
async fn ask_for(channel: Channel, text: &str) -> String {
    let request = ask::request("t", text);
    match RateLimitServiceClient::new(channel).should_rate_limit(request).await {
        Ok(response) => ask::answer(response.get_ref()),
        Err(status) => format!("{:?}", status.code()),
    }
}
