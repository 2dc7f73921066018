//! F10-F14: what a request may hold.

use std::sync::Arc;

use tidegate::proto::RateLimitRequest;
use tidegate::proto::rate_limit_response::Code as Overall;
use tidegate::units::Span;
use tonic::Code;

use crate::support::ask;
use crate::support::service::{Kind, Setup};
use crate::{on_both_stores, start};

const FIVE: &str = "
  - {key: five, rate_limit: {unit: year, requests_per_unit: 5}}";

const ONE_TWO_FIVE: &str = "
  - {key: one, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: two, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: five, rate_limit: {unit: year, requests_per_unit: 5}}";

on_both_stores!(
    f10_several_descriptors_also_the_same_one_twice,
    f10_with_all_or_nothing_a_refused_request_counts_nowhere,
    f10_with_all_or_nothing_parallel_requests_leave_exactly_one_hit,
    f11_weight_zero_weight_per_descriptor_and_refunds,
    f12_weights_at_the_32_bit_edge_and_one_that_crosses_the_limit,
    f13_limit_override_sent_by_the_proxy,
    f14_empty_domain_no_descriptors_empty_entries_unknown_domain,
    a_reset_forgets_counts_blocks_and_locks,
    f28_sixty_four_tasks_on_one_key_admit_exactly_the_limit,
    f28_weights_never_add_up_to_more_than_the_limit,
);

async fn f10_several_descriptors_also_the_same_one_twice(kind: Kind) {
    let service = start!(Setup::rules(ONE_TWO_FIVE), kind);
    assert_eq!(service.ask("{[two=d], [two=d]}").await, "OK {OK r1, OK r0}");
    assert_eq!(
        service.ask_all(["{[one=d], [one=d]}", "[one=d]"]).await,
        ["OVER {OK r0, OVER}", "OVER"]
    );
    assert_eq!(
        service.ask_all(["[one=n]", "{[one=n], [five=m]}", "[five=m]"]).await,
        ["OK r0", "OVER {OVER, OK r4}", "OK r3"]
    );
}

async fn f10_with_all_or_nothing_a_refused_request_counts_nowhere(kind: Kind) {
    let service = start!(Setup { all_or_nothing: true, ..Setup::rules(ONE_TWO_FIVE) }, kind);
    assert_eq!(
        service.ask_all(["[one=n]", "{[one=n], [five=m]}", "[five=m]"]).await,
        ["OK r0", "OVER {OVER, OK r5}", "OK r4"]
    );
}

async fn f10_with_all_or_nothing_parallel_requests_leave_exactly_one_hit(kind: Kind) {
    let setup = Setup::file(
        "t.yaml",
        &format!("domain: t\ncharge: all_or_nothing\ndescriptors:{ONE_TWO_FIVE}\n"),
    );
    let service = Arc::new(start!(setup, kind));
    let parallel = (0..64).map(|_| {
        let service = service.clone();
        tokio::spawn(async move { service.ask("{[one=p], [five=p]}").await })
    });
    let mut passed = 0;
    for answer in parallel.collect::<Vec<_>>() {
        passed += usize::from(answer.await.expect("no panic") == "OK {OK r0, OK r4}");
    }
    assert_eq!(passed, 1);
    assert_eq!(service.ask("[five=p !h=0]").await, "OK r4");
}

async fn f11_weight_zero_weight_per_descriptor_and_refunds(kind: Kind) {
    let service = start!(Setup::rules(FIVE), kind);
    assert_eq!(service.ask_all(["[five=z !h=0]", "[five=z] hits 0"]).await, ["OK r5", "OK r4"]);
    assert_eq!(
        service.ask_all(["[five=y] hits 5", "[five=y !h=0]", "[five=y]", "[five=y !h=0]"]).await,
        ["OK r0", "OK r0", "OVER", "OVER"]
    );
    assert_eq!(service.ask("[five=p !h=2] hits 4").await, "OK r3");
    assert_eq!(
        service.ask_all(["[five=q] hits 3", "[five=q !h=10 !refund]", "[five=q !h=0]"]).await,
        ["OK r2", "OK r5", "OK r5"]
    );
    assert_eq!(
        service.ask_all(["[five=s] hits 7", "[five=s !h=4 !refund]", "[five=s !h=0]"]).await,
        ["OVER", "OK r2", "OK r2"]
    );
    assert_eq!(service.ask_all(["[five=u !refund]", "[five=u]"]).await, ["OK r5", "OK r4"]);
}

async fn f12_weights_at_the_32_bit_edge_and_one_that_crosses_the_limit(kind: Kind) {
    let service = start!(
        Setup::rules(&format!(
            "{FIVE}
  - {{key: max, rate_limit: {{unit: year, requests_per_unit: 4294967295}}}}"
        )),
        kind
    );
    let full = "[max=m] hits 4294967295";
    assert_eq!(
        service.ask_all([full, "[max=m]", full, full, full]).await,
        ["OK r0", "OVER", "OVER", "OVER", "OVER"]
    );
    assert_eq!(service.ask_all(["[five=h] hits 5", "[five=h]"]).await, ["OK r0", "OVER"]);
    assert_eq!(service.ask_all(["[five=i] hits 6", "[five=i]"]).await, ["OVER", "OVER"]);
    let most = format!("[five=e !h={}]", u64::MAX);
    assert_eq!(service.ask_all([&most, &most, "[five=e !h=0]"]).await, ["OVER"; 3]);
}

