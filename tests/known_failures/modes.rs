//! F33 and F36: headers and shadow mode.

use tidegate::decide::HeaderNames;
use tidegate::proto::RateLimitResponse;

use crate::support::ask;
use crate::support::service::{Kind, Setup};
use crate::{on_both_stores, start};

on_both_stores!(
    f33_headers_speak_about_the_limit_that_refused,
    f36_shadow_rules_are_counted_and_answered_ok,
    f36_global_shadow_mode_answers_ok_and_says_so,
);

fn headers(response: &RateLimitResponse) -> Vec<(&str, &str)> {
    let headers = response.response_headers_to_add.iter();
    headers.map(|header| (&*header.key, &*header.value)).collect()
}

async fn f33_headers_speak_about_the_limit_that_refused(kind: Kind) {
    let setup = Setup::rules(
        "
  - {key: mn, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: hr, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: two, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: five, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: unl, rate_limit: {unlimited: true}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 2}}",
    );
    let service =
        start!(setup.clone().with(|s| s.response_headers = Some(HeaderNames::default())), kind);
    let send = async |text: &str| service.send(&ask::request("t", text)).await.expect("an answer");
    let (minute, hour, year) = ("11", "2831", "1547231");

    send("[hr=h]").await;
    let response = send("{[mn=h], [hr=h]}").await;
    assert_eq!(ask::answer(&response), "OVER {OK r0, OVER}");
    let told = |limit, left, reset| {
        vec![("RateLimit-Limit", limit), ("RateLimit-Remaining", left), ("RateLimit-Reset", reset)]
    };
    assert_eq!(headers(&response), told("1", "0", hour));

    let response = send("{[five=a], [two=a]}").await;
    assert_eq!(headers(&response), told("2", "1", year));
    let response = send("{[unl=a], [five=b]}").await;
    assert_eq!(headers(&response), told("5", "4", year));
    assert_eq!(headers(&send("[nothing=x]").await), []);
    assert_eq!(headers(&send("[unl=x]").await), []);

    // Of two that refuse, the one that lasts: coming back after the minute would be in vain.
    let response = send("{[hr=h], [mn=h]}").await;
    assert_eq!(ask::answer(&response), "OVER {OVER, OVER}");
    assert_eq!(headers(&response), told("1", "0", hour));
    assert_eq!(headers(&send("[mn=h]").await), told("1", "0", minute));

    let names = HeaderNames { limit: "X-L".into(), remaining: "X-R".into(), reset: "X-T".into() };
    let service = start!(setup.with(|s| s.response_headers = Some(names)), kind);
    let response = service.send(&ask::request("t", "[five=a]")).await.expect("an answer");
    assert_eq!(headers(&response), [("X-L", "5"), ("X-R", "4"), ("X-T", year)]);
}

const SHADOW_AND_ONE: &str = "
  - {key: shadow, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: one, rate_limit: {unit: year, requests_per_unit: 1}}";

async fn f36_shadow_rules_are_counted_and_answered_ok(kind: Kind) {
    let service = start!(Setup::rules(SHADOW_AND_ONE), kind);
    let shadow = "[shadow=s]";
    assert_eq!(
        service.ask_all([shadow, shadow, shadow, shadow]).await,
        ["OK r1", "OK r0", "OK r0", "OK r0"]
    );
    let series = |name: &str| {
        format!("ratelimit_service_rate_limit_{name}{{domain=\"t\",key1=\"shadow\",key2=\"\"}}")
    };
    let counted =
        ["total_hits", "over_limit", "shadow_mode"].map(|name| service.metric(&series(name)));
    assert_eq!(counted, [Some(4), Some(2), Some(2)]);
    let both = "{[shadow=s], [one=x]}";
    assert_eq!(service.ask_all([both, both]).await, ["OK {OK r0, OK r0}", "OVER {OK r0, OVER}"]);
}

async fn f36_global_shadow_mode_answers_ok_and_says_so(kind: Kind) {
    let service = start!(Setup::rules(SHADOW_AND_ONE).with(|s| s.shadow_mode = true), kind);
    assert_eq!(service.ask_all(["[one=x]", "[one=x]"]).await, ["OK r0", "OK {OVER}"]);
    assert_eq!(service.metric("ratelimit_service_global_shadow_mode"), Some(1));
}
