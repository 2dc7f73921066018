//! A cost that crosses a threshold is split, and every call is counted. H1 to H9
//! are the cases of the reference.

use crate::start;

/// One case: a rule of its own, what was hit before, what is asked then.
struct Case {
    id: &'static str,
    limit: u32,
    before: u32,
    /// Hits of each request; the answer.
    asked: &'static [(u32, &'static str)],
    /// By how much `total_hits`, `over_limit`, `near_limit` and `within_limit`
    /// grow.
    counted: [u64; 4],
}

const CASES: [Case; 7] = [
    Case {
        id: "h1",
        limit: 15,
        before: 10,
        asked: &[(1, "OK r4"), (2, "OK r2"), (3, "OVER")],
        counted: [6, 1, 3, 3],
    },
    Case { id: "h2", limit: 20, before: 2, asked: &[(3, "OK r15")], counted: [3, 0, 0, 3] },
    Case { id: "h3", limit: 8, before: 5, asked: &[(2, "OK r1")], counted: [2, 0, 1, 2] },
    Case { id: "h4", limit: 20, before: 16, asked: &[(3, "OK r1")], counted: [3, 0, 3, 3] },
    Case { id: "h5", limit: 20, before: 19, asked: &[(3, "OVER")], counted: [3, 2, 1, 0] },
    Case { id: "h6", limit: 20, before: 15, asked: &[(7, "OVER")], counted: [7, 2, 4, 0] },
    Case { id: "h7", limit: 10, before: 27, asked: &[(3, "OVER")], counted: [3, 3, 0, 0] },
];

fn rules() -> String {
    let rule = |id: &str, limit: u32| {
        format!("  - {{key: {id}, rate_limit: {{unit: year, requests_per_unit: {limit}}}}}\n")
    };
    let cases = CASES.iter().map(|case| rule(case.id, case.limit));
    cases.chain([rule("h8", 10), rule("h9", 10)]).collect()
}

const COUNTERS: [&str; 4] = ["total_hits", "over_limit", "near_limit", "within_limit"];

#[tokio::test(flavor = "multi_thread")]
async fn h1_to_h7_hits_are_split_at_the_thresholds() {
    let service = start(&rules(), &[]).await;
    for Case { id, before, asked, counted, .. } in CASES {
        let counts = || COUNTERS.map(|name| service.rule(name, id, "").expect("a series"));
        assert_eq!(counts(), [0; 4], "{id}: series are there from the start");
        service.ask(&format!("[{id}=x] hits {before}")).await;
        let then = counts();
        for (hits, answer) in asked {
            assert_eq!(service.ask(&format!("[{id}=x] hits {hits}")).await, *answer, "{id}");
        }
        let now = counts();
        let grown: Vec<u64> = now.iter().zip(then).map(|(now, then)| now - then).collect();
        assert_eq!(grown, counted, "{id}: {COUNTERS:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h8_h9_no_hits_are_one_hit_but_a_descriptor_may_only_look() {
    let service = start(&rules(), &[]).await;
    let total = |rule: &str| service.rule("total_hits", rule, "");
    for (asked, answer, hits) in [("[h8=x] hits 0", "OK r9", 1), ("[h8=x]", "OK r8", 2)] {
        assert_eq!(service.ask(asked).await, answer);
        assert_eq!(total("h8"), Some(hits));
    }
    for (asked, answer, hits) in [
        ("[h9=x !h=0]", "OK r10", 0),
        ("[h9=x] hits 10", "OK r0", 10),
        ("[h9=x !h=0]", "OK r0", 10),
        ("[h9=x]", "OVER", 11),
        ("[h9=x !h=0]", "OVER", 11),
    ] {
        assert_eq!(service.ask(asked).await, answer, "{asked}");
        assert_eq!(total("h9"), Some(hits), "{asked}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shadow_hits_are_counted_as_what_they_would_have_been() {
    let rule = "  - {key: s, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 2}}";
    let service = start(rule, &[]).await;
    for _ in 0..4 {
        assert!(service.ask("[s=x]").await.starts_with("OK"));
    }
    for (counter, hits) in
        [("total_hits", 4), ("over_limit", 2), ("shadow_mode", 2), ("within_limit", 2)]
    {
        assert_eq!(service.rule(counter, "s", ""), Some(hits), "{counter}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_and_errors_are_counted_by_method_also_as_json() {
    let service = start(&rules(), &[]).await;
    service.ask("[h1=x]").await;
    assert_eq!(service.send(tidegate::proto::RateLimitRequest::default()).await.len(), 21);
    let body = br#"{"domain": "t", "descriptors": [{"entries": [{"key": "h1", "value": "x"}]}]}"#;
    let answer = crate::support::http::post(&service.running.http, "/json", body);
    assert_eq!(answer.status, 200);
    for (series, value) in [
        ("ratelimit_service_total_requests{grpc_method=\"ShouldRateLimit\"} ", 2),
        ("ratelimit_service_total_requests{grpc_method=\"json\"} ", 1),
        ("ratelimit_service_response_time_seconds_count{grpc_method=\"ShouldRateLimit\"} ", 2),
        ("ratelimit_service_response_time_seconds_count{grpc_method=\"json\"} ", 1),
        ("ratelimit_service_should_rate_limit_error{err_type=\"service_error\"} ", 1),
        ("ratelimit_service_should_rate_limit_error{err_type=\"redis_error\"} ", 0),
    ] {
        assert_eq!(service.running.metric(series), Some(value), "{series}");
    }
    assert_eq!(service.rule("total_hits", "h1", ""), Some(2), "by both ways");
}
