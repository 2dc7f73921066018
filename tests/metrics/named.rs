//! Names to which requests contribute, T1 to T6 of the reference, and their
//! bound.

use crate::support::ask;
use crate::{launch, start};
use tidegate::proto::RateLimitRequest;

const LIMIT: &str = "rate_limit: {unit: year, requests_per_unit: 100}";

/// What is hit when this is asked of a service with these rules.
async fn hit(rules: &str, asked: &[&str]) -> Vec<String> {
    let service = start(&rules.replace("LIMIT", LIMIT), &[]).await;
    for one in asked {
        assert!(service.ask(one).await.starts_with("OK r"), "{one}");
    }
    service.hit()
}

#[tokio::test(flavor = "multi_thread")]
async fn t1_a_detailed_rule_is_named_by_all_entries() {
    let rules = "  - {key: k1, LIMIT, detailed_metric: true, descriptors: [{key: k2, LIMIT}]}";
    assert_eq!(hit(rules, &["[k1=a]", "[k1=a, k2=b]"]).await, ["k1 k2", "k1_a"]);
    let rules = rules.replace("key: k2", "key: k2, detailed_metric: true");
    assert_eq!(hit(&rules, &["[k1=a]", "[k1=a, k2=b]"]).await, ["k1_a", "k1_a k2_b"]);
    let empty = "  - {key: k1, LIMIT, detailed_metric: true}";
    assert_eq!(hit(empty, &["[k1=]"]).await, ["k1_"]);
}

const T2: &str = "  - key: r
    value_to_metric: true
    descriptors:
      - key: h
        value_to_metric: true
        descriptors:
          - {key: s, LIMIT}";

#[tokio::test(flavor = "multi_thread")]
async fn t2_t3_values_of_chosen_steps_are_in_the_name() {
    let asked = ["[r=draw, h=GET, s=1]", "[r, h=GET, s=1]"];
    assert_eq!(hit(T2, &asked).await, ["r h_GET.s", "r_draw h_GET.s"]);
    let detailed = T2.replace("key: s,", "key: s, detailed_metric: true,");
    assert_eq!(hit(&detailed, &asked[..1]).await, ["r_draw h_GET.s_1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn t4_t5_a_shared_pattern_comes_first() {
    for (flags, name) in [
        ("", "w_foo*"),
        ("value_to_metric: true,", "w_foo1"),
        ("share_threshold: true,", "w_foo*"),
        ("share_threshold: true, value_to_metric: true,", "w_foo*"),
        ("share_threshold: true, detailed_metric: true,", "w_foo*"),
    ] {
        let rules = format!("  - {{key: w, value: 'foo*', {flags} LIMIT}}");
        assert_eq!(hit(&rules, &["[w=foo1]"]).await, [name], "{flags}");
    }
    let rules = "  - key: p
    value: p/*
    share_threshold: true
    descriptors: [{key: f, value: 'f/*', descriptors: [{key: t, LIMIT}]}]";
    assert_eq!(hit(rules, &["[p=p/1, f=f/2, t=x]"]).await, ["p_p/* f_f/*.t"]);
    let mixed = rules.replace("key: t,", "key: t, detailed_metric: true,");
    assert_eq!(hit(&mixed, &["[p=p/1, f=f/2, t]"]).await, ["p_p/* f_f/2.t"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn t6_what_means_something_to_statsd_is_replaced() {
    let rules = "  - {key: path, value: '/a:*:b', LIMIT}";
    assert_eq!(hit(rules, &["[path=/a:x:b]"]).await, ["path_/a_*_b"]);
    let rules = "  - {key: k, detailed_metric: true, LIMIT}";
    let asked = ["[k=1.2.3.4]", "[k=a:b|c]", "[k=x.y]", "[k=\nforged:1]"];
    assert_eq!(hit(rules, &asked).await, ["k_1_2_3_4", "k__forged_1", "k_a_b_c", "k_x.y"]);
    let rules = rules.replace("LIMIT", LIMIT);
    let service =
        launch(&rules, |launch| launch.env("SANITIZE_DESCRIPTOR_METRIC_DOTS", "true")).await;
    service.ask("[k=x.y]").await;
    assert_eq!(service.hit(), ["k_x_y"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_of_one_address_have_one_series() {
    let rules = "  - {key: ip, address: true, detailed_metric: true, LIMIT}";
    let asked = ["[ip=1.2.3.4]", "[ip=::ffff:1.2.3.4]", "[ip=2001:db8::1]", "[ip=2001:db8::2]"];
    assert_eq!(hit(rules, &asked).await, ["ip_1_2_3_4", "ip_2001_db8__"]);
}

/// F35: whatever clients send, the number of series has a bound.
#[tokio::test(flavor = "multi_thread")]
async fn f35_past_the_bound_the_rest_is_one_series() {
    let rules =
        format!("  - {{key: five, {LIMIT}}}\n  - {{key: det, detailed_metric: true, {LIMIT}}}");
    let service = launch(&rules, |launch| launch.env("TIDEGATE_MAX_METRIC_SERIES", "3")).await;
    let lines = || service.exposition().lines().count();
    let before = lines();
    for n in 0..200 {
        service.ask(&format!("[five={n}]")).await;
        service.ask(&format!("[five={n} !limit=2/YEAR]")).await;
        service.send(ask::request(&format!("unknown-{n}"), "[five=1]")).await;
    }
    assert_eq!(lines(), before, "none of these makes a series");
    assert_eq!(service.rule("total_hits", "_override", ""), Some(200));
    assert_eq!(service.running.metric("ratelimit_service_domain_not_found "), Some(200));

    for n in 0..10 {
        for _ in 0..2 {
            service.ask(&format!("[det={n}]")).await;
        }
    }
    assert_eq!(service.rule("total_hits", "_overflow", ""), Some(14));
    assert_eq!(service.hit(), ["_overflow", "_override", "det_0", "det_1", "det_2", "five"]);
    assert_eq!(service.running.metric("tidegate_metric_series "), Some(3));
    assert_eq!(service.running.metric("tidegate_metric_series_overflow "), Some(14));
    let told = service.running.log().matches("--max-metric-series").count();
    assert_eq!(told, 1, "{}", service.running.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_value_makes_no_series() {
    let rules = format!("  - {{key: det, detailed_metric: true, {LIMIT}}}");
    let service = start(&rules, &[]).await;
    let request = |value: String| RateLimitRequest {
        domain: "t".into(),
        descriptors: vec![ask::entries(&[("det", &value)])],
        hits_addend: 0,
    };
    service.send(request("x".repeat(1 << 20))).await;
    service.send(request("é".repeat(300))).await;
    assert_eq!(service.hit(), ["_overflow"]);
    assert!(service.exposition().len() < 1 << 16);
}

/// A reload is no reason to begin anew.
#[tokio::test(flavor = "multi_thread")]
async fn series_outlive_a_reload() {
    let rules = format!("  - {{key: det, detailed_metric: true, {LIMIT}}}");
    let service = start(&rules, &["--reload-interval", "10ms"]).await;
    service.ask("[det=a]").await;
    let config = service.directory.path().join("config.yaml");
    let text = std::fs::read_to_string(&config).expect("a file");
    std::fs::write(&config, format!("{text}  - {{key: new, {LIMIT}}}\n")).expect("a file");
    crate::support::process::eventually("the reload", || {
        service.running.metric("ratelimit_service_config_load_success ") == Some(2)
    });
    service.ask("[det=a]").await;
    assert_eq!(service.rule("total_hits", "det_a", ""), Some(2));
    assert_eq!(service.running.metric("tidegate_metric_series "), Some(1));
}
