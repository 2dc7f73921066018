//! F40: what a restart must not forget. The life cycle itself is in
//! `tests/rules/clients.rs`.

use tidegate::store::Store;
use tidegate::store::redis::{RedisConfig, RedisStore};
use tidegate::units::Span;

use crate::support::redis::RedisServer;
use crate::support::service::{NOW, Service, Setup};

const LOCKOUT: &str = "
  - key: client
    rate_limit: {algorithm: lockout, max_attempts: 5, window: 15m, lockout: 60s}";

/// A service of its own on a Redis that others may have used.
fn start(server: &RedisServer) -> Service {
    let config = RedisConfig { deadline: Span::from_secs(10), ..RedisConfig::new(server.url()) };
    let store = RedisStore::connect(&config).unwrap_or_else(|error| panic!("{error}"));
    Setup::rules(LOCKOUT).start_on(Store::Redis(store), None)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f40_failures_and_locks_in_redis_outlive_a_restart() {
    let Some(server) = RedisServer::redis() else { return };
    let four = ["[client=a]"; 4];
    assert_eq!(start(&server).ask_all(four).await, ["OK r4", "OK r3", "OK r2", "OK r1"]);
    assert_eq!(start(&server).told("t", "[client=a]").await, "OVER, 60s", "the fifth locks");
    let restarted = start(&server);
    for (seconds, answer) in [(0, "OVER, 60s"), (59, "OVER, 1s"), (61, "OK r5, 0s")] {
        restarted.clock.set(NOW.plus(Span::from_secs(seconds)));
        assert_eq!(restarted.told("t", "[client=a !h=0]").await, answer, "after {seconds} s");
    }
}
