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
use super::{Charge, Group, Plan, Verdicts};
use crate::limit::{Cost, State, Verdict};
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
    /// What both hold together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
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

    /// Decides all charges of `plan`, each group atomically.
    pub fn decide(&self, plan: &Plan) -> Verdicts {
        let mut verdicts = Verdicts::new();
        for group in plan.groups() {
            match group.charges {
                [charge] => verdicts.push(self.decide_alone(plan, charge)),
                _ => verdicts.extend(self.decide_together(plan, &group)),
            }
        }
        verdicts
    }

    fn decide_alone(&self, plan: &Plan, charge: &Charge) -> Verdict {
        let key = plan.keys.get(charge.key);
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shards[index(hash)].lock();
        shard.step(&self.hasher, hash, key, &charge.limit, plan.now, charge.cost)
    }

    /// All charges under their locks: step each; if the group is refused, put
    /// everything back and answer what it would have found.
    fn decide_together(&self, plan: &Plan, group: &Group<'_>) -> Verdicts {
        let hash = |charge: &Charge| self.hasher.hash_one(plan.keys.get(charge.key));
        let hashes: SmallVec<[u64; 4]> = group.charges.iter().map(hash).collect();
        let mut locked = Locked { guards: self.lock_all(&hashes), hasher: &self.hasher, plan };
        let charges = || group.charges.iter().zip(&hashes);
        let mut verdicts = Verdicts::new();
        let mut saved: SmallVec<[Option<State>; 4]> = SmallVec::new();
        for (charge, &hash) in charges() {
            saved.push(locked.state(charge, hash));
            verdicts.push(locked.step(charge, hash, charge.cost));
        }
        if !group.refused_by(&verdicts) {
            return verdicts;
        }
        for ((charge, &hash), before) in charges().zip(saved).rev() {
            locked.restore(charge, hash, before);
        }
        for ((charge, &hash), verdict) in charges().zip(&mut verdicts) {
            match group.cost_after_refusal(charge, verdict.allowed) {
                Some(cost) => *verdict = locked.step(charge, hash, cost),
                None => locked.keep_penalty(charge, hash),
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

    /// Forgets everything.
    pub fn clear(&self) {
        for shard in &self.shards {
            shard.lock().clear();
        }
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

/// The shards of one group, locked.
struct Locked<'a> {
    guards: Guards<'a>,
    hasher: &'a RandomState,
    plan: &'a Plan,
}

impl Locked<'_> {
    fn shard(&mut self, hash: u64) -> Option<&mut Shard> {
        let wanted = index(hash);
        self.guards.iter_mut().find(|(at, _)| *at == wanted).map(|(_, shard)| &mut **shard)
    }

    fn state(&mut self, charge: &Charge, hash: u64) -> Option<State> {
        let key = self.plan.keys.get(charge.key);
        self.shard(hash)?.state(hash, key).cloned()
    }

    fn step(&mut self, charge: &Charge, hash: u64, cost: Cost) -> Verdict {
        let (plan, hasher) = (self.plan, self.hasher);
        let key = plan.keys.get(charge.key);
        self.shard(hash).map_or_else(Verdict::default, |shard| {
            shard.step(hasher, hash, key, &charge.limit, plan.now, cost)
        })
    }

    fn restore(&mut self, charge: &Charge, hash: u64, before: Option<State>) {
        let (plan, hasher) = (self.plan, self.hasher);
        if let Some(shard) = self.shard(hash) {
            shard.restore(hasher, hash, plan.keys.get(charge.key), before);
        }
    }

    /// A refusal consumes nothing, but what it brings on itself (a block) stays,
    /// if it is still refused without the rest of the group.
    fn keep_penalty(&mut self, charge: &Charge, hash: u64) {
        let before = self.state(charge, hash);
        if self.step(charge, hash, charge.cost).allowed {
            self.restore(charge, hash, before);
        }
    }
}

/// The shard of a key: bits that the tables inside the shards do not use first.
#[allow(clippy::cast_possible_truncation)] // Masked to the number of shards.
const fn index(hash: u64) -> usize {
    (hash >> 40) as usize & (SHARDS - 1)
}

#[cfg(test)]
mod tests;
