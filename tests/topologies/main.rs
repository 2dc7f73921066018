//! The whole service in front of every kind of Redis: real processes.

#[path = "../support/ask.rs"]
mod ask;
#[path = "../support/certificates.rs"]
mod certificates;
#[path = "../support/http.rs"]
mod http;
#[path = "../support/process.rs"]
mod process;
#[path = "../support/redis.rs"]
mod redis;

mod single;

use std::path::PathBuf;

use process::{Launch, Running};
use tempfile::TempDir;
use tidegate::proto::rate_limit_service_client::RateLimitServiceClient;

/// A rule that a test can exhaust, and whose window does not turn.
const RULES: &str = "\
domain: t
descriptors:
  - key: three
    rate_limit: {unit: year, requests_per_unit: 3}
";

/// The service on the store at `url`; a call waits long enough for a busy
/// machine.
fn serve(url: &str, directory: &TempDir) -> Launch {
    let config: PathBuf = directory.path().join("config.yaml");
    std::fs::write(&config, RULES).expect("a file");
    let args = ["--store", url, "--store-deadline", "5s", "--failure-mode", "error"];
    Launch::serve(&config).args(args)
}

/// What `three` answers to so many requests for `value`.
async fn answers(gate: &Running, value: &str, count: usize) -> Vec<String> {
    let mut client = RateLimitServiceClient::new(gate.channel().await);
    let mut said = Vec::new();
    for _ in 0..count {
        let request = ask::request("t", &format!("[three={value}]"));
        said.push(match client.should_rate_limit(request).await {
            Ok(response) => ask::answer(response.get_ref()),
            Err(status) => format!("{:?}", status.code()),
        });
    }
    said
}
