//! `rate_limit` to a limit.
//!
//! Each algorithm has a function here that reads its own fields.

use super::Lowering;
use crate::limit::fixed_window::Align;
use crate::limit::{FixedWindow, Limit, Unit};
use crate::policy::fault::{Position, quoted};
use crate::policy::raw::{Field, RawRateLimit};
use crate::policy::rule::{Grant, Quota};
use crate::store::ChargeMode;
use crate::units::{Hits, Span};

/// Longest window. Moments plus windows must stay exact in Lua; see
/// [`units`](crate::units).
const MAX_WINDOW: Span = Span::from_secs(10 * 365 * 86_400);

const HOW_TO_WRITE_A_SPAN: &str =
    "write a whole number and a unit, such as 100ms, 90s, 5m, 1h or 2d";

/// The algorithms that rules can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    FixedWindow,
}

impl Algorithm {
    const ALL: [Self; 1] = [Self::FixedWindow];

    const fn name(self) -> &'static str {
        match self {
            Self::FixedWindow => "fixed_window",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}

impl Lowering<'_> {
    /// What a `rate_limit` grants. `None` after a fault.
    pub(super) fn grant(&mut self, raw: &RawRateLimit) -> Option<Grant> {
        if matches!(raw.unlimited, Field::Faulty) {
            return None;
        }
        if raw.unlimited.is_set() {
            self.check_unlimited(raw);
            return Some(Grant::Unlimited);
        }
        let quota = match self.algorithm(raw)? {
            Algorithm::FixedWindow => self.fixed_window(raw)?,
        };
        Some(Grant::Limited([quota].into()))
    }

    /// Like the reference, accepts `requests_per_unit` and a meaningless unit.
    fn check_unlimited(&mut self, raw: &RawRateLimit) {
        if let Some(unit) = raw.unit.given().filter(|unit| Unit::parse(&unit.value).is_some()) {
            let message = "should not specify rate limit unit when unlimited";
            let hint = "remove the unit, or unlimited";
            self.faults.push(self.fault(unit.at, message).hint(hint));
        }
        for (name, at) in raw.parameters() {
            let message = format!("should not specify {name} when unlimited");
            let hint = format!("remove {name}, or unlimited");
            self.faults.push(self.fault(at, message).hint(hint));
        }
    }

    fn algorithm(&mut self, raw: &RawRateLimit) -> Option<Algorithm> {
        let located = match &raw.algorithm {
            Field::Absent => return Some(Algorithm::FixedWindow),
            Field::Given(located) => located,
            Field::Faulty => return None,
        };
        let algorithm = Algorithm::parse(&located.value);
        if algorithm.is_none() {
            let known: Vec<_> = Algorithm::ALL.into_iter().map(Algorithm::name).collect();
            let message = format!("invalid algorithm {}", quoted(&located.value));
            let hint = format!("the algorithms are {}", known.join(", "));
            self.faults.push(self.fault(located.at, message).hint(hint));
        }
        algorithm
    }

    fn fixed_window(&mut self, raw: &RawRateLimit) -> Option<Quota> {
        let align = self.align(raw);
        let count_refused = self.count_refused(raw);
        let window = self.window(raw)?;
        // Left out it is zero, as in the reference: the rule refuses everything.
        let requests_per_unit = raw.requests_per_unit.value().copied().unwrap_or_default();
        let limit = FixedWindow::new(Hits::from(requests_per_unit), window)?
            .with_align(align?)
            .with_count_refused(count_refused?);
        Some(Quota {
            limit: Limit::FixedWindow(limit),
            requests_per_unit,
            unit: Unit::reporting(window),
        })
    }

    fn align(&mut self, raw: &RawRateLimit) -> Option<Align> {
        let located = match &raw.align {
            Field::Absent => return Some(Align::Epoch),
            Field::Given(located) => located,
            Field::Faulty => return None,
        };
        match &*located.value {
            "epoch" => Some(Align::Epoch),
            "first_hit" => Some(Align::FirstHit),
            other => {
                let fault = self.fault(located.at, format!("invalid align {}", quoted(other)));
                self.faults.push(fault.hint("align is epoch or first_hit"));
                None
            }
        }
    }

