//! Hits that hot keys take in advance.

use tidegate::store::LeaseTerms;
use tidegate::units::Span;

use crate::{assert_fault, find, loaded, refused, with_rate_limit};

fn terms(rate_limit: &str) -> Option<LeaseTerms> {
    let policies = loaded(&with_rate_limit(rate_limit));
    find(&policies, &[("k", "x")]).expect("a rule").0.spec.lease
}

#[test]
fn a_rule_says_how_it_leases() {
    let of = |lease: &str| terms(&format!("{{rate: 1000/m, lease: {lease}}}"));
    assert_eq!(of("{max_share: 2.5%, ttl: 500ms}"), {
        Some(LeaseTerms::new(25_000, Span::from_millis(500)))
    });
    assert_eq!(of("{}"), Some(LeaseTerms::DEFAULT));
    assert_eq!(of("{ttl: 10s}"), Some(LeaseTerms::new(10_000, Span::from_secs(10))));
    assert_eq!(of("~"), None);
    assert_eq!(terms("{rate: 1000/m}"), None);
}

#[test]
fn every_algorithm_that_can_lease_may() {
    for algorithm in ["fixed_window", "token_bucket", "gcra"] {
        let rule = format!("{{algorithm: {algorithm}, rate: 1000/m, lease: {{}}}}");
        assert_eq!(terms(&rule), Some(LeaseTerms::DEFAULT), "{algorithm}");
    }
}

#[test]
fn what_cannot_lease_is_refused() {
    for algorithm in ["sliding_window_log", "sliding_window_counter"] {
        let rule = format!("{{algorithm: {algorithm}, rate: 100/m, lease: {{}}}}");
        assert_fault(&rule, "a sliding window cannot lease");
    }
    assert_fault("{algorithm: lockout, lease: {}}", "a lockout cannot lease");
    assert_fault("{rates: [10/s, 100/m], lease: {}}", "a rule with several rates cannot lease");
    assert_fault("{unlimited: true, lease: {}}", "should not specify lease when unlimited");
    assert_fault(
        "{rate: 100/m, count_refused: true, lease: {}}",
        "count_refused contradicts lease (in t > k=x); remove it: a rule that leases counts no",
    );
}

#[test]
fn slips_are_told() {
    for (lease, fault) in [
        ("1%", "lease"),
        (
            "{max_share: 1}",
            "invalid max_share '1' (in t > k=x); write a share of the limit from 0.01% to 50%",
        ),
        ("{max_share: 60%}", "invalid max_share '60%'"),
        ("{ttl: 1}", "invalid ttl '1' (in t > k=x); write a whole number and a unit"),
        ("{ttl: 2m}", "invalid ttl '2m' (in t > k=x); a lease lasts from 10ms to 60s"),
        ("{ttl: 61s}", "invalid ttl '61s' (in t > k=x); a lease lasts from 10ms to 60s"),
        ("{ttl: 1ms}", "invalid ttl '1ms' (in t > k=x); a lease lasts from 10ms to 60s"),
        ("{share: 1%}", "unknown key 'share'"),
        ("{max_shar: 1%}", "did you mean 'max_share'?"),
    ] {
        assert_fault(&format!("{{rate: 1000/m, lease: {lease}}}"), fault);
    }
    let all = refused("{rate: 1000/m, lease: {max_share: 0%, ttl: 1}}");
    assert_eq!(all.len(), 2, "{all:#?}");
}

#[test]
fn a_share_that_comes_to_no_lease_is_refused() {
    let small = |share, limit| {
        format!(
            "a max_share of {share} has no effect: of {limit} it is less than the 2 hits that a \
             lease has at least (in t > k=x); "
        )
    };
    for (rule, told, hint) in [
        (
            "{rate: 100/m, lease: {max_share: 1%}}",
            small("1%", 100),
            "write max_share: 2% or more, or remove lease",
        ),
        ("{rate: 199/m, lease: {}}", small("1%", 199), "write max_share: 1.01% or more"),
        (
            "{algorithm: token_bucket, rate: 1000/m, burst: 10, lease: {max_share: 10%}}",
            small("10%", 10),
            "write max_share: 20% or more",
        ),
        ("{rate: 3/m, lease: {max_share: 50%}}", small("50%", 3), "remove lease: the limit"),
        ("{rate: 0/m, lease: {}}", small("1%", 0), "remove lease: the limit"),
    ] {
        assert_fault(rule, &format!("{told}{hint}"));
    }
    assert!(terms("{rate: 200/m, lease: {}}").is_some());
    assert!(terms("{rate: 100/m, lease: {max_share: 2%}}").is_some());
    assert!(terms("{rate: 199/m, lease: {max_share: 1.01%}}").is_some());
}

#[test]
fn the_example_of_the_docs_is_a_rule() {
    let docs = include_str!("../../docs/leases.md");
    let example = docs.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
    let rule = example.expect("an example").replace('\n', "\n    ");
    let policies =
        loaded(&format!("domain: t\ndescriptors:\n  - key: k\n    value: x\n    {rule}"));
    let lease = find(&policies, &[("k", "x")]).expect("a rule").0.spec.lease;
    assert_eq!(lease, Some(LeaseTerms::DEFAULT), "the example writes the defaults");
}
