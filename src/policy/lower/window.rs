//! Where fixed windows start, and what they count.

use chrono_tz::{TZ_VARIANTS, Tz};

use super::Lowering;
use super::limit::Beside;
use super::span::Window;
use crate::limit::calendar::Calendar;
use crate::limit::fixed_window::Align;
use crate::policy::fault::{Position, quoted};
use crate::policy::nearest::{alike, nearest};
use crate::policy::raw::{Field, RawLimit};
use crate::store::ChargeMode;

impl Lowering<'_> {
    /// Where windows of this length start, if it is known.
    pub(super) fn align(&mut self, raw: &RawLimit, window: Option<Window>) -> Option<Align> {
        let located = match &raw.align {
            Field::Absent => {
                self.check_no_zone(raw);
                return Some(Align::Epoch);
            }
            Field::Given(located) => located,
            Field::Faulty => return None,
        };
        let align = match &*located.value {
            "epoch" => Align::Epoch,
            "first_hit" => Align::FirstHit,
            "calendar" => return self.calendar(raw, window, located.at),
            other => {
                let fault = self.fault(located.at, format!("invalid align {}", quoted(other)));
                self.faults.push(fault.hint("align is epoch, first_hit or calendar"));
                return None;
            }
        };
        self.check_no_zone(raw);
        Some(align)
    }

    fn check_no_zone(&mut self, raw: &RawLimit) {
        let Some(zone) = raw.time_zone.given() else { return };
        let message = "time_zone has a meaning only with align: calendar";
        let hint = "add align: calendar, for days, weeks, months or years of that zone, \
                    or remove time_zone";
        self.faults.push(self.fault(zone.at, message).hint(hint));
    }

    fn calendar(&mut self, raw: &RawLimit, window: Option<Window>, at: Position) -> Option<Align> {
        let zone = self.zone(raw, at);
        let whole = match window? {
            Window::Unit(unit) => Calendar::new(unit, Tz::UTC).map(|_| unit),
            Window::Span(_) => None,
        };
        let Some(unit) = whole else {
            let message = "align: calendar needs a unit that calendars have";
            let hint = "write unit: day, week, month or year, without unit_multiplier or window; \
                        shorter windows are alike in every zone: align: epoch";
            self.faults.push(self.fault(at, message).hint(hint));
            return None;
        };
        Calendar::new(unit, zone?).map(Align::Calendar)
    }

    fn zone(&mut self, raw: &RawLimit, align: Position) -> Option<Tz> {
        let located = match &raw.time_zone {
            Field::Absent => {
                let fault = self.fault(align, "align: calendar needs a time_zone");
                let hint = "add time_zone: Europe/Berlin, or another name of the IANA time zone \
                            database; UTC is one too";
                self.faults.push(fault.hint(hint));
                return None;
            }
            Field::Given(located) => located,
            Field::Faulty => return None,
        };
        let name = &*located.value;
        let zone = name.parse::<Tz>().ok();
        if zone.is_none() {
            let message = format!("invalid time_zone {}", quoted(name));
            let hint = match nearest_zone(name) {
                Some(meant) => format!("did you mean '{meant}'?"),
                None => "write a name of the IANA time zone database, such as Europe/Berlin, \
                         America/New_York or UTC; an offset such as +02:00 is no zone"
                    .to_owned(),
            };
            self.faults.push(self.fault(located.at, message).hint(hint));
        }
        zone
    }

    /// A hit that is refused together with others must cost nothing: neither in
    /// a domain that charges all or nothing nor where several rates must pass.
    pub(super) fn count_refused(&mut self, raw: &RawLimit, beside: Beside) -> Option<bool> {
        let together = match (self.charge, beside) {
            (ChargeMode::AllOrNothing, _) => {
                Some(("charge: all_or_nothing", "a domain that charges all or nothing counts"))
            }
            (ChargeMode::Independent, Beside::OtherRates) => {
                Some(("several rates", "rates that must all pass count"))
            }
            // They would use up what leases give back.
            (ChargeMode::Independent, Beside::Lease) => {
                Some(("lease", "a rule that leases counts"))
            }
            (ChargeMode::Independent, Beside::Nothing) => None,
        };
        match (&raw.count_refused, together) {
            (Field::Absent, together) => Some(together.is_none()),
            (Field::Given(said), Some((what, reason))) if said.value => {
                let message = format!("count_refused contradicts {what}");
                let hint = format!("remove it: {reason} no refused hit");
                self.faults.push(self.fault(said.at, message).hint(hint));
                None
            }
            (Field::Given(said), _) => Some(said.value),
            (Field::Faulty, _) => None,
        }
    }
}

/// The zone that `name` is probably a slip of, or the city of. Abbreviations
/// and offsets may look alike without meaning the same.
fn nearest_zone(name: &str) -> Option<&'static str> {
    let names = || TZ_VARIANTS.iter().map(|zone| zone.name());
    let places = || names().filter(|zone| zone.contains('/') && !zone.starts_with("Etc/"));
    let is_city = |zone: &&str| zone.rsplit('/').next().is_some_and(|city| alike(city, name));
    names()
        .find(|zone| zone.eq_ignore_ascii_case(name))
        .or_else(|| nearest(name, places()))
        .or_else(|| places().find(is_city))
}
