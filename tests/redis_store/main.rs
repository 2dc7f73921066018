//! The Redis store against real servers.

mod atomicity;
mod changes;
mod differential;
mod exactness;
mod expiry;
mod faults;
mod functions;
mod leases;
mod losses;
mod malformed;
mod near;
mod permissions;
mod script_cache;
mod tls;

#[path = "../support/certificates.rs"]
mod certificates;
#[path = "../support/plans.rs"]
mod plans;
#[path = "../support/redis.rs"]
mod redis;

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use tidegate::store::redis::{RedisConfig, RedisStore};
use tidegate::store::{Plan, StoreError};
use tidegate::units::Span;

/// A store that waits for slow machines, so that a test fails for no other
/// reason than the one it is about.
fn patient(url: impl Into<String>) -> RedisConfig {
    RedisConfig {
        deadline: Span::from_secs(20),
        lanes: lanes(2),
        near: None,
        ..RedisConfig::new(url)
    }
}

fn lanes(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).expect("at least one")
}

fn connect(config: &RedisConfig) -> RedisStore {
    RedisStore::connect(config).expect("a valid configuration")
}

/// Whether a request with one charge may pass.
async fn allowed(store: &RedisStore, plan: &Plan) -> Result<bool, StoreError> {
    let verdicts = store.decide(plan).await?;
    assert_eq!(verdicts.len(), 1);
    Ok(verdicts[0].allowed)
}

/// Asks again and again until decisions succeed.
async fn recovered(store: &RedisStore, plan: &Plan) {
    let deadline = Instant::now() + redis::PATIENCE;
    while let Err(error) = store.decide(plan).await {
        assert!(Instant::now() < deadline, "does not recover: {error}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits for a condition that must come true.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + redis::PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