async fn f13_limit_override_sent_by_the_proxy(kind: Kind) {
    let service = start!(Setup::rules(FIVE), kind);
    let two = "[five=a !limit=2/YEAR]";
    assert_eq!(service.ask_all([two, two, two]).await, ["OK r1", "OK r0", "OVER"]);
    assert_eq!(service.ask("[free=b !limit=2/YEAR]").await, "OK r1");
    assert_eq!(service.ask_in("nope", "[free=b !limit=2/YEAR]").await, "NONE");
    assert_eq!(service.ask("[five=c !limit=0/YEAR]").await, "OVER");
    for unit in ["0", "42", "-1", "8"] {
        let answer = service.ask(&format!("[five=d !limit=3/{unit}]")).await;
        let expected =
            format!("error InvalidArgument: descriptor 0 carries a limit with unit {unit};");
        assert!(answer.starts_with(&expected), "{answer}");
    }
    assert_eq!(service.ask("[five=e]").await, "OK r4");
    let day = "[five=f !limit=2/DAY]";
    assert_eq!(service.ask_all([day, day, day]).await, ["OK r1", "OK r0", "OVER"]);
    assert_eq!(service.ask("[five=f !limit=2/YEAR]").await, "OK r1");
    assert_eq!(service.ask("[five=g !limit=2/WEEK]").await, "OK r1");
}

async fn f14_empty_domain_no_descriptors_empty_entries_unknown_domain(kind: Kind) {
    let service = start!(Setup::rules(FIVE), kind);
    assert_eq!(
        service.ask_in("", "[five=a]").await,
        "error InvalidArgument: rate limit domain must not be empty"
    );
    assert_eq!(
        service.ask("{}").await,
        "error InvalidArgument: rate limit descriptor list must not be empty"
    );
    assert_eq!(service.ask("[]").await, "NONE");
    assert_eq!(service.ask_in("nope", "[five=a]").await, "NONE");
    assert_eq!(service.metric("ratelimit_service_domain_not_found"), Some(1));
    assert_eq!(service.ask("[=x]").await, "NONE");
    assert_eq!(service.ask_all(["[five=]", "[five]"]).await, ["OK r4", "OK r3"]);
}

async fn f28_sixty_four_tasks_on_one_key_admit_exactly_the_limit(kind: Kind) {
    let rules = "  - {key: k, rate_limit: {unit: year, requests_per_unit: 1000}}";
    let service = Arc::new(start!(Setup::rules(rules), kind));
    let workers = (0..64).map(|_| {
        let service = service.clone();
        tokio::spawn(async move {
            let mut admitted = Vec::new();
            for _ in 0..100 {
                let answer = service.ask("[k=hot]").await;
                if answer != "OVER" {
                    admitted.push(answer);
                }
            }
            admitted
        })
    });
    let mut admitted = Vec::new();
    for worker in workers.collect::<Vec<_>>() {
        admitted.extend(worker.await.expect("no panic"));
    }
    assert_eq!(admitted.len(), 1000);
    admitted.sort_unstable();
    admitted.dedup();
    assert_eq!(admitted.len(), 1000, "what is left differs each time");
}

async fn f28_weights_never_add_up_to_more_than_the_limit(kind: Kind) {
    let rules =
        "  - {key: k, rate_limit: {unit: year, requests_per_unit: 1000, count_refused: false}}";
    let service = Arc::new(start!(Setup::rules(rules), kind));
    let workers = (0..64_u64).map(|worker| {
        let service = service.clone();
        tokio::spawn(async move {
            let mut admitted = 0;
            for call in 0..100 {
                let weight = (worker + call) % 7 + 1;
                let answer = service.ask(&format!("[k=hot !h={weight}]")).await;
                if answer != "OVER" {
                    admitted += weight;
                }
            }
            admitted
        })
    });
    let mut admitted = 0;
    for worker in workers.collect::<Vec<_>>() {
        admitted += worker.await.expect("no panic");
    }
    assert!((994..=1000).contains(&admitted), "{admitted} hits admitted");
}

/// A recorded sequence at fixed times has one outcome, whatever the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f28_both_stores_give_a_recorded_sequence_the_same_answers() {
    let setup = Setup::rules(ONE_TWO_FIVE);
    let (Some(memory), Some(redis)) = (setup.start(Kind::Memory), setup.start(Kind::Redis)) else {
        return;
    };
    // A small generator of our own, so that the sequence is the same each time.
    let mut seed = 1_u32;
    let mut next = |below: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 16) % below
    };
    for step in 0..5_000 {
        let key = ["one", "two", "five"][next(3) as usize];
        let refund = if next(5) == 0 { " !refund" } else { "" };
        let text = format!("{{[{key}={}], [five=all !h={}{refund}]}}", next(4), next(3));
        let pause = Span::from_secs(u64::from(next(200_000)));
        for service in [&memory, &redis] {
            service.clock.advance(pause);
        }
        assert_eq!(memory.ask(&text).await, redis.ask(&text).await, "step {step}: {text}");
    }
}

