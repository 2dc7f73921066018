//! Leases: a hot key takes some hits from the store in advance, and serves them
//! without asking it.
//!
//! What is leased is counted already, so that all replicas together never admit
//! more than the limit. What is left of a lease is given back to a fixed window,
//! as long as that lasts and the store still counts it, and comes back by itself in
//! a bucket. A request of one
//! charge may be served; everything else asks the store.

mod account;
mod advance;
mod terms;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use ahash::RandomState;
use parking_lot::Mutex;
use smallvec::smallvec;

pub use advance::Advance;
pub use terms::LeaseTerms;

use self::account::{Account, Lease};
use super::key::KeyBuf;
use super::{Charge, Plan, Role};
use crate::clock::SystemClock;
use crate::limit::{Cost, Limit, Verdict};
use crate::units::{Hits, Timestamp};

const SHARDS: usize = 64;
/// Keys that are watched in one shard. Others always ask the store.
const MOST_ACCOUNTS: usize = 512;
/// Leases that wait to be given back. Others run out.
const MOST_RETURNS: usize = 1024;

type Shard = HashMap<Box<[u8]>, Account, RandomState>;

/// The leases of one replica.
#[derive(Debug)]
pub struct LeaseBook {
    shards: Box<[Mutex<Shard>]>,
    returns: Mutex<Vec<Return>>,
    hasher: RandomState,
    clock: SystemClock,
    served: AtomicU64,
    taken: AtomicU64,
    returned: AtomicU64,
}

/// What was done with leases since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseUsage {
    /// Requests that were served.
    pub served: u64,
    /// Hits taken in advance.
    pub taken: u64,
    /// Hits given back.
    pub returned: u64,
}

/// Hits to be given back.
#[derive(Debug)]
pub struct Return {
    /// The refund.
    pub plan: Plan,
    /// To a counter that counts since this moment of the clock of the store: when
    /// they were taken.
    pub taken: Timestamp,
    /// The end of the window in which they count.
    until: Timestamp,
    hits: Hits,
}

/// A key, and the shard that it is in.
#[derive(Clone, Copy, Debug)]
struct Name<'a> {
    key: &'a [u8],
    shard: usize,
}

impl Default for LeaseBook {
    fn default() -> Self {
        let hasher = RandomState::new();
        let shard = || Mutex::new(Shard::with_hasher(hasher.clone()));
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            returns: Mutex::default(),
            hasher,
            clock: SystemClock::default(),
            served: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            returned: AtomicU64::new(0),
        }
    }
}

impl LeaseBook {
    /// What was done.
    pub fn usage(&self) -> LeaseUsage {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        LeaseUsage {
            served: of(&self.served),
            taken: of(&self.taken),
            returned: of(&self.returned),
        }
    }

    /// Serves a request, if enough was leased for it.
    pub fn serve(&self, plan: &Plan) -> Option<Verdict> {
        let (charge, terms, hits) = leasable(plan)?;
        let (name, now) = (self.name(plan, charge), self.now(plan));
        let mut shard = self.shards[name.shard].lock();
        if let Some(account) = shard.get_mut(name.key) {
            let verdict = account.serve(&charge.limit, hits, now);
            drop(shard);
            self.served.fetch_add(u64::from(verdict.is_some()), Ordering::Relaxed);
            return verdict;
        }
        if shard.len() >= MOST_ACCOUNTS {
            shard.retain(|_, account| account.is_live(now));
        }
        if shard.len() < MOST_ACCOUNTS {
            let mut account = Account::new(charge.limit, terms, now, plan.pinned);
            account.serve(&charge.limit, hits, now);
            shard.insert(name.key.into(), account);
        }
        None
    }

    /// The request together with hits in advance, if its key is hot. Comes after
    /// [`LeaseBook::serve`].
    pub fn advance<'a>(&'a self, plan: &'a Plan) -> Option<Advance<'a>> {
        let (charge, terms, hits) = leasable(plan)?;
        let (name, now) = (self.name(plan, charge), self.now(plan));
        let mut shard = self.shards[name.shard].lock();
        let account = shard.get_mut(name.key)?;
        let changed = *account.limit() != charge.limit;
        let over = account.end(now, changed);
        let back = over.and_then(|lease| give_back(name.key, account, lease, now));
        if changed && !account.in_flight {
            *account = Account::new(charge.limit, terms, now, plan.pinned);
        }
        let more = account.wanted(hits, now);
        account.in_flight |= more.is_some();
        let generation = account.generation;
        drop(shard);
        self.wait(back);
        Advance::new(self, name, plan, more?, (now, generation))
    }

    /// Forgets the leases of what `plan` resets: the store forgets what they were
    /// counted in.
    pub fn forget(&self, plan: &Plan) {
        for charge in plan.charges.iter().filter(|charge| charge.cost == Cost::Reset) {
            let name = self.name(plan, charge);
            if let Some(account) = self.shards[name.shard].lock().get_mut(name.key) {
                account.generation += 1;
                account.end(Timestamp::default(), true);
            }
            self.returns.lock().retain(|back| !back.is_of(name.key));
        }
    }

