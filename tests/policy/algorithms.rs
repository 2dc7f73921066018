//! Each algorithm and its own fields, and no other's.

use tidegate::limit::fixed_window::Align;
use tidegate::limit::{
    FixedWindow, Gcra, Limit, Lockout, Rate, SlidingCounter, SlidingLog, TokenBucket, Unit,
};
use tidegate::units::{Hits, Span};

use crate::{assert_fault, only, refused};

const MINUTE: Span = Span::from_secs(60);

/// A complete `rate_limit` for each algorithm, and the fields that it has.
const ALGORITHMS: [(&str, &str, &[&str]); 6] = [
    ("fixed_window", "limit: 5, unit: minute", &["align", "time_zone", "count_refused"]),
    ("sliding_window_log", "limit: 5, unit: minute", &["block_duration", "max_window_size"]),
    ("sliding_window_counter", "limit: 5, unit: minute", &[]),
    ("token_bucket", "limit: 5, unit: minute", &["refill", "capacity", "burst"]),
    ("gcra", "limit: 5, unit: minute", &["burst"]),
    (
        "lockout",
        "max_attempts: 5",
        &["lockout", "max_attempts", "exempt", "exempt_loopback", "ipv6_prefix"],
    ),
];

/// The fields for amounts and windows, which all have but lockout.
const AMOUNTS: [&str; 6] =
    ["requests_per_unit", "limit", "unit", "unit_multiplier", "window", "rate"];

/// Every field that some algorithm lacks, with a value that it may have.
const FIELDS: [(&str, &str); 19] = [
    ("requests_per_unit", "5"),
    ("limit", "5"),
    ("unit", "minute"),
    ("unit_multiplier", "2"),
    ("rate", "5/m"),
    ("window", "1m"),
    ("align", "epoch"),
    ("time_zone", "UTC"),
    ("count_refused", "false"),
    ("block_duration", "5m"),
    ("max_window_size", "50"),
    ("capacity", "5"),
    ("burst", "5"),
    ("refill", "5/m"),
    ("max_attempts", "5"),
    ("lockout", "5m"),
    ("exempt", "[10.0.0.0/8]"),
    ("exempt_loopback", "true"),
    ("ipv6_prefix", "48"),
];

fn limit(rate_limit: &str) -> Limit {
    *only(rate_limit).limit()
}

fn hits(hits: u64) -> Hits {
    Hits::new(hits)
}

#[test]
fn fixed_window_has_its_fields() {
    let window = FixedWindow::new(hits(5), MINUTE).expect("a window");
    for named in ["", "algorithm: fixed_window, "] {
        let plain = limit(&format!("{{{named}limit: 5, unit: minute}}"));
        assert_eq!(plain, Limit::FixedWindow(window));
    }
    let other = window.with_align(Align::FirstHit).with_count_refused(false);
    let text = "{limit: 5, unit: minute, align: first_hit, count_refused: false}";
    assert_eq!(limit(text), Limit::FixedWindow(other));
    let text = "{limit: 5, unit: minute, align: epoch, count_refused: true}";
    assert_eq!(limit(text), Limit::FixedWindow(window));
}

#[test]
fn sliding_window_log_has_its_fields() {
    let log = |limit, block, most| {
        Limit::SlidingLog(SlidingLog::new(hits(limit), MINUTE, block, most).expect("a log"))
    };
    let rule = |fields: &str| limit(&format!("{{algorithm: sliding_window_log, {fields}}}"));
    assert_eq!(rule("limit: 1000, unit: minute"), log(1_000, Span::ZERO, 1_000));
    let block = Span::from_secs(300);
    assert_eq!(rule("rate: 5/m, block_duration: 300s"), log(5, block, 1_000));
    assert_eq!(rule("rate: 5000/m, max_window_size: 5000"), log(5_000, Span::ZERO, 5_000));
    assert_fault(
        "{algorithm: sliding_window_log, rate: 1001/m}",
        "a log of 1001 hits is above max_window_size 1000 (in t > k=x); raise it, or use",
    );
    assert_fault(
        "{algorithm: sliding_window_log, rate: 51/m, max_window_size: 50}",
        "rl.yaml:5:55: a log of 51 hits is above max_window_size 50",
    );
    let found = refused("{algorithm: sliding_window_log, rate: 1/m, max_window_size: 100001}");
    assert!(found[0].contains("a whole number from 1 to 100000 "), "{found:?}");
}

