//! Windows of the calendar: days, weeks, months and years in a time zone.
//!
//! A quota that resets at local midnight: on the days when clocks change, the
//! day has 23 or 25 hours.

use std::fmt;

use chrono::{
    DateTime, Datelike as _, Days, MappedLocalTime, Months, NaiveDate, NaiveTime, Offset,
};
use chrono::{TimeDelta, TimeZone as _};
pub use chrono_tz::Tz;

use super::Unit;
use crate::units::Timestamp;

/// How many windows [`Calendar::bounds`] tells, the present one being the second.
const WINDOWS: usize = 4;

/// The ends that enclose the present window: its start, and those of its
/// neighbours, so that a store whose clock differs finds its own window.
pub type Bounds = [Timestamp; WINDOWS + 1];

/// A unit of the calendar in a time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calendar {
    period: Period,
    zone: Tz,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Period {
    Day,
    Week,
    Month,
    Year,
}

impl Calendar {
    /// Days from midnight, weeks from Monday, months and years from their first
    /// day, by the clocks of `zone`. `None` for shorter units, which are alike
    /// everywhere.
    pub const fn new(unit: Unit, zone: Tz) -> Option<Self> {
        let period = match unit {
            Unit::Day => Period::Day,
            Unit::Week => Period::Week,
            Unit::Month => Period::Month,
            Unit::Year => Period::Year,
            Unit::Second | Unit::Minute | Unit::Hour => return None,
        };
        Some(Self { period, zone })
    }

    /// The present window at `now` and its neighbours: start of the window
    /// before, of this one, of the next two, and the end of the last.
    pub fn bounds(self, now: Timestamp) -> Bounds {
        let today = self.local_date(now);
        let first = match self.period {
            Period::Day => today,
            Period::Week => back(today, u64::from(today.weekday().num_days_from_monday())),
            Period::Month => back(today, u64::from(today.day0())),
            Period::Year => back(today, u64::from(today.ordinal0())),
        };
        let before = self.previous(first);
        let mut bounds = [Timestamp::default(); WINDOWS + 1];
        let mut start = before;
        for bound in &mut bounds {
            *bound = self.midnight(start);
            start = self.next(start);
        }
        bounds
    }

    fn local_date(self, now: Timestamp) -> NaiveDate {
        let seconds = i64::try_from(now.as_micros() / 1_000_000).unwrap_or(i64::MAX);
        let utc = DateTime::from_timestamp(seconds, 0).unwrap_or_default();
        utc.with_timezone(&self.zone).date_naive()
    }

    fn next(self, date: NaiveDate) -> NaiveDate {
        let next = match self.period {
            Period::Day => date.checked_add_days(Days::new(1)),
            Period::Week => date.checked_add_days(Days::new(7)),
            Period::Month => date.checked_add_months(Months::new(1)),
            Period::Year => date.checked_add_months(Months::new(12)),
        };
        next.unwrap_or(date)
    }

    fn previous(self, date: NaiveDate) -> NaiveDate {
        let previous = match self.period {
            Period::Day => return back(date, 1),
            Period::Week => return back(date, 7),
            Period::Month => date.checked_sub_months(Months::new(1)),
            Period::Year => date.checked_sub_months(Months::new(12)),
        };
        previous.unwrap_or(date)
    }

    /// The moment at which `date` begins. Where clocks jump over midnight it
    /// begins at the jump; where they show it twice, at the first.
    fn midnight(self, date: NaiveDate) -> Timestamp {
        let local = date.and_time(NaiveTime::MIN);
        let moment = match self.zone.from_local_datetime(&local) {
            MappedLocalTime::Single(moment) | MappedLocalTime::Ambiguous(moment, _) => moment,
            MappedLocalTime::None => self.after_gap(local),
        };
        Timestamp::from_secs(u64::try_from(moment.timestamp()).unwrap_or(0))
    }

    /// The first moment after a gap that holds `local`: the offset from before
    /// the gap, applied to it, gives the moment of the jump when the gap begins
    /// at midnight, as all of them that swallow it do.
    fn after_gap(self, local: chrono::NaiveDateTime) -> DateTime<Tz> {
        let earlier = local - TimeDelta::hours(3);
        let offset = self.zone.offset_from_utc_datetime(&earlier).fix();
        let utc = local - TimeDelta::seconds(i64::from(offset.local_minus_utc()));
        self.zone.from_utc_datetime(&utc)
    }
}

impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let period = match self.period {
            Period::Day => "day",
            Period::Week => "week",
            Period::Month => "month",
            Period::Year => "year",
        };
        write!(f, "{period}@{}", self.zone.name())
    }
}

fn back(date: NaiveDate, days: u64) -> NaiveDate {
    date.checked_sub_days(Days::new(days)).unwrap_or(date)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(unit: Unit, zone: Tz, now: &str) -> (String, String) {
        let now = DateTime::parse_from_rfc3339(now).unwrap().timestamp();
        let now = Timestamp::from_secs(u64::try_from(now).unwrap());
        let bounds = Calendar::new(unit, zone).unwrap().bounds(now);
        assert!(bounds.is_sorted() && bounds[1] <= now && now < bounds[2], "{bounds:?}");
        let text = |bound: Timestamp| {
            let seconds = i64::try_from(bound.as_micros() / 1_000_000).unwrap();
            DateTime::from_timestamp(seconds, 0).unwrap().format("%m-%d %H:%M").to_string()
        };
        (text(bounds[1]), text(bounds[2]))
    }

    #[test]
    fn days_begin_at_local_midnight() {
        let new_york = window(Unit::Day, Tz::America__New_York, "2026-11-30T02:12:49Z");
        assert_eq!(new_york, ("11-29 05:00".into(), "11-30 05:00".into()));
        let utc = window(Unit::Day, Tz::UTC, "2026-11-30T02:12:49Z");
        assert_eq!(utc, ("11-30 00:00".into(), "12-01 00:00".into()));
    }

    #[test]
    fn days_on_which_clocks_change_have_23_or_25_hours() {
        let spring = window(Unit::Day, Tz::Europe__Berlin, "2026-03-29T12:00:00Z");
        assert_eq!(spring, ("03-28 23:00".into(), "03-29 22:00".into()));
        let autumn = window(Unit::Day, Tz::Europe__Berlin, "2026-10-25T12:00:00Z");
        assert_eq!(autumn, ("10-24 22:00".into(), "10-25 23:00".into()));
    }

    #[test]
    fn a_day_without_midnight_begins_when_the_clocks_jump() {
        // Beirut goes from 24:00 to 01:00: 2026-03-29 00:00 does not exist.
        let day = window(Unit::Day, Tz::Asia__Beirut, "2026-03-29T12:00:00Z");
        assert_eq!(day, ("03-28 22:00".into(), "03-29 21:00".into()));
    }

    #[test]
    fn weeks_months_and_years_are_those_of_the_calendar() {
        let week = window(Unit::Week, Tz::UTC, "2026-12-03T10:00:00Z");
        assert_eq!(week, ("11-30 00:00".into(), "12-07 00:00".into()));
        let month = window(Unit::Month, Tz::UTC, "2028-02-29T23:59:59Z");
        assert_eq!(month, ("02-01 00:00".into(), "03-01 00:00".into()));
        let year = window(Unit::Year, Tz::Asia__Tokyo, "2026-12-31T16:00:00Z");
        assert_eq!(year, ("12-31 15:00".into(), "12-31 15:00".into()));
    }

    #[test]
    fn shorter_units_have_no_calendar() {
        assert_eq!(Calendar::new(Unit::Hour, Tz::UTC), None);
    }
}
