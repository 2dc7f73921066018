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
