//! The near cache: what Redis refuses is refused here, and nothing else.

mod equality;

use tidegate::limit::{Cost, FixedWindow, Limit, Verdict};
use tidegate::store::near::NearConfig;
use tidegate::store::redis::{RedisConfig, RedisStore};
use tidegate::store::{Plan, Role, StoreError};
use tidegate::units::{Hits, Span, Timestamp};

use crate::plans::{PlanExt as _, YEAR, every_algorithm, fixed_window, plan, take};
use crate::redis::RedisServer;
use crate::{connect, patient};

const NOON: Timestamp = Timestamp::from_secs(1_796_040_000);
const MINUTE: Span = Span::from_secs(60);

/// A store that believes refusals for `longest`.
fn believing(server: &RedisServer, longest: Span) -> RedisStore {
    connect(&with_near(server, NearConfig { longest, ..NearConfig::default() }))
}

fn with_near(server: &RedisServer, near: NearConfig) -> RedisConfig {
    RedisConfig { near: Some(near), ..patient(server.url()) }
}

/// The verdict on a plan with one charge, and whether Redis was not asked.
async fn ask(store: &RedisStore, plan: &Plan) -> (Verdict, bool) {
    let answer = store.answer(plan).await.expect("an answer");
    (answer.verdicts[0], answer.is_near(0))
}

async fn exhaust(store: &RedisStore, name: &str, limit: Limit, now: Timestamp) {
    let all = take(name, limit, limit.ceiling().get()).at(now);
    let (first, _) = ask(store, &all).await;
    if first.allowed {
        let (refused, near) = ask(store, &take(name, limit, 1).at(now)).await;
        assert!(!refused.allowed && !near, "{limit}: the first refusal is that of Redis");
    }
}

#[tokio::test]
async fn a_refused_key_is_refused_here_until_redis_would_admit_it() {
    let Some(server) = RedisServer::redis() else { return };
    let store = believing(&server, Span::FOREVER);
    for limit in every_algorithm(10, MINUTE) {
        exhaust(&store, "a", limit, NOON).await;
        let (first, near) = ask(&store, &take("a", limit, 1).at(NOON)).await;
        assert!(near && !first.allowed, "{limit}");
        let last = NOON.plus(Span::from_micros(first.retry_after.as_micros() - 1));
        let (verdict, near) = ask(&store, &take("a", limit, 1).at(last)).await;
        assert!(near && !verdict.allowed, "{limit}");
        assert_eq!(verdict.retry_after, Span::from_micros(1), "{limit}");
        let end = NOON.plus(first.retry_after);
        let (verdict, near) = ask(&store, &take("a", limit, 1).at(end)).await;
        assert!(!near && verdict.allowed, "{limit}");
    }
}

/// Most calls are for a key that is refused: the case that the cache is for.
#[tokio::test]
async fn ninety_in_a_hundred_on_one_refused_key_hardly_ask_redis() {
    let Some(server) = RedisServer::redis() else { return };
    let store = believing(&server, Span::from_secs(3_600));
    let limit = fixed_window(5, YEAR);
    let () = server.run(&["CONFIG", "RESETSTAT"]);
    let mut refused = 0;
    for call in 0..2_000 {
        let name = if call % 10 == 0 { format!("other-{call}") } else { "hot".into() };
        let verdict = store.decide(&take(&name, limit, 1)).await.expect("an answer")[0];
        refused += u64::from(!verdict.allowed);
    }
    assert_eq!(refused, 1_800 - 5);
    let asked = server.calls("evalsha") + server.calls("eval");
    // 200 others, the first few of the hot key, and the store's own questions.
    assert!((206..300).contains(&asked), "Redis was asked {asked} times");
}

/// Whatever the key, another limit is another question.
#[tokio::test]
async fn f_1077_a_raised_limit_is_not_refused_for_the_smaller_one() {
    let Some(server) = RedisServer::redis() else { return };
    let store = believing(&server, Span::FOREVER);
    for (small, large) in every_algorithm(5, MINUTE).into_iter().zip(every_algorithm(50, MINUTE)) {
        if let Limit::Lockout(_) = small {
            // A lock holds whatever the maximum is.
            continue;
        }
        exhaust(&store, "a", small, NOON).await;
        let (verdict, near) = ask(&store, &take("a", large, 1).at(NOON)).await;
        assert!(verdict.allowed && !near, "{large}");
    }
}

#[tokio::test]
async fn a_reset_and_a_refund_are_seen_at_once() {
    let Some(server) = RedisServer::redis() else { return };
    let store = believing(&server, Span::FOREVER);
    for limit in every_algorithm(10, MINUTE) {
        for cost in [Cost::Reset, Cost::Refund(Hits::new(5))] {
            let locks = matches!(limit, Limit::Lockout(_));
            if locks && cost != Cost::Reset {
                continue;
            }
            exhaust(&store, "a", limit, NOON).await;
            let give_back = plan().with("a", limit, cost, Role::Enforced).at(NOON);
            store.decide(&give_back).await.expect("an answer");
            let (verdict, near) = ask(&store, &take("a", limit, 1).at(NOON)).await;
            assert!(verdict.allowed && !near, "{limit} after {cost:?}");
            store.decide(&plan().with("a", limit, Cost::Reset, Role::Enforced).at(NOON)).await.ok();
        }
    }
}

