//! Another Redis for limits of one second.

use crate::process::eventually;
use crate::redis::RedisServer;
use crate::{ask_for, serve_rules};

const RULES: &str = "\
domain: t
descriptors:
  - {key: second, failure_mode: closed, rate_limit: {unit: second, requests_per_unit: 1000}}
  - {key: year, failure_mode: closed, rate_limit: {unit: year, requests_per_unit: 1000}}
  - {key: rates, rate_limit: {rates: [1000/s, 1000/d]}}
  - {key: bucket, rate_limit: {algorithm: token_bucket, burst: 1000, rate: 1/s}}
";

/// The rules whose keys a server holds.
fn rules_in(server: &RedisServer) -> Vec<String> {
    let keys = server.keys().into_iter();
    let mut rules: Vec<String> =
        keys.filter_map(|key| Some(key.split(['|', '=']).nth(1)?.to_owned())).collect();
    rules.sort();
    rules.dedup();
    rules
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_one_second_are_kept_elsewhere_and_fail_by_themselves() {
    let Some(main) = RedisServer::redis() else { return };
    let options = ["--user", "limited", "on", ">hush", "~*", "+@all"];
    let Some(mut other) = RedisServer::redis_with(&options) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let gate = serve_rules(RULES, "20s", &main.url(), &directory)
        .args(["--store-per-second", &other.url()])
        .args(["--redis-per-second-username", "limited"])
        .env("TIDEGATE_REDIS_PER_SECOND_PASSWORD", "hush")
        .start();
    let channel = gate.channel().await;
    let ask = |text: &'static str| ask_for(channel.clone(), text);
    let all = "[second=a], [year=a], [rates=a], [bucket=a]";
    // Until it is seen, since a key of one second is soon gone.
    let start = std::time::Instant::now();
    loop {
        assert!(ask(all).await.starts_with("OK {OK r"), "{}", gate.log());
        if rules_in(&other) == ["second"] {
            break;
        }
        assert!(start.elapsed() < crate::process::PATIENCE, "{:?}", other.keys());
    }
    assert_eq!(rules_in(&main), ["bucket", "rates", "year"]);
    eventually("both are up", || {
        gate.metric("tidegate_store_up") == Some(1)
            && gate.metric("tidegate_per_second_store_up") == Some(1)
    });
    other.kill();
    eventually("the outage is told", || gate.metric("tidegate_per_second_store_up") == Some(0));
    assert_eq!(gate.metric("tidegate_store_up"), Some(1));
    assert_eq!(ask("[second=a]").await, "OVER");
    assert!(ask("[year=a]").await.starts_with("OK r"));
    let both = ask("[second=a], [year=a]").await;
    assert!(both.starts_with("OVER {OVER, OK r"), "{both}");
    other.restart();
    eventually("it is back", || gate.metric("tidegate_per_second_store_up") == Some(1));
    assert!(!gate.log().contains("hush"));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_redis_and_memory_are_refused_together() {
    let directory = tempfile::tempdir().expect("a directory");
    let launch = serve_rules(RULES, "1s", "memory", &directory);
    let ended = launch.args(["--store-per-second", "redis://127.0.0.1"]).output();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("--store-per-second"), "{}", ended.stderr);
}
