//! Sliding window log: the moment of every admitted hit.
//!
//! Exact: in no stretch of `window` are there more than `limit` hits. A hit of
//! exactly the window's age has left it. Refused hits are not logged; where a
//! block is set, the first refusal blocks the key and nothing prolongs or ends
//! the block early. Lua twin: `lua/limit/sliding_log.lua`.
//!
//! When the clock steps back, hits lie in the future. They count on, so that
//! nobody has the limit twice when the clock is set right again, but nobody is
//! refused for the whole step: a window after the first decision that met them, or
//! the last that added to them, they are dropped if they still lie in the future.

use std::collections::VecDeque;
use std::fmt;

use super::{Cost, ParameterError, Verdict, checked};
use crate::units::{Hits, Span, Timestamp};

/// The most hits that a log may hold unless said otherwise.
pub const DEFAULT_MAX_WINDOW_SIZE: u32 = 1_000;

/// The most hits that a log may ever hold: it keeps the moment of each, and so many
/// written at once must not hold up Redis for long.
pub const MOST_LOGGED_HITS: u32 = 100_000;

/// What the log outlives its window by, as the seeds of this project have it.
const HEADROOM: Span = Span::from_secs(1);

/// The parameters of a sliding window log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingLog {
    limit: Hits,
    window: Span,
    block: Span,
}

/// The log of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Moments of admitted hits, oldest first, with how many there were.
    hits: VecDeque<(Timestamp, u64)>,
    /// The sum of them.
    total: u64,
    /// Until when the key is blocked.
    blocked_until: Timestamp,
    /// When the newest hit leaves, headroom included.
    void_at: Timestamp,
    /// Since when hits from the future are known, if there are any.
    noticed: Timestamp,
}

impl SlidingLog {
    /// At most `limit` hits in any stretch of `window`; once one is refused,
    /// none for `block` (zero: no block).
    ///
    /// # Errors
    /// If the window is empty, if it or the block is too long, or if a log of
    /// `limit` hits would be larger than `max_window_size`.
    pub fn new(
        limit: Hits,
        window: Span,
        block: Span,
        max_window_size: u32,
    ) -> Result<Self, ParameterError> {
        let window = checked(window)?;
        let block = if block.is_zero() { block } else { checked(block)? };
        if limit > Hits::from(max_window_size) {
            return Err(ParameterError::LogTooLarge { limit, max_window_size });
        }
        Ok(Self { limit, window, block })
    }

    /// How many hits the window admits.
    pub const fn limit(&self) -> Hits {
        self.limit
    }

    /// How long the window is.
    pub const fn window(&self) -> Span {
        self.window
    }

    /// How long a refusal blocks the key; zero if it does not.
    pub const fn block(&self) -> Span {
        self.block
    }

    /// Decides `cost` at `now`. What has left the window is forgotten when
    /// something is written and not before: a clock may step back after a look.
    pub fn step(&self, state: &mut State, now: Timestamp, cost: Cost) -> Verdict {
        let limit = self.limit.get();
        let blocked = self.blocked_for(state, now);
        if state.blocked_until.since(now) > blocked && !blocked.is_zero() {
            // The clock stepped back, or blocks are shorter now: none lasts longer
            // than the rule says, from when that shows.
            state.forget(now, self.window);
            state.notice(now);
            state.blocked_until = now.plus(blocked);
        }
        let before = limit.saturating_sub(state.live(now, self.window));
        let (allowed, wanted) = match cost {
            Cost::Check => (blocked.is_zero() && before >= 1, 1),
            Cost::Take(hits) => (blocked.is_zero() && hits.get() <= before, hits.get()),
            Cost::Refund(_) | Cost::Reset => (true, 0),
        };
        match cost {
            Cost::Take(hits) if allowed => {
                state.forget(now, self.window);
                state.log(now, hits.get(), self.window);
            }
            Cost::Take(_) => {
                let blocks = blocked.is_zero() && !self.block.is_zero();
                if blocks || state.is_news(now, self.window) {
                    state.forget(now, self.window);
                    state.notice(now);
                    state.end(now);
                }
                if blocks {
                    state.blocked_until = now.plus(self.block);
                }
            }
            Cost::Check | Cost::Refund(Hits::ZERO) => {}
            Cost::Refund(hits) => {
                state.forget(now, self.window);
                state.unlog(hits.get());
                state.notice(now);
                state.end(now);
            }
            Cost::Reset => *state = State::default(),
        }
        self.verdict(state, now, allowed, wanted, before)
    }

    fn verdict(
        &self,
        state: &State,
        now: Timestamp,
        allowed: bool,
        wanted: u64,
        before: u64,
    ) -> Verdict {
        let (limit, live) = (self.limit.get(), state.live(now, self.window));
        let blocked = self.blocked_for(state, now);
        let open = blocked.is_zero();
        let retry_after = if allowed {
            Span::ZERO
        } else if wanted > limit {
            Span::FOREVER
        } else {
            // Hits may well outlive a short block.
            blocked.max(state.room_after(wanted, limit, now, self.window))
        };
        let remaining = if allowed && open { limit.saturating_sub(live) } else { 0 };
        Verdict {
            allowed,
            remaining: Hits::new(remaining),
            remaining_before: Hits::new(if open || allowed { before } else { 0 }),
            retry_after,
            reset_after: blocked.max(state.empty_after(now, self.window)),
        }
    }

