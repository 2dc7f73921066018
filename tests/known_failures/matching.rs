//! F07-F09: which rule a descriptor meets.

use crate::support::service::{Kind, Setup};
use crate::{on_both_stores, start};

on_both_stores!(
    f07_names_are_compared_whole,
    f07_pairs_that_join_to_the_same_text_stay_apart,
    f07_case_blanks_and_unicode_form_matter,
    f08_wildcard_values,
    f09_no_limit_limit_zero_unlimited_and_wrong_depth,
);

async fn f07_names_are_compared_whole(kind: Kind) {
    let service = start!(
        Setup::rules(
            "
  - key: a
    descriptors: [{key: b, rate_limit: {unit: year, requests_per_unit: 5}}]
  - {key: a_v, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: p, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: p_q, rate_limit: {unit: year, requests_per_unit: 6}}"
        ),
        kind
    );
    assert_eq!(service.ask("[a=v, b=z]").await, "OK r4");
    assert_eq!(service.ask("[a_v=z]").await, "OK r4");
    assert_eq!(service.limit("[p=q]").await, Some(5));
}

async fn f07_pairs_that_join_to_the_same_text_stay_apart(kind: Kind) {
    let service = start!(
        Setup::rules(
            "
  - {key: k, value: a_b, rate_limit: {unit: year, requests_per_unit: 3}}
  - {key: k_a, value: b, rate_limit: {unit: year, requests_per_unit: 9}}"
        ),
        kind
    );
    assert_eq!(service.ask("[k=a_b]").await, "OK r2");
    assert_eq!(service.ask("[k_a=b]").await, "OK r8");
}

async fn f07_case_blanks_and_unicode_form_matter(kind: Kind) {
    let service = start!(
        Setup::rules(
            "
  - {key: K, rate_limit: {unit: MINUTE, requests_per_unit: 3}}
  - {key: k, rate_limit: {unit: Minute, requests_per_unit: 9}}"
        ),
        kind
    );
    assert_eq!(service.limit("[K=x]").await, Some(3));
    assert_eq!(service.limit("[k=x]").await, Some(9));
    let composed = service.ask("[k=\u{e9}]").await;
    let decomposed = service.ask("[k=e\u{301}]").await;
    assert_eq!((composed.as_str(), decomposed.as_str()), ("OK r8", "OK r8"));
    assert_eq!(service.ask("[k=v]").await, "OK r8");
    assert_eq!(service.ask("[k=v ]").await, "OK r8");
}

async fn f08_wildcard_values(kind: Kind) {
    let service = start!(
        Setup::rules(
            r#"
  - {key: w, value: "foo*", rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: w, value: foobar, rate_limit: {unit: year, requests_per_unit: 9}}
  - {key: w, rate_limit: {unit: year, requests_per_unit: 7}}
  - {key: ws, value: "foo*", share_threshold: true, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: star, value: "*", rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: wf, value: "a*", rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: wf, value: "ab*", rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: m, value: "ab*ba", rate_limit: {unit: year, requests_per_unit: 5}}"#
        ),
        kind
    );
    assert_eq!(service.limit("[w=foobar]").await, Some(9), "the exact value comes first");
    assert_eq!(
        service.ask_all(["[w=foo1]", "[w=foo2]", "[w=foo]", "[w=bar]", "[w=Foo1]"]).await,
        ["OK r4", "OK r4", "OK r4", "OK r6", "OK r6"]
    );
    assert_eq!(service.ask_all(["[ws=foo1]", "[ws=foo2]"]).await, ["OK r4", "OK r3"]);
    assert_eq!(service.ask("[star=]").await, "OK r4");
    assert_eq!(service.limit("[wf=abc]").await, Some(1), "the earlier of two that fit");
    assert_eq!(
        service.ask_all(["[m=aba]", "[m=abba]", "[m=abXba]", "[m=abbaX]"]).await,
        ["NONE", "OK r4", "OK r4", "NONE"]
    );
}

async fn f09_no_limit_limit_zero_unlimited_and_wrong_depth(kind: Kind) {
    let service = start!(
        Setup::rules(
            "
  - {key: white, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: white, value: ok}
  - {key: unl, rate_limit: {unlimited: true}}
  - {key: zero, rate_limit: {unit: year, requests_per_unit: 0}}
  - {key: norpu, rate_limit: {unit: year}}
  - key: a
    descriptors: [{key: b, rate_limit: {unit: year, requests_per_unit: 5}}]"
        ),
        kind
    );
    assert_eq!(
        service.ask_all(["[white=ok]", "[white=no]", "[white=no]"]).await,
        ["NONE", "OK r0", "OVER"]
    );
    assert_eq!(service.ask("[unl=x]").await, "unlimited");
    assert_eq!(
        service.ask_all(["[zero=x]", "[norpu=x]", "[zero=y !h=0]"]).await,
        ["OVER", "OVER", "OK r0"]
    );
    assert_eq!(
        service.ask_all(["[a=v]", "[a=v, b=z]", "[a=v, b=z, c=y]", "[b=z, a=v]"]).await,
        ["NONE", "OK r4", "NONE", "NONE"]
    );
}
