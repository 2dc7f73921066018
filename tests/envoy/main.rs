//! Real Envoy in front, real Redis behind.

#[path = "../support/mod.rs"]
mod support;

mod envoy;
mod lockout;

use support::http::{self, Answer};
use support::process::{Launch, Running};
use support::redis::RedisServer;

use self::envoy::{Envoy, upstream};

const ENVOY: &str = include_str!("../../deploy/envoy/envoy.yaml");
const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/envoy/rules.yaml");

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let lines = answer.head.lines().filter_map(|line| line.split_once(": "));
    lines.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// A test that starts in the last seconds of an hour would see two windows.
fn wait_for_the_middle_of_an_hour() {
    support::process::eventually("the hour does not end within a minute", || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.expect("after 1970").as_secs() % 3600 < 3540
    });
}

#[test]
fn requests_turn_into_429_exactly_at_the_limit() {
    wait_for_the_middle_of_an_hour();
    let directory = tempfile::tempdir().expect("a directory");
    let service = Launch::serve(RULES).start();
    let Some(envoy) = Envoy::start(ENVOY, &service.grpc, upstream(), directory.path()) else {
        return;
    };
    for hit in 1..=8 {
        let answer = http::get(&envoy.address, "/search?q=tides");
        let left = if hit <= 5 { 5 - hit } else { 0 };
        assert_eq!(answer.status, if hit <= 5 { 200 } else { 429 }, "hit {hit}");
        // The name that Envoy adds tells which rule spoke.
        assert_eq!(header(&answer, "x-ratelimit-limit"), Some("5, 5;w=3600;name=\"search\""));
        assert_eq!(header(&answer, "x-ratelimit-remaining"), Some(&*left.to_string()));
        let reset = header(&answer, "x-ratelimit-reset").and_then(|text| text.parse::<u32>().ok());
        assert!(reset.is_some_and(|reset| (1..=3600).contains(&reset)), "{reset:?}");
    }
    let answer = http::get(&envoy.address, "/elsewhere");
    assert_eq!((answer.status, header(&answer, "x-ratelimit-limit")), (200, None));
}

#[test]
fn two_envoys_and_two_services_on_one_redis_share_one_limit_exactly() {
    wait_for_the_middle_of_an_hour();
    let directory = tempfile::tempdir().expect("a directory");
    let Some(redis) = RedisServer::redis() else { return };
    let upstream = upstream();
    let start = || -> Option<(Running, Envoy)> {
        // A decision that waits for a busy machine must not be waved through.
        let slow = ["--store-deadline", "5s", "--failure-mode", "error"];
        let service = Launch::serve(RULES).args(["--store", &redis.url()]).args(slow).start();
        let envoy = Envoy::start(ENVOY, &service.grpc, upstream, directory.path())?;
        Some((service, envoy))
    };
    let (Some((_one, first)), Some((_two, second))) = (start(), start()) else { return };
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..16)
            .map(|caller| {
                let address = if caller % 2 == 0 { &first.address } else { &second.address };
                scope.spawn(move || {
                    (0..5).map(|_| http::get(address, "/api/users").status).collect::<Vec<_>>()
                })
            })
            .collect();
        callers.into_iter().flat_map(|caller| caller.join().expect("no panic")).collect()
    });
    let count = |status: u16| statuses.iter().filter(|seen| **seen == status).count();
    assert_eq!((count(200), count(429)), (20, 60), "{statuses:?}");
}
