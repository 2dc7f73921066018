//! Spans of time and rates as they are written.

use super::Lowering;
use crate::limit::{LONGEST, Unit};
use crate::policy::fault::{Position, quoted};
use crate::units::Span;

/// Shortest window, lock or block: a clock tells shorter ones hardly apart.
pub const MIN_SPAN: Span = Span::from_millis(10);

const HOW_TO_WRITE_A_SPAN: &str =
    "write a whole number and a unit, such as 100ms, 90s, 5m, 1h, 2d or 1w";

const HOW_TO_WRITE_A_RATE: &str = "write N/UNIT, a whole number and s, m, h, d, w, the name of a unit or a span: \
     10/s, 100/minute, 5000/90s";

/// The time in which an amount is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// One unit.
    Unit(Unit),
    /// As long as it says.
    Span(Span),
}

impl Window {
    /// How long it is.
    pub const fn span(self) -> Span {
        match self {
            Self::Unit(unit) => unit.span(),
            Self::Span(span) => span,
        }
    }

    /// The unit that answers report for it.
    pub fn reporting(self) -> Unit {
        match self {
            Self::Unit(unit) => unit,
            Self::Span(span) => Unit::reporting(span),
        }
    }
}

impl Lowering<'_> {
    /// The span that `text` writes for the field `name`.
    pub(super) fn span(&mut self, name: &str, text: &str, at: Position) -> Option<Span> {
        let span = self.any_span(name, text, at)?;
        self.bounded(name, text, span, at)
    }

    /// The same, however short or long.
    pub(super) fn any_span(&mut self, name: &str, text: &str, at: Position) -> Option<Span> {
        let span = parse_span(text);
        if span.is_none() {
            let fault = self.fault(at, format!("invalid {name} {}", quoted(text)));
            self.faults.push(fault.hint(HOW_TO_WRITE_A_SPAN));
        }
        span
    }

    /// `span`, if it is neither too short nor too long.
    pub(super) fn bounded(
        &mut self,
        name: &str,
        text: &str,
        span: Span,
        at: Position,
    ) -> Option<Span> {
        if (MIN_SPAN..=LONGEST).contains(&span) {
            return Some(span);
        }
        let message = format!("invalid {name} {}", quoted(text));
        let hint = "spans are from 10ms to ten years, which is 3650d";
        self.faults.push(self.fault(at, message).hint(hint));
        None
    }

    /// Amount and window of a rate such as `10/s`, for the field `name`.
    pub(super) fn rate(&mut self, name: &str, text: &str, at: Position) -> Option<(u32, Window)> {
        let Some((amount, window)) = parse_rate(text) else {
            let fault = self.fault(at, format!("invalid {name} {}", quoted(text)));
            self.faults.push(match nearest_rate(text) {
                Some(meant) => fault.hint(format!("did you mean '{meant}'?")),
                None => fault.hint(HOW_TO_WRITE_A_RATE),
            });
            return None;
        };
        if let Window::Span(span) = window {
            self.bounded(name, text, span, at)?;
        }
        Some((amount, window))
    }
}

/// A span such as `90s`: a whole number and a unit.
fn parse_span(text: &str) -> Option<Span> {
    let digits = text.find(|char: char| !char.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(digits)?;
    let millis: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 604_800_000,
        _ => return None,
    };
    Some(Span::from_millis(number.parse::<u64>().ok()?.saturating_mul(millis)))
}

/// A rate: a whole number, `/`, and a unit or span.
fn parse_rate(text: &str) -> Option<(u32, Window)> {
    let (amount, window) = text.split_once('/')?;
    let only_digits = amount.bytes().all(|byte| byte.is_ascii_digit());
    let amount = amount.parse().ok().filter(|_| only_digits)?;
    let unit = match window {
        "s" => Some(Unit::Second),
        "m" => Some(Unit::Minute),
        "h" => Some(Unit::Hour),
        "d" => Some(Unit::Day),
        "w" => Some(Unit::Week),
        name => Unit::parse(name),
    };
    let window = unit.map(Window::Unit).or_else(|| parse_span(window).map(Window::Span))?;
    Some((amount, window))
}

/// The rate that `text` is another form of: `10/sec`, `10 / hours`.
fn nearest_rate(text: &str) -> Option<String> {
    let (amount, unit) = text.split_once('/')?;
    let unit = match nearest_unit(unit) {
        Some(unit) => unit.name(),
        None => unit.trim(),
    };
    let meant = format!("{}/{unit}", amount.trim());
    parse_rate(&meant).is_some().then_some(meant)
}

/// The unit that `text` is another form of: `minutes`, `sec`, ` Hour`.
pub fn nearest_unit(text: &str) -> Option<Unit> {
    let start: String = text.trim().chars().take(3).collect::<String>().to_lowercase();
    Unit::ALL.into_iter().find(|unit| start.len() == 3 && unit.name().starts_with(&start))
}
