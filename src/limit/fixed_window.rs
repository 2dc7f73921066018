//! Fixed window: a counter that starts again at each window's start.
//!
//! Windows are aligned to the Unix epoch, as in envoyproxy/ratelimit, or start
//! at the first hit. Refused hits are counted unless told otherwise. Lua twin:
//! `lua/limit/fixed_window.lua`.

use std::fmt;

use super::calendar::{Bounds, Calendar};
use super::unit::Unit;
use super::{Cost, ParameterError, Verdict, checked};
use crate::units::{Hits, Span, Timestamp};

/// Where windows start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Align {
    /// At multiples of the window since the Unix epoch, for all keys alike.
    #[default]
    Epoch,
    /// At the first hit of each key.
    FirstHit,
    /// With the days, weeks, months or years of a time zone.
    Calendar(Calendar),
}

/// The parameters of a fixed window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    limit: Hits,
    window: Span,
    align: Align,
    count_refused: bool,
}

/// The count of one key: what was counted in the window that ends at `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// End of the window that the count belongs to.
    pub end: Timestamp,
    /// Hits counted in it, refused ones included where they count.
    pub count: Hits,
}

impl FixedWindow {
    /// At most `limit` hits in each `window`, aligned to the epoch, refused
    /// hits counted.
    ///
    /// # Errors
    /// If the window is empty or too long.
    pub fn new(limit: Hits, window: Span) -> Result<Self, ParameterError> {
        let window = checked(window)?;
        Ok(Self { limit, window, align: Align::Epoch, count_refused: true })
    }

    /// At most `limit` hits in each window of one `unit`; like
    /// [`FixedWindow::new`], and no unit is empty.
    pub const fn of_unit(limit: Hits, unit: Unit) -> Self {
        Self { limit, window: unit.span(), align: Align::Epoch, count_refused: true }
    }

    /// The same with windows that start as `align` says.
    #[must_use]
    pub const fn with_align(self, align: Align) -> Self {
        Self { align, ..self }
    }

    /// The same with refused hits counted or not.
    #[must_use]
    pub const fn with_count_refused(self, count_refused: bool) -> Self {
        Self { count_refused, ..self }
    }

    /// How many hits a window admits.
    pub const fn limit(&self) -> Hits {
        self.limit
    }

    /// How long a window is.
    pub const fn window(&self) -> Span {
        self.window
    }

    /// Where windows start.
    pub const fn align(&self) -> Align {
        self.align
    }

    /// Whether refused hits are counted.
    pub const fn count_refused(&self) -> bool {
        self.count_refused
    }

    /// Decides `cost` at `now`.
    pub fn step(&self, state: &mut State, now: Timestamp, cost: Cost) -> Verdict {
        let before = if state.end > now { state.count } else { Hits::ZERO };
        let (end, window) = self.window_end(state, now);
        let (allowed, after) = match cost {
            Cost::Check => (before <= self.limit, before),
            Cost::Take(hits) => {
                let after = before.plus(hits);
                let allowed = after <= self.limit;
                (allowed, if allowed || self.count_refused { after } else { before })
            }
            Cost::Refund(hits) => (true, before.minus(hits)),
            Cost::Reset => (true, Hits::ZERO),
        };
        let rebased = state.end > now && state.end != end;
        if after != before || rebased {
            *state = State { end, count: after };
        }
        let reset_after = end.since(now).min(window);
        Verdict {
            allowed,
            remaining: if allowed { self.limit.minus(after) } else { Hits::ZERO },
            remaining_before: self.limit.minus(before),
            retry_after: match cost {
                _ if allowed => Span::ZERO,
                Cost::Take(hits) if hits > self.limit => Span::FOREVER,
                _ => reset_after,
            },
            reset_after,
        }
    }

    /// End of the window that `now` is in.
    ///
    /// Clocks step back. A count whose window ends at most one window later
    /// than it should stays as it is: ending it early would refill the key when
    /// the clock catches up. One from further in the future goes on in the
    /// present window, so that nobody stays locked out for the whole step.
    fn window_end(&self, state: &State, now: Timestamp) -> (Timestamp, Span) {
        let (end, window) = match self.align {
            Align::Epoch => {
                let into = now.as_micros() % self.window.as_micros();
                (now.minus(Span::from_micros(into)).plus(self.window), self.window)
            }
            Align::FirstHit => {
                let latest = now.plus(self.window);
                (if state.end > now { state.end.min(latest) } else { latest }, self.window)
            }
            Align::Calendar(calendar) => calendar_window(&calendar.bounds(now), now),
        };
        let ahead = state.end > end && state.end <= end.plus(window);
        (if ahead { state.end } else { end }, window)
    }
}

/// End and length of the window that `now` is in, of those between `bounds`;
/// outside of them, of one like the nearest.
fn calendar_window(bounds: &Bounds, now: Timestamp) -> (Timestamp, Span) {
    let mut window = (now, Span::ZERO);
    for pair in bounds.windows(2) {
        let [start, end] = *pair else { continue };
        window = (end, end.since(start));
        if now < end {
            return window;
        }
    }
    (now.plus(window.1), window.1)
}

impl State {
    /// The end of the window: from then on the count is void.
    pub const fn expires_at(&self) -> Timestamp {
        self.end
    }
}

impl fmt::Display for FixedWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.align {
            Align::Epoch => write!(f, "fw{}", self.window),
            Align::FirstHit => write!(f, "ff{}", self.window),
            Align::Calendar(calendar) => write!(f, "fc{calendar}"),
        }
    }
}