    /// Ends leases that are over.
    pub fn end_those_over(&self) {
        let now = self.clock.now();
        // A manual clock does not move by itself.
        self.end(|account| (!account.pinned).then_some(now), false);
    }

    /// Ends all leases, as before the process ends; those that follow a manual
    /// clock by what it shows, or without giving anything back.
    pub fn end_all(&self, pinned: Option<Timestamp>) {
        let now = self.clock.now();
        let end_of_time = Timestamp::from_micros(u64::MAX);
        let of_pinned = pinned.unwrap_or(end_of_time);
        self.end(|account| Some(if account.pinned { of_pinned } else { now }), true);
    }

    fn end(&self, now: impl Fn(&Account) -> Option<Timestamp>, all: bool) {
        for shard in &self.shards {
            let mut back = Vec::new();
            shard.lock().retain(|key, account| {
                let Some(now) = now(account) else { return true };
                let over = account.end(now, all);
                back.extend(over.and_then(|lease| give_back(key, account, lease, now)));
                account.is_live(now)
            });
            for back in back {
                self.wait(Some(back));
            }
        }
    }

    /// The next that is to be given back. One by one, so that a reset voids those
    /// that still wait. Those that follow a manual clock wait for somebody who
    /// knows what it shows.
    pub fn next_return(&self, pinned: Option<Timestamp>) -> Option<Return> {
        let mut returns = self.returns.lock();
        if let Some(now) = pinned {
            returns.retain(|back| !back.plan.pinned || now < back.until);
        }
        let at = returns.iter().position(|back| !back.plan.pinned || pinned.is_some())?;
        let mut back = returns.swap_remove(at);
        back.plan.now = pinned.unwrap_or(back.plan.now);
        Some(back)
    }

    /// Counts what was given back.
    pub fn note_return(&self, back: &Return) {
        self.returned.fetch_add(back.hits.get(), Ordering::Relaxed);
    }

    fn wait(&self, back: Option<Return>) {
        let Some(back) = back else { return };
        let mut returns = self.returns.lock();
        if returns.len() < MOST_RETURNS {
            returns.push(back);
        }
    }

    fn receive(&self, name: Name<'_>, generation: u64, lease: Option<Lease>, now: Timestamp) {
        let mut shard = self.shards[name.shard].lock();
        let Some(account) = shard.get_mut(name.key) else { return };
        match lease {
            Some(lease) if account.generation == generation => {
                account.receive(lease, now);
                self.taken.fetch_add(lease.left.get(), Ordering::Relaxed);
            }
            // What it was counted in was forgotten.
            Some(_) => {}
            None => account.fall_short(now),
        }
    }

    fn land(&self, name: Name<'_>) {
        if let Some(account) = self.shards[name.shard].lock().get_mut(name.key) {
            account.in_flight = false;
        }
    }

    fn now(&self, plan: &Plan) -> Timestamp {
        if plan.pinned { plan.now } else { self.clock.now() }
    }

    #[allow(clippy::cast_possible_truncation, reason = "less than the number of shards")]
    fn name<'a>(&self, plan: &'a Plan, charge: &Charge) -> Name<'a> {
        let key = plan.keys.get(charge.key);
        // Bits that the tables inside the shards do not use first.
        let shard = (self.hasher.hash_one(key) >> 40) as usize % SHARDS;
        Name { key, shard }
    }
}

impl Return {
    fn is_of(&self, key: &[u8]) -> bool {
        self.plan.charges.first().is_some_and(|charge| self.plan.keys.get(charge.key) == key)
    }
}

/// The charge of a plan that a lease can serve, its terms and its hits.
fn leasable(plan: &Plan) -> Option<(&Charge, LeaseTerms, Hits)> {
    let [charge] = &plan.charges[..] else { return None };
    let (Some(terms), Cost::Take(hits)) = (charge.lease, charge.cost) else { return None };
    let fit =
        matches!(charge.limit, Limit::FixedWindow(_) | Limit::TokenBucket(_) | Limit::Gcra(_));
    fit.then_some((charge, terms, hits))
}

/// The refund of what is left of a lease. A bucket has refilled meanwhile: to give
/// back as well would be once too often.
fn give_back(key: &[u8], account: &Account, lease: Lease, now: Timestamp) -> Option<Return> {
    let counted = lease.counted?;
    let (keys, key) = KeyBuf::of(key);
    let (limit, cost) = (*account.limit(), Cost::Refund(lease.left));
    let charge = Charge { limit, key, cost, role: Role::Enforced, joined: false, lease: None };
    if now >= lease.asked.plus(lease.reset_after) {
        // The window is over.
        return None;
    }
    let plan =
        Plan { charges: smallvec![charge], keys, now, pinned: account.pinned, ..Plan::default() };
    Some(Return { plan, taken: counted.at, until: counted.until, hits: lease.left })
}
