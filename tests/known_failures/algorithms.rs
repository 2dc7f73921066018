//! F17, F18, F20, F28 and F34 of every algorithm, as rules.

use std::sync::Arc;

use tidegate::decide::HeaderNames;
use tidegate::units::{Span, Timestamp};

use crate::support::ask;
use crate::support::service::{Kind, NOW, Service, Setup};
use crate::{on_both_stores, start};

on_both_stores!(
    f17_a_log_is_exact_at_its_edges,
    f17_a_log_counts_hits_of_one_instant,
    f17_a_block_is_neither_lengthened_nor_ended_by_asking,
    f18_the_clock_steps_back,
    f20_a_bucket_keeps_fractions,
    f20_idle_time_never_overfills_a_bucket,
    f28_sixty_four_tasks_admit_exactly_the_limit_of_every_algorithm,
    f34_waiting_as_told_is_enough_and_hardly_longer_than_needed,
);

const MINUTE: Span = Span::from_secs(60);

/// Moves the clock to so many milliseconds after [`NOW`].
fn at(service: &Service, millis: u64) {
    service.clock.set(NOW.plus(Span::from_millis(millis)));
}

/// What the single hits at these moments (milliseconds after [`NOW`]) are told.
async fn play(service: &Service, text: &str, moments: &[u64]) -> Vec<String> {
    let mut answers = Vec::new();
    for &millis in moments {
        at(service, millis);
        answers.push(service.told("t", text).await);
    }
    answers
}

/// How many of the single hits at these moments pass.
async fn passing(service: &Service, text: &str, moments: &[u64]) -> usize {
    let answers = play(service, text, moments).await;
    answers.iter().filter(|answer| answer.starts_with("OK")).count()
}

async fn f17_a_log_is_exact_at_its_edges(kind: Kind) {
    let rules = "  - {key: l, rate_limit: {algorithm: sliding_window_log, limit: 3, window: 10s}}";
    let service = start!(Setup::rules(rules), kind);
    let moments = [0, 1_000, 2_000, 5_000, 9_900, 10_100, 10_200, 11_100];
    assert_eq!(
        play(&service, "[l=a]", &moments).await,
        [
            "OK r2, 10s",
            "OK r1, 10s",
            "OK r0, 10s",
            "OVER, 5s",
            "OVER, 1s",
            "OK r0, 10s",
            "OVER, 1s",
            "OK r0, 10s"
        ]
    );
    // NOW is at :49, so that the minute turns 11 s later.
    let turn = [10_100, 10_500, 10_900, 11_100, 11_500, 11_900];
    let answers = play(&service, "[l=b]", &turn).await;
    assert_eq!(answers.iter().map(|answer| &answer[..2]).collect::<String>(), "OKOKOKOVOVOV");
}

async fn f17_a_log_counts_hits_of_one_instant(kind: Kind) {
    let rules = "  - {key: p, rate_limit: {algorithm: sliding_window_log, limit: 50, window: 60s}}";
    let service = start!(Setup::rules(rules), kind);
    assert_eq!(passing(&service, "[p=a]", &[0; 100]).await, 50);
    assert_eq!(service.ask("[p=b !h=3]").await, "OK r47");
}

async fn f17_a_block_is_neither_lengthened_nor_ended_by_asking(kind: Kind) {
    let rules = "
  - key: b
    rate_limit: {algorithm: sliding_window_log, limit: 3, window: 10s, block_duration: 30s}";
    let service = start!(Setup::rules(rules), kind);
    let moments = [0, 1_000, 2_000, 3_000, 5_000, 10_000, 20_000, 29_000, 33_200];
    assert_eq!(
        play(&service, "[b=a]", &moments).await,
        [
            "OK r2, 10s",
            "OK r1, 10s",
            "OK r0, 10s",
            "OVER, 30s",
            "OVER, 28s",
            "OVER, 23s",
            "OVER, 13s",
            "OVER, 4s",
            "OK r2, 10s"
        ]
    );
}

const STEPPING: &str = "
  - {key: bucket, rate_limit: {algorithm: token_bucket, rate: 1/s, capacity: 10}}
  - {key: gcra, rate_limit: {algorithm: gcra, rate: 1/s, burst: 10}}
  - {key: fixed, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: first, rate_limit: {unit: minute, requests_per_unit: 5, align: first_hit}}
  - {key: log, rate_limit: {algorithm: sliding_window_log, limit: 5, window: 60s}}
  - {key: counter, rate_limit: {algorithm: sliding_window_counter, limit: 5, window: 60s}}
  - {key: lock, rate_limit: {algorithm: lockout, max_attempts: 5, window: 60s, lockout: 60s}}";

