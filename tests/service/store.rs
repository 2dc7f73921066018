//! Counters in Redis.

use crate::directory;
use crate::http;
use crate::process::Launch;
use crate::redis::RedisServer;

#[test]
fn redis_runs_the_script_the_way_that_was_asked_for() {
    for (runtime, used, unused) in [("eval", "evalsha", "fcall"), ("function", "fcall", "evalsha")]
    {
        let Some(server) = RedisServer::redis() else { return };
        let (_directory, config) = directory();
        let running = Launch::serve(&config)
            .args(["--store", &server.url(), "--store-deadline", "10s", "--failure-mode", "error"])
            .env("TIDEGATE_REDIS_SCRIPT", runtime)
            .start();
        let request = r#"{"domain":"t","descriptors":[{"entries":[{"key":"five","value":"a"}]}]}"#;
        for left in [4, 3] {
            let answer = http::post(&running.http, "/json", request.as_bytes());
            assert_eq!(answer.json()["statuses"][0]["limitRemaining"], left, "{answer:?}");
        }
        assert!(server.calls(used) >= 2, "{used} was not called");
        assert_eq!(server.calls(unused), 0, "{unused} was called");
    }
}

/// The smallest near cache is taken where less is asked for, and the log says so.
#[test]
fn a_near_cache_that_is_too_small_is_told() {
    for (size, told) in [("100KiB", true), ("512KiB", false), ("0", false)] {
        let (_directory, config) = directory();
        let args = ["--store", "redis://127.0.0.1:1", "--near-cache-size", size];
        let running = Launch::serve(&config).args(args).start();
        assert_eq!(running.log().contains("512KiB, the smallest"), told, "{}", running.log());
    }
}

/// A `--store` that was forgotten would go unnoticed.
#[test]
fn settings_of_redis_beside_counters_in_memory_are_told_once() {
    let (_directory, config) = directory();
    let mut running = Launch::serve(&config)
        .args(["--store", "memory", "--redis-lanes", "2", "--require-store"])
        .env("TIDEGATE_REDIS_USERNAME", "ann")
        .env("TIDEGATE_REDIS_PASSWORD", "hush")
        .start();
    let log = running.stop().stderr;
    let told: Vec<&str> = log.lines().filter(|line| line.contains("no effect")).collect();
    assert_eq!(told.len(), 1, "{log}");
    for given in
        ["--redis-lanes", "--require-store", "TIDEGATE_REDIS_USERNAME", "TIDEGATE_REDIS_PASSWORD"]
    {
        assert!(told[0].contains(given), "{given}: {log}");
    }
    for other in ["hush", "--near-cache", "--redis-batch"] {
        assert!(!told[0].contains(other), "{other}: {log}");
    }
}

#[test]
fn defaults_and_variables_of_the_reference_are_not_told_as_without_effect() {
    let (_directory, config) = directory();
    let plain = Launch::serve(&config);
    let reference = Launch::serve(&config)
        .args(["--store", "memory", "--log-level", "info"])
        .env("TIDEGATE_PROFILE", "reference")
        .env("CACHE_KEY_PREFIX", "p")
        .env("TIDEGATE_STORE_DEADLINE", "10ms");
    for launch in [plain, reference] {
        let log = launch.start().stop().stderr;
        assert!(log.contains("defaults") && !log.contains("no effect"), "{log}");
    }
}
