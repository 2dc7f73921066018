//! Fields beyond `unit` and `requests_per_unit`.

use prost_types::value::Kind;
use tidegate::limit::fixed_window::Align;
use tidegate::limit::{FixedWindow, Unit};
use tidegate::policy::{FailureMode, LoadOptions, load_texts};
use tidegate::store::{ChargeMode, HashTag};
use tidegate::telemetry::metrics::Metrics;
use tidegate::units::Span;

use crate::{find, limit, loaded, refusal, window, with_rate_limit};

fn fixed_window(text: &str) -> FixedWindow {
    crate::fixed_window(&loaded(text))
}

#[test]
fn windows_are_units_multiples_of_units_or_spans() {
    let cases = [
        ("unit: week", Span::from_secs(604_800), Unit::Week),
        ("unit: minute, unit_multiplier: 5", Span::from_secs(300), Unit::Minute),
        ("unit: minute, unit_multiplier: 120", Span::from_secs(7_200), Unit::Hour),
        ("unit: HOUR, unit_multiplier: 0x10", Span::from_secs(57_600), Unit::Hour),
        ("window: 90s", Span::from_secs(90), Unit::Second),
        ("window: 5m", Span::from_secs(300), Unit::Minute),
        ("window: '1h'", Span::from_secs(3_600), Unit::Hour),
        ("window: 2d", Span::from_secs(172_800), Unit::Day),
        ("window: 100ms", Span::from_millis(100), Unit::Second),
    ];
    for (fields, span, unit) in cases {
        let policies = loaded(&with_rate_limit(&format!("{{{fields}, requests_per_unit: 1_000}}")));
        assert_eq!(window(&policies), span, "{fields}");
        assert_eq!(limit(&policies, &[("k", "x")]), Some((1_000, unit)), "{fields}");
    }
}

#[test]
fn windows_that_make_no_sense_are_refused() {
    let cases = [
        ("window: 90", "invalid window '90'"),
        ("window: s", "invalid window 's'"),
        ("window: 5 m", "invalid window '5 m'"),
        ("window: 1h30m", "invalid window '1h30m'"),
        ("window: -5s", "invalid window '-5s'"),
        ("window: 0s", "invalid window '0s'"),
        ("window: 9ms", "spans are from 10ms to ten years"),
        ("window: 3651d", "spans are from 10ms to ten years"),
        ("window: 99999999999999999999d", "invalid window"),
        ("window: 18446744073709551615d", "spans are from 10ms to ten years"),
        ("unit: year, unit_multiplier: 11", "invalid unit_multiplier '11'"),
        ("unit: hour, unit_multiplier: 0", "cannot read '0' as a whole number from 1"),
        ("unit: Minutes", "did you mean 'minute'?"),
        ("unit: eon", "a unit is one of second, minute"),
        ("unit: hour, window: 5m", "should not specify unit together with window"),
        (
            "unit_multiplier: 5, window: 5m",
            "should not specify unit_multiplier together with window",
        ),
        ("unit: hour, requests_per_unit: 010", "without leading zeros"),
    ];
    for (fields, message) in cases {
        let found = refusal(&with_rate_limit(&format!("{{{fields}}}")));
        assert!(found.contains(message), "{fields}: {found}");
    }
}

#[test]
fn algorithm_and_alignment_are_chosen_by_name() {
    let text = with_rate_limit("{algorithm: fixed_window, unit: hour, align: first_hit}");
    assert_eq!(fixed_window(&text).align(), Align::FirstHit);
    let text = with_rate_limit("{unit: hour, align: epoch}");
    assert_eq!(fixed_window(&text).align(), Align::Epoch);
    let found = refusal(&with_rate_limit("{unit: hour, algorithm: leaky}"));
    assert!(
        found.contains("invalid algorithm 'leaky'") && found.contains("fixed_window"),
        "{found}"
    );
    let found = refusal(&with_rate_limit("{unit: hour, align: Epoch}"));
    assert!(found.contains("invalid align 'Epoch'"), "{found}");
}