async fn f18_the_clock_steps_back(kind: Kind) {
    let service = start!(Setup::rules(STEPPING), kind);
    let hour = Span::from_secs(3_600);
    // The longest wait that each may announce: its window, or the time to refill.
    let keys = [("bucket", 10), ("gcra", 10), ("fixed", 60), ("first", 60), ("log", 60)];
    for (key, longest) in keys.into_iter().chain([("counter", 120), ("lock", 60)]) {
        let three = async |now: Timestamp| {
            service.clock.set(now);
            let mut passed = 0;
            for _ in 0..3 {
                let status = service.status(&format!("[{key}=a]")).await;
                let told = status.duration_until_reset.expect("a reset").seconds;
                assert!((0..=longest).contains(&told), "{key} told {told} s at {now:?}");
                passed += usize::from(status.code == 1);
            }
            passed
        };
        let admitted = [three(NOW).await, three(NOW.minus(hour)).await, three(NOW).await];
        match key {
            "bucket" | "gcra" => assert_eq!(admitted, [3, 3, 3], "{key}"),
            "log" => assert_eq!(admitted, [3, 2, 0], "{key}: five in any minute"),
            _ => assert_eq!(admitted[..2], [3, if key == "lock" { 1 } else { 2 }], "{key}"),
        }
        for step in 0..40 {
            three(NOW.minus(Span::from_millis(5 * step))).await;
        }
    }
    // A step back does not lock for longer than a window.
    let back = NOW.minus(hour);
    service.clock.set(NOW);
    assert_eq!(service.ask("[log=b !h=5]").await, "OK r0");
    service.clock.set(back);
    assert_eq!(service.told("t", "[log=b]").await, "OVER, 60s");
    service.clock.set(back.plus(MINUTE));
    assert_eq!(service.ask("[log=b]").await, "OK r4");
}

async fn f20_a_bucket_keeps_fractions(kind: Kind) {
    let rules = "
  - {key: bucket, rate_limit: {algorithm: token_bucket, capacity: 1, refill: 1/2s}}
  - {key: gcra, rate_limit: {algorithm: gcra, rate: 1/2s, burst: 1}}";
    let service = start!(Setup::rules(rules), kind);
    let asks: Vec<u64> = (0..200).map(|ask| ask * 100).collect();
    for key in ["bucket", "gcra"] {
        assert_eq!(passing(&service, &format!("[{key}=a]"), &asks).await, 10, "{key}");
    }
}

async fn f20_idle_time_never_overfills_a_bucket(kind: Kind) {
    let rules = "
  - {key: bucket, rate_limit: {algorithm: token_bucket, capacity: 10, refill: 10/s}}
  - {key: gcra, rate_limit: {algorithm: gcra, rate: 10/s, burst: 10}}";
    let service = start!(Setup::rules(rules), kind);
    for key in ["bucket", "gcra"] {
        let text = format!("[{key}=a]");
        passing(&service, &text, &[0, 0, 0]).await;
        assert_eq!(passing(&service, &text, &[60_000; 30]).await, 10, "{key}");
        let paced: Vec<u64> = (0..15).map(|ask| 60_500 + ask * 200).collect();
        assert_eq!(passing(&service, &text, &paced).await, 15, "{key}");
        at(&service, 65_300);
        let four = format!("[{key}=a !h=4]");
        assert_eq!(service.ask_all([&*four, &four, &four]).await, ["OK r6", "OK r2", "OVER"]);
        assert_eq!(service.ask(&format!("[{key}=a !h=0]")).await, "OK r2", "a refusal is free");
    }
}

