//! Counters in this process: sharded, bounded, swept.
//!
//! A key lives in one shard, behind a lock that is held for one step of an
//! algorithm. Only an all-or-nothing request with several charges holds several
//! locks, always taken in the same order.

mod shard;

use ahash::RandomState;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use self::shard::Shard;
use super::{Charge, ChargeMode, Plan, Role, Verdicts};
use crate::limit::Cost;
use crate::units::Timestamp;

/// Many, so that sweeping one takes microseconds and threads rarely meet.
const SHARDS: usize = 256;

/// The memory that counters may take unless said otherwise, in bytes.
pub const DEFAULT_MEMORY_LIMIT: usize = 256 << 20;

/// Counters in this process.
///
/// When the bound is reached, expired counters go first. If none is expired, a
/// new key displaces, of a few live ones picked at random, the one that loses
/// least: the fewest hits, then the earliest end. Counters near or over their
/// limit therefore outlive a flood of new keys.
#[derive(Debug)]
pub struct MemoryStore {
    hasher: RandomState,
    shards: Box<[Mutex<Shard>]>,
}

/// What the store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Counters, expired ones that are not yet swept included.
    pub keys: usize,
    /// Bytes, estimated.
    pub bytes: usize,
    /// Live counters given up to stay within the bound, since the start.
    pub evicted: u64,
}

impl Usage {
    fn plus(self, other: Self) -> Self {
        Self {
            keys: self.keys + other.keys,
            bytes: self.bytes + other.bytes,
            evicted: self.evicted + other.evicted,
        }
    }
}

type Guards<'a> = SmallVec<[(usize, MutexGuard<'a, Shard>); 4]>;

impl MemoryStore {
    /// An empty store that takes at most about `memory_limit` bytes.
    pub fn new(memory_limit: usize) -> Self {
        let share = memory_limit / SHARDS;
        Self {
            hasher: RandomState::new(),
            shards: (0..SHARDS).map(|_| Mutex::new(Shard::new(share))).collect(),
        }
    }

    /// Decides all charges of `plan` atomically.
    pub fn decide(&self, plan: &Plan) -> Verdicts {
        if plan.mode == ChargeMode::AllOrNothing && plan.charges.len() > 1 {
            return self.decide_together(plan);
        }
        let alone = |charge: &Charge| {
            let key = plan.keys.get(charge.key);
            let hash = self.hasher.hash_one(key);
            let mut shard = self.shards[index(hash)].lock();
            shard.step(&self.hasher, hash, key, &charge.limit, plan.now, charge.cost)
        };
        plan.charges.iter().map(alone).collect()
    }

    /// All charges under their locks: step each; if the request is refused, put
    /// everything back and answer what it would have found.
    fn decide_together(&self, plan: &Plan) -> Verdicts {
        let hashes: SmallVec<[u64; 4]> = plan
            .charges
            .iter()
            .map(|charge| self.hasher.hash_one(plan.keys.get(charge.key)))
            .collect();
        let mut guards = self.lock_all(&hashes);
        let mut step = |charge: &Charge, hash: u64, cost: Cost| {
            let shard = guarded(&mut guards, hash)?;
            let key = plan.keys.get(charge.key);
            Some(shard.step_saving(&self.hasher, hash, key, &charge.limit, plan.now, cost))
        };
        let mut verdicts = Verdicts::new();
        let mut saved: SmallVec<[_; 4]> = SmallVec::new();
        for (charge, &hash) in plan.charges.iter().zip(&hashes) {
            let (verdict, before) = step(charge, hash, charge.cost).unwrap_or_default();
            verdicts.push(verdict);
            saved.push(before);
        }
        if !plan.refused_by(&verdicts) {
            return verdicts;
        }
        for ((charge, &hash), before) in plan.charges.iter().zip(&hashes).zip(saved).rev() {
            if let Some(shard) = guarded(&mut guards, hash) {
                shard.restore(&self.hasher, hash, plan.keys.get(charge.key), before);
            }
        }
        let mut step = |charge: &Charge, hash: u64, cost: Cost| {
            let shard = guarded(&mut guards, hash)?;
            let key = plan.keys.get(charge.key);
            Some(shard.step(&self.hasher, hash, key, &charge.limit, plan.now, cost))
        };
        for ((charge, &hash), verdict) in plan.charges.iter().zip(&hashes).zip(&mut verdicts) {
            if let Some(cost) = charge.cost_after_refusal(verdict.allowed) {
                *verdict = step(charge, hash, cost).unwrap_or_default();
            }
        }
        verdicts
    }

    /// The locks of all shards that these keys live in, in ascending order so
    /// that two requests never wait for each other.
    fn lock_all(&self, hashes: &[u64]) -> Guards<'_> {
        let mut wanted: SmallVec<[usize; 4]> = hashes.iter().map(|&hash| index(hash)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted.into_iter().map(|at| (at, self.shards[at].lock())).collect()
    }

    /// Drops what has expired in one shard (of [`MemoryStore::shards`]) and
    /// tells what the shard then holds.
    pub fn sweep(&self, shard: usize, now: Timestamp) -> Usage {
        let Some(shard) = self.shards.get(shard) else { return Usage::default() };
        let mut shard = shard.lock();
        shard.sweep(&self.hasher, now);
        shard.usage()
    }

    /// How many shards there are.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// What the store holds.
    pub fn usage(&self) -> Usage {
        self.shards.iter().map(|shard| shard.lock().usage()).fold(Usage::default(), Usage::plus)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(DEFAULT_MEMORY_LIMIT)
    }
}

impl Charge {
    /// What to do about this charge once its all-or-nothing request is refused
    /// and everything is back as it was: shadow charges go on as before, those
    /// that passed only look, those that were refused keep their verdict.
    fn cost_after_refusal(&self, passed: bool) -> Option<Cost> {
        match (self.role, self.cost) {
            (Role::Shadow, cost) => Some(cost),
            _ if !passed => None,
            (_, Cost::Refund(_)) => Some(Cost::Refund(crate::units::Hits::ZERO)),
            _ => Some(Cost::Check),
        }
    }
}

/// The shard of a key: bits that the tables inside the shards do not use first.
#[allow(clippy::cast_possible_truncation)] // Masked to the number of shards.
const fn index(hash: u64) -> usize {
    (hash >> 40) as usize & (SHARDS - 1)
}

fn guarded<'g>(guards: &'g mut Guards<'_>, hash: u64) -> Option<&'g mut Shard> {
    let wanted = index(hash);
    guards.iter_mut().find(|(at, _)| *at == wanted).map(|(_, shard)| &mut **shard)
}

#[cfg(test)]
mod tests;
