//! Failed logins alone are counted, by a stock Envoy.

use crate::envoy::{Envoy, upstream};
use crate::support::http;
use crate::support::process::{Launch, Running, eventually};

const ENVOY: &str = include_str!("../../deploy/envoy/failures-only.yaml");
const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/envoy/failures-only-rules.yaml");
/// As the rules say.
const MAX_ATTEMPTS: u64 = 5;

/// Failures that were reported, those of locked clients included.
fn reported(service: &Running) -> u64 {
    let metrics = http::get(&service.http, "/metrics").body;
    let series = "ratelimit_service_rate_limit_total_hits{domain=\"auth\",key1=\"scope_login\"";
    let line = metrics.lines().find(|line| line.starts_with(series));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn failed_logins_lock_a_client_out_and_successes_never_count() {
    let directory = tempfile::tempdir().expect("a directory");
    let service = Launch::serve(RULES).start();
    // We call as a proxy would, so that there can be more than one client.
    let config = ENVOY.replace("xff_num_trusted_hops: 0", "xff_num_trusted_hops: 1");
    let Some(envoy) = Envoy::start(&config, &service.grpc, upstream(), directory.path()) else {
        return;
    };
    let login = |client: &str, outcome: &str| {
        let header = format!("x-forwarded-for: {client}");
        http::get_with(&envoy.address, &format!("/login/{outcome}"), &header).status
    };
    let attacker = "203.0.113.9";
    for failures in 1..=MAX_ATTEMPTS {
        for _ in 0..3 {
            assert_eq!(login(attacker, "good"), 200, "after {} failures", failures - 1);
        }
        assert_eq!(login(attacker, "bad"), 401, "failure {failures}");
        // The report follows the answer.
        eventually("the failure is reported", || reported(&service) == failures);
    }
    for outcome in ["good", "bad", "good", "bad"] {
        assert_eq!(login(attacker, outcome), 429, "locked out, whatever the password");
    }
    assert_eq!(login("198.51.100.7", "bad"), 401, "another client");
    assert_eq!(login("198.51.100.7", "good"), 200, "another client");
    eventually("its failure is reported", || reported(&service) > MAX_ATTEMPTS);
    assert_eq!(login(attacker, "good"), 429, "the other client's success opens nothing");
    let elsewhere = http::get_with(&envoy.address, "/", &format!("x-forwarded-for: {attacker}"));
    assert_eq!(elsewhere.status, 200, "only logins are locked");
}
