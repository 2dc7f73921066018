//! What went wrong elsewhere (F01 and following), as far as loading goes.

use std::fmt::Write as _;

use tidegate::limit::Unit;
use tidegate::policy::{LoadOptions, load_texts};
use tidegate::telemetry::metrics::Metrics;

use crate::{find, limit, load_one, loaded, refusal, with_rate_limit};

const THREE: Option<(u32, Unit)> = Some((3, Unit::Year));

/// Domain `t` with rules of `N/year`, given as `key[=value] N`.
fn rules(rules: &[(&str, &str, u32)]) -> String {
    let mut text = "domain: t\ndescriptors:\n".to_owned();
    for (key, value, limit) in rules {
        let rate_limit = format!("{{unit: year, requests_per_unit: {limit}}}");
        let _ = writeln!(text, "  - {{key: {key}, value: {value}, rate_limit: {rate_limit}}}");
    }
    text
}

#[test]
fn f01_unquoted_values_are_the_text_as_written() {
    let policies = loaded(&rules(&[
        ("flag", "true", 3),
        ("num", "123", 3),
        ("yes_", "yes", 3),
        ("oct", "010", 3),
        ("hex", "0x1F", 3),
        ("date", "2024-01-02", 3),
        ("nul", "null", 3),
        ("til", "\"~\"", 3),
    ]));
    let as_written = [
        ("flag", "true"),
        ("num", "123"),
        ("yes_", "yes"),
        ("oct", "010"),
        ("hex", "0x1F"),
        ("date", "2024-01-02"),
        ("til", "~"),
        ("nul", "anything"),
    ];
    for entry in as_written {
        assert_eq!(limit(&policies, &[entry]), THREE, "{entry:?}");
    }
    for entry in [("yes_", "true"), ("oct", "8"), ("hex", "31"), ("til", "x")] {
        assert_eq!(limit(&policies, &[entry]), None, "{entry:?}");
    }
}

#[test]
fn f01_an_empty_value_is_no_value() {
    let message = refusal(&rules(&[("k", "''", 3), ("k", "", 3)]));
    assert!(message.contains("duplicate descriptor composite key 't.k'"), "{message}");
}

#[test]
fn f01_numbers_that_readers_rewrite_are_refused() {
    for value in ["1.10", "1.5", "1e3", ".inf", "-.inf", ".nan", "12345678901234567890"] {
        let message = refusal(&rules(&[("k", value, 3)]));
        assert!(message.starts_with("rl.yaml:3:21: error checking config: "), "{message}");
        assert!(message.contains(&format!("in quotes: value: \"{value}\"")), "{message}");
        let quoted = loaded(&rules(&[("k", &format!("'{value}'"), 3)]));
        assert_eq!(limit(&quoted, &[("k", value)]), THREE);
    }
}

#[test]
fn f02_aliases_and_merge_keys_are_resolved() {
    let policies = loaded(
        "domain: t\ndescriptors:\n\
         \x20 - key: a\n    rate_limit: &base {unit: year, requests_per_unit: 3}\n\
         \x20 - key: b\n    rate_limit: *base\n\
         \x20 - key: c\n    rate_limit: {<<: *base, requests_per_unit: 7}\n",
    );
    let limits = ["a", "b", "c"].map(|key| limit(&policies, &[(key, "x")]));
    assert_eq!(limits, [THREE, THREE, Some((7, Unit::Year))]);
}

#[test]
fn f02_helper_keys_and_bombs_are_refused() {
    let message = refusal("x-base: &base {unit: year}\ndomain: t\n");
    assert!(message.contains("config error, unknown key 'x-base'"), "{message}");
    let mut bomb = "domain: t\nl0: &l0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..10 {
        let aliases = vec![format!("*l{}", level - 1); 10].join(", ");
        let _ = writeln!(bomb, "l{level}: &l{level} [{aliases}]");
    }
    assert!(refusal(&bomb).contains("excessive aliasing"));
}

const GOOD: &str = "\
domain: t
descriptors:
- key: k
  value: x
  rate_limit: {unit: year, requests_per_unit: 3}
";

