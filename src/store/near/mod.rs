//! The near cache: what the store is certain to refuse is refused here.
//!
//! In front of a store that is far away. It knows refusals only, so it can never
//! admit anything, and believes one only as long as the store would refuse as
//! well (see `refusal.rs`), though never longer than [`NearConfig::longest`]: that
//! bounds what it cannot see, such as a refund by another replica. Bounded by
//! construction: keys fall into sets of a few entries each.

mod question;
mod refusal;
mod set;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use ahash::RandomState;

use super::Plan;
use super::key::{KeyRef, MAX_KEY};
use crate::clock::SystemClock;
use crate::units::{Span, Timestamp};
use set::{Change, Entry, Name, Set, WAYS};

pub use question::{Question, Rest};

/// How much the near cache may hold, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NearConfig {
    /// About the most memory that it may take, in bytes.
    pub bytes: usize,
    /// The longest that a refusal is believed.
    pub longest: Span,
}

impl Default for NearConfig {
    /// 16 MiB, one second.
    fn default() -> Self {
        Self { bytes: 16 << 20, longest: Span::from_secs(1) }
    }
}

/// What the near cache did and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NearUsage {
    /// Refusals that it knows, those past included until they are swept.
    pub entries: i64,
    /// Refusals given up for others while they were still believed.
    pub evicted: u64,
}

/// Refusals that are believed.
#[derive(Debug)]
pub struct NearCache {
    sets: Box<[Set]>,
    hasher: RandomState,
    clock: SystemClock,
    longest: Span,
    entries: AtomicI64,
    evicted: AtomicU64,
}

/// Where a key is, and as of when.
#[derive(Clone, Copy, Debug)]
struct Place {
    hash: u64,
    generation: u64,
}

impl NearCache {
    /// An empty one.
    pub fn new(config: NearConfig) -> Self {
        let sets = config.bytes / (size_of::<Set>() + WAYS * (size_of::<Entry>() + MAX_KEY));
        Self {
            sets: (0..sets.max(1)).map(|_| Set::default()).collect(),
            hasher: RandomState::new(),
            clock: SystemClock::default(),
            longest: config.longest,
            entries: AtomicI64::new(0),
            evicted: AtomicU64::new(0),
        }
    }

    /// What it holds.
    pub fn usage(&self) -> NearUsage {
        NearUsage {
            entries: self.entries.load(Ordering::Relaxed),
            evicted: self.evicted.load(Ordering::Relaxed),
        }
    }

    /// Frees what is past.
    pub fn sweep(&self) {
        let now = self.clock.now();
        for set in &self.sets {
            self.note(set.sweep(now));
        }
    }

    /// The moment of a question, by the clock that the plan follows.
    fn now(&self, plan: &Plan) -> Timestamp {
        if plan.pinned { plan.now } else { self.clock.now() }
    }

    fn place(&self, plan: &Plan, key: KeyRef) -> Place {
        let hash = self.hasher.hash_one(plan.keys.get(key));
        Place { hash, generation: self.set(hash).generation() }
    }

    /// The set of a hash. There is at least one.
    #[allow(clippy::cast_possible_truncation, reason = "less than the number of sets")]
    fn set(&self, hash: u64) -> &Set {
        let at = (u128::from(hash) * self.sets.len() as u128) >> 64;
        &self.sets[at as usize]
    }

    fn note(&self, change: Change) {
        if change == Change::default() {
            return;
        }
        self.entries.fetch_add(change.growth, Ordering::Relaxed);
        self.evicted.fetch_add(change.evicted, Ordering::Relaxed);
    }
}
