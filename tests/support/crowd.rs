//! Many callers on several processes, all at once.

use tidegate::proto::rate_limit_response::Code;
use tidegate::proto::rate_limit_service_client::RateLimitServiceClient;
use tokio::task::JoinSet;
use tonic::transport::Channel;

use super::ask;
use super::process::Running;

/// Each algorithm with a limit of 300 in a span that does not end or refill
/// during a test. A lockout locks at the last.
pub const RULES: &str = "\
domain: t
descriptors:
  - {key: fixed, rate_limit: {window: 3000d, requests_per_unit: 300, align: first_hit}}
  - {key: log, rate_limit: {algorithm: sliding_window_log, limit: 300, window: 3000d}}
  - {key: counter, rate_limit: {algorithm: sliding_window_counter, limit: 300, window: 3000d}}
  - {key: bucket, rate_limit: {algorithm: token_bucket, burst: 300, rate: 1/50d}}
  - {key: gcra, rate_limit: {algorithm: gcra, burst: 300, rate: 1/50d}}
  - {key: lockout, rate_limit: {algorithm: lockout, max_attempts: 301, window: 3000d, lockout: 3000d}}
";
pub const ADMITTED: usize = 300;
pub const KEYS: [&str; 6] = ["fixed", "log", "counter", "bucket", "gcra", "lockout"];

/// Makes so many calls and gives how many passed.
async fn caller(channel: Channel, key: &'static str, value: &'static str, calls: usize) -> usize {
    let mut client = RateLimitServiceClient::new(channel);
    let mut admitted = 0;
    for _ in 0..calls {
        let request = ask::request("t", &format!("[{key}={value}]"));
        let response = client.should_rate_limit(request).await.expect("an answer").into_inner();
        admitted += usize::from(response.overall_code() == Code::Ok);
    }
    admitted
}

/// So many callers on each of the replicas, all on one counter at once.
pub async fn storm(
    channels: &[Channel],
    (key, value): (&'static str, &'static str),
    callers: usize,
    calls: usize,
) -> usize {
    let mut tasks = JoinSet::new();
    for channel in channels.iter().cycle().take(callers * channels.len()) {
        tasks.spawn(caller(channel.clone(), key, value, calls));
    }
    tasks.join_all().await.into_iter().sum()
}

pub async fn channels(replicas: &[Running]) -> Vec<Channel> {
    let mut channels = Vec::new();
    for replica in replicas {
        channels.push(replica.channel().await);
    }
    channels
}
