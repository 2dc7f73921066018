//! Several rates on one rule.

use tidegate::limit::fixed_window::Align;
use tidegate::limit::{Limit, Unit};
use tidegate::policy::rates_from_yaml;

use crate::{assert_fault, quotas, refused};

/// What the keys of the rates say.
fn tags(rate_limit: &str) -> Vec<String> {
    quotas(rate_limit).iter().map(|quota| quota.tag().as_str().to_owned()).collect()
}

#[test]
fn rates_are_texts_or_mappings() {
    assert_eq!(tags("{rates: [10/s, 100/m, 5000/d]}"), ["fw1s", "fw60s", "fw86400s"]);
    let long = "{rates: [{limit: 10, unit: second}, {requests_per_unit: 100, window: 1m}, \
                {rate: 5000/d, algorithm: token_bucket, burst: 50}]}";
    assert_eq!(tags(long), ["fw1s", "fw60s", "tb1/17280ms"]);
    let terms: Vec<_> =
        quotas(long).iter().map(|quota| (quota.requests_per_unit(), quota.unit())).collect();
    assert_eq!(terms, [(10, Unit::Second), (100, Unit::Minute), (5_000, Unit::Day)]);
    assert_eq!(tags("{rates: [10/s]}"), ["fw1s"]);
}

#[test]
fn what_stands_beside_rates_is_the_default_of_each() {
    assert_eq!(tags("{algorithm: sliding_window_log, rates: [10/s, 100/m]}"), ["sl1s", "sl60s"]);
    let blocks: Vec<_> = quotas(
        "{algorithm: sliding_window_log, block_duration: 5m, rates: [10/s, \
         {rate: 100/m, block_duration: 1h}, {rate: 5000/d, algorithm: gcra}]}",
    )
    .iter()
    .map(|quota| match quota.limit() {
        Limit::SlidingLog(log) => Some(log.block().ceil_secs()),
        _ => None,
    })
    .collect();
    assert_eq!(blocks, [Some(300), Some(3_600), None]);
    let bursts: Vec<_> =
        quotas("{algorithm: token_bucket, burst: 5, rates: [10/s, {rate: 100/m, capacity: 7}]}")
            .iter()
            .map(|quota| quota.limit().ceiling().get())
            .collect();
    assert_eq!(bursts, [5, 7], "a synonym of its own displaces the default");
    let lockouts = "{algorithm: lockout, lockout: 1h, rates: [{max_attempts: 3}, \
                    {max_attempts: 9, window: 1d, lockout: 1d}]}";
    assert_eq!(tags(lockouts), ["lo60s", "lo86400s"]);
}

#[test]
fn a_time_zone_beside_rates_is_for_those_of_the_calendar() {
    let rates = "{time_zone: UTC, rates: [10/s, {rate: 5000/month, align: calendar}]}";
    assert_eq!(tags(rates), ["fw1s", "fcmonth@UTC"]);
    let found = refused("{align: calendar, time_zone: UTC, rates: [10/s, 5000/d]}");
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].contains("align: calendar needs a unit"), "{found:#?}");
    assert_fault("{time_zone: UTC, rates: [10/s]}", "time_zone applies to none of the rates");
    let rates = "{align: first_hit, rates: [10/s, {rate: 100/m, align: epoch}]}";
    assert_eq!(tags(rates), ["ff1s", "fw60s"]);
}

#[test]
fn several_rates_count_no_refused_hit() {
    for rate_limit in ["{rates: [10/s, 100/m]}", "{rates: [10/s, 100/m], count_refused: false}"] {
        for quota in quotas(rate_limit) {
            let Limit::FixedWindow(limit) = quota.limit() else { panic!("{quota:?}") };
            assert!(!limit.count_refused() && limit.align() == Align::Epoch);
        }
    }
    let contradiction = "count_refused contradicts several rates (in t > k=x); remove it";
    assert_fault("{rates: [10/s, 100/m], count_refused: true}", contradiction);
    assert_fault("{rates: [10/s, {rate: 100/m, count_refused: true}]}", contradiction);
    quotas("{rates: [10/s], count_refused: true}");
}

#[test]
fn amounts_beside_rates_are_refused() {
    let fields = [
        "requests_per_unit: 5",
        "limit: 5",
        "unit: minute",
        "unit_multiplier: 2",
        "window: 1m",
        "rate: 5/m",
        "refill: 5/m",
        "max_attempts: 5",
    ];
    for field in fields {
        let name = field.split(':').next().unwrap_or_default();
        assert_fault(
            &format!("{{{field}, rates: [10/s]}}"),
            &format!(
                "should not specify {name} together with rates (in t > k=x); \
                 each rate says its own: move {name} into one of them"
            ),
        );
    }
}

