//! Texts that nobody would write.

use proptest::prelude::*;

use crate::load_one;

/// Values for fields, right and wrong.
fn scalar() -> impl Strategy<Value = String> {
    const TEXTS: &[&str] = &[
        "x",
        "''",
        "'a*'",
        "~",
        "true",
        "5",
        "0",
        "-1",
        "1.5",
        "hour",
        "90s",
        "all_or_nothing",
        "first_hit",
        "fixed_window",
        "sliding_window_log",
        "token_bucket",
        "gcra",
        "lockout",
        "calendar",
        "10/s",
        "Europe/Berlin",
        "10.0.0.0/8",
        "4294967295",
        "4294967296",
        "é",
        "\"a\\nb\"",
        "*a",
        "&a x",
    ];
    proptest::sample::select(TEXTS).prop_map(str::to_owned)
}

fn key() -> impl Strategy<Value = String> {
    const KEYS: &[&str] = &[
        "domain",
        "charge",
        "descriptors",
        "key",
        "value",
        "rate_limit",
        "shadow_mode",
        "name",
        "share_threshold",
        "metadata",
        "unit",
        "requests_per_unit",
        "unlimited",
        "replaces",
        "unit_multiplier",
        "window",
        "align",
        "count_refused",
        "algorithm",
        "limit",
        "rate",
        "rates",
        "time_zone",
        "block_duration",
        "max_window_size",
        "capacity",
        "burst",
        "refill",
        "max_attempts",
        "lockout",
        "address",
        "exempt",
        "exempt_loopback",
        "ipv6_prefix",
        "<<",
        "other",
        "5",
    ];
    proptest::sample::select(KEYS).prop_map(str::to_owned)
}

/// Any nesting of the format's words.
fn flow() -> impl Strategy<Value = String> {
    scalar().prop_recursive(6, 40, 6, |inner| {
        let list = proptest::collection::vec(inner.clone(), 0..4);
        let map = proptest::collection::vec((key(), inner), 0..6);
        prop_oneof![
            list.prop_map(|items| format!("[{}]", items.join(", "))),
            map.prop_map(|entries| {
                let entries: Vec<_> =
                    entries.into_iter().map(|(key, value)| format!("{key}: {value}")).collect();
                format!("{{{}}}", entries.join(", "))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_file_nests_there_is_an_answer(root in flow()) {
        for text in [root.clone(), format!("domain: t\ndescriptors: [{root}]\n")] {
            if let Err(error) = load_one(&text) {
                prop_assert!(!error.faults().is_empty());
                prop_assert_eq!(error.to_string().lines().count(), error.faults().len());
            }
        }
    }

    #[test]
    fn a_quoted_value_is_matched_as_it_is(value in "[^\\p{C}*\u{2028}\u{2029}]{1,20}") {
        let quoted = value.replace('\'', "''");
        let rule = format!("{{key: k, value: '{quoted}', rate_limit: {{unit: hour}}}}");
        let policies = crate::loaded(&format!("domain: t\ndescriptors: [{rule}]\n"));
        prop_assert!(crate::find(&policies, &[("k", &value)]).is_some(), "{:?}", value);
    }
}
