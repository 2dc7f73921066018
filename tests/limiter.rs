//! Embedding: one caller, any algorithm.

use tidegate::limiter::{
    FixedWindow, Hits, Limit, Limiter, ManualClock, MemoryStore, Span, Store, Timestamp,
};

/// Noon: the start of a second, a minute, an hour.
const NOON: Timestamp = Timestamp::from_secs(1_796_040_000);

fn limiter(yaml: &str) -> (Limiter, ManualClock) {
    let clock = ManualClock::at(NOON);
    let limiter = Limiter::from_yaml("api", yaml).unwrap_or_else(|error| panic!("{error}"));
    (limiter.with_clock(clock.clone().into()), clock)
}

/// A caller that knows nothing of algorithms: asks until it is refused, waits as
/// told, and asks again. How often it passed, and whether it passed then.
async fn caller(limiter: &Limiter, clock: &ManualClock) -> (usize, bool) {
    let mut passed = 0;
    loop {
        let verdict = limiter.check("203.0.113.9", 1).await.expect("memory decides");
        if !verdict.allowed {
            assert!(!verdict.retry_after.is_zero() && verdict.remaining == Hits::ZERO);
            clock.advance(verdict.retry_after);
            break;
        }
        passed += 1;
    }
    let again = limiter.check("203.0.113.9", 1).await.expect("memory decides");
    (passed, again.allowed)
}

#[tokio::test]
async fn algorithms_swap_by_yaml_alone() {
    let limits = [
        "{limit: 5, unit: minute}",
        "{algorithm: fixed_window, rate: 5/m, align: first_hit, count_refused: false}",
        "{rate: 5/d, align: calendar, time_zone: America/New_York}",
        "{algorithm: sliding_window_log, rate: 5/m}",
        "{algorithm: sliding_window_log, rate: 5/m, block_duration: 300s}",
        "{algorithm: sliding_window_counter, rate: 5/m}",
        "{algorithm: token_bucket, rate: 100/m, burst: 5}",
        "{algorithm: token_bucket, refill: 5/90s}",
        "{algorithm: gcra, rate: 100/m, burst: 5}",
        "{rates: [5/s, 5/m, {rate: 100/h, algorithm: gcra, burst: 50}]}",
    ];
    for yaml in limits {
        let (limiter, clock) = limiter(yaml);
        assert_eq!(caller(&limiter, &clock).await, (5, true), "{yaml}");
    }
    // The attempt that reaches the maximum is refused already.
    let (limiter, clock) = limiter("{algorithm: lockout, max_attempts: 6}");
    assert_eq!(caller(&limiter, &clock).await, (5, true));
}

#[tokio::test]
async fn every_algorithm_peeks_refunds_and_resets() {
    let limits = [
        "{rate: 5/m}",
        "{algorithm: sliding_window_log, rate: 5/m, block_duration: 300s}",
        "{algorithm: sliding_window_counter, rate: 5/m}",
        "{algorithm: token_bucket, rate: 5/m}",
        "{algorithm: gcra, rate: 5/m}",
        "{rates: [5/m, 100/d]}",
    ];
    for yaml in limits {
        let (limiter, _) = limiter(yaml);
        let left = async |hits| limiter.check("k", hits).await.expect("decided").remaining.get();
        assert_eq!((left(2).await, left(0).await), (3, 3), "{yaml}");
        assert_eq!(limiter.peek("k").await.expect("decided").remaining.get(), 3, "{yaml}");
        assert_eq!(limiter.refund("k", 1).await.expect("decided").remaining.get(), 4, "{yaml}");
        assert!(!limiter.check("k", 5).await.expect("decided").allowed, "{yaml}");
        assert!(limiter.reset("k").await.expect("decided").allowed, "{yaml}");
        assert_eq!(left(1).await, 4, "{yaml}");
        assert_eq!(limiter.peek("other").await.expect("decided").remaining.get(), 5, "{yaml}");
    }
}

#[tokio::test]
async fn a_lockout_counts_failures_and_forgets_with_a_success() {
    let (guard, clock) = limiter("{algorithm: lockout, max_attempts: 3, lockout: 5m}");
    let open = async |key| guard.peek(key).await.expect("decided").allowed;
    for _ in 0..2 {
        guard.record_failure("a").await.expect("decided");
    }
    guard.refund("a", 1).await.expect("a success");
    for _ in 0..2 {
        assert!(guard.record_failure("a").await.expect("decided").allowed);
    }
    let locked = guard.record_failure("a").await.expect("decided");
    assert!(!locked.allowed && locked.retry_after == Span::from_secs(300));
    assert!(!open("a").await && open("b").await);
    clock.advance(Span::from_secs(300));
    assert!(open("a").await);
}

#[tokio::test]
async fn limiters_share_a_store_by_name() {
    let store = std::sync::Arc::new(Store::Memory(MemoryStore::default()));
    let five = FixedWindow::new(Hits::new(5), Span::from_secs(3_600)).expect("a window");
    let named = |name: &str| Limiter::new(name, Limit::FixedWindow(five)).with_store(store.clone());
    let (one, twin, other) = (named("a"), named("a"), named("b"));
    assert_eq!(one.check("k", 2).await.expect("decided").remaining.get(), 3);
    assert_eq!(twin.check("k", 2).await.expect("decided").remaining.get(), 1);
    assert_eq!(other.check("k", 2).await.expect("decided").remaining.get(), 3);
}

#[test]
fn bad_yaml_says_what_to_do() {
    let error = Limiter::from_yaml("api", "{algorithm: token_bucket, rate: 5/m, align: epoch}");
    let text = error.map(|_| ()).expect_err("refused").to_string();
    assert!(text.starts_with("api:1:45: align does not belong to token_bucket; its fields are "));
}
