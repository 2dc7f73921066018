//! Frees the memory of expired counters and tells how much is held.
//!
//! With Redis as the store, that is about the counters that this process keeps
//! while Redis is away.

use std::sync::Arc;
use std::time::Duration;

use crate::decide::Decider;
use crate::store::Store;
use crate::store::lease::LeaseUsage;
use crate::store::memory::{MemoryStore, Usage};
use crate::store::near::NearUsage;

/// A pause between two steps. With 16 shards each, all 256 shards have their
/// turn every 4 s: often enough for gauges, and no step is noticed.
const PAUSE: Duration = Duration::from_millis(250);
const SHARDS_PER_STEP: usize = 16;

/// Sweeps the counters in memory behind `decider`, for ever. Redis expires its
/// keys by itself.
pub async fn run(decider: Arc<Decider>) {
    let (store, redis) = match decider.store() {
        Store::Memory(store) => (store, None),
        Store::Redis(redis) => (decider.fallback().store(), Some((redis, redis.health()))),
    };
    let mut reported_evictions = 0;
    let mut near_before = NearUsage::default();
    let mut leases_before = LeaseUsage::default();
    loop {
        let mut held = Usage::default();
        for first in (0..store.shards()).step_by(SHARDS_PER_STEP) {
            tokio::time::sleep(PAUSE).await;
            held = held.plus(step(&decider, store, first));
        }
        let metrics = decider.metrics();
        if let Some((redis, health)) = &redis {
            if health.borrow().is_up() {
                decider.fallback().store_is_back(decider.clock().now());
            }
            let near = redis.sweep().unwrap_or_default();
            metrics.near_cache_entries.set(near.entries);
            metrics.near_cache_evicted.inc_by(near.evicted.saturating_sub(near_before.evicted));
            near_before = near;
            let leases = redis.lease_usage();
            metrics.lease_served.inc_by(leases.served.saturating_sub(leases_before.served));
            metrics.lease_taken.inc_by(leases.taken.saturating_sub(leases_before.taken));
            metrics.lease_returned.inc_by(leases.returned.saturating_sub(leases_before.returned));
            leases_before = leases;
        }
        metrics.memory_keys.set(gauge(held.keys));
        metrics.memory_bytes.set(gauge(held.bytes));
        metrics.memory_evicted.inc_by(held.evicted.saturating_sub(reported_evictions));
        reported_evictions = held.evicted;
    }
}

/// Sweeps some shards, from `first` on, and tells what they then hold.
fn step(decider: &Decider, store: &MemoryStore, first: usize) -> Usage {
    let now = decider.clock().now();
    let shards = first..first + SHARDS_PER_STEP;
    shards.map(|shard| store.sweep(shard, now)).fold(Usage::default(), Usage::plus)
}

fn gauge(amount: usize) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}
