//! The near cache behind rules: what it answers reads like an answer of Redis,
//! and is counted beside it.

use tidegate::policy::{LoadOptions, load_texts};

use crate::start;
use crate::support::service::{Kind, Setup};

fn rules(limit: u32) -> String {
    format!("\n  - key: km\n    rate_limit: {{unit: hour, requests_per_unit: {limit}}}")
}

fn series(name: &str) -> String {
    format!("ratelimit_service_rate_limit_{name}{{domain=\"t\",key1=\"km\",")
}

/// As the reference counts with its local cache: the first refusal is that of the
/// store, the others are near.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_by_the_near_cache_are_counted_apart() {
    let service = start!(Setup::rules(&rules(20)), Kind::Redis);
    for call in 0..25_u64 {
        let answer = service.ask("[km=r]").await;
        assert_eq!(answer == "OVER", call >= 20, "call {call}: {answer}");
        let over = service.metric(&series("over_limit")).unwrap_or_default();
        let near = service.metric(&series("over_limit_with_local_cache")).unwrap_or_default();
        let expected = ((call + 1).saturating_sub(20), call.saturating_sub(20));
        assert_eq!((over, near), expected, "after call {call}");
    }
    assert_eq!(service.metric("tidegate_near_cache_hits"), Some(4));
    assert_eq!(service.metric(&series("total_hits")), Some(25));
}

/// The rule is raised by a reload, or the request brings a larger limit: the
/// counter is the same, the refusal is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f_1077_a_refusal_ends_with_its_limit() {
    let service = start!(Setup::rules(&rules(2)), Kind::Redis);
    assert_eq!(service.ask_all(["[km=r]"; 4]).await, ["OK r1", "OK r0", "OVER", "OVER"]);
    assert_eq!(service.metric("tidegate_near_cache_hits"), Some(1));
    // The first refusal was counted, the second was not.
    assert_eq!(service.ask("[km=r !limit=9/HOUR]").await, "OK r5");
    let file = format!("domain: t\ndescriptors:\n{}\n", rules(6));
    let raised = load_texts(&[("t.yaml", &file)], LoadOptions::default(), &service.metrics);
    service.decider.replace_policies(raised.unwrap_or_else(|error| panic!("{error}")));
    assert_eq!(service.ask_all(["[km=r]"; 3]).await, ["OK r1", "OK r0", "OVER"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_opens_a_key_that_the_near_cache_refuses() {
    let service = start!(Setup::rules(&rules(1)), Kind::Redis);
    assert_eq!(service.ask_all(["[km=r]"; 3]).await, ["OK r0", "OVER", "OVER"]);
    assert_eq!(service.reset("[km=r]").await, 1);
    assert_eq!(service.ask("[km=r]").await, "OK r0");
}
