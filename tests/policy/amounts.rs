//! Amounts and windows in all the ways to write them.

use tidegate::limit::{FixedWindow, Limit, Unit};
use tidegate::units::{Hits, Span};

use crate::{assert_fault, only, refused};

fn fixed(rate_limit: &str) -> (u64, Span, Unit) {
    let quota = only(rate_limit);
    let Limit::FixedWindow(limit) = quota.limit() else { panic!("{quota:?}") };
    assert_eq!(Hits::from(quota.requests_per_unit()), limit.limit(), "{rate_limit}");
    (limit.limit().get(), limit.window(), quota.unit())
}

#[test]
fn a_rate_is_an_amount_and_a_window() {
    let cases = [
        ("10/s", 10, 1, Unit::Second),
        ("100/m", 100, 60, Unit::Minute),
        ("7/h", 7, 3_600, Unit::Hour),
        ("5000/d", 5_000, 86_400, Unit::Day),
        ("1/w", 1, 604_800, Unit::Week),
        ("10/second", 10, 1, Unit::Second),
        ("10/Minute", 10, 60, Unit::Minute),
        ("10/week", 10, 604_800, Unit::Week),
        ("10/month", 10, 2_592_000, Unit::Month),
        ("10/year", 10, 31_536_000, Unit::Year),
        ("100/90s", 100, 90, Unit::Second),
        ("100/5m", 100, 300, Unit::Minute),
        ("100/2w", 100, 1_209_600, Unit::Week),
        ("0/s", 0, 1, Unit::Second),
        ("4294967295/s", 4_294_967_295, 1, Unit::Second),
    ];
    for (rate, hits, window, unit) in cases {
        let expected = (hits, Span::from_secs(window), unit);
        assert_eq!(fixed(&format!("{{rate: {rate}}}")), expected, "{rate}");
        assert_eq!(fixed(&format!("{{rate: '{rate}'}}")), expected, "{rate}");
    }
    assert_eq!(fixed("{rate: 3/100ms}"), (3, Span::from_millis(100), Unit::Second));
}

#[test]
fn limit_is_another_word_for_requests_per_unit() {
    let expected = (5, Span::from_secs(120), Unit::Minute);
    for name in ["limit", "requests_per_unit"] {
        assert_eq!(fixed(&format!("{{{name}: 5, unit: minute, unit_multiplier: 2}}")), expected);
        assert_eq!(fixed(&format!("{{{name}: 5, window: 120s}}")), expected);
    }
    assert_fault(
        "{limit: 5, requests_per_unit: 5, unit: minute}",
        "should not specify limit beside requests_per_unit (in t > k=x); \
         they are two words for one thing: keep one of them",
    );
}

#[test]
fn a_rate_that_makes_no_sense_is_refused() {
    let advice = "write N/UNIT, a whole number and s, m, h, d, w";
    let cases = [
        ("10", advice),
        ("10/", advice),
        ("/s", advice),
        ("10/x", advice),
        ("10/ms", advice),
        ("-1/s", advice),
        ("+1/s", advice),
        ("1.5/s", advice),
        ("1_000/s", advice),
        ("4294967296/s", advice),
        ("10/s/s", advice),
        ("'10 per s'", advice),
        ("10/sec", "did you mean '10/second'?"),
        ("10/Minutes", "did you mean '10/minute'?"),
        ("10 / s", "did you mean '10/s'?"),
        ("10/ 90s", "did you mean '10/90s'?"),
        ("10/5ms", "spans are from 10ms to ten years"),
        ("10/0s", "spans are from 10ms to ten years"),
        ("10/3651d", "spans are from 10ms to ten years"),
    ];
    for (rate, hint) in cases {
        assert_fault(&format!("{{rate: {rate}}}"), &format!("(in t > k=x); {hint}"));
        let refill = format!("{{algorithm: token_bucket, refill: {rate}}}");
        assert_fault(&refill, &format!("(in t > k=x); {hint}"));
    }
    assert_fault("{rate: 1.5}", "if it is meant as text, put it in quotes");
}

#[test]
fn beside_a_rate_there_is_nothing_to_say_of_amounts_and_windows() {
    let fields = [
        ("limit", "5"),
        ("requests_per_unit", "5"),
        ("unit", "minute"),
        ("unit_multiplier", "2"),
        ("window", "1m"),
    ];
    for (name, value) in fields {
        assert_fault(
            &format!("{{rate: 10/s, {name}: {value}}}"),
            &format!(
                "should not specify {name} together with rate (in t > k=x); \
                 rate says it all: remove {name}, or rate"
            ),
        );
        assert_fault(
            &format!("{{algorithm: token_bucket, refill: 10/s, {name}: {value}}}"),
            &format!("should not specify {name} together with refill"),
        );
    }
}

#[test]
fn an_amount_may_be_left_out_only_where_the_reference_lets_it() {
    assert_eq!(fixed("{unit: minute}").0, 0);
    assert_fault("{window: 60s}", "the amount is missing (in t > k=x); add limit: N");
    for algorithm in ["sliding_window_log", "sliding_window_counter", "token_bucket", "gcra"] {
        let rule = |fields: &str| format!("{{algorithm: {algorithm}{fields}}}");
        assert_fault(&rule(", unit: minute"), "the amount is missing");
        assert_fault(&rule(", limit: 5"), "invalid rate limit unit ''");
        assert_fault(&rule(""), "invalid rate limit unit ''");
    }
}

#[test]
fn spans_have_bounds_wherever_they_stand() {
    let rules = [
        ("window", "{limit: 5, window: SPAN}"),
        ("block_duration", "{algorithm: sliding_window_log, rate: 5/m, block_duration: SPAN}"),
        ("window", "{algorithm: lockout, window: SPAN}"),
        ("lockout", "{algorithm: lockout, lockout: SPAN}"),
    ];
    for (field, rule) in rules {
        for good in ["10ms", "3650d", "521w", "1h"] {
            only(&rule.replace("SPAN", good));
        }
        for bad in ["9ms", "0s", "3651d", "522w", "99999999999999d"] {
            let expected = format!(
                "invalid {field} '{bad}' (in t > k=x); \
                 spans are from 10ms to ten years, which is 3650d"
            );
            assert_fault(&rule.replace("SPAN", bad), &expected);
        }
        for bad in ["300", "5 m", "1h30m", "-5s", "s", "1y"] {
            let expected = format!("invalid {field} '{bad}' (in t > k=x); write a whole number");
            assert_fault(&rule.replace("SPAN", bad), &expected);
        }
    }
    assert_eq!(refused("{limit: x, window: 5, align: y}").len(), 3, "all are told at once");
}

#[test]
fn the_longest_window_with_the_largest_amount_is_exact_or_refused() {
    let longest = FixedWindow::new(Hits::from(u32::MAX), Span::from_secs(315_360_000));
    let quota = only("{rate: 4294967295/3650d}");
    assert_eq!(quota.limit(), &Limit::FixedWindow(longest.expect("a window")));
    assert_fault("{algorithm: gcra, rate: 4294967295/3650d}", "too fine to be counted exactly");
}
