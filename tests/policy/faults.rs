//! Messages: all at once, each at its place, each with what to do.

use tidegate::policy::{LoadOptions, load_texts};
use tidegate::telemetry::metrics::Metrics;

use crate::{load_one, refusal, with_rate_limit};

const FIVE_FAULTS: &str = "\
domain: shop
descriptors:
  - key: path
    value: /cart
    ratelimit: {unit: hour}
    descriptors:
      - key: ip
        rate_limit:
          unit: fortnight
          requests_per_unit: many
          shadow_mode: true
      - key: ip
";

#[test]
fn all_faults_of_a_file_are_listed_in_order() {
    let expected = [
        "rl.yaml:5:5: config error, unknown key 'ratelimit' (in shop > path=/cart); \
         did you mean 'rate_limit'?",
        "rl.yaml:9:17: invalid rate limit unit 'fortnight' (in shop > path=/cart > ip); \
         a unit is one of second, minute, hour, day, week, month, year; \
         other spans are written window: 90s",
        "rl.yaml:10:30: error loading config file: yaml: unmarshal errors: cannot read 'many' \
         as a whole number from 0 to 4294967295 for requests_per_unit \
         (in shop > path=/cart > ip); write it in digits and without quotes, \
         such as requests_per_unit: 100",
        "rl.yaml:11:11: config error, unknown key 'shadow_mode' (in shop > path=/cart > ip); \
         'shadow_mode' belongs beside rate_limit, not inside",
        "rl.yaml:12:9: duplicate descriptor composite key 'shop.path_/cart.ip' \
         (in shop > path=/cart > ip); it stands at rl.yaml:7:9 already; keep one of the two",
    ];
    assert_eq!(refusal(FIVE_FAULTS), expected.join("\n"));
}

#[test]
fn all_faults_of_all_files_are_listed() {
    let texts = [("b.yaml", FIVE_FAULTS), ("c.yaml", "domain: [x\n"), ("a.yaml", "domain: ''\n")];
    let error = load_texts(&texts, LoadOptions::default(), &Metrics::new()).unwrap_err();
    let files: String =
        error.faults().iter().filter_map(|fault| fault.file.chars().next()).collect();
    assert_eq!(files, "abbbbbc");
}

#[test]
fn one_mistake_is_one_fault() {
    let limits = [
        "{unit: [x], requests_per_unit: 3}",
        "{unit: hour, requests_per_unit: 1.5}",
        "{unlimited: maybe}",
        "{unit: 1.5, unlimited: true}",
        "{window: 5}",
        "{unit: hour, align: middle}",
        "{unit: hour, count_refused: 3}",
        "{unit: hour, unit_multiplier: 0}",
        "{unit: hour, algorithm: magic}",
        "{unit: hour, unit: day}",
        "{unit: hour, 5: x}",
        "{unit: hour, {a: b}: x}",
        "{unit: hour, replaces: [{name: [x]}]}",
        "[unit, hour]",
    ];
    let rules = limits.map(with_rate_limit);
    let others = [
        "domain: {}\n",
        "- domain: t\n",
        "domain: t\ndescriptors: {a: b}\n",
        "domain: t\ndescriptors: [{key: [x]}]\n",
        "domain: t\ndescriptors: [{key: [x], value: y}, {key: 1.5, value: y}]\n",
        "domain: t\ndescriptors: [{key: k, value: 1.5}, {key: k}]\n",
        "domain: t\ndescriptors: [{key: k, value: 1.5, share_threshold: true}]\n",
        "domain: t\ncharge: sometimes\n",
        "domain: t\ndescriptors: [{key: 'k*', value: y}]\n",
        "domain: t\ndescriptors: [{key: k, metadata: 5}]\n",
        "domain: t\ndescriptors: [{key: k, metadata: {a: .inf}}]\n",
        "domain: t\ndescriptors: [{key: k, metadata: {[a]: b}}]\n",
        "domain: t\ndescriptors: [{key: k, metadata: {a: 1, a: 2}}]\n",
    ];
    for text in rules.iter().map(String::as_str).chain(others) {
        let error = load_one(text).expect_err(text);
        let expected = if text.contains("key: 1.5") { 2 } else { 1 };
        assert_eq!(error.faults().len(), expected, "{text}{error}");
    }
}

#[test]
fn messages_quote_the_file_in_one_line_and_not_at_length() {
    let text = format!("domain: t\n\"a\\n\\x1b[31mforged\": 1\n{}: 2\n", "x".repeat(1_000));
    let found = refusal(&text);
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(lines.len(), 2, "{found}");
    assert!(lines[0].contains("unknown key 'a\\n\\u{1b}[31mforged'"), "{found}");
    assert!(lines[1].contains('…') && lines[1].len() < 500, "{found}");
}

#[test]
fn words_of_the_reference_are_kept() {
    let rate_limit = with_rate_limit;
    let cases = [
        ("5: x\n".to_owned(), "config error, key is not of type string: '5'"),
        (rate_limit("{unit: hour, replaces: [a]}"), "list of type other than map: a"),
        (rate_limit("{unit: hour, replaces: [{}]}"), "should not have an empty replaces entry"),
        (
            rate_limit("{name: me, unit: hour, replaces: [{name: you}, {name: me}]}"),
            "replaces should not contain name of same descriptor",
        ),
        (
            rate_limit("{unit: hour, requests_per_unit: -1}"),
            "yaml: unmarshal errors: cannot read '-1'",
        ),
        (rate_limit("{unit: hour, requests_per_unit: 1.5}"), "error checking config"),
        (
            "domain: t\ndescriptors: [{key: k, metadata: x}]\n".to_owned(),
            "error parsing metadata: ",
        ),
    ];
    for (text, message) in cases {
        let found = refusal(&text);
        assert!(found.contains(message), "{text}: {found}");
    }
}

#[test]
fn a_wildcard_in_a_key_is_taken_for_a_mistake() {
    let text = "domain: t\ndescriptors:\n  - {key: 'a*', rate_limit: {rate: 1/s}}\n";
    assert_eq!(
        refusal(text),
        "rl.yaml:3:11: descriptor key 'a*' contains '*' (in t > a*); \
         keys are compared whole, only values may hold wildcards"
    );
}

#[test]
fn a_refused_file_leaves_no_metrics_behind() {
    let metrics = Metrics::new();
    let text = with_rate_limit("{unit: hour}") + "  - key: k\n    value: x\n";
    assert!(load_texts(&[("a", &text)], LoadOptions::default(), &metrics).is_err());
    assert!(!metrics.render().contains("key1"), "{}", metrics.render());
}