#[test]
fn nothing_is_limited_that_is_unlimited() {
    let fields = ["algorithm: fixed_window", "unit_multiplier: 2", "window: 1h", "align: epoch"];
    for field in fields {
        let found = refusal(&with_rate_limit(&format!("{{unlimited: true, {field}}}")));
        let name = field.split(':').next().unwrap_or_default();
        assert!(found.contains(&format!("should not specify {name} when unlimited")), "{found}");
    }
    loaded(&with_rate_limit("{unlimited: yes, unit: eon}"));
    let found = refusal(&with_rate_limit("{unlimited: false}"));
    assert!(found.contains("invalid rate limit unit ''"), "{found}");
}

#[test]
fn refused_hits_count_in_independent_domains_unless_told_otherwise() {
    let rule = with_rate_limit("{unit: hour, requests_per_unit: 3}");
    assert!(fixed_window(&rule).count_refused());
    let spared = rule.replace("unit: hour", "unit: hour, count_refused: false");
    assert!(!fixed_window(&spared).count_refused());

    let all_or_nothing =
        |text: &str| text.replace("domain: t", "domain: t\ncharge: all_or_nothing");
    assert!(!fixed_window(&all_or_nothing(&rule)).count_refused());
    assert!(!fixed_window(&all_or_nothing(&spared)).count_refused());
    let found = refusal(&all_or_nothing(&spared.replace("false", "true")));
    assert!(found.contains("count_refused contradicts charge: all_or_nothing"), "{found}");
}

#[test]
fn a_domain_charges_as_it_says_or_as_the_options_do() {
    let mode = |text: &str, all_or_nothing: bool| {
        let options = LoadOptions { all_or_nothing, ..LoadOptions::default() };
        let policies = load_texts(&[("a", text)], options, &Metrics::new()).expect("loads");
        policies.domain("t").expect("the domain").charge
    };
    assert_eq!(mode("domain: t", false), ChargeMode::Independent);
    assert_eq!(mode("domain: t", true), ChargeMode::AllOrNothing);
    assert_eq!(mode("domain: t\ncharge: independent", true), ChargeMode::Independent);
    assert_eq!(mode("domain: t\ncharge: all_or_nothing", false), ChargeMode::AllOrNothing);
}

#[test]
fn a_rule_or_a_domain_says_what_to_answer_without_a_store() {
    let text = "
domain: t
failure_mode: closed
descriptors:
  - {key: a, failure_mode: local, rate_limit: {unit: hour}}
  - {key: b, rate_limit: {unit: hour}}";
    let policies = loaded(text);
    let domain = policies.domain("t").expect("the domain");
    assert_eq!(domain.failure_mode, Some(FailureMode::Closed));
    let mode = |key| find(&policies, &[(key, "x")]).expect("a rule").0.spec.failure_mode;
    assert_eq!((mode("a"), mode("b")), (Some(FailureMode::Local), None));
    for mode in FailureMode::ALL {
        let policies = loaded(&format!("domain: t\nfailure_mode: {}", mode.name()));
        assert_eq!(policies.domain("t").expect("the domain").failure_mode, Some(mode));
    }
    let refused = |from, to| refusal(&text.replace(from, to));
    for place in ["closed", "local"] {
        let found = refused(place, "Open");
        assert!(found.contains("invalid failure_mode 'Open'"), "{found}");
        assert!(found.contains("open, closed, local or error"), "{found}");
    }
    let found = refused("rate_limit: {unit", "rate_limit: {failure_mode: open, unit");
    assert!(found.contains("'failure_mode' belongs beside rate_limit, not inside"), "{found}");

    let two = [("a.yaml", "domain: t\nfailure_mode: open"), ("b.yaml", &text[1..])];
    let options = LoadOptions { merge_domains: true, ..LoadOptions::default() };
    let found = load_texts(&two, options, &Metrics::new()).expect_err("two modes").to_string();
    assert!(found.contains("b.yaml:2:15: domain 't' has two failure modes"), "{found}");
}

#[test]
fn a_domain_says_which_keys_share_a_slot() {
    let tag = |text: &str| loaded(text).domain("t").expect("the domain").hash_tag;
    assert_eq!(tag("domain: t"), None);
    for known in HashTag::ALL {
        assert_eq!(tag(&format!("domain: t\nhash_tag: {}", known.name())), Some(known));
    }
    let found = refusal("domain: t\nhash_tag: all");
    assert!(found.contains("invalid hash_tag 'all'"), "{found}");
    assert!(found.contains("entries, first_entry or domain"), "{found}");
}

