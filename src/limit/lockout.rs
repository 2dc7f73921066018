//! Lockout: so many failures within a window lock the key for a while.
//!
//! Taking hits reports failures, a check reports none and only asks, a refund
//! reports a success. The failure that reaches the maximum locks. While locked,
//! failures are ignored and a success does not open; when the lock ends, the
//! failures are forgotten with it. Lua twin: `lua/limit/lockout.lua`.

use std::collections::VecDeque;
use std::fmt;

use super::{Cost, ParameterError, Verdict, checked};
use crate::units::{Hits, Span, Timestamp};

/// The most attempts that a lockout may allow: their moments are all kept.
pub const MOST_ATTEMPTS: u32 = 1_000;

/// The parameters of a lockout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lockout {
    max_attempts: Hits,
    window: Span,
    duration: Span,
}

/// What is known of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Moments of failures, oldest first, with how many there were.
    failures: VecDeque<(Timestamp, u64)>,
    /// Until when the key is locked.
    locked_until: Timestamp,
    /// When the newest failure leaves the window.
    void_at: Timestamp,
}

impl Lockout {
    /// `max_attempts` failures within `window` lock for `lockout`.
    ///
    /// # Errors
    /// If a span is empty or too long, or if there are no attempts or too many of them.
    pub fn new(max_attempts: Hits, window: Span, lockout: Span) -> Result<Self, ParameterError> {
        let (window, duration) = (checked(window)?, checked(lockout)?);
        if max_attempts.is_zero() || max_attempts > Hits::from(MOST_ATTEMPTS) {
            return Err(ParameterError::Attempts { max_attempts, most: MOST_ATTEMPTS });
        }
        Ok(Self { max_attempts, window, duration })
    }

    /// How many failures lock.
    pub const fn max_attempts(&self) -> Hits {
        self.max_attempts
    }

    /// Within which time.
    pub const fn window(&self) -> Span {
        self.window
    }

    /// For how long.
    pub const fn lockout(&self) -> Span {
        self.duration
    }

    /// Decides `cost` at `now`.
    pub fn step(&self, state: &mut State, now: Timestamp, cost: Cost) -> Verdict {
        let most = self.max_attempts.get();
        // The clock stepped back, or locks are shorter now: no lock lasts longer
        // than the rule says, from when that shows.
        state.locked_until = state.locked_until.min(now.plus(self.duration));
        let locked = state.locked_until.since(now);
        if !locked.is_zero() && cost != Cost::Reset {
            // Only the end of the lock changes anything now.
            let refund = matches!(cost, Cost::Refund(_));
            return Verdict {
                allowed: refund,
                retry_after: if refund { Span::ZERO } else { locked },
                reset_after: locked,
                ..Verdict::default()
            };
        }
        let before = most.saturating_sub(state.recent(now, self.window));
        match cost {
            Cost::Take(hits) => self.fail(state, now, hits.get().min(most)),
            Cost::Check | Cost::Refund(Hits::ZERO) => {}
            Cost::Refund(_) | Cost::Reset => *state = State::default(),
        }
        let locked = state.locked_until.since(now);
        let left = most.saturating_sub(state.recent(now, self.window));
        Verdict {
            allowed: locked.is_zero(),
            remaining: Hits::new(if locked.is_zero() { left } else { 0 }),
            remaining_before: Hits::new(before),
            retry_after: locked,
            reset_after: if locked.is_zero() {
                state.void_at.since(now).min(self.window)
            } else {
                locked
            },
        }
    }

    fn fail(&self, state: &mut State, now: Timestamp, failures: u64) {
        let cutoff = now.minus(self.window);
        state.failures.retain(|&(at, _)| at > cutoff);
        for (at, _) in &mut state.failures {
            // The clock stepped back: they count, for one window from now.
            *at = now.min(*at);
        }
        if state.locked_until > Timestamp::default() {
            // The lock is over, and with it what led to it.
            *state = State::default();
        }
        match state.failures.back_mut() {
            Some((at, count)) if *at == now => *count += failures,
            _ => state.failures.push_back((now, failures)),
        }
        state.void_at = now.plus(self.window);
        if state.recent(now, self.window) >= self.max_attempts.get() {
            *state = State { locked_until: now.plus(self.duration), ..State::default() };
        }
    }
}

impl State {
    /// Failures within the window that ends at `now`.
    fn recent(&self, now: Timestamp, window: Span) -> u64 {
        let cutoff = now.minus(window);
        let recent = self.failures.iter().filter(|&&(at, _)| at > cutoff);
        recent.map(|&(_, failures)| failures).sum()
    }

    /// When the lock is over and no failure counts any more.
    pub fn expires_at(&self) -> Timestamp {
        self.void_at.max(self.locked_until)
    }

    /// Failures that are remembered.
    pub fn failures(&self) -> u64 {
        self.failures.iter().map(|&(_, failures)| failures).sum()
    }

    /// Whether the key was locked and may still be.
    pub fn is_locked(&self) -> bool {
        self.locked_until > Timestamp::default()
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.failures.capacity() * size_of::<(Timestamp, u64)>()
    }
}

impl fmt::Display for Lockout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lo{}", self.window)
    }
}