#[tokio::test]
async fn f15_very_large_requests_are_refused_clearly() {
    let service = Setup::rules(FIVE).start(Kind::Memory).expect("memory");
    let many = |descriptors: usize, entries: usize| {
        let pairs: Vec<(&str, &str)> = vec![("five", "x"); entries];
        RateLimitRequest {
            domain: "t".into(),
            descriptors: vec![ask::entries(&pairs); descriptors],
            hits_addend: 0,
        }
    };
    let answer = service.send(&many(1024, 1)).await.expect("as many as are allowed");
    assert_eq!(answer.statuses.len(), 1024);
    let error = service.send(&many(100_000, 1)).await.expect_err("too many");
    assert_eq!(error.code(), Code::ResourceExhausted);
    assert!(error.message().contains("100000 descriptors and at most 1024"), "{error}");
    let error = service.send(&many(1, 10_000)).await.expect_err("too many entries");
    assert_eq!(error.code(), Code::ResourceExhausted);
}

/// Each descriptor is fine and there are not too many, but each counts on
/// several counters: Redis would serve nobody else for a tenth of a second.
#[tokio::test]
async fn f15_a_request_on_too_many_counters_is_refused_whatever_the_failure_mode() {
    for kind in [Kind::Memory, Kind::Redis] {
        let rules = "
  - {key: rates, rate_limit: {algorithm: gcra, rates: [10/s, 100/m, 1000/h]}}";
        let Some(service) = Setup::rules(rules).start(kind) else { return };
        let with = |descriptors: usize| RateLimitRequest {
            domain: "t".into(),
            descriptors: vec![ask::entries(&[("rates", "a")]); descriptors],
            hits_addend: 0,
        };
        let asked = service.send(&with(400)).await.map(|_| ());
        let reset = service.forget(with(400)).await.map(|_| ());
        for error in [asked, reset].map(|outcome| outcome.expect_err("too many counters")) {
            assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
            assert!(error.message().contains("1200 counters and at most 1024"), "{error}");
        }
        assert_eq!(service.send(&with(5)).await.expect("an answer").statuses.len(), 5);
    }
}

/// A log is written hit by hit.
#[tokio::test]
async fn f15_a_request_that_logs_too_many_hits_is_refused_whatever_the_failure_mode() {
    for kind in [Kind::Memory, Kind::Redis] {
        let rules = "
  - {key: log, rate_limit: {algorithm: sliding_window_log, rate: 1000/m}}";
        let Some(service) = Setup::rules(rules).start(kind) else { return };
        let with = |descriptors: usize, hits_addend| RateLimitRequest {
            domain: "t".into(),
            descriptors: (0..descriptors)
                .map(|nth| ask::entries(&[("log", &nth.to_string())]))
                .collect(),
            hits_addend,
        };
        let error = service.send(&with(101, 1000)).await.expect_err("too many hits");
        assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
        assert!(error.message().contains("101000 hits and at most 100000"), "{error}");
        // What costs more than its limit is refused and not written.
        let refused = service.send(&with(101, 1001)).await.expect("an answer");
        assert_eq!(refused.overall_code(), Overall::OverLimit);
        let answer = service.send(&with(3, 1000)).await.expect("an answer");
        assert_eq!(answer.overall_code(), Overall::Ok);
    }
}

async fn a_reset_forgets_counts_blocks_and_locks(kind: Kind) {
    let service = start!(
        Setup::rules(
            "
  - {key: five, rate_limit: {unit: year, requests_per_unit: 5}}
  - key: login
    rate_limit: {algorithm: sliding_window_log, rate: 1/h, block_duration: 2h}
  - {key: rates, rate_limit: {algorithm: gcra, rates: [1/s, 2/m]}}
  - {key: client, rate_limit: {algorithm: lockout, max_attempts: 2}}"
        ),
        kind
    );
    let used = ["[five=a] hits 5", "[login=a]", "[rates=a]", "[client=192.0.2.1] hits 2"];
    service.ask_all(used).await;
    let asks = ["[five=a]", "[login=a]", "[rates=a]", "[client=192.0.2.1 !h=0]"];
    assert_eq!(service.ask_all(asks).await, ["OVER"; 4]);
    assert_eq!(service.reset("{[five=a], [login=a], [rates=a], [client=192.0.2.1]}").await, 5);
    assert_eq!(service.ask_all(asks).await, ["OK r4", "OK r0", "OK r0", "OK r2"]);
    assert_eq!(service.reset("[nothing=a]").await, 0);
}

#[tokio::test]
async fn reference_codes_can_be_switched_on() {
    let setup = Setup { reference_codes: true, ..Setup::rules(FIVE) };
    let service = setup.start(Kind::Memory).expect("memory");
    assert_eq!(
        service.ask_in("", "[five=a]").await,
        "error Unknown: rate limit domain must not be empty"
    );
}