async fn f28_sixty_four_tasks_admit_exactly_the_limit_of_every_algorithm(kind: Kind) {
    let rules = "
  - {key: log, rate_limit: {algorithm: sliding_window_log, limit: 100, unit: year}}
  - {key: counter, rate_limit: {algorithm: sliding_window_counter, limit: 100, unit: year}}
  - {key: bucket, rate_limit: {algorithm: token_bucket, rate: 100/365d}}
  - {key: gcra, rate_limit: {algorithm: gcra, rate: 100/365d}}
  - {key: lock, rate_limit: {algorithm: lockout, max_attempts: 101, window: 365d}}
  - {key: rates, rate_limit: {rates: [100/365d, {rate: 200/365d, algorithm: gcra}]}}";
    let service = Arc::new(start!(Setup::rules(rules), kind));
    for key in ["log", "counter", "bucket", "gcra", "lock", "rates"] {
        let workers = (0..64).map(|_| {
            let service = service.clone();
            tokio::spawn(async move {
                let mut admitted = 0;
                for _ in 0..10 {
                    let answer = service.ask(&format!("[{key}=a]")).await;
                    assert!(answer.starts_with("OK r") || answer == "OVER", "{answer}");
                    admitted += u32::from(answer != "OVER");
                }
                admitted
            })
        });
        let mut admitted = 0;
        for worker in workers.collect::<Vec<_>>() {
            admitted += worker.await.expect("no panic");
        }
        assert_eq!(admitted, 100, "{key}");
    }
}

/// Rules that are used up by five hits, or by five and one that is refused.
const USED_UP_BY_FIVE: [&str; 11] = [
    "{unit: second, requests_per_unit: 5}",
    "{unit: minute, requests_per_unit: 5}",
    "{unit: minute, requests_per_unit: 5, align: first_hit}",
    "{unit: day, requests_per_unit: 5, align: calendar, time_zone: America/New_York}",
    "{algorithm: sliding_window_log, limit: 5, window: 7s}",
    "{algorithm: sliding_window_log, limit: 5, window: 7s, block_duration: 30s}",
    "{algorithm: sliding_window_counter, limit: 5, window: 60s}",
    "{algorithm: token_bucket, capacity: 5, refill: 3/7s}",
    "{algorithm: gcra, rate: 3/7s, burst: 5}",
    "{algorithm: lockout, max_attempts: 5, window: 60s, lockout: 90s}",
    "{rates: [5/s, {rate: 5/m, algorithm: sliding_window_log}]}",
];

async fn f34_waiting_as_told_is_enough_and_hardly_longer_than_needed(kind: Kind) {
    let rules: Vec<_> = USED_UP_BY_FIVE.iter().enumerate().collect();
    let rules = rules.iter().map(|(nth, rule)| format!("  - {{key: k{nth}, rate_limit: {rule}}}"));
    let rules = rules.collect::<Vec<_>>().join("\n");
    let setup = Setup::rules(&rules).with(|s| s.response_headers = Some(HeaderNames::default()));
    let service = start!(setup, kind);
    // A small generator of our own, so that the moments are the same each time.
    let mut seed = 1_u32;
    let mut fraction = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        u64::from(seed >> 12)
    };
    for round in 0..200 {
        for (nth, rule) in USED_UP_BY_FIVE.iter().enumerate() {
            let text = format!("[k{nth}=a{round}]");
            let mut now = NOW.plus(Span::from_micros(fraction() * 100));
            service.clock.set(now);
            // A second apart at most, so that no window turns unnoticed.
            let mut told = None;
            for _ in 0..12 {
                let response = service.send(&ask::request("t", &text)).await.expect("an answer");
                let status = &response.statuses[0];
                let reset = status.duration_until_reset.expect("a reset").seconds;
                if status.code == 2 {
                    let headers = &response.response_headers_to_add;
                    let header = headers.iter().find(|header| header.key == "RateLimit-Reset");
                    assert_eq!(header.expect("the header").value, reset.to_string(), "{rule}");
                    told = Some(u64::try_from(reset).expect("not negative"));
                    break;
                }
                now = now.plus(Span::from_micros(fraction() % 20_000));
                service.clock.set(now);
            }
            let told = told.unwrap_or_else(|| panic!("{rule} is not used up by 12 hits"));
            assert!(told >= 1, "{rule} told 0 s");
            if rule.contains("unit: second") {
                assert_eq!(told, 1, "{rule}");
            }
            // A check, which changes nothing, a second before.
            let check = format!("[k{nth}=a{round} !h=0]");
            service.clock.set(now.plus(Span::from_secs(told - 1)));
            assert_eq!(service.ask(&check).await, "OVER", "{rule}: {told} s is too long");
            service.clock.set(now.plus(Span::from_secs(told)));
            let answer = service.ask(&text).await;
            assert!(answer.starts_with("OK r"), "{rule}: {answer} after {told} s as told");
        }
    }
}
