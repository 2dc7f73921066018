//! How much in which time: `requests_per_unit` in each `unit`, or what stands
//! for them.

use super::Lowering;
use super::algorithm::{AMOUNTS, Algorithm};
use super::span::{Window, nearest_unit};
use crate::limit::{Limit, Unit};
use crate::policy::fault::{Position, quoted};
use crate::policy::raw::{Field, RawLimit};
use crate::policy::rule::Quota;
use crate::units::{Hits, Span};

/// An amount per window.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// How many.
    pub requests_per_unit: u32,
    /// In which time.
    pub window: Window,
    /// Where it is said how many.
    pub at: Position,
}

impl Amount {
    /// How many.
    pub fn hits(&self) -> Hits {
        Hits::from(self.requests_per_unit)
    }

    /// A limit of this amount, as answers report it.
    pub fn quota(&self, limit: Limit) -> Quota {
        Quota::new(limit, self.requests_per_unit, self.window.reporting())
    }
}

impl Lowering<'_> {
    /// The amount per window. `None` after a fault.
    pub(super) fn amount(&mut self, raw: &RawLimit, algorithm: Algorithm) -> Option<Amount> {
        // Elsewhere it does not belong, and a fault says so.
        let refill = if algorithm == Algorithm::TokenBucket { &raw.refill } else { &Field::Absent };
        let (name, said) = match (refill, &raw.rate) {
            (Field::Faulty, _) | (_, Field::Faulty) => return None,
            (Field::Given(refill), _) => ("refill", refill),
            (Field::Absent, Field::Given(rate)) => ("rate", rate),
            (Field::Absent, Field::Absent) => return self.amount_in_window(raw, algorithm),
        };
        for (other, at) in raw.present() {
            if other != name && AMOUNTS.contains(&other) {
                self.is_said_already(other, at, name);
            }
        }
        let (requests_per_unit, window) = self.rate(name, &said.value, said.at)?;
        Some(Amount { requests_per_unit, window, at: said.at })
    }

    fn amount_in_window(&mut self, raw: &RawLimit, algorithm: Algorithm) -> Option<Amount> {
        let window = self.window(raw);
        let names = ["requests_per_unit", "limit"];
        let said = self.either(names, [&raw.requests_per_unit, &raw.limit]);
        let window = window?;
        let (requests_per_unit, at) = match said {
            Field::Given(said) => (said.value, said.at),
            Field::Faulty => return None,
            // As in the reference: the rule refuses everything.
            Field::Absent if algorithm == Algorithm::FixedWindow && raw.window.is_absent() => {
                (0, raw.at)
            }
            Field::Absent => {
                let fault = self.fault(raw.at, "the amount is missing");
                let hint = "add limit: N, or write rate: N/UNIT for amount and window";
                self.faults.push(fault.hint(hint));
                return None;
            }
        };
        Some(Amount { requests_per_unit, window, at })
    }

    /// What one of two fields says that mean the same.
    pub(super) fn either<T: Clone>(
        &mut self,
        names: [&str; 2],
        fields: [&Field<T>; 2],
    ) -> Field<T> {
        match fields {
            [Field::Faulty, _] | [_, Field::Faulty] => Field::Faulty,
            [Field::Given(_), Field::Given(second)] => {
                let [first_name, second_name] = names;
                let message = format!("should not specify {second_name} beside {first_name}");
                let hint = "they are two words for one thing: keep one of them";
                self.faults.push(self.fault(second.at, message).hint(hint));
                Field::Faulty
            }
            [Field::Absent, said] | [said, Field::Absent] => said.clone(),
        }
    }

    /// The window: `unit`, times `unit_multiplier`, or `window` in its own words.
    fn window(&mut self, raw: &RawLimit) -> Option<Window> {
        let unit = match &raw.window {
            Field::Absent => self.unit(raw)?,
            Field::Given(located) => {
                for (name, at) in raw.present() {
                    if matches!(name, "unit" | "unit_multiplier") {
                        self.is_said_already(name, at, "window");
                    }
                }
                return self.span("window", &located.value, located.at).map(Window::Span);
            }
            Field::Faulty => return None,
        };
        let (times, at) = match &raw.unit_multiplier {
            Field::Absent => return Some(Window::Unit(unit)),
            Field::Given(located) => (u64::from(located.value), located.at),
            Field::Faulty => return None,
        };
        let window = Span::from_micros(unit.span().as_micros().saturating_mul(times));
        self.bounded("unit_multiplier", &times.to_string(), window, at).map(Window::Span)
    }

    fn unit(&mut self, raw: &RawLimit) -> Option<Unit> {
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
                ("", _) => format!(
                    "add a unit ({names}), window: 90s, a rate such as 100/m, or unlimited: true"
                ),
                (_, Some(unit)) => format!("did you mean '{unit}'?"),
                (_, None) => {
                    format!("a unit is one of {names}; other spans are written window: 90s")
                }
            };
            self.faults.push(self.fault(at, message).hint(hint));
        }
        unit
    }

    /// Reports the field `name` beside another, `whole`, that leaves nothing to
    /// say.
    pub(super) fn is_said_already(&mut self, name: &str, at: Position, whole: &str) {
        let message = format!("should not specify {name} together with {whole}");
        let hint = format!("{whole} says it all: remove {name}, or {whole}");
        self.faults.push(self.fault(at, message).hint(hint));
    }
}
