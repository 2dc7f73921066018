//! The process from outside: start, commands, faces, reload, logs and end.

#[path = "../support/http.rs"]
mod http;
#[path = "../support/process.rs"]
mod process;
#[path = "../support/redis.rs"]
mod redis;

mod clients;
mod commands;
mod faces;
mod health;
mod logs;
mod memory;
mod reload;
mod simulate;
mod socket;
mod stop;
mod store;

use std::path::PathBuf;

use tempfile::TempDir;
use tidegate::proto::rate_limit_descriptor::Entry;
use tidegate::proto::rate_limit_service_client::RateLimitServiceClient;
use tidegate::proto::{RateLimitDescriptor, RateLimitRequest, RateLimitResponse};
use tonic::Status;
use tonic::transport::Channel;

/// A rule that no test exhausts by accident and whose window does not turn.
const FIVE: &str = "\
domain: t
descriptors:
  - key: five
    rate_limit: {unit: year, requests_per_unit: 5}
";

/// A directory for one test, with `FIVE` in `config.yaml`.
fn directory() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("config.yaml");
    std::fs::write(&config, FIVE).expect("a file");
    (directory, config)
}

/// `[key=value]` in domain `t`.
fn request(key: &str, value: &str) -> RateLimitRequest {
    let entries = vec![Entry { key: key.into(), value: value.into() }];
    RateLimitRequest {
        domain: "t".into(),
        descriptors: vec![RateLimitDescriptor { entries, ..Default::default() }],
        hits_addend: 0,
    }
}

/// Asks once.
async fn ask(channel: &Channel, request: RateLimitRequest) -> Result<RateLimitResponse, Status> {
    let mut client = RateLimitServiceClient::new(channel.clone());
    client.should_rate_limit(request).await.map(tonic::Response::into_inner)
}

/// What is left in the only status of `[key=value]` after one hit; the limit
/// must apply.
async fn remaining(channel: &Channel, key: &str, value: &str) -> u32 {
    let response = ask(channel, request(key, value)).await.expect("an answer");
    let status = &response.statuses[0];
    assert!(status.current_limit.is_some(), "no limit: {response:?}");
    status.limit_remaining
}