const EVERYTHING: &str = "
domain: t
descriptors:
  - key: path
    value: /v*:x
    value_to_metric: true
    shadow_mode: true
    descriptors:
      - key: user
        shadow_mode: yes
        quota_mode: true
        detailed_metric: on
        metadata: {n: 1.50, t: true, z: ~, s: '5', w: yes, d: ---, list: [a, {b: -2}]}
        rate_limit:
          name: per-user
          unit: hour
          requests_per_unit: 3
          replaces:
            - name: base
            - {name: other}
        descriptors:
          - key: method
            value: GET
            rate_limit: {unit: hour}
";

#[test]
fn a_rule_carries_all_that_is_said_of_it() {
    let policies = loaded(EVERYTHING);
    let entries = [("path", "/v1:x"), ("user", "u"), ("method", "GET")];
    assert!(find(&policies, &entries[..1]).is_none(), "flags without a limit are no rule");
    let (rule, key) = find(&policies, &entries[..2]).expect("a rule");
    assert_eq!(key, "t|path=/v1:x|user=u|fw3600s");
    assert_eq!(&*rule.spec.path, "t > path=/v*:x > user");
    assert_eq!((&*rule.spec.name, rule.spec.replaces.len()), ("per-user", 2));
    assert_eq!(
        rule.spec.replaces.iter().map(|name| &**name).collect::<Vec<_>>(),
        ["base", "other"]
    );
    assert!(rule.spec.shadow_mode && rule.spec.quota_mode && rule.spec.detailed_metric);
    assert_eq!(*rule.spec.value_to_metric, [true, false]);
    let (inner, _) = find(&policies, &entries).expect("a rule");
    assert!(!inner.spec.shadow_mode && !inner.spec.quota_mode && !inner.spec.detailed_metric);
    assert_eq!((*inner.spec.value_to_metric).len(), 3);
    assert!(inner.spec.metadata.is_none());
}

#[test]
fn metadata_is_typed_where_it_is_unquoted() {
    let policies = loaded(EVERYTHING);
    let (rule, _) = find(&policies, &[("path", "/v:x"), ("user", "u")]).expect("a rule");
    let metadata = rule.spec.metadata.as_deref().expect("metadata");
    let kind = |key: &str| metadata.fields.get(key).and_then(|value| value.kind.clone());
    assert_eq!(kind("n"), Some(Kind::NumberValue(1.5)));
    assert_eq!(kind("t"), Some(Kind::BoolValue(true)));
    assert_eq!(kind("z"), Some(Kind::NullValue(0)));
    for (key, text) in [("s", "5"), ("w", "yes"), ("d", "---")] {
        assert_eq!(kind(key), Some(Kind::StringValue(text.into())), "{key}");
    }
    let Some(Kind::ListValue(list)) = kind("list") else { panic!("{metadata:?}") };
    assert_eq!(list.values[0].kind, Some(Kind::StringValue("a".into())));
    let Some(Kind::StructValue(inner)) = &list.values[1].kind else { panic!("{metadata:?}") };
    assert_eq!(inner.fields["b"].kind, Some(Kind::NumberValue(-2.0)));
}

#[test]
fn metrics_carry_the_path_as_the_reference_writes_it() {
    let metrics = Metrics::new();
    let text = EVERYTHING.replace("value_to_metric: true", "").replace("detailed_metric: on", "");
    let policies = load_texts(&[("a", &text)], LoadOptions::default(), &metrics);
    assert!(policies.is_ok());
    let rendered = metrics.render();
    for labels in [
        r#"{domain="t",key1="path_/v*_x",key2="user"}"#,
        r#"{domain="t",key1="path_/v*_x",key2="user.method_GET"}"#,
    ] {
        let name = "ratelimit_service_rate_limit_total_hits";
        assert!(rendered.contains(&format!("{name}{labels} 0")), "{rendered}");
    }
}