#[test]
fn sliding_window_counter_has_its_fields() {
    let counter = SlidingCounter::new(hits(5), MINUTE).expect("a counter");
    let rule = limit("{algorithm: sliding_window_counter, requests_per_unit: 5, window: 1m}");
    assert_eq!(rule, Limit::SlidingCounter(counter));
    assert_fault(
        "{algorithm: sliding_window_counter, rate: 4294967295/3650d}",
        "too fine to be counted exactly (in t > k=x); write a rounder amount",
    );
}

#[test]
fn token_bucket_has_its_fields() {
    let bucket = |capacity, refill| {
        let rate = Rate::new(hits(capacity), hits(refill), MINUTE).expect("a rate");
        Limit::TokenBucket(TokenBucket::new(rate))
    };
    let rule = |fields: &str| only(&format!("{{algorithm: token_bucket, {fields}}}"));
    assert_eq!(*rule("requests_per_unit: 100, unit: minute").limit(), bucket(100, 100));
    for fields in [
        "requests_per_unit: 100, unit: minute, burst: 10",
        "limit: 100, window: 60s, capacity: 10",
        "rate: 100/m, burst: 10",
        "refill: 100/m, capacity: 10",
    ] {
        let quota = rule(fields);
        assert_eq!(*quota.limit(), bucket(10, 100), "{fields}");
        assert_eq!((quota.requests_per_unit(), quota.unit()), (100, Unit::Minute), "{fields}");
    }
    for nothing in ["limit: 0, unit: minute", "refill: 0/m, capacity: 5"] {
        assert_fault(
            &format!("{{algorithm: token_bucket, {nothing}}}"),
            "nothing is ever refilled (in t > k=x); write how many hits come back",
        );
    }
    assert_fault(
        "{algorithm: token_bucket, rate: 5/m, capacity: 5, burst: 5}",
        "should not specify burst beside capacity",
    );
    assert_fault(
        "{algorithm: token_bucket, rate: 5/m, refill: 5/m}",
        "should not specify rate together with refill",
    );
}

#[test]
fn gcra_has_its_fields() {
    let gcra = |burst| {
        let rate = Rate::new(hits(burst), hits(10), Span::from_secs(1)).expect("a rate");
        Limit::Gcra(Gcra::new(rate))
    };
    assert_eq!(limit("{algorithm: gcra, rate: 10/s}"), gcra(10));
    assert_eq!(limit("{algorithm: gcra, limit: 10, unit: second, burst: 3}"), gcra(3));
    assert_fault("{algorithm: gcra, rate: 0/s}", "nothing is ever refilled");
    assert_fault(
        "{algorithm: gcra, rate: 9/s, burst: 0}",
        "cannot read '0' as a whole number from 1",
    );
}

#[test]
fn lockout_has_its_fields() {
    let lockout = |most, window, lock| {
        let (window, lock) = (Span::from_secs(window), Span::from_secs(lock));
        Limit::Lockout(Lockout::new(hits(most), window, lock).expect("a lockout"))
    };
    let quota = only("{algorithm: lockout}");
    assert_eq!(*quota.limit(), lockout(10, 60, 300));
    assert_eq!((quota.requests_per_unit(), quota.unit()), (10, Unit::Minute));
    let quota = only("{algorithm: lockout, max_attempts: 5, window: 15m, lockout: 1h}");
    assert_eq!(*quota.limit(), lockout(5, 900, 3_600));
    assert_eq!((quota.requests_per_unit(), quota.unit()), (5, Unit::Minute));
    for most in ["0", "1001"] {
        assert_fault(
            &format!("{{algorithm: lockout, max_attempts: {most}}}"),
            &format!("max_attempts is {most} (in t > k=x); write a number from 1 to 1000"),
        );
    }
    assert_fault("{algorithm: lockout, lockout: 0s}", "invalid lockout '0s'");
}

