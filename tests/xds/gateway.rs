//! The rules that Envoy Gateway makes of its policies, with a real Envoy that is
//! configured as it configures one.

use tempfile::TempDir;
use tidegate::proto::ratelimit::config::ratelimit::v3::RateLimitUnit::{Month, Week, Year};
use tidegate::proto::ratelimit::config::ratelimit::v3::{RateLimitConfig, RateLimitDescriptor};

use crate::envoy::{Envoy, upstream};
use crate::http::{self, Answer};
use crate::plane::Plane;
use crate::process::{Running, eventually};
use crate::rules::{DescriptorExt as _, config, key, pair};
use crate::{launch, ready, told_in};

const ENVOY: &str = include_str!("gateway.yaml");

/// A descriptor whose value is its key, as most of Envoy Gateway's are.
fn named(name: &str) -> RateLimitDescriptor {
    pair(name, name)
}

/// The rules of a route. Its name ends with the host, which may be any.
fn route(name: &str, host: &str, rules: Vec<RateLimitDescriptor>) -> RateLimitDescriptor {
    let route = named(&format!("httproute/default/{name}/rule/0/match/0/{host}"));
    RateLimitDescriptor { descriptors: rules, ..route }
}

fn resources() -> Vec<RateLimitConfig> {
    let network = "203.0.113.0/24";
    let by_user = key("rule-0-match-0").limited(3, Week);
    let trial = named("rule-1-method").limited(2, Year);
    let anybody = named("rule-0-match--1");
    let clients = vec![
        pair("masked_remote_address", network).then(key("remote_address").limited(2, Month)),
        pair("masked_remote_address", &format!("invert:{network}")).limited(1, Year),
    ];
    let everywhere = pair("masked_remote_address", "0.0.0.0/0").limited(1, Week).shadow();
    let shared = named("default/policy-1/rule/0").then(anybody.clone().limited(2, Year));
    let listener = vec![
        route("users", "*", vec![by_user, named("rule-1-match-0").then(trial)]),
        route("clients", "*_example_com", clients),
        route("all", "*", vec![anybody.limited(2, Week)]),
        route("tokens", "*", vec![key("rule-0-match-0").limited(10, Week)]),
        route("shadow", "*", vec![named("rule-0-match-0").shadow().then(everywhere)]),
    ];
    vec![config("default/eg/http", listener), config("default/policy-1", vec![shared])]
}

struct Gateway {
    service: Running,
    envoy: Envoy,
    _plane: Plane,
    _directory: TempDir,
}

impl Gateway {
    /// `None` where there is no Envoy.
    fn start() -> Option<Self> {
        let plane = Plane::start();
        plane.send("1", &resources());
        let service = launch(&plane)
            .env("CONFIG_GRPC_XDS_NODE_ID", "envoy-ratelimit")
            .env("FORCE_START_WITHOUT_INITIAL_CONFIG", "true")
            .start();
        plane.accepted("1");
        ready(&service);
        let directory = tempfile::tempdir().expect("a directory");
        let envoy = Envoy::start(ENVOY, &service.grpc, upstream(), directory.path())?;
        Some(Self { service, envoy, _plane: plane, _directory: directory })
    }

    fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let headers: Vec<_> =
            headers.iter().map(|(key, value)| format!("{key}: {value}")).collect();
        http::get_with(&self.envoy.address, path, &headers.join("\r\n"))
    }

    fn statuses(&self, path: &str, headers: &[(&str, &str)], times: usize) -> Vec<u16> {
        (0..times).map(|_| self.get(path, headers).status).collect()
    }
}