#[test]
fn f03_harmless_variations_load() {
    let texts = [
        format!("\u{feff}{GOOD}"),
        GOOD.replace('\n', "\r\n"),
        GOOD.replace("domain: t", "domain: 5"),
        GOOD.replace("key: k", "key: 7"),
        GOOD.replace("  rate_limit", "  metadata: {a: [1, {b: ~}], 5: c}\n  rate_limit"),
        "domain: t\ndescriptors:\n".to_owned(),
        "domain: t\n".to_owned(),
        with_rate_limit(""),
        with_rate_limit("null"),
    ];
    for text in texts {
        loaded(&text);
    }
    assert_eq!(limit(&loaded(&format!("\u{feff}{GOOD}")), &[("k", "x")]), THREE);
}

#[test]
fn f03_mistakes_are_refused_and_the_message_names_them() {
    let cases = [
        ("domain: t", "\tdomain: t", "tab"),
        ("domain: t", "domain: ''", "config file cannot have empty domain"),
        ("domain: t", "", "config file cannot have empty domain"),
        ("domain: t", "Domain: t", "unknown key 'Domain'"),
        ("rate_limit:", "ratelimit:", "unknown key 'ratelimit'"),
        ("requests_per_unit", "requestsperunit", "unknown key 'requestsperunit'"),
        ("value: x", "colour: x", "unknown key 'colour'"),
        (
            "value: x",
            "shadow_mode: \"true\"",
            "cannot read the quoted text 'true' as true or false",
        ),
        ("{unit: year, requests_per_unit: 3}", "5", "cannot read '5' as a mapping"),
        ("{unit: year, requests_per_unit: 3}", "{}", "invalid rate limit unit ''"),
        ("- key: k\n  value: x", "  key: k\n  value: x", "cannot read a mapping as a list"),
    ];
    for (good, bad, message) in cases {
        let found = refusal(&GOOD.replacen(good, bad, 1));
        assert!(found.starts_with("rl.yaml:") && found.contains(message), "{bad:?}: {found}");
    }
    for empty in ["", "# only a comment\n", "---\n", "~\n"] {
        let found = refusal(empty);
        assert!(found.starts_with("rl.yaml:1:1: config file cannot have empty domain"), "{found}");
    }
    let strings = refusal("domain: t\ndescriptors: [a, 5]\n");
    let list = "config error, yaml file contains list of type other than map: ";
    assert!(strings.contains(&format!("{list}a")) && strings.contains(&format!("{list}5")));
}

#[test]
fn f04_a_domain_in_several_files_is_refused_or_merged_in_any_order() {
    let file = |key: &str, limit: u32| rules(&[(key, "", limit)]);
    let (x, y, clash) = (file("k", 3), file("l", 5), file("k", 9));
    let merging = LoadOptions { merge_domains: true, ..LoadOptions::default() };
    let load = |texts: &[(&str, &str)], options| load_texts(texts, options, &Metrics::new());
    for (first, second) in [(&x, &y), (&y, &x)] {
        let both = [("b.yaml", &**first), ("a.yaml", &**second)];
        let error = load(&both, LoadOptions::default()).unwrap_err().to_string();
        let expected = "b.yaml:1:9: duplicate domain 't' in config file: it stands at a.yaml:1:9";
        assert!(error.starts_with(expected), "{error}");

        let merged = load(&both, merging).expect("merged");
        let limits = ["k", "l"].map(|key| limit(&merged, &[(key, "v")]).map(|limit| limit.0));
        assert_eq!(limits, [Some(3), Some(5)]);

        let three = [both[0], both[1], ("c.yaml", &*clash)];
        let error = load(&three, merging).unwrap_err();
        assert_eq!(error.faults().len(), 1, "{error}");
        let error = error.to_string();
        assert!(
            error.starts_with("c.yaml:3:5: duplicate descriptor composite key 't.k'"),
            "{error}"
        );
        let other = if first == &x { "at b.yaml:3:5 already" } else { "at a.yaml:3:5 already" };
        assert!(error.contains(other), "{error}");
    }
}