#[test]
fn a_fault_in_one_field_hides_none_in_another() {
    for (rate_limit, told) in [
        (
            "{algorithm: lockout, max_attempts: 0, window: 0s, lockout: 0s}",
            ["invalid window '0s'", "invalid lockout '0s'", "max_attempts is 0"].as_slice(),
        ),
        (
            "{algorithm: sliding_window_log, rate: 5000/s, block_duration: soon}",
            &["a log of 5000 hits", "invalid block_duration 'soon'"],
        ),
        (
            "{algorithm: token_bucket, rate: 0/s, burst: 0}",
            &["nothing is ever refilled", "cannot read '0' as a whole number from 1"],
        ),
        (
            "{algorithm: gcra, rate: 0/s, burst: 0}",
            &["nothing is ever refilled", "cannot read '0' as a whole number from 1"],
        ),
    ] {
        let found = refused(rate_limit);
        assert_eq!(found.len(), told.len(), "{rate_limit}: {found:#?}");
        for what in told {
            assert!(found.iter().any(|fault| fault.contains(what)), "{what}: {found:#?}");
        }
    }
}

/// Whether an algorithm has a field, by the tables above.
fn has(algorithm: &str, own: &[&str], field: &str) -> bool {
    let amounts: &[&str] = if algorithm == "lockout" { &["window"] } else { &AMOUNTS };
    own.contains(&field) || amounts.contains(&field)
}

/// What to do about a field that belongs elsewhere.
fn advice(field: &str) -> String {
    if matches!(field, "exempt" | "exempt_loopback" | "ipv6_prefix") {
        return format!("beside rate_limit, as address: {{{field}: …}}");
    }
    let homes = ALGORITHMS.iter().filter(|(name, _, own)| has(name, own, field));
    let homes: Vec<_> = homes.map(|(name, ..)| *name).collect();
    format!("; {field} belongs to {}", homes.join(", "))
}

#[test]
fn a_field_of_another_algorithm_is_refused_with_the_ones_that_belong() {
    let mut refusals = 0;
    for (algorithm, complete, own) in ALGORITHMS {
        for (field, value) in FIELDS {
            if complete.contains(&format!("{field}: ")) {
                continue;
            }
            let rule = format!("{{algorithm: {algorithm}, {complete}, {field}: {value}}}");
            let message = match crate::load_one(&crate::with_rate_limit(&rule)) {
                Ok(_) => String::new(),
                Err(error) => error.to_string(),
            };
            let refusal = format!("{field} does not belong to {algorithm} (in t > k=x); ");
            if has(algorithm, own, field) {
                assert!(!message.contains(&refusal), "{rule}: {message}");
                continue;
            }
            refusals += 1;
            assert_eq!(message.lines().count(), 1, "{rule}: {message}");
            assert!(message.contains(&refusal), "{rule}: {message}");
            assert!(message.ends_with(&advice(field)), "{rule}: {message}");
        }
    }
    assert_eq!(refusals, 69);
}

#[test]
fn where_no_algorithm_is_named_the_one_that_was_meant_is() {
    let found = refused("{max_attempts: 5, window: 60s, lockout: 300s}");
    assert_eq!(found.len(), 2, "{found:#?}");
    for (fault, field) in found.iter().zip(["max_attempts", "lockout"]) {
        let hint = format!(
            "; it belongs to lockout: add algorithm: lockout, or remove {field}; \
             without an algorithm this is a fixed_window, whose fields are "
        );
        assert!(fault.contains(&hint), "{fault}");
    }
    assert_fault(
        "{rate: 10/s, burst: 5}",
        "it belongs to token_bucket, gcra: add algorithm: token_bucket, or remove burst",
    );
}

#[test]
fn an_unknown_algorithm_gets_the_nearest_or_the_list() {
    assert_fault("{algorithm: tokenbucket, rate: 1/s}", "did you mean 'token_bucket'?");
    assert_fault(
        "{algorithm: Sliding-Window-Log, rate: 1/s}",
        "did you mean 'sliding_window_log'?",
    );
    assert_fault(
        "{algorithm: magic, rate: 1/s}",
        "invalid algorithm 'magic' (in t > k=x); the algorithms are fixed_window, \
         sliding_window_log, sliding_window_counter, token_bucket, gcra, lockout",
    );
}
