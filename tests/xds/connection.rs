//! Connections come and go, rules stay.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::plane::{Manners, Plane};
use crate::process::{Launch, eventually};
use crate::rules::{DescriptorExt as _, config, key, yearly};
use crate::{launch, launch_at, lines, ready, told};
use tidegate::proto::ratelimit::config::ratelimit::v3::RateLimitUnit::Year;

const AWAY: &str = "no connection to the control plane";

#[test]
fn a_server_that_restarts_is_found_again_and_the_rules_stay_meanwhile() {
    let mut plane = Plane::start();
    plane.send("1", &[yearly(5)]);
    let service = launch(&plane).start();
    ready(&service);
    assert_eq!(told(&service, "[k=a]"), "OK r4");

    plane.stop();
    eventually("it is noticed", || lines(&service, AWAY) > 0);
    eventually("it is told", || service.metric("tidegate_xds_connected") == Some(0));
    assert_eq!(told(&service, "[k=a]"), "OK r3");
    // Other rules under a version that a new server counts from one again.
    plane.send("1", &[yearly(7)]);
    plane.resume(None);
    eventually("the new rules are in force", || lines(&service, "is in force") == 2);
    assert_eq!(told(&service, "[k=a]"), "OK r4");
    eventually("it is told", || service.metric("tidegate_xds_connected") == Some(1));
    eventually("it is logged", || lines(&service, "the control plane answers") == 2);
}

#[test]
fn the_same_rules_from_a_server_that_restarted_are_no_news() {
    let mut plane = Plane::start();
    plane.send("1", &[yearly(5), config("other", vec![key("k").limited(1, Year)])]);
    let service = launch(&plane).start();
    ready(&service);
    plane.stop();
    plane.send("9", &[config("other", vec![key("k").limited(1, Year)]), yearly(5)]);
    plane.resume(None);
    plane.accepted("9");
    assert_eq!(lines(&service, "is in force"), 1);
    assert_eq!(service.metric("ratelimit_service_config_load_success"), Some(1));
}

#[test]
fn a_server_that_is_away_at_the_start_is_waited_for_without_noise() {
    let mut plane = Plane::start();
    plane.stop();
    // The reference takes the factor for one of growth, so it may be above one.
    let service = launch(&plane)
        .env("LOG_LEVEL", "debug")
        .env("XDS_CLIENT_BACKOFF_RANDOM_FACTOR", "1.5")
        .start();
    let tried = "tried again after a pause";
    eventually("it tries several times", || lines(&service, tried) >= 4);
    assert_eq!(lines(&service, AWAY), 1, "{}", service.log());
    plane.send("1", &[yearly(5)]);
    plane.resume(None);
    ready(&service);
    assert_eq!(told(&service, "[k=a]"), "OK r4");
}

#[test]
fn a_server_that_ends_every_stream_is_asked_less_and_less() {
    let plane = Plane::start();
    plane.behave(Manners::Ending);
    let start = Instant::now();
    let service = launch(&plane)
        .env("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "100ms")
        .env("XDS_CLIENT_BACKOFF_MAX_INTERVAL", "10s")
        .env("XDS_CLIENT_BACKOFF_JITTER", "false")
        .start();
    eventually("five streams", || plane.seen().streams >= 5);
    // 100 + 200 + 400 + 800 ms lie between them.
    assert!(start.elapsed() >= Duration::from_millis(1500), "{:?}", start.elapsed());
    assert_eq!(lines(&service, AWAY), 1, "{}", service.log());
    assert!(service.log().contains("not today"));
}

#[test]
fn a_server_that_fell_silent_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    std::thread::spawn(move || {
        // They stay open, and nobody reads them.
        let mut held = Vec::new();
        for stream in listener.incoming().map_while(Result::ok) {
            held.push(stream);
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let _service = launch_at(&address).env("TIDEGATE_XDS_KEEPALIVE", "300ms").start();
    eventually("it connects again", || connections.load(Ordering::Relaxed) >= 2);
}

#[test]
fn rules_larger_than_the_bound_are_not_read_and_the_last_good_ones_stay() {
    let plane = Plane::start();
    plane.send("1", &[yearly(5)]);
    let small = || launch(&plane).env("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "20000");
    let service = small().start();
    ready(&service);
    let many = (0..1000).map(|n| key(&format!("some-key-{n}")).limited(5, Year)).collect();
    plane.send("2", &[yearly(9), config("large", many)]);
    eventually("it is told", || lines(&service, "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES") == 1);
    assert_eq!(told(&service, "[k=a]"), "OK r4");
    // There is room for them by default.
    let roomy = launch(&plane).start();
    ready(&roomy);
    assert_eq!(told(&roomy, "[k=a]"), "OK r8");
}

#[test]
fn a_service_stops_in_order_whatever_it_waits_for() {
    let mut plane = Plane::start();
    let mut waiting = launch(&plane).start();
    eventually("it subscribes", || !plane.seen().requests.is_empty());
    assert_eq!(waiting.stop().status.code(), Some(0));
    plane.stop();
    let mut away = launch(&plane).start();
    assert_eq!(away.stop().status.code(), Some(0));
}

#[test]
fn what_cannot_be_a_control_plane_is_refused_at_the_start() {
    for (name, value, said) in [
        ("CONFIG_TYPE", "ftp", "expected file (or FILE) or xds (or GRPC_XDS_SOTW)"),
        ("CONFIG_GRPC_XDS_SERVER_URL", "gateway", "expected host:port"),
        ("CONFIG_GRPC_XDS_NODE_METADATA", "zone", "expected key=value"),
        ("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "hush", "expected name:value"),
        ("CONFIG_GRPC_XDS_SERVER_TLS_SAN", "no name", "expected a host name"),
    ] {
        let ended = Launch::new(["serve"]).env(name, value).output();
        assert_eq!(ended.status.code(), Some(2), "{name}");
        assert!(ended.stderr.contains(said) && ended.stderr.contains(name), "{}", ended.stderr);
        assert!(!ended.stderr.contains("hush"), "{}", ended.stderr);
    }
}
