//! F37: memory stays bounded with ever new keys.

use tidegate::proto::rate_limit_service_client::RateLimitServiceClient;

use crate::process::{Launch, eventually};
use crate::{http, request};

const RULES: &str = "\
domain: t
descriptors:
  - key: minute
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: second
    rate_limit: {unit: second, requests_per_unit: 1}
  - key: year
    rate_limit: {unit: year, requests_per_unit: 5}
";

/// As many requests of a thousand descriptors each as make so many new keys.
async fn flood(running: &crate::process::Running, key: &str, keys: usize, wave: usize) {
    let mut client = RateLimitServiceClient::new(running.channel().await);
    for chunk in 0..keys / 1000 {
        let mut flood = request(key, "");
        let one = flood.descriptors.pop().expect("one descriptor");
        flood.descriptors = (0..1000)
            .map(|number| {
                let mut descriptor = one.clone();
                descriptor.entries[0].value = format!("{wave}-{chunk}-{number}");
                descriptor
            })
            .collect();
        client.should_rate_limit(flood).await.expect("an answer");
    }
}

fn metric(running: &crate::process::Running, name: &str) -> u64 {
    let text = http::get(&running.http, "/metrics").body;
    let line = text.lines().find(|line| line.starts_with(&format!("{name} ")));
    let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in:\n{text}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn f37_a_flood_of_keys_stays_within_the_bound_and_spares_a_refused_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("config.yaml");
    std::fs::write(&config, RULES).expect("a file");
    let running = Launch::serve(&config).args(["--memory-limit", "8MiB"]).start();
    let channel = running.channel().await;
    for _ in 0..6 {
        crate::ask(&channel, request("year", "victim")).await.expect("an answer");
    }
    for wave in 0..2 {
        flood(&running, "minute", 150_000, wave).await;
        eventually("the bound shows in the metrics", || {
            metric(&running, "tidegate_memory_evicted") > 20_000 * (wave as u64 + 1)
        });
        let bytes = metric(&running, "tidegate_memory_bytes");
        assert!(bytes <= 8 << 20, "{bytes} bytes");
    }
    let answer = crate::ask(&channel, request("year", "victim")).await.expect("an answer");
    assert_eq!(answer.overall_code, 2, "the refused key is still refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn f37_ended_windows_are_reclaimed_even_if_their_keys_never_come_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("config.yaml");
    std::fs::write(&config, RULES).expect("a file");
    let running = Launch::serve(&config).start();
    flood(&running, "second", 50_000, 0).await;
    eventually("all keys are gone", || metric(&running, "tidegate_memory_keys") == 0);
    assert_eq!(metric(&running, "tidegate_memory_evicted"), 0);
}
