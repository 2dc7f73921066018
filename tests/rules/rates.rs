//! Several rates on one rule.

use tidegate::policy::{LoadOptions, load_texts};
use tidegate::units::Span;

use crate::support::service::{Kind, Setup};
use crate::{on_both_stores, start};

on_both_stores!(
    the_strictest_rate_answers_and_what_it_refuses_costs_nothing,
    rates_of_different_algorithms_pass_together_or_not_at_all,
    changing_the_rates_of_a_rule_keeps_the_counts_of_those_that_stay,
);

async fn the_strictest_rate_answers_and_what_it_refuses_costs_nothing(kind: Kind) {
    let rules =
        "  - {key: k, rate_limit: {algorithm: sliding_window_log, rates: [2/s, 5/m, 100/d]}}";
    let service = start!(Setup::rules(rules), kind);
    let limit = async || {
        let status = service.status("[k=a !h=0]").await;
        status.current_limit.map(|limit| (limit.requests_per_unit, limit.unit))
    };
    assert_eq!(service.told("t", "[k=a]").await, "OK r1, 1s");
    assert_eq!(limit().await, Some((2, 1)), "the second's has least left");
    assert_eq!(service.told("t", "[k=a]").await, "OK r0, 1s");
    for _ in 0..10 {
        assert_eq!(service.told("t", "[k=a]").await, "OVER, 1s");
    }
    service.clock.advance(Span::from_secs(1));
    assert_eq!(service.told("t", "[k=a] hits 2").await, "OK r0, 1s", "refused hits cost nothing");
    service.clock.advance(Span::from_secs(1));
    assert_eq!(service.told("t", "[k=a]").await, "OK r0, 60s");
    assert_eq!(service.told("t", "[k=a]").await, "OVER, 58s");
    assert_eq!(limit().await, Some((5, 2)), "the minute's refuses longest");
}

async fn rates_of_different_algorithms_pass_together_or_not_at_all(kind: Kind) {
    let rules = "
  - key: k
    rate_limit:
      rates:
        - 10/m
        - {rate: 10/m, algorithm: sliding_window_log}
        - {rate: 10/m, algorithm: sliding_window_counter}
        - {rate: 60/m, algorithm: token_bucket, burst: 3}
        - {rate: 60/m, algorithm: gcra, burst: 3}";
    let service = start!(Setup::rules(rules), kind);
    let mut admitted = 0;
    for _ in 0..20 {
        admitted += usize::from(service.ask("[k=a]").await.starts_with("OK"));
    }
    assert_eq!(admitted, 3, "the bursts are the strictest");
    service.clock.advance(Span::from_secs(3));
    assert_eq!(service.ask("[k=a] hits 3").await, "OK r0", "the others counted three, not twenty");
}

async fn changing_the_rates_of_a_rule_keeps_the_counts_of_those_that_stay(kind: Kind) {
    let text = |rates: &str| {
        let rule = format!("{{key: k, rate_limit: {{rates: [{rates}]}}}}");
        format!("domain: t\ndescriptors: [{rule}]\n")
    };
    let service = start!(Setup::file("t.yaml", &text("10/m, 100/h")), kind);
    assert_eq!(service.ask("[k=a] hits 4").await, "OK r6");
    let other = text("12/m, {rate: 50/d, algorithm: gcra}");
    let other = load_texts(&[("t.yaml", &other)], LoadOptions::default(), &service.metrics);
    service.decider.replace_policies(other.expect("good rules"));
    assert_eq!(service.ask("[k=a]").await, "OK r7", "five of twelve are gone");
}
