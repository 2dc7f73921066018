//! What each failure mode answers, alone and mixed in one request.

use std::num::NonZeroU32;

use tidegate::decide::{FailureMode, HeaderNames};
use tidegate::proto::{RateLimitRequest, ResetRequest};
use tidegate::store::Store;
use tidegate::store::redis::{RedisConfig, RedisStore};
use tidegate::units::Span;
use tonic::Code;

use crate::ask;
use crate::redis::free_port;
use crate::service::{Service, Setup};

/// One rule for each mode; what has none of its own follows domain and service.
const RULES: &str = "
  - {key: open, failure_mode: open, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: closed, failure_mode: closed, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: local, failure_mode: local, rate_limit: {unit: year, requests_per_unit: 6}}
  - {key: other, failure_mode: local, rate_limit: {unit: year, requests_per_unit: 6}}
  - {key: error, failure_mode: error, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: plain, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: quiet, failure_mode: error, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: qclosed, failure_mode: closed, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: qopen, failure_mode: open, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: qlocal, failure_mode: local, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 3}}";

/// The service with a Redis that is not there; three replicas share its limits.
fn start(setup: Setup) -> Service {
    let url = format!("redis://127.0.0.1:{}", free_port());
    // On a busy machine it may take a while to learn that nobody is there.
    let config = RedisConfig { deadline: Span::from_secs(10), ..RedisConfig::new(url) };
    let store = RedisStore::connect(&config).expect("a valid configuration");
    let setup = setup.with(|settings| settings.replicas = NonZeroU32::new(3).expect("three"));
    setup.start_on(Store::Redis(store), None)
}

