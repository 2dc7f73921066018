//! The few refusals whose keys fall into one set.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use super::refusal::Refusal;
use crate::limit::{Cost, Limit, Verdict};
use crate::units::Timestamp;

/// Most refusals of one set.
pub(super) const WAYS: usize = 8;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Set {
    /// When the last of the entries ends, in microseconds: most sets know nothing,
    /// which shows without a lock.
    until: AtomicU64,
    /// How often something was given back to a key of the set.
    generation: AtomicU64,
    entries: RwLock<Vec<Entry>>,
}

/// A key as a set compares it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name<'a> {
    pub(super) hash: u64,
    pub(super) key: &'a [u8],
    /// It is asked by a manual clock, which has nothing to do with ours.
    pub(super) pinned: bool,
}

#[derive(Debug)]
pub(super) struct Entry {
    hash: u64,
    key: Box<[u8]>,
    pinned: bool,
    refusal: Refusal,
}

/// What became of the number of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) growth: i64,
    /// How many were given up while they were believed.
    pub(super) evicted: u64,
}

impl Set {
    /// How often something was given back until now.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether nothing in it is believed at `now`.
    pub(super) fn is_void(&self, now: Timestamp) -> bool {
        self.until.load(Ordering::Acquire) <= now.as_micros()
    }

    /// What the store would say, if that is certain.
    pub(super) fn find(
        &self,
        name: Name<'_>,
        limit: &Limit,
        cost: Cost,
        now: Timestamp,
    ) -> Option<Verdict> {
        if self.is_void(now) {
            return None;
        }
        let entries = self.entries.read();
        let of_key = entries.iter().filter(|entry| entry.is_of(name));
        let verdicts = of_key.filter_map(|entry| {
            let verdict = entry.refusal.verdict(limit, cost, now)?;
            Some((entry.refusal.floor(), verdict))
        });
        verdicts.max_by_key(|(floor, _)| *floor).map(|(_, verdict)| verdict)
    }

    /// Keeps `refusal`, unless something was given back since `generation`: the
    /// store may have refused before that.
    pub(super) fn keep(
        &self,
        name: Name<'_>,
        refusal: Refusal,
        generation: u64,
        now: Timestamp,
    ) -> Change {
        let mut entries = self.entries.write();
        if self.generation() != generation {
            return Change::default();
        }
        self.until.fetch_max(refusal.until().as_micros(), Ordering::Release);
        let repeated = |entry: &&mut Entry| entry.is_of(name) && entry.refusal.repeats(&refusal);
        if let Some(entry) = entries.iter_mut().find(repeated) {
            entry.refusal = refusal;
            return Change::default();
        }
        let before = entries.len();
        let evicted = if before < WAYS { 0 } else { make_room(&mut entries, now) };
        let key = name.key.into();
        entries.push(Entry { hash: name.hash, key, pinned: name.pinned, refusal });
        Change { evicted, ..Change::between(before, entries.len()) }
    }

    /// Drops what is known of a key. When it was given something back, what is on
    /// its way from the store is void as well.
    pub(super) fn forget(&self, name: Name<'_>, given_back: bool) -> Change {
        let mut entries = self.entries.write();
        if given_back {
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
        let before = entries.len();
        entries.retain(|entry| !entry.is_of(name));
        Change::between(before, entries.len())
    }

    /// Drops what is not believed any more.
    pub(super) fn sweep(&self, now: Timestamp) -> Change {
        if self.until.load(Ordering::Acquire) == 0 || !self.is_void(now) {
            return Change::default();
        }
        let mut entries = self.entries.write();
        let before = entries.len();
        entries.retain(|entry| entry.refusal.until() > now);
        if entries.is_empty() {
            *entries = Vec::new();
            self.until.store(0, Ordering::Release);
        }
        Change::between(before, entries.len())
    }
}

impl Entry {
    fn is_of(&self, name: Name<'_>) -> bool {
        self.hash == name.hash && self.pinned == name.pinned && *self.key == *name.key
    }
}

impl Change {
    /// There are at most [`WAYS`] entries.
    fn between(before: usize, after: usize) -> Self {
        let count = |entries: usize| i64::try_from(entries).unwrap_or_default();
        Self { growth: count(after) - count(before), evicted: 0 }
    }
}

/// Makes room for one: what is past goes, or else what ends first. Gives how many
/// were still believed.
fn make_room(entries: &mut Vec<Entry>, now: Timestamp) -> u64 {
    entries.retain(|entry| entry.refusal.until() > now);
    if entries.len() < WAYS {
        return 0;
    }
    let ends = entries.iter().enumerate().map(|(at, entry)| (entry.refusal.until(), at));
    let Some((_, at)) = ends.min() else { return 0 };
    entries.swap_remove(at);
    1
}
