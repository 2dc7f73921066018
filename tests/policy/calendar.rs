//! Windows of the calendar in a time zone.

use tidegate::limit::calendar::{Calendar, Tz};
use tidegate::limit::fixed_window::Align;
use tidegate::limit::{Limit, Unit};

use crate::{assert_fault, only, refused};

fn calendar(rate_limit: &str) -> (Calendar, Unit) {
    let quota = only(rate_limit);
    match quota.limit() {
        Limit::FixedWindow(limit) => match limit.align() {
            Align::Calendar(calendar) => (calendar, quota.unit()),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn in_berlin(fields: &str) -> String {
    format!("{{{fields}, align: calendar, time_zone: Europe/Berlin}}")
}

#[test]
fn days_weeks_months_and_years_can_be_those_of_a_zone() {
    for unit in [Unit::Day, Unit::Week, Unit::Month, Unit::Year] {
        let expected = (Calendar::new(unit, Tz::Europe__Berlin).expect("a calendar"), unit);
        assert_eq!(calendar(&in_berlin(&format!("limit: 5, unit: {unit}"))), expected);
        assert_eq!(calendar(&in_berlin(&format!("rate: 5/{unit}"))), expected);
    }
    let (utc, _) = calendar("{rate: 5/d, align: calendar, time_zone: UTC}");
    assert_eq!(Some(utc), Calendar::new(Unit::Day, Tz::UTC));
}

#[test]
fn a_calendar_window_counts_on_a_key_of_its_own() {
    let tag = |rule: &str| only(rule).tag().as_str().to_owned();
    assert_eq!(tag(&in_berlin("rate: 5/month")), "fcmonth@Europe/Berlin");
    assert_eq!(tag("{rate: 5/month}"), "fw2592000s");
}

#[test]
fn calendars_need_a_whole_unit() {
    let windows = [
        "limit: 5, unit: hour",
        "limit: 5, unit: day, unit_multiplier: 2",
        "limit: 5, window: 1d",
        "rate: 5/s",
        "rate: 5/7d",
    ];
    for window in windows {
        assert_fault(
            &in_berlin(window),
            "align: calendar needs a unit that calendars have (in t > k=x); \
             write unit: day, week, month or year, without unit_multiplier or window",
        );
    }
}

#[test]
fn calendar_and_time_zone_need_each_other() {
    assert_fault(
        "{rate: 5/d, align: calendar}",
        "align: calendar needs a time_zone (in t > k=x); add time_zone: Europe/Berlin",
    );
    for align in ["", ", align: epoch", ", align: first_hit"] {
        assert_fault(
            &format!("{{rate: 5/d{align}, time_zone: UTC}}"),
            "time_zone has a meaning only with align: calendar (in t > k=x); add align: calendar",
        );
    }
    assert_eq!(refused("{rate: 5/s, align: calendar}").len(), 2, "zone and unit");
}

#[test]
fn a_zone_that_does_not_exist_gets_the_one_that_was_meant() {
    let cases = [
        ("Berlin", "did you mean 'Europe/Berlin'?"),
        ("europe/berlin", "did you mean 'Europe/Berlin'?"),
        ("Europe/Berlim", "did you mean 'Europe/Berlin'?"),
        ("America/New York", "did you mean 'America/New_York'?"),
        ("new_york", "did you mean 'America/New_York'?"),
        ("utc", "did you mean 'UTC'?"),
    ];
    for (zone, hint) in cases {
        let rule = format!("{{rate: 5/d, align: calendar, time_zone: {zone}}}");
        assert_fault(&rule, &format!("invalid time_zone '{zone}' (in t > k=x); {hint}"));
    }
    // Abbreviations and offsets are alike without meaning the same.
    for zone in ["PST", "CEST", "+02:00", "UTC+2", "Atlantis", "''", "Mars/Olympus_Mons"] {
        let rule = format!("{{rate: 5/d, align: calendar, time_zone: {zone}}}");
        assert_fault(&rule, "write a name of the IANA time zone database, such as Europe/Berlin");
    }
}