#[test]
fn what_applies_to_no_rate_is_refused() {
    let fields =
        ["block_duration: 5m", "burst: 5", "capacity: 5", "max_window_size: 5", "lockout: 5m"];
    for field in fields {
        let name = field.split(':').next().unwrap_or_default();
        let expected = format!("{name} applies to none of the rates (in t > k=x); remove {name}");
        assert_fault(&format!("{{{field}, rates: [10/s, 100/m]}}"), &expected);
    }
    assert_fault(
        "{algorithm: lockout, rates: [{rate: 10/s, algorithm: gcra}]}",
        "algorithm applies to none of the rates",
    );
    assert_fault(
        "{exempt: [10.0.0.0/8], rates: [10/s, 100/m]}",
        "exempt does not belong to fixed_window (in t > k=x); only lockout has it",
    );
    quotas("{exempt: [10.0.0.0/8], rates: [{algorithm: lockout}, 100/m]}");
}

#[test]
fn two_rates_on_one_counter_are_refused() {
    let cases = [
        "{rates: [10/s, 20/1s]}",
        "{rates: [100/m, {limit: 5, window: 60s}]}",
        "{algorithm: gcra, rates: [10/s, 600/m]}",
        "{algorithm: lockout, rates: [{max_attempts: 5}, {max_attempts: 6, lockout: 1h}]}",
    ];
    for rates in cases {
        assert_fault(rates, "two rates count on one counter (");
    }
    let found = refused("{rates: [10/s, 100/m, 7/60s]}");
    let expected = "rl.yaml:5:39: two rates count on one counter ('fw60s') (in t > k=x); \
                    the other stands at rl.yaml:5:32; keep the stricter one";
    assert!(found[0].starts_with(expected), "{found:#?}");
    quotas("{rates: [10/s, {rate: 10/s, algorithm: sliding_window_log}]}");
}

#[test]
fn a_rule_has_a_few_rates() {
    let many = |count: u32| {
        let rates: Vec<_> = (1..=count).map(|secs| format!("9/{secs}s")).collect();
        format!("{{rates: [{}]}}", rates.join(", "))
    };
    assert_eq!(quotas(&many(16)).len(), 16);
    assert_fault(&many(17), "a rule has from 1 to 16 rates, not 17 (in t > k=x); write");
    assert_fault("{rates: []}", "a rule has from 1 to 16 rates, not 0");
    assert_fault("{rates: 10/s}", "cannot read '10/s' as a list for rates");
    for item in ["[10/s]", "~"] {
        assert_fault(
            &format!("{{rates: [{item}]}}"),
            "a rate is a text such as 10/s, or a mapping",
        );
    }
}

#[test]
fn what_is_said_of_a_rule_is_not_said_in_a_rate() {
    for field in ["name: n", "unlimited: true", "replaces: []", "rates: []"] {
        let found = refused(&format!("{{rates: [{{rate: 10/s, {field}}}]}}"));
        assert!(found[0].contains("belongs beside rates, not in one of them"), "{found:#?}");
    }
    assert_fault("{unlimited: true, rates: [10/s]}", "should not specify rates when unlimited");
}

#[test]
fn a_fault_in_what_all_rates_share_is_told_once() {
    let rules = [
        "{algorithm: magic, rates: [10/s, 100/m]}",
        "{algorithm: sliding_window_log, block_duration: 5, rates: [10/s, 100/m]}",
        "{align: middle, rates: [10/s, 100/m]}",
    ];
    for rule in rules {
        assert_eq!(refused(rule).len(), 1, "{rule}");
    }
}

#[test]
fn rates_can_be_read_without_a_rule() {
    let rates = rates_from_yaml("search", "rates:\n  - 10/s\n  - {limit: 100, window: 1m}\n");
    assert_eq!(rates.map(|rates| rates.len()).ok(), Some(2));
    let cases = [
        ("{rate: 10/sec}", "search:1:8: invalid rate '10/sec'; did you mean '10/second'?"),
        ("{unlimited: true}", "search:1:13: unlimited has a meaning only in a rule"),
        ("{rate: 1/s, name: n}", "search:1:19: name has a meaning only in a rule"),
        ("{rate: 1/s, replaces: [{name: n}]}", "search:1:24: replaces has a meaning only in a"),
        ("{algorithm: lockout, exempt: [::1]}", "search:1:30: exempt has a meaning only in a rule"),
        ("", "search:1:1: there is no limit; write one, such as {rate: 10/s}"),
        ("~", "search:1:1: there is no limit"),
        (
            "10/s",
            "search:1:1: error loading config file: yaml: unmarshal errors: cannot read '10/s'",
        ),
        ("{rate: 1/s}\n---\n{rate: 2/s}", "search:3:1: there can be only one limit"),
        ("{rate: 1/s", "search:"),
    ];
    for (yaml, message) in cases {
        let error = rates_from_yaml("search", yaml).expect_err(yaml).to_string();
        assert!(error.starts_with(message) && error.lines().count() == 1, "{yaml}: {error}");
    }
}
