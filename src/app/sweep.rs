//! Frees the memory of expired counters and tells how much is held.
//!
//! With Redis as the store, that is about the counters that this process keeps
//! while Redis is away.

use std::sync::Arc;
use std::time::Duration;

use crate::decide::Decider;
use crate::store::Store;
use crate::store::memory::MemoryStore;

/// A pause between two steps. With 16 shards each, all 256 shards have their
/// turn every 4 s: often enough for gauges, and no step is noticed.
const PAUSE: Duration = Duration::from_millis(250);
const SHARDS_PER_STEP: usize = 16;

/// Sweeps the counters in memory behind `decider`, for ever. Redis expires its
/// keys by itself.
pub async fn run(decider: Arc<Decider>) {
    let (store, redis) = match decider.store() {
        Store::Memory(store) => (store, None),
        Store::Redis(redis) => (decider.fallback().store(), Some(redis.health())),
    };
    let mut reported_evictions = 0;
    loop {
        let mut pass = Pass::default();
        for first in (0..store.shards()).step_by(SHARDS_PER_STEP) {
            tokio::time::sleep(PAUSE).await;
            pass.step(&decider, store, first);
        }
        if redis.as_ref().is_some_and(|health| health.borrow().is_up()) {
            decider.fallback().store_is_back(decider.clock().now());
        }
        let metrics = decider.metrics();
        metrics.memory_keys.set(gauge(pass.keys));
        metrics.memory_bytes.set(gauge(pass.bytes));
        metrics.memory_evicted.inc_by(pass.evicted.saturating_sub(reported_evictions));
        reported_evictions = pass.evicted;
    }
}

/// What the shards hold that were visited so far.
#[derive(Default)]
struct Pass {
    keys: usize,
    bytes: usize,
    evicted: u64,
}

impl Pass {
    fn step(&mut self, decider: &Decider, store: &MemoryStore, first: usize) {
        let now = decider.clock().now();
        for shard in first..first + SHARDS_PER_STEP {
            let usage = store.sweep(shard, now);
            self.keys += usage.keys;
            self.bytes += usage.bytes;
            self.evicted += usage.evicted;
        }
    }
}

fn gauge(amount: usize) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}