#[test]
fn chains_of_matches_are_found() {
    let Some(gateway) = Gateway::start() else { return };
    let user = |id| [("x-user-id", id)];
    assert_eq!(gateway.statuses("/users", &user("ann"), 4), [200, 200, 200, 429]);
    assert_eq!(gateway.statuses("/users", &user("bob"), 1), [200]);
    let trial = |id| [("x-user-id", id), ("x-plan", "trial")];
    assert_eq!(gateway.statuses("/users", &trial("cy"), 1), [200]);
    assert_eq!(gateway.statuses("/users", &trial("di"), 2), [200, 429]);
    assert_eq!(gateway.statuses("/users", &[], 5), [200; 5], "no descriptor, no limit");

    let answer = gateway.get("/users", &user("eve"));
    assert!(answer.head.to_lowercase().contains("x-ratelimit-limit: 3, 3;w=604800"), "{answer:?}");
    assert_eq!(gateway.statuses("/all", &[], 3), [200, 200, 429]);
    assert_eq!(gateway.statuses("/shared", &[], 3), [200, 200, 429]);
    assert_eq!(gateway.statuses("/elsewhere", &[], 3), [200; 3]);
}

#[test]
fn clients_are_told_apart_within_a_network() {
    let Some(gateway) = Gateway::start() else { return };
    let from = |client| [("x-forwarded-for", client)];
    assert_eq!(gateway.statuses("/clients", &from("203.0.113.9"), 3), [200, 200, 429]);
    assert_eq!(gateway.statuses("/clients", &from("203.0.113.10"), 2), [200, 200]);
    // All others share one counter.
    assert_eq!(gateway.statuses("/clients", &from("198.51.100.1"), 1), [200]);
    assert_eq!(gateway.statuses("/clients", &from("198.51.100.2"), 1), [429]);
}

#[test]
fn the_cost_of_an_answer_is_charged_when_the_stream_is_done() {
    let Some(gateway) = Gateway::start() else { return };
    let asks = |tokens| [("x-user-id", "ann"), ("x-tokens", tokens)];
    let left = || {
        let route = "httproute/default/tokens/rule/0/match/0/*";
        let text = format!("[{route}={route}, rule-0-match-0=ann !h=0]");
        told_in(&gateway.service, "default/eg/http", &text)
    };
    assert_eq!(gateway.get("/tokens", &asks("4")).status, 200);
    eventually("four are charged", || left() == "OK r6");
    // The last one may go over; what goes over is not known before.
    assert_eq!(gateway.get("/tokens", &asks("7")).status, 200);
    eventually("it is used up", || left() == "OVER");
    assert_eq!(gateway.get("/tokens", &asks("1")).status, 429);
    assert_eq!(gateway.get("/tokens", &[("x-user-id", "bob"), ("x-tokens", "1")]).status, 200);
}

#[test]
fn a_rule_in_shadow_counts_and_lets_pass() {
    let Some(gateway) = Gateway::start() else { return };
    assert_eq!(gateway.statuses("/shadow", &[("x-user-id", "ann")], 3), [200; 3]);
    let series = |name: &str| {
        let series = format!("ratelimit_service_rate_limit_{name}{{domain=\"default/eg/http\"");
        let text = http::get(&gateway.service.http, "/metrics").body;
        let lines = text.lines().filter(|line| line.starts_with(&series));
        let line = lines.into_iter().find(|line| line.contains("/shadow/")).expect(name).to_owned();
        line.rsplit(' ').next().and_then(|value| value.parse().ok())
    };
    assert_eq!((series("total_hits"), series("shadow_mode")), (Some(3), Some(2)));
}

/// Envoy Gateway may have no rules for long: its pods are probed meanwhile.
#[test]
fn a_gateway_without_policies_gets_no_unhealthy_service() {
    let plane = Plane::start();
    let service = launch(&plane).env("FORCE_START_WITHOUT_INITIAL_CONFIG", "true").start();
    assert_eq!(http::get(&service.http, "/healthcheck").status, 200);
}

/// F35, for rules that are sent.
#[test]
fn f35_clients_make_no_series() {
    let plane = Plane::start();
    plane.send("1", &resources());
    let service = launch(&plane).start();
    ready(&service);
    let series = || {
        let text = http::get(&service.http, "/metrics").body;
        text.lines().filter(|line| line.starts_with("ratelimit_service_rate_limit_")).count()
    };
    let before = series();
    assert!(before > 0);
    let route = "httproute/default/users/rule/0/match/0/*";
    for client in 0..50 {
        let text = format!("[{route}={route}, rule-0-match-0=client-{client}]");
        assert_eq!(told_in(&service, "default/eg/http", &text), "OK r2");
    }
    assert_eq!(series(), before);
}
