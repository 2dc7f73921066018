//! Sliding window counter: this window's hits plus the share of the previous
//! window's that the sliding window still covers.
//!
//! Two counts per key; an estimate that takes the previous window's hits as
//! spread evenly. Refused hits are not counted. Lua twin:
//! `lua/limit/sliding_counter.lua`.

use std::fmt;

use super::{Cost, ParameterError, Verdict, checked};
use crate::units::{Hits, Span, Timestamp};

/// Finest first: the tick in which shares are counted.
const TICKS: [Span; 3] = [Span::from_micros(1), Span::from_millis(1), Span::from_secs(1)];

/// The parameters of a sliding window counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingCounter {
    limit: Hits,
    window: Span,
    tick: Span,
}

/// The counts of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// End of the window after the one that `current` counts in: when both
    /// counts are past.
    pub void_at: Timestamp,
    /// Hits in the present window.
    pub current: u32,
    /// Hits in the window before.
    pub previous: u32,
}

/// The counts as they stand at a moment; all in ticks.
struct View {
    start: Timestamp,
    current: u64,
    previous: u64,
    into: u64,
    now: Timestamp,
}

impl SlidingCounter {
    /// At most `limit` hits in a `window` that slides.
    ///
    /// # Errors
    /// If the window is empty or too long, or if limit and window are together
    /// too large to be exact.
    pub fn new(limit: Hits, window: Span) -> Result<Self, ParameterError> {
        let window = checked(window)?;
        let fits = |tick: &Span| {
            let ticks = window.as_micros() / tick.as_micros();
            let exact = ticks.checked_mul(limit.get().max(1) + 1);
            window.as_micros().is_multiple_of(tick.as_micros())
                && exact.is_some_and(|units| units <= Hits::MAX.get())
                && limit <= Hits::from(u32::MAX)
        };
        match TICKS.into_iter().find(fits) {
            Some(tick) => Ok(Self { limit, window, tick }),
            None => Err(ParameterError::TooFine { limit, window }),
        }
    }

    /// How many hits the window admits.
    pub const fn limit(&self) -> Hits {
        self.limit
    }

    /// How long the window is.
    pub const fn window(&self) -> Span {
        self.window
    }

    /// The tick in which shares are counted.
    pub const fn tick(&self) -> Span {
        self.tick
    }

    /// The window in ticks.
    const fn ticks(&self) -> u64 {
        self.window.as_micros() / self.tick.as_micros()
    }

    /// Decides `cost` at `now`.
    pub fn step(&self, state: &mut State, now: Timestamp, cost: Cost) -> Verdict {
        let view = self.view(state, now);
        let before = self.left(&view);
        let mut after = View { ..view };
        let (allowed, wanted) = match cost {
            Cost::Check => (before >= 1, 1),
            Cost::Take(hits) => {
                let allowed = hits.get() <= before;
                after.current += if allowed { hits.get() } else { 0 };
                (allowed, hits.get())
            }
            Cost::Refund(hits) => {
                let rest = hits.get().saturating_sub(view.current);
                after.current = view.current.saturating_sub(hits.get());
                after.previous = view.previous.saturating_sub(rest);
                (true, 0)
            }
            Cost::Reset => {
                (after.current, after.previous) = (0, 0);
                (true, 0)
            }
        };
        let changed = after.current != view.current || after.previous != view.previous;
        if changed || (state.void_at > now && self.start(state) > view.start) {
            *state = match (after.current, after.previous) {
                (0, 0) => State::default(),
                (current, previous) => State {
                    void_at: after.start.plus(self.window).plus(self.window),
                    current: Hits::new(current).to_u32(),
                    previous: Hits::new(previous).to_u32(),
                },
            };
        }
        Verdict {
            allowed,
            remaining: if allowed { Hits::new(self.left(&after)) } else { Hits::ZERO },
            remaining_before: Hits::new(before),
            retry_after: if allowed { Span::ZERO } else { self.retry_after(&view, wanted) },
            reset_after: after
                .void_at(self.window)
                .since(now)
                .min(Span::from_micros(self.window.as_micros() * 2)),
        }
    }

    /// Start of the window that `state` counts in.
    fn start(&self, state: &State) -> Timestamp {
        state.void_at.minus(self.window).minus(self.window)
    }

    /// The counts at `now`. A window at most one length in the future stays (the
    /// clock stepped back a little and will catch up); one from further away
    /// becomes the present one.
    fn view(&self, state: &State, now: Timestamp) -> View {
        let window = self.window.as_micros();
        let aligned = now.minus(Span::from_micros(now.as_micros() % window));
        let known = self.start(state);
        let ahead = known > aligned && known <= aligned.plus(self.window);
        let start = if ahead { known } else { aligned };
        let (current, previous) = if state.void_at <= now {
            (0, 0)
        } else if known >= start {
            (u64::from(state.current), u64::from(state.previous))
        } else {
            // Not void, so it is the window before.
            (0, u64::from(state.current))
        };
        let into = now.since(start).as_micros() / self.tick.as_micros();
        // A limit that was lowered finds counts above it; they count as full.
        let limit = self.limit.get();
        View { start, current: current.min(limit), previous: previous.min(limit), into, now }
    }

    /// Whole hits that are left.
    fn left(&self, view: &View) -> u64 {
        let ticks = self.ticks();
        let share = view.previous * (ticks - view.into.min(ticks));
        let room = self.limit.get().saturating_sub(view.current) * ticks;
        room.saturating_sub(share) / ticks
    }

    /// How long until `wanted` hits pass: in this window, once enough of the
    /// previous one has slid out, or else in the next.
    fn retry_after(&self, view: &View, wanted: u64) -> Span {
        let limit = self.limit.get();
        if wanted > limit {
            return Span::FOREVER;
        }
        let room = limit.saturating_sub(view.current);
        let (start, previous, room) = if room >= wanted && view.previous > 0 {
            (view.start, view.previous, room - wanted)
        } else {
            (view.start.plus(self.window), view.current, limit - wanted)
        };
        // The share of `previous` still covered must not exceed `room`.
        let ticks = self.ticks();
        let covered = (room * ticks).checked_div(previous).map_or(ticks, |most| most.min(ticks));
        let into = Span::from_micros((ticks - covered) * self.tick.as_micros());
        start.plus(into).since(view.now)
    }
}

impl View {
    fn void_at(&self, window: Span) -> Timestamp {
        if self.current > 0 {
            self.start.plus(window).plus(window)
        } else if self.previous > 0 {
            self.start.plus(window)
        } else {
            self.now
        }
    }
}

impl State {
    /// When both counts are past.
    pub const fn expires_at(&self) -> Timestamp {
        self.void_at
    }
}

impl fmt::Display for SlidingCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sc{}", self.window)
    }
}
