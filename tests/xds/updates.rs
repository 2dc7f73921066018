//! Rules come, change, are refused and come again.

use std::time::{Duration, Instant};

use tidegate::policy::TYPE_URL;
use tidegate::proto::ratelimit::config::ratelimit::v3::RateLimitUnit::Minute;
use tokio::runtime::Runtime;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::plane::{Manners, Plane};
use crate::process::{Running, eventually};
use crate::rules::{DescriptorExt as _, config, key, yearly};
use crate::{http, launch, lines, ready, told, told_in};

fn health(service: &Running) -> ServingStatus {
    Runtime::new().expect("a runtime").block_on(async {
        let mut client = HealthClient::new(service.channel().await);
        let request = HealthCheckRequest { service: "ratelimit".into() };
        client.check(request).await.expect("an answer").into_inner().status()
    })
}

#[test]
fn the_first_rules_are_subscribed_to_and_accepted() {
    let plane = Plane::start();
    plane.send("1", &[yearly(5)]);
    let service = launch(&plane)
        .env("CONFIG_GRPC_XDS_NODE_ID", "edge-1")
        .env("CONFIG_GRPC_XDS_NODE_METADATA", "zone=a,rack=7")
        .env("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "Authorization:Bearer hush,x-more:1")
        .env("LOG_LEVEL", "trace")
        .start();
    let accepted = plane.accepted("1");
    assert_eq!((&*accepted.type_url, &*accepted.response_nonce), (TYPE_URL, "1.1"));
    ready(&service);
    assert_eq!(told(&service, "[k=a]"), "OK r4");

    let seen = plane.seen();
    let first = &seen.requests[0];
    let of_first = (&*first.type_url, &*first.version_info, &*first.response_nonce);
    assert_eq!(of_first, (TYPE_URL, "", ""));
    assert!(first.resource_names.is_empty() && first.error_detail.is_none());
    let node = first.node.as_ref().expect("a node");
    assert_eq!((&*node.id, &*node.user_agent_name), ("edge-1", "tidegate"));
    let metadata = node.metadata.as_ref().expect("metadata");
    assert_eq!(metadata.fields.keys().collect::<Vec<_>>(), ["rack", "zone"]);
    assert_eq!(seen.authorization.as_deref(), Some("Bearer hush"));
    assert!(seen.user_agent.is_some_and(|agent| agent.starts_with("tidegate/")));
    assert!(!service.log().contains("hush"), "a secret in the log:\n{}", service.log());

    let state = http::get(&service.http, "/readyz").json();
    let path = format!("xds://{}", plane.address());
    assert_eq!(
        (&state["config"]["version"], &state["config"]["path"]),
        (&"1".into(), &path.into())
    );
    assert_eq!(service.metric("tidegate_xds_connected"), Some(1));
    assert_eq!(service.metric("ratelimit_service_config_load_success"), Some(1));
}

#[test]
fn without_rules_calls_end_in_an_error_and_the_service_is_not_ready() {
    let plane = Plane::start();
    let service = launch(&plane).start();
    assert!(service.greeting.contains("no rules yet"), "{}", service.greeting);
    eventually("it subscribes", || !plane.seen().requests.is_empty());
    assert_eq!(told(&service, "[k=a]"), "error Unavailable: no rate limit configuration loaded");
    assert_eq!(health(&service), ServingStatus::NotServing);
    assert_eq!(http::get(&service.http, "/healthcheck").status, 500);
    let report = http::get(&service.http, "/readyz");
    assert_eq!((report.status, report.json()["config"]["loaded_at"].is_null()), (503, true));
    // Whoever asks without a domain is told that first, as by the reference.
    assert!(told_in(&service, "", "[k=a]").contains("domain must not be empty"));

    plane.send("1", &[yearly(5)]);
    ready(&service);
    eventually("health turns", || health(&service) == ServingStatus::Serving);
    assert_eq!(told(&service, "[k=a]"), "OK r4");
    let errors = service.metric("ratelimit_service_should_rate_limit_error{err_type=\"service");
    assert_eq!(errors, Some(2));
}

#[test]
fn with_a_forced_start_the_service_is_ready_without_rules() {
    let plane = Plane::start();
    let service = launch(&plane)
        .env("FORCE_START_WITHOUT_INITIAL_CONFIG", "true")
        .env("TIDEGATE_REFERENCE_CODES", "true")
        .start();
    assert_eq!(http::get(&service.http, "/healthcheck").status, 200);
    assert_eq!(health(&service), ServingStatus::Serving);
    assert_eq!(told(&service, "[k=a]"), "error Unknown: no rate limit configuration loaded");
}

#[test]
fn other_rules_come_into_force_and_counters_stay() {
    let plane = Plane::start();
    plane.send("1", &[yearly(5)]);
    let service = launch(&plane).start();
    ready(&service);
    assert_eq!(told(&service, "[k=a]"), "OK r4");
    plane.send("2", &[yearly(7), config("other", vec![key("k").limited(1, Minute)])]);
    plane.accepted("2");
    assert_eq!(told(&service, "[k=a]"), "OK r5");
    plane.send("3", &[yearly(7)]);
    plane.accepted("3");
    assert_eq!(told_in(&service, "other", "[k=a]"), "NONE");
}

/// F06, for rules that are sent.
#[test]
fn bad_rules_are_refused_with_every_reason_and_the_last_good_ones_stay() {
    let plane = Plane::start();
    plane.send("1", &[yearly(5)]);
    let service = launch(&plane).start();
    ready(&service);
    assert_eq!(told(&service, "[k=a]"), "OK r4");

    let bad = config("bad", vec![key("").limited(1, Minute), key("k").policy(|_| {})]);
    plane.send("2", &[yearly(9), bad]);
    let reason = plane.refused("empty key");
    assert!(reason.contains("bad: descriptor has empty key"), "{reason}");
    assert!(reason.contains("bad: invalid rate limit unit 'UNKNOWN' (in bad > k)"), "{reason}");
    let refusal = plane.seen().requests.pop().expect("a refusal");
    assert_eq!((&*refusal.version_info, &*refusal.response_nonce), ("1", "1.2"));
    assert_eq!(refusal.error_detail.map(|detail| detail.code), Some(3));
    assert_eq!(told(&service, "[k=a]"), "OK r3");
    assert_eq!(http::get(&service.http, "/healthcheck").status, 200);
    let report = http::get(&service.http, "/readyz").json();
    assert_eq!(
        (&report["config"]["stale"], &report["config"]["version"]),
        (&true.into(), &"1".into())
    );
    assert_eq!(service.metric("ratelimit_service_config_load_error"), Some(1));
    assert_eq!(service.metric("tidegate_config_stale"), Some(1));

    plane.send("3", &[yearly(9)]);
    plane.accepted("3");
    assert_eq!(told(&service, "[k=a]"), "OK r6");
    let versions = http::get(&service.http, "/metrics").body;
    assert_eq!(versions.matches("tidegate_config_version_info{").count(), 1, "{versions}");
    assert_eq!(service.metric("tidegate_config_version_info{version=\"3\"}"), Some(1));
    assert_eq!(service.metric("ratelimit_service_config_load_success"), Some(2));
    assert_eq!(service.metric("tidegate_config_stale"), Some(0));
    // Two faults, what came of them, and the good ones.
    assert_eq!((lines(&service, "ERROR"), lines(&service, "is in force")), (3, 2));
}

#[test]
fn a_server_that_insists_does_not_make_it_run_in_circles() {
    let plane = Plane::start();
    plane.behave(Manners::Insisting);
    let start = Instant::now();
    plane.send("1", &[config("bad", vec![key("")])]);
    let service = launch(&plane).start();
    let refusals = |plane: &Plane| {
        plane.seen().requests.iter().filter(|request| request.error_detail.is_some()).count()
    };
    eventually("it is refused thrice", || refusals(&plane) >= 3);
    assert!(start.elapsed() >= Duration::from_secs(3), "{:?}", start.elapsed());
    assert_eq!((lines(&service, "empty key"), lines(&service, "is refused, and there")), (1, 1));
    assert_eq!(service.metric("ratelimit_service_config_load_error"), Some(1));
    // What is sent meanwhile is taken at once.
    plane.send("2", &[yearly(5)]);
    ready(&service);
    assert_eq!(told(&service, "[k=a]"), "OK r4");
}

#[test]
fn no_resources_are_no_rules() {
    let plane = Plane::start();
    plane.send("1", &[]);
    let service = launch(&plane).start();
    plane.accepted("1");
    ready(&service);
    assert_eq!(told(&service, "[k=a]"), "NONE");
}

/// F04, for rules that are sent.
#[test]
fn a_domain_in_two_resources_is_refused_unless_domains_are_merged() {
    let plane = Plane::start();
    let mut more = config("t", vec![key("l").limited(7, Minute)]);
    more.name = "more".into();
    for configs in [[more.clone(), yearly(5)], [yearly(5), more.clone()]] {
        plane.send("1", &configs);
        let service = launch(&plane).start();
        let reason = plane.refused("duplicate domain 't' in config file");
        assert!(reason.starts_with("t: ") && reason.contains("more"), "{reason}");
        assert_eq!(
            told(&service, "[k=a]"),
            "error Unavailable: no rate limit configuration loaded"
        );

        let merging = launch(&plane).env("MERGE_DOMAIN_CONFIG", "true").start();
        ready(&merging);
        let answers = [told(&merging, "[k=a]"), told(&merging, "[l=a]")];
        assert_eq!(answers, ["OK r4", "OK r6"]);
        // The same rule twice is too much even then.
        plane.send("2", &[configs[0].clone(), configs[1].clone(), yearly(9)]);
        plane.refused("duplicate descriptor composite key 't.k'");
        assert_eq!(told(&merging, "[k=a]"), "OK r3");
    }
}
