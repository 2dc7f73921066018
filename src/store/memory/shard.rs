//! One shard: a hash table of keys and states, within a budget of bytes.

use ahash::RandomState;
use hashbrown::HashTable;

use super::Usage;
use crate::limit::{Cost, Limit, State, Verdict};
use crate::units::Timestamp;

/// How many live entries are compared before one is given up.
const EVICTION_SAMPLE: usize = 8;
/// Allocators round sizes up to about this step.
const ALLOCATION: usize = 16;
/// A table smaller than this is never shrunk.
const SMALL_TABLE: usize = 256;

#[derive(Debug)]
struct Entry {
    key: Box<[u8]>,
    state: State,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Shard {
    table: HashTable<Entry>,
    budget: usize,
    /// Bytes outside the table: keys and what states hold on the heap.
    outside: usize,
    /// No entry expires before this moment.
    earliest: Timestamp,
    evicted: u64,
    /// Where the next eviction looks; moves on, so that the sample differs.
    hand: usize,
}

impl Shard {
    pub(super) fn new(budget: usize) -> Self {
        Self {
            table: HashTable::new(),
            budget,
            outside: 0,
            earliest: Timestamp::from_micros(u64::MAX),
            evicted: 0,
            hand: 0,
        }
    }

    /// Decides `cost` for `key`.
    pub(super) fn step(
        &mut self,
        hasher: &RandomState,
        hash: u64,
        key: &[u8],
        limit: &Limit,
        now: Timestamp,
        cost: Cost,
    ) -> Verdict {
        if let Some(entry) = self.table.find_mut(hash, |entry| &*entry.key == key) {
            let before = entry.outside();
            let verdict = limit.step(&mut entry.state, now, cost);
            let after = entry.outside();
            self.earliest = self.earliest.min(entry.state.expires_at());
            self.outside = self.outside - before + after;
            if after > before && self.table.allocation_size() + self.outside > self.budget {
                self.make_room(hasher, 0, now);
            }
            return verdict;
        }
        let mut state = limit.fresh();
        let verdict = limit.step(&mut state, now, cost);
        if state.expires_at() > now {
            self.insert(hasher, hash, key, state, now);
        }
        verdict
    }

    /// The state of `key`.
    pub(super) fn state(&self, hash: u64, key: &[u8]) -> Option<&State> {
        self.table.find(hash, |entry| &*entry.key == key).map(|entry| &entry.state)
    }

    /// Puts back the state that `key` had, or its absence.
    pub(super) fn restore(
        &mut self,
        hasher: &RandomState,
        hash: u64,
        key: &[u8],
        before: Option<State>,
    ) {
        let entry = self.table.entry(hash, |entry| &*entry.key == key, rehash(hasher));
        match (entry, before) {
            (hashbrown::hash_table::Entry::Occupied(mut entry), Some(state)) => {
                let entry = entry.get_mut();
                self.outside -= entry.outside();
                entry.state = state;
                self.outside += entry.outside();
            }
            (hashbrown::hash_table::Entry::Occupied(entry), None) => {
                let (gone, _) = entry.remove();
                self.outside -= gone.outside();
            }
            (hashbrown::hash_table::Entry::Vacant(_), _) => {}
        }
    }

    /// Drops every expired entry, and memory that is no longer needed.
    pub(super) fn sweep(&mut self, hasher: &RandomState, now: Timestamp) {
        if self.earliest > now {
            return;
        }
        let mut earliest = Timestamp::from_micros(u64::MAX);
        let mut freed = 0;
        self.table.retain(|entry| {
            let expires = entry.state.expires_at();
            if expires <= now {
                freed += entry.outside();
                return false;
            }
            earliest = earliest.min(expires);
            true
        });
        self.outside -= freed;
        self.earliest = earliest;
        let wanted = SMALL_TABLE.max(self.table.len() * 2);
        if self.table.capacity() > wanted * 2 {
            self.table.shrink_to(wanted, rehash(hasher));
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.table = HashTable::new();
        self.outside = 0;
        self.earliest = Timestamp::from_micros(u64::MAX);
    }

    pub(super) fn usage(&self) -> Usage {
        Usage {
            keys: self.table.len(),
            bytes: self.table.allocation_size() + self.outside,
            evicted: self.evicted,
        }
    }

    fn insert(
        &mut self,
        hasher: &RandomState,
        hash: u64,
        key: &[u8],
        state: State,
        now: Timestamp,
    ) {
        let entry = Entry { key: key.into(), state };
        if !self.fits(&entry) {
            self.make_room(hasher, entry.outside(), now);
        }
        self.outside += entry.outside();
        self.earliest = self.earliest.min(entry.state.expires_at());
        self.table.insert_unique(hash, entry, rehash(hasher));
    }

    /// Whether one more entry stays within the budget, a growing table included.
    fn fits(&self, entry: &Entry) -> bool {
        let table = self.table.allocation_size();
        let grown = if self.table.len() < self.table.capacity() { table } else { table * 2 };
        grown + self.outside + entry.outside() <= self.budget
    }

    /// Drops what has expired or else gives up an eighth of the entries, until
    /// `wanted` bytes more fit: so many at once, because room that removals leave in
    /// the table must be regained by building it anew, or it would grow. The last
    /// one is kept, whatever it takes: a log larger than the whole budget would
    /// otherwise be lost at each hit.
    fn make_room(&mut self, hasher: &RandomState, wanted: usize, now: Timestamp) {
        let before = self.table.len();
        self.sweep(hasher, now);
        let most = before - before / 8;
        let fits = |shard: &Self| {
            let bytes = shard.table.allocation_size() + shard.outside + wanted;
            shard.table.len() < most && bytes <= shard.budget
        };
        while self.table.len() > 1 && !fits(self) && self.evict() {}
        let entries = std::mem::take(&mut self.table);
        self.table = HashTable::with_capacity(before);
        for entry in entries {
            let hash = hasher.hash_one(&*entry.key);
            self.table.insert_unique(hash, entry, rehash(hasher));
        }
    }

    /// Gives up the entry, of a few, that loses least. False when empty.
    fn evict(&mut self) -> bool {
        let buckets = self.table.num_buckets();
        let worth = |entry: &Entry| (entry.state.weight(), entry.state.expires_at());
        let mut least: Option<(usize, _)> = None;
        let mut seen = 0;
        for step in 0..buckets {
            let at = (self.hand + step) & (buckets - 1);
            let Some(entry) = self.table.get_bucket(at) else { continue };
            let worth = worth(entry);
            if least.is_none_or(|(_, known)| worth < known) {
                least = Some((at, worth));
            }
            seen += 1;
            if seen == EVICTION_SAMPLE {
                self.hand = (at + 1) & (buckets - 1);
                break;
            }
        }
        let Some((at, _)) = least else { return false };
        if let Ok(entry) = self.table.get_bucket_entry(at) {
            let (gone, _) = entry.remove();
            self.outside -= gone.outside();
            self.evicted += 1;
        }
        true
    }
}

impl Entry {
    /// Bytes that the entry holds outside the table.
    fn outside(&self) -> usize {
        self.key.len().next_multiple_of(ALLOCATION) + self.state.heap_bytes()
    }
}

fn rehash(hasher: &RandomState) -> impl Fn(&Entry) -> u64 + '_ {
    |entry| hasher.hash_one(&*entry.key)
}