/// What another replica gives back is seen when the refusal is not believed any
/// more, and until then nothing is admitted.
#[tokio::test]
async fn a_refund_elsewhere_is_seen_after_the_longest_time() {
    let Some(server) = RedisServer::redis() else { return };
    let here = believing(&server, Span::from_secs(1));
    let elsewhere = believing(&server, Span::from_secs(1));
    let limit = FixedWindow::new(Hits::new(5), MINUTE).expect("a window").with_count_refused(false);
    let limit = Limit::FixedWindow(limit);
    exhaust(&here, "a", limit, NOON).await;
    let back = plan().with("a", limit, Cost::Refund(Hits::new(1)), Role::Enforced).at(NOON);
    elsewhere.decide(&back).await.expect("an answer");
    let just_before = NOON.plus(Span::from_micros(999_999));
    assert!(ask(&here, &take("a", limit, 1).at(just_before)).await.1);
    let (verdict, near) = ask(&here, &take("a", limit, 1).at(NOON.plus(Span::from_secs(1)))).await;
    assert!(verdict.allowed && !near);
}

#[tokio::test]
async fn a_smaller_cost_and_a_check_ask_redis() {
    let Some(server) = RedisServer::redis() else { return };
    let store = believing(&server, Span::FOREVER);
    for limit in every_algorithm(10, MINUTE) {
        if let Limit::FixedWindow(_) | Limit::Lockout(_) = limit {
            continue;
        }
        store.decide(&take("a", limit, 8).at(NOON)).await.expect("an answer");
        for near in [false, true] {
            let (verdict, was_near) = ask(&store, &take("a", limit, 5).at(NOON)).await;
            assert_eq!((verdict.allowed, was_near), (false, near), "{limit}");
        }
        let (verdict, near) = ask(&store, &take("a", limit, 0).at(NOON)).await;
        assert!(verdict.allowed && !near, "{limit}");
        let (verdict, near) = ask(&store, &take("a", limit, 2).at(NOON)).await;
        assert!(verdict.allowed && !near, "{limit}");
    }
}

#[tokio::test]
async fn what_is_known_is_answered_while_redis_is_away() {
    let Some(mut server) = RedisServer::redis() else { return };
    let store = believing(&server, Span::from_secs(3_600));
    let limit = fixed_window(5, YEAR);
    for _ in 0..6 {
        store.decide(&take("a", limit, 1)).await.expect("an answer");
    }
    server.kill();
    let (verdict, near) = ask(&store, &take("a", limit, 1)).await;
    assert!(near && !verdict.allowed);
    store.decide(&take("b", limit, 1)).await.expect_err("Redis is away");
    // Of several, what is known stays known.
    let both = take("a", limit, 1).with("b", limit, Cost::Take(Hits::new(1)), Role::Enforced);
    match store.decide(&both).await {
        Err(StoreError::Partial(partial)) => {
            let known: Vec<_> = partial
                .verdicts
                .iter()
                .map(|verdict| verdict.map(|verdict| verdict.allowed))
                .collect();
            assert_eq!(known, [Some(false), None]);
        }
        other => panic!("{other:?}"),
    }
}

/// In a request whose limits stand alone, only those that are not known are asked.
#[tokio::test]
async fn what_is_known_of_a_request_is_not_asked() {
    let Some(server) = RedisServer::redis() else { return };
    let store = believing(&server, Span::FOREVER);
    let limit = fixed_window(5, MINUTE);
    exhaust(&store, "full", limit, NOON).await;
    let one = |plan: Plan, name: &str| {
        plan.with(name, limit, Cost::Take(Hits::new(1)), Role::Enforced).at(NOON)
    };
    let both = one(one(plan(), "full"), "free");
    for left in [4, 3, 2] {
        let answer = store.answer(&both).await.expect("an answer");
        assert_eq!(&answer.near[..], [true, false]);
        assert_eq!((answer.verdicts[0].allowed, answer.verdicts[1].allowed), (false, true));
        assert_eq!(answer.verdicts[1].remaining, Hits::new(left));
    }
    // Together, the free one depends on the full one.
    let answer = store.answer(&both.all_or_nothing()).await.expect("an answer");
    assert!(answer.near.is_empty());
    assert_eq!(answer.verdicts[1].remaining, Hits::new(2));
}

#[tokio::test]
async fn it_stays_within_its_bound() {
    let Some(server) = RedisServer::redis() else { return };
    let near = NearConfig { bytes: 64 << 10, longest: Span::from_secs(3_600) };
    let store = connect(&with_near(&server, near));
    let limit = fixed_window(0, YEAR);
    for call in 0..2_000 {
        store.decide(&take(&format!("key-{call}"), limit, 1)).await.expect("an answer");
    }
    let usage = store.sweep().expect("there is a near cache");
    assert!((50..400).contains(&usage.entries), "{usage:?}");
    assert_eq!(usage.evicted, 2_000 - usage.entries.unsigned_abs(), "{usage:?}");
}

/// Two charges on one key: the second is refused for the sake of the first, which
/// is taken back. Alone it passes.
#[tokio::test]
async fn a_refusal_for_the_sake_of_the_same_request_is_not_believed() {
    let Some(server) = RedisServer::redis() else { return };
    let store = believing(&server, Span::FOREVER);
    for limit in every_algorithm(5, MINUTE) {
        let limit = limit.refusing_for_free();
        if let Limit::Lockout(_) = limit {
            continue;
        }
        let three = |plan: Plan| plan.with("a", limit, Cost::Take(Hits::new(3)), Role::Enforced);
        let twice = three(three(plan())).all_or_nothing().at(NOON);
        let verdicts = store.decide(&twice).await.expect("an answer");
        assert_eq!((verdicts[0].allowed, verdicts[1].allowed), (true, false), "{limit}");
        let (verdict, near) = ask(&store, &three(plan()).at(NOON)).await;
        assert!(verdict.allowed && !near, "{limit}");
    }
}