    /// A domain that charges all or nothing never counts what it refuses.
    fn count_refused(&mut self, raw: &RawRateLimit) -> Option<bool> {
        match (&raw.count_refused, self.charge) {
            (Field::Absent, ChargeMode::Independent) => Some(true),
            (Field::Absent, ChargeMode::AllOrNothing) => Some(false),
            (Field::Given(said), ChargeMode::AllOrNothing) if said.value => {
                let message = "count_refused contradicts charge: all_or_nothing";
                let hint = "remove it: a domain that charges all or nothing counts no refused hit";
                self.faults.push(self.fault(said.at, message).hint(hint));
                None
            }
            (Field::Given(said), _) => Some(said.value),
            (Field::Faulty, _) => None,
        }
    }

    /// The window: `unit`, times `unit_multiplier`, or `window` in its own words.
    fn window(&mut self, raw: &RawRateLimit) -> Option<Span> {
        let unit = match &raw.window {
            Field::Absent => self.unit(raw)?,
            Field::Given(located) => {
                self.check_no_unit_beside_window(raw);
                return self.span("window", &located.value, located.at);
            }
            Field::Faulty => return None,
        };
        let (times, at) = match &raw.unit_multiplier {
            Field::Absent => return Some(unit.span()),
            Field::Given(located) => (u64::from(located.value), located.at),
            Field::Faulty => return None,
        };
        let window = Span::from_micros(unit.span().as_micros().saturating_mul(times));
        self.bounded("unit_multiplier", &times.to_string(), window, at)
    }

    fn unit(&mut self, raw: &RawRateLimit) -> Option<Unit> {
        let (text, at) = match &raw.unit {
            Field::Absent => ("", raw.at),
            Field::Given(located) => (&*located.value, located.at),
            Field::Faulty => return None,
        };
        let unit = Unit::parse(text);
        if unit.is_none() {
            let names = Unit::ALL.map(Unit::name).join(", ");
            let message = format!("invalid rate limit unit {}", quoted(text));
            let hint = match (text, nearest_unit(text)) {
                ("", _) => {
                    format!("add a unit ({names}), a window such as 90s, or unlimited: true")
                }
                (_, Some(unit)) => format!("did you mean '{unit}'?"),
                (_, None) => {
                    format!("a unit is one of {names}; other spans are written window: 90s")
                }
            };
            self.faults.push(self.fault(at, message).hint(hint));
        }
        unit
    }

    fn check_no_unit_beside_window(&mut self, raw: &RawRateLimit) {
        let unit = raw.unit.given().map(|unit| ("unit", unit.at));
        let multiplier = raw.unit_multiplier.given().map(|times| ("unit_multiplier", times.at));
        for (name, at) in unit.into_iter().chain(multiplier) {
            let message = format!("should not specify {name} together with window");
            let hint = format!("the window says it all: remove {name}, or window");
            self.faults.push(self.fault(at, message).hint(hint));
        }
    }

    fn span(&mut self, name: &str, text: &str, at: Position) -> Option<Span> {
        let Some(span) = parse_span(text) else {
            let fault = self.fault(at, format!("invalid {name} {}", quoted(text)));
            self.faults.push(fault.hint(HOW_TO_WRITE_A_SPAN));
            return None;
        };
        self.bounded(name, text, span, at)
    }

    fn bounded(&mut self, name: &str, text: &str, span: Span, at: Position) -> Option<Span> {
        if !span.is_zero() && span <= MAX_WINDOW {
            return Some(span);
        }
        let message = format!(
            "invalid {name} {}: a window is longer than nothing and at most ten years",
            quoted(text)
        );
        self.faults.push(self.fault(at, message).hint(HOW_TO_WRITE_A_SPAN));
        None
    }
}

/// The unit that `text` is another form of: `minutes`, `sec`, ` Hour`.
fn nearest_unit(text: &str) -> Option<Unit> {
    let start: String = text.trim().chars().take(3).collect::<String>().to_lowercase();
    Unit::ALL.into_iter().find(|unit| start.len() == 3 && unit.name().starts_with(&start))
}

/// A span such as `90s`: a whole number and one of `ms`, `s`, `m`, `h` and `d`.
fn parse_span(text: &str) -> Option<Span> {
    let digits = text.find(|char: char| !char.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(digits)?;
    let millis: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    Some(Span::from_millis(number.parse::<u64>().ok()?.saturating_mul(millis)))
}