#[test]
fn f04_documents_are_like_files() {
    let two = format!("{}---\n{}", rules(&[("k", "", 3)]), rules(&[("l", "", 5)]));
    let error = refusal(&two);
    assert!(error.starts_with("rl.yaml:5:9: duplicate domain 't' in config file"), "{error}");
    let two = two.replacen("domain: t", "domain: u", 1);
    let policies = loaded(&two);
    assert_eq!((policies.len(), limit(&policies, &[("l", "")])), (2, Some((5, Unit::Year))));
}

#[test]
fn f04_merged_domains_cannot_charge_in_two_ways() {
    let texts = [
        ("a.yaml", "domain: t\ncharge: all_or_nothing\n"),
        ("b.yaml", "domain: t\n"),
        ("c.yaml", "domain: t\ncharge: independent\n"),
    ];
    let options = LoadOptions { merge_domains: true, ..LoadOptions::default() };
    let error = load_texts(&texts, options, &Metrics::new()).unwrap_err().to_string();
    assert!(error.starts_with("c.yaml:2:9: domain 't' is charged in two ways"), "{error}");
    assert!(error.contains("a.yaml:2:9"), "{error}");
    assert!(load_texts(&texts[..2], options, &Metrics::new()).is_ok());
}

#[test]
fn f07_keys_and_values_are_compared_apart() {
    let policies = loaded(&rules(&[("k", "a_b", 3), ("k_a", "b", 9)]));
    assert_eq!(limit(&policies, &[("k", "a_b")]), THREE);
    assert_eq!(limit(&policies, &[("k_a", "b")]), Some((9, Unit::Year)));
}

#[test]
fn f07_case_counts_in_names_but_not_in_units() {
    let policies = loaded(&rules(&[("K", "", 3), ("k", "", 9)]));
    assert_eq!(limit(&policies, &[("K", "x")]), THREE);
    assert_eq!(limit(&policies, &[("k", "x")]), Some((9, Unit::Year)));
    for unit in ["MINUTE", "Minute"] {
        let policies = loaded(&with_rate_limit(&format!("{{unit: {unit}, requests_per_unit: 3}}")));
        assert_eq!(limit(&policies, &[("k", "x")]), Some((3, Unit::Minute)));
    }
    for unit in ["\" minute\"", "minutes", "\"2\"", "\"\"", "2"] {
        let found = refusal(&with_rate_limit(&format!("{{unit: {unit}, requests_per_unit: 3}}")));
        assert!(found.contains("invalid rate limit unit '"), "{unit}: {found}");
    }
}

#[test]
fn f08_only_wildcards_can_share_a_counter() {
    let rule = |value: &str| {
        rules(&[("ws", value, 5)]).replace("rate_limit", "share_threshold: true, rate_limit")
    };
    let policies = loaded(&rule("foo*"));
    let keys = ["foo1", "foo2"].map(|value| find(&policies, &[("ws", value)]).map(|(_, key)| key));
    assert_eq!(keys[0], keys[1]);
    for (value, named) in [("foo", "ws_foo"), ("", "ws")] {
        let expected = format!(
            "share_threshold can only be used with wildcard values (containing '*'), \
             but found key '{named}'"
        );
        assert!(refusal(&rule(value)).contains(&expected));
    }
    let off = rule("foo").replace("share_threshold: true", "share_threshold: false");
    assert!(load_one(&off).is_ok());
}

#[test]
fn f09_zero_is_a_limit_and_unlimited_is_none() {
    let policies = loaded(&with_rate_limit("{unit: year}"));
    assert_eq!(limit(&policies, &[("k", "x")]), Some((0, Unit::Year)));
    let policies = loaded(&with_rate_limit("{unlimited: true, requests_per_unit: 5}"));
    assert!(find(&policies, &[("k", "x")]).is_some() && limit(&policies, &[("k", "x")]).is_none());
    let found = refusal(&with_rate_limit("{unlimited: true, unit: hour}"));
    assert!(found.contains("should not specify rate limit unit when unlimited"), "{found}");
    assert!(
        refusal(&with_rate_limit("{requests_per_unit: 3}")).contains("invalid rate limit unit ''")
    );
}