    /// How long the key is still blocked, at most as long as a block lasts.
    fn blocked_for(&self, state: &State, now: Timestamp) -> Span {
        state.blocked_until.since(now).min(self.block)
    }
}

impl State {
    /// Whether hits lie in the future.
    fn is_ahead(&self, now: Timestamp) -> bool {
        self.hits.back().is_some_and(|&(newest, _)| newest > now)
    }

    /// When hits from the future leave, if the clock does not reach them first.
    fn late_until(&self, now: Timestamp, window: Span) -> Timestamp {
        let known = self.noticed > Timestamp::default() && self.noticed <= now;
        (if known { self.noticed } else { now }).plus(window)
    }

    /// The hits that count, oldest first, each with when it leaves.
    fn counted(
        &self,
        now: Timestamp,
        window: Span,
    ) -> impl DoubleEndedIterator<Item = (Timestamp, u64)> {
        let late_until = self.late_until(now, window);
        let leaves = move |at: Timestamp| if at > now { late_until } else { at.plus(window) };
        let hits = self.hits.iter().map(move |&(at, hits)| (leaves(at), hits));
        hits.filter(move |&(leaves, _)| leaves > now)
    }

    /// How many hits count.
    fn live(&self, now: Timestamp, window: Span) -> u64 {
        if self.is_ahead(now) {
            return self.counted(now, window).map(|(_, hits)| hits).sum();
        }
        // The same, without a look at each.
        let cutoff = now.minus(window);
        let left = self.hits.iter().take_while(|&&(at, _)| at <= cutoff);
        self.total - left.map(|&(_, hits)| hits).sum::<u64>()
    }

    /// Drops what does not count any more.
    fn forget(&mut self, now: Timestamp, window: Span) {
        let cutoff = now.minus(window);
        while let Some(&(at, hits)) = self.hits.front()
            && at <= cutoff
        {
            self.total -= hits;
            self.hits.pop_front();
        }
        let late_until = self.late_until(now, window);
        while let Some(&(at, hits)) = self.hits.back()
            && at > now
            && late_until <= now
        {
            self.total -= hits;
            self.hits.pop_back();
        }
    }

    fn log(&mut self, now: Timestamp, hits: u64, window: Span) {
        let at = self.hits.back().map_or(now, |&(newest, _)| newest.max(now));
        match self.hits.back_mut() {
            Some((newest, count)) if *newest == at => *count += hits,
            _ => self.hits.push_back((at, hits)),
        }
        self.total += hits;
        self.void_at = at.plus(window).plus(HEADROOM);
        self.noticed = if at > now { now } else { Timestamp::default() };
    }

    /// Takes back the newest hits.
    fn unlog(&mut self, mut hits: u64) {
        while hits > 0
            && let Some((_, count)) = self.hits.back_mut()
        {
            let taken = hits.min(*count);
            *count -= taken;
            self.total -= taken;
            hits -= taken;
            if *count == 0 {
                self.hits.pop_back();
            }
        }
    }

    /// Where no hit is left, nothing is to be known: not even a block that is over.
    fn end(&mut self, now: Timestamp) {
        if self.total == 0 && self.blocked_until <= now {
            *self = Self::default();
        }
    }

    /// Remembers since when hits from the future are known, or that there are none.
    fn notice(&mut self, now: Timestamp) {
        if !self.is_ahead(now) {
            self.noticed = Timestamp::default();
        } else if self.noticed == Timestamp::default() || self.noticed > now {
            self.noticed = now;
        }
    }

    /// Whether [`State::notice`] would change anything, or hits from the future
    /// have counted long enough.
    fn is_news(&self, now: Timestamp, window: Span) -> bool {
        let known = self.noticed > Timestamp::default();
        if self.is_ahead(now) {
            !known || self.noticed > now || self.late_until(now, window) <= now
        } else {
            known
        }
    }

    /// How long until `wanted` hits fit: until as many of the oldest as are in
    /// the way have left.
    fn room_after(&self, wanted: u64, limit: u64, now: Timestamp, window: Span) -> Span {
        let mut excess = (self.live(now, window) + wanted).saturating_sub(limit);
        for (leaves, hits) in self.counted(now, window) {
            if excess == 0 {
                break;
            }
            if hits >= excess {
                return leaves.since(now);
            }
            excess -= hits;
        }
        Span::ZERO
    }

    /// How long until the newest hit leaves.
    fn empty_after(&self, now: Timestamp, window: Span) -> Span {
        let newest = self.counted(now, window).next_back();
        newest.map_or(Span::ZERO, |(leaves, _)| leaves.since(now))
    }

    /// When the log is empty and the block over.
    pub fn expires_at(&self) -> Timestamp {
        let log = if self.hits.is_empty() { Timestamp::default() } else { self.void_at };
        log.max(self.blocked_until)
    }

    /// Hits in the log.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Whether the key was blocked and may still be.
    pub fn is_blocked(&self) -> bool {
        self.blocked_until > Timestamp::default()
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.hits.capacity() * size_of::<(Timestamp, u64)>()
    }
}

impl fmt::Display for SlidingLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sl{}", self.window)
    }
}
