//! What one replica has leased of one key.

use crate::limit::{Limit, Verdict};
use crate::units::{Hits, Span, Timestamp};

use super::LeaseTerms;

/// A key is hot from so many requests in the time of one lease.
const HOT: u64 = 4;

/// See the module.
#[derive(Debug)]
pub(super) struct Account {
    limit: Limit,
    terms: LeaseTerms,
    demand: Demand,
    lease: Option<Lease>,
    /// The store has no more to spare until then.
    short_until: Timestamp,
    /// Hits are on their way from the store.
    pub(super) in_flight: bool,
    /// How often the key was reset.
    pub(super) generation: u64,
    pub(super) pinned: bool,
}

/// How much was asked lately.
#[derive(Debug)]
struct Demand {
    since: Timestamp,
    hits: u64,
    before: u64,
}

/// Hits that the store has counted already.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub(super) left: Hits,
    /// When they were asked for, before the store counted them.
    pub(super) asked: Timestamp,
    /// They are served until then …
    pub(super) until: Timestamp,
    /// … and may be given back as well. None, if they come back by themselves.
    pub(super) counted: Option<Counted>,
    /// What was left in the store, and until when.
    pub(super) remaining: Hits,
    pub(super) reset_after: Span,
}

/// Where hits were counted, by the clock of the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    /// When. They go back only to a counter that counts since then: another, after
    /// the store lost its data or began a new window, never had them.
    pub(super) at: Timestamp,
    /// The end of that window.
    pub(super) until: Timestamp,
}

impl Account {
    pub(super) fn new(limit: Limit, terms: LeaseTerms, now: Timestamp, pinned: bool) -> Self {
        Self {
            limit,
            terms,
            demand: Demand { since: now, hits: 0, before: 0 },
            lease: None,
            short_until: Timestamp::default(),
            in_flight: false,
            generation: 0,
            pinned,
        }
    }

    pub(super) const fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Serves `hits` from the lease, if there are as many.
    pub(super) fn serve(&mut self, limit: &Limit, hits: Hits, now: Timestamp) -> Option<Verdict> {
        self.demand.note(hits, now, self.terms.ttl());
        let lease = self.lease.as_mut().filter(|lease| lease.is_valid(now))?;
        if lease.left < hits || self.limit != *limit {
            return None;
        }
        let before = lease.remaining.plus(lease.left);
        lease.left = lease.left.minus(hits);
        let gone = now.since(lease.asked).as_micros();
        Some(Verdict {
            allowed: true,
            remaining: before.minus(hits),
            remaining_before: before,
            retry_after: Span::ZERO,
            reset_after: Span::from_micros(lease.reset_after.as_micros().saturating_sub(gone)),
        })
    }

    /// How many hits to take beside `hits`; none if the key is not hot, or others
    /// are on their way.
    pub(super) fn wanted(&self, hits: Hits, now: Timestamp) -> Option<Hits> {
        let demand = Hits::new(self.demand.hits.max(self.demand.before));
        let hot = demand.get() / hits.get().max(1) >= HOT;
        if self.in_flight || !hot || now < self.short_until {
            return None;
        }
        let most = self.terms.most(self.limit.ceiling());
        let more = demand.min(most).minus(hits);
        (more >= hits).then_some(more)
    }

    /// Takes in what the store gave. What is left of an earlier lease counts in
    /// the same window, or not any more.
    pub(super) fn receive(&mut self, mut lease: Lease, now: Timestamp) {
        let window = |lease: &Lease| lease.counted.map(|counted| counted.until);
        let same = |earlier: &Lease| earlier.is_valid(now) && window(earlier) == window(&lease);
        if let Some(earlier) = self.lease.filter(same) {
            lease.left = lease.left.plus(earlier.left);
            lease.counted = earlier.counted;
        }
        self.lease = Some(lease);
    }

    /// The store gave nothing.
    pub(super) fn fall_short(&mut self, now: Timestamp) {
        self.short_until = now.plus(self.terms.ttl());
    }

    /// Takes out what is left, if it is served no longer, or in any case.
    pub(super) fn end(&mut self, now: Timestamp, in_any_case: bool) -> Option<Lease> {
        let over = self.lease.is_some_and(|lease| in_any_case || !lease.is_valid(now));
        let lease = if over { self.lease.take() } else { None };
        lease.filter(|lease| !lease.left.is_zero())
    }

    /// Whether it knows anything that a new one does not.
    pub(super) fn is_live(&self, now: Timestamp) -> bool {
        let idle = now.since(self.demand.since);
        self.in_flight
            || self.lease.is_some_and(|lease| !lease.left.is_zero())
            || (now >= self.demand.since && idle.as_micros() < 2 * self.terms.ttl().as_micros())
    }
}

impl Lease {
    /// Whether it is served at `now`; not after the clock stepped back.
    fn is_valid(&self, now: Timestamp) -> bool {
        self.asked <= now && now < self.until
    }
}

impl Demand {
    fn note(&mut self, hits: Hits, now: Timestamp, ttl: Span) {
        let gone = now.since(self.since);
        if gone >= ttl || now < self.since {
            let lately = gone.as_micros() < 2 * ttl.as_micros();
            self.before = if lately { self.hits } else { 0 };
            (self.since, self.hits) = (now, 0);
        }
        self.hits = self.hits.saturating_add(hits.get());
    }
}
