//! What one refusal says of costs to come.
//!
//! As long as nothing is given back, a key that refused a cost refuses that cost
//! and larger ones until the moment that its verdict told, and asking does not
//! move that moment. Where asking has an effect that matters (it starts a block),
//! nothing is believed.

use crate::limit::fixed_window::Align;
use crate::limit::{Cost, FixedWindow, Limit, Rate, SlidingLog, Verdict};
use crate::units::{Hits, Span, Timestamp};

/// A refusal that is believed for a while.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    /// Another limit on the same key, as after a reload, may well admit.
    limit: Limit,
    /// What was refused, see [`wanted`].
    floor: Hits,
    /// Before the store decided: what is counted from here ends too early rather
    /// than too late.
    asked: Timestamp,
    until: Timestamp,
    remaining_before: Hits,
    retry_after: Span,
    reset_after: Span,
}

/// What a refusal means for costs from `floor` on.
struct Lesson {
    floor: Hits,
    lasts: Span,
    remaining_before: Hits,
}

impl Refusal {
    /// What `verdict` on `cost` says of later costs, believed no longer than
    /// `longest`; `None` if it says nothing that is certain.
    pub(super) fn of(
        limit: &Limit,
        cost: Cost,
        verdict: &Verdict,
        asked: Timestamp,
        longest: Span,
    ) -> Option<Self> {
        if verdict.allowed {
            return None;
        }
        let lesson = lesson(limit, cost, verdict)?;
        let lasts = lesson.lasts.min(longest);
        (!lasts.is_zero()).then(|| Self {
            limit: *limit,
            floor: lesson.floor,
            asked,
            until: asked.plus(lasts),
            remaining_before: lesson.remaining_before,
            retry_after: verdict.retry_after,
            reset_after: verdict.reset_after,
        })
    }

    /// The end of belief.
    pub(super) const fn until(&self) -> Timestamp {
        self.until
    }

    /// What was refused; the largest that a request exceeds says most of it.
    pub(super) const fn floor(&self) -> Hits {
        self.floor
    }

    /// Whether both say the same, at different moments.
    pub(super) fn repeats(&self, other: &Self) -> bool {
        self.floor == other.floor && self.limit == other.limit
    }

    /// The verdict of the store on `cost` at `now`, if it is certain.
    pub(super) fn verdict(&self, limit: &Limit, cost: Cost, now: Timestamp) -> Option<Verdict> {
        let wanted = wanted(limit, cost)?;
        let valid = self.asked <= now && now < self.until;
        if !valid || wanted < self.floor || *limit != self.limit {
            return None;
        }
        let gone = now.since(self.asked);
        let reset_after = less(self.reset_after, gone);
        Some(Verdict {
            allowed: false,
            remaining: Hits::ZERO,
            remaining_before: self.remaining_before,
            retry_after: self.retry_after(wanted, gone, reset_after)?,
            reset_after,
        })
    }

    fn retry_after(&self, wanted: Hits, gone: Span, reset_after: Span) -> Option<Span> {
        let known = less(self.retry_after, gone);
        let rate = match &self.limit {
            Limit::Lockout(_) => return Some(reset_after),
            limit if wanted > limit.ceiling() => return Some(Span::FOREVER),
            Limit::FixedWindow(_) => return Some(reset_after),
            Limit::SlidingLog(log) if !log.block().is_zero() => return Some(reset_after),
            // When more hits leave than those is not known here.
            Limit::SlidingLog(_) | Limit::SlidingCounter(_) => {
                return (wanted == self.floor).then_some(known);
            }
            Limit::TokenBucket(limit) => limit.rate(),
            Limit::Gcra(limit) => limit.rate(),
        };
        Some(later(known, rate, wanted.minus(self.floor)))
    }
}

/// When so many hits more fit: at most a tick late.
fn later(known: Span, rate: &Rate, more: Hits) -> Span {
    let span = known.as_micros().saturating_add(rate.time_for(more).as_micros());
    Span::from_micros(span).min(rate.fill_time())
}

/// A cost as limits compare it; `None` of what gives back.
fn wanted(limit: &Limit, cost: Cost) -> Option<Hits> {
    match (cost, limit) {
        (Cost::Refund(_) | Cost::Reset, _) => None,
        (Cost::Take(hits), _) => Some(hits),
        // It asks whether anything went beyond the limit, or whether it is open …
        (Cost::Check, Limit::FixedWindow(_) | Limit::Lockout(_)) => Some(Hits::ZERO),
        (Cost::Check, Limit::SlidingLog(log)) if !log.block().is_zero() => Some(Hits::ZERO),
        // … or for one more hit.
        (Cost::Check, _) => Some(Hits::new(1)),
    }
}

fn lesson(limit: &Limit, cost: Cost, verdict: &Verdict) -> Option<Lesson> {
    let wanted = wanted(limit, cost)?;
    match limit {
        Limit::FixedWindow(limit) => of_window(limit, wanted, verdict),
        Limit::SlidingLog(log) if !log.block().is_zero() => of_block(log, cost, verdict),
        // Locked, and so for everybody.
        Limit::Lockout(_) => Some(Lesson {
            floor: Hits::ZERO,
            lasts: verdict.retry_after,
            remaining_before: Hits::ZERO,
        }),
        Limit::SlidingLog(_)
        | Limit::SlidingCounter(_)
        | Limit::TokenBucket(_)
        | Limit::Gcra(_) => Some(Lesson {
            floor: wanted,
            lasts: verdict.retry_after,
            remaining_before: verdict.remaining_before,
        }),
    }
}

fn of_window(limit: &FixedWindow, wanted: Hits, verdict: &Verdict) -> Option<Lesson> {
    let (lasts, before) = (verdict.reset_after, verdict.remaining_before);
    if limit.count_refused() {
        // What was refused is counted: nothing is left any more.
        return Some(Lesson { floor: Hits::ZERO, lasts, remaining_before: Hits::ZERO });
    }
    // No window has begun, and each request is told a whole one.
    let untouched = limit.align() == Align::FirstHit && before == limit.limit();
    (!untouched).then_some(Lesson { floor: wanted, lasts, remaining_before: before })
}

/// A hit that is refused blocks, or found a block. Where a block is shorter than
/// the window, it may end while the window is still full: the next hit would start
/// another one. A check starts none, so it says nothing of hits.
fn of_block(log: &SlidingLog, cost: Cost, verdict: &Verdict) -> Option<Lesson> {
    let lasts = verdict.reset_after;
    let blocked = verdict.retry_after == lasts || verdict.retry_after == Span::FOREVER;
    (cost != Cost::Check && log.block() >= log.window() && blocked).then_some(Lesson {
        floor: Hits::ZERO,
        lasts,
        remaining_before: Hits::ZERO,
    })
}

fn less(span: Span, gone: Span) -> Span {
    if span == Span::FOREVER {
        return span;
    }
    Span::from_micros(span.as_micros().saturating_sub(gone.as_micros()))
}