fn all_or_nothing() -> Setup {
    let text = format!("domain: t\ncharge: all_or_nothing\ndescriptors:\n{RULES}\n");
    Setup::file("t.yaml", &text)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_mode_answers_with_complete_statuses() {
    let service = start(Setup::rules(RULES));
    let answers = service.ask_all(["[open=a]", "[open=a]", "[closed=a]"]).await;
    assert_eq!(answers, ["OK r4", "OK r4", "OVER"]);
    // A third of 6.
    let answers = service.ask_all(["[local=a]", "[local=a]", "[local=a]", "[local=b]"]).await;
    assert_eq!(answers, ["OK r1", "OK r0", "OVER", "OK r1"]);
    let error = service.ask("[error=a]").await;
    assert!(error.starts_with("error Unavailable: the store is"), "{error}");
    for (text, limit) in [("[open=a]", 5), ("[closed=a]", 5), ("[local=c]", 6)] {
        let status = service.status(text).await;
        let told = status.current_limit.map(|limit| limit.requests_per_unit);
        assert_eq!(told, Some(limit), "{text}");
        assert!(status.duration_until_reset.is_some_and(|reset| reset.seconds >= 1), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rule_goes_before_its_domain_and_the_domain_before_the_service() {
    let closed = |settings: &mut tidegate::decide::Settings| {
        settings.failure_mode = FailureMode::Closed;
    };
    let service = start(Setup::rules(RULES).with(closed));
    assert_eq!(service.ask_all(["[open=a]", "[plain=a]"]).await, ["OK r4", "OVER"]);
    let domain = format!("domain: t\nfailure_mode: local\ndescriptors:\n{RULES}\n");
    let service = start(Setup::file("t.yaml", &domain).with(closed));
    let asked = ["[plain=a]", "[plain=a]", "[closed=a]", "[plain=b !limit=3/YEAR]"];
    let told = ["OK r0", "OVER", "OVER", "OK r0"];
    assert_eq!(service.ask_all(asked).await, told, "overrides follow the domain");
    assert_eq!(service.ask_in("nowhere", "[plain=a]").await, "NONE");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_one_request_each_descriptor_follows_its_own_mode() {
    let service = start(Setup::rules(RULES));
    let asked = "{[open=a], [local=a], [nothing=a], [plain=a]}";
    assert_eq!(service.ask(asked).await, "OK {OK r4, OK r1, NONE, OK r4}");
    let asked = "{[closed=a], [local=a]}";
    assert_eq!(service.ask(asked).await, "OVER {OVER, OK r0}", "independent charges");
    // An error goes before everything, and then nothing is counted.
    let asked = "{[open=b], [local=b], [error=b]}";
    assert!(service.ask(asked).await.starts_with("error Unavailable"));
    assert_eq!(service.ask("[local=b]").await, "OK r1");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_consumes_nothing_where_that_is_the_rule() {
    let service = start(all_or_nothing());
    assert_eq!(service.ask("{[closed=a], [local=a]}").await, "OVER {OVER, OK r2}");
    assert_eq!(service.ask("{[local=a], [other=a]}").await, "OK {OK r1, OK r1}");
    assert_eq!(service.ask("[local=a]").await, "OK r0");
    assert_eq!(service.ask("{[local=a], [other=a]}").await, "OVER {OVER, OK r1}");
    assert_eq!(service.ask("{[open=a], [other=a]}").await, "OK {OK r4, OK r0}");
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_refuse_together_whoever_decides_them() {
    for setup in [Setup::rules(RULES), all_or_nothing()] {
        let service = start(setup);
        assert_eq!(service.ask("[qclosed=a]").await, "OVER");
        assert_eq!(service.ask("{[qclosed=a], [qopen=a]}").await, "OK {OVER, OK r4}");
        assert_eq!(service.ask("{[qclosed=a], [qlocal=a]}").await, "OK {OVER, OK r0}");
        assert_eq!(service.ask("{[qclosed=a], [qlocal=a]}").await, "OVER {OVER, OVER}");
        assert_eq!(service.ask("{[qopen=a], [qlocal=a]}").await, "OK {OK r4, OVER}");
    }
}

/// A rule that never refuses must not fail calls either.
#[tokio::test(flavor = "multi_thread")]
async fn shadow_mode_fails_nothing() {
    let service = start(Setup::rules(RULES));
    assert_eq!(service.ask("{[quiet=a], [local=a]}").await, "OK {OK r4, OK r1}");
    let service = start(Setup::rules(RULES).with(|settings| settings.shadow_mode = true));
    assert_eq!(service.ask("[error=a]").await, "OK r4");
    assert_eq!(service.ask("[closed=a]").await, "OK {OVER}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_back_is_taken_also_where_all_is_refused() {
    let service = start(Setup::rules(RULES));
    assert_eq!(service.ask("[closed=a !h=1 !refund]").await, "OK r5");
    let asked = ["[local=a !h=2]", "[local=a !h=1 !refund]", "[local=a !h=0]"];
    assert_eq!(service.ask_all(asked).await, ["OK r0", "OK r1", "OK r1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_algorithm_decides_locally_by_its_share() {
    let rules = "
  - {key: fixed, rate_limit: {unit: year, requests_per_unit: 6}}
  - {key: log, rate_limit: {algorithm: sliding_window_log, limit: 6, window: 60s}}
  - {key: counter, rate_limit: {algorithm: sliding_window_counter, limit: 6, window: 60s}}
  - {key: bucket, rate_limit: {algorithm: token_bucket, burst: 6, rate: 1/m}}
  - {key: gcra, rate_limit: {algorithm: gcra, burst: 6, rate: 1/m}}
  - {key: lockout, rate_limit: {algorithm: lockout, max_attempts: 9}}
  - {key: several, rate_limit: {rates: [6/s, 60/m]}}";
    let local = |settings: &mut tidegate::decide::Settings| {
        settings.failure_mode = FailureMode::Local;
    };
    let service = start(Setup::rules(rules).with(local));
    for key in ["fixed", "log", "counter", "bucket", "gcra", "lockout", "several"] {
        let asked = format!("[{key}=198.51.100.1]");
        let answers = service.ask_all([&*asked, &*asked, &*asked]).await;
        let passed = answers.map(|answer| answer.starts_with("OK"));
        assert_eq!(passed, [true, true, false], "{key}");
    }
    service.clock.advance(Span::from_secs(3 * 60));
    assert_eq!(service.ask("[bucket=198.51.100.1]").await, "OK r0", "one in three minutes");
    assert_eq!(service.ask("[bucket=198.51.100.1]").await, "OVER");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_tell_who_decided() {
    let service = start(Setup::rules(RULES));
    let asked = ["[open=a]", "{[open=a], [open=b], [local=a]}", "[closed=a]", "[error=a]"];
    service.ask_all(asked).await;
    let degraded = |mode| {
        service.metric(&format!("tidegate_degraded_decisions{{mode=\"{mode}\"}}")).expect(mode)
    };
    let counts = ["open", "closed", "local", "error"].map(degraded);
    assert_eq!(counts, [2, 1, 1, 1], "requests, not descriptors");
    assert_eq!(service.metric("tidegate_store_errors{kind=\"connection\"}"), Some(4));
    // A rule counts what was decided by it, which is what was decided locally.
    service.ask_all(["[local=a]", "[local=a]"]).await;
    let hits = |name: &str, key: &str| {
        let labels = format!("{{domain=\"t\",key1=\"{key}\",key2=\"\"}}");
        service.metric(&format!("ratelimit_service_rate_limit_{name}{labels}")).expect(key)
    };
    assert_eq!([hits("total_hits", "local"), hits("over_limit", "local")], [3, 1]);
    assert_eq!([hits("total_hits", "open"), hits("total_hits", "closed")], [0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_tell_what_the_statuses_do() {
    let headers = |settings: &mut tidegate::decide::Settings| {
        settings.response_headers = Some(HeaderNames::default());
    };
    let service = start(Setup::rules(RULES).with(headers));
    let response = service.send(&ask::request("t", "{[closed=a], [open=a]}")).await;
    let response = response.expect("an answer");
    let values = response.response_headers_to_add.iter().map(|header| &*header.value);
    assert_eq!(values.collect::<Vec<_>>(), ["5", "0", "1"], "come back soon");
}

/// An outage that comes and goes is one: a client has its local share once.
#[tokio::test(flavor = "multi_thread")]
async fn local_counters_are_forgotten_once_the_store_has_been_back_for_a_while() {
    let service = start(Setup::rules(RULES));
    let exhausted = service.ask_all(["[local=a]", "[local=a]", "[local=a]"]).await;
    assert_eq!(exhausted, ["OK r1", "OK r0", "OVER"]);
    let back = || service.decider.fallback().store_is_back(service.clock.now());
    back();
    service.clock.advance(Span::from_secs(9));
    back();
    assert_eq!(service.ask("[local=a]").await, "OVER");
    service.clock.advance(Span::from_secs(9));
    back();
    assert_eq!(service.ask("[local=a]").await, "OVER", "9 s since it was last used");
    service.clock.advance(Span::from_secs(10));
    back();
    assert_eq!(service.ask("[local=a]").await, "OK r1");
}

/// Whoever lets somebody in again does not have to wait for the store.
#[tokio::test(flavor = "multi_thread")]
async fn a_reset_forgets_local_counters_as_well() {
    let service = start(Setup::rules(RULES));
    let exhausted = service.ask_all(["[local=a]", "[local=a]", "[local=a]"]).await;
    assert_eq!(exhausted, ["OK r1", "OK r0", "OVER"]);
    let RateLimitRequest { domain, descriptors, .. } = ask::request("t", "[local=a]");
    let reset = service.rls.forget(&ResetRequest { domain, descriptors }).await;
    let status = reset.expect_err("Redis has not forgotten anything");
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert_eq!(service.ask("[local=a]").await, "OK r1");
}

/// F37, with Redis down.
#[tokio::test(flavor = "multi_thread")]
async fn f37_local_counters_are_bounded() {
    let service = start(Setup::rules(RULES).with(|settings| settings.local_memory = 2 << 20));
    for _ in 0..3 {
        service.ask("[local=victim]").await;
    }
    for wave in 0..50 {
        let descriptors = (0..1000).map(|one| ask::entries(&[("local", &format!("{wave}-{one}"))]));
        let request = RateLimitRequest {
            domain: "t".into(),
            descriptors: descriptors.collect(),
            hits_addend: 0,
        };
        service.send(&request).await.expect("an answer");
    }
    let usage = service.decider.fallback().store().usage();
    assert!(usage.evicted > 10_000, "{usage:?}");
    assert!(usage.bytes <= 2 << 20, "{usage:?}");
    assert_eq!(
        service.ask("[local=victim]").await,
        "OVER",
        "a key over its limit outlives a flood"
    );
}
