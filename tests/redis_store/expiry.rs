//! F19: every key expires, in time but not too late.

use tidegate::limit::fixed_window::Align;
use tidegate::limit::{
    Cost, FixedWindow, Gcra, Limit, Lockout, Rate, SlidingCounter, SlidingLog, TokenBucket,
};
use tidegate::store::{Plan, Role};
use tidegate::units::{Hits, Span};

use crate::plans::{PlanExt as _, YEAR, every_algorithm, fixed_window, plan, take};
use crate::redis::RedisServer;
use crate::{connect, patient, until};

const SECOND: Span = Span::from_secs(1);
const MINUTE: Span = Span::from_secs(60);

fn first_hit(limit: u64, window: Span) -> Limit {
    let limit = FixedWindow::new(Hits::new(limit), window).unwrap();
    Limit::FixedWindow(limit.with_align(Align::FirstHit))
}

fn log(limit: u64, window: Span, block: Span) -> Limit {
    Limit::SlidingLog(SlidingLog::new(Hits::new(limit), window, block, 1000).unwrap())
}

/// Rules, each with the longest time in milliseconds that what it stores means
/// anything.
fn rules() -> [(Limit, i64); 9] {
    let rate = Rate::new(Hits::new(3), Hits::new(1), SECOND).unwrap();
    let lockout = Lockout::new(Hits::new(3), MINUTE, Span::from_secs(90)).unwrap();
    let counter = SlidingCounter::new(Hits::new(3), MINUTE).unwrap();
    [
        (fixed_window(5, SECOND), 1_000),
        (fixed_window(5, MINUTE), 60_000),
        (first_hit(5, MINUTE), 60_000),
        (log(3, Span::from_secs(10), Span::from_secs(30)), 30_000),
        // The log outlives its window by a second.
        (log(3, MINUTE, Span::ZERO), 61_000),
        (Limit::SlidingCounter(counter), 120_000),
        (Limit::TokenBucket(TokenBucket::new(rate)), 3_000),
        (Limit::Gcra(Gcra::new(rate)), 3_000),
        (Limit::Lockout(lockout), 90_000),
    ]
}

/// Of all rules together, one hit for `name`.
fn hits(name: &str) -> Plan {
    let one = Cost::Take(Hits::new(1));
    rules().iter().fold(plan(), |plan, (rule, _)| plan.with(name, *rule, one, Role::Enforced))
}

/// While replicas change over to a rule that blocks.
#[tokio::test]
async fn a_rule_without_a_block_does_not_shorten_one_that_is_there() {
    let Some(server) = RedisServer::redis() else { return };
    let store = connect(&patient(server.url()));
    let blocks = log(1, SECOND, Span::from_secs(600));
    for allowed in [true, false] {
        assert_eq!(store.decide(&take("a", blocks, 1)).await.unwrap()[0].allowed, allowed);
    }
    store.decide(&take("a", log(10, SECOND, Span::ZERO), 1)).await.unwrap();
    let expiry: i64 = server.run(&["PTTL", &server.keys()[0]]);
    assert!(expiry > 500_000, "{expiry}");
}

#[tokio::test]
async fn f19_every_key_has_an_expiry_of_at_most_what_it_means() {
    for server in [RedisServer::redis(), RedisServer::valkey()].into_iter().flatten() {
        let store = connect(&patient(server.url()));
        for call in 0..200 {
            store.decide(&hits(&(call % 50).to_string())).await.unwrap();
        }
        let mut seen = 0;
        for (key, value, expiry) in server.contents() {
            let tag = key.rsplit('|').next().unwrap();
            let found = rules().into_iter().find(|(rule, _)| rule.to_string() == tag);
            let (_, most) = found.unwrap_or_else(|| panic!("{key} is of no rule"));
            // 0 is the last millisecond; a key without expiry has -1.
            assert!((0..=most).contains(&expiry), "{key}: {value} expires in {expiry} ms");
            seen += 1;
        }
        // Those of a second may be gone, and a minute of the clock may turn.
        assert!(seen >= 200, "only {seen} keys were there");
    }
}

#[tokio::test]
async fn f19_a_key_that_lost_its_expiry_has_one_after_the_next_hit() {
    let Some(server) = RedisServer::redis() else { return };
    let store = connect(&patient(server.url()));
    for (nth, limit) in every_algorithm(5, YEAR).into_iter().enumerate() {
        let plan = take("a", limit, 1);
        store.decide(&plan).await.unwrap();
        let key = server.keys().remove(0);
        let persisted: bool = server.run(&["PERSIST", &key]);
        assert!(persisted, "{limit}");
        let verdicts = store.decide(&plan).await.unwrap();
        assert_eq!(verdicts[0].remaining, Hits::new(3), "{limit}, {nth}: the count goes on");
        let expiry: i64 = server.run(&["PTTL", &key]);
        assert!(expiry > 0 && expiry <= 2 * 31_536_000_000, "{limit}: {expiry}");
        let () = server.run(&["DEL", &key]);
    }
}

/// F19.4.
#[tokio::test]
async fn f19_no_key_is_left_when_its_window_has_passed() {
    let Some(server) = RedisServer::redis() else { return };
    let store = connect(&patient(server.url()));
    let short = Span::from_millis(300);
    let rules = every_algorithm(2, short);
    let rules = rules.into_iter().chain([first_hit(2, short), log(2, short, short)]);
    let rules: Vec<_> = rules.collect();
    for name in 0..50 {
        for _ in 0..4 {
            let one = Cost::Take(Hits::new(1));
            let add =
                |plan: Plan, rule: &Limit| plan.with(&name.to_string(), *rule, one, Role::Enforced);
            store.decide(&rules.iter().fold(plan(), add)).await.unwrap();
        }
    }
    assert!(!server.keys().is_empty());
    until("all keys expired", || server.keys().is_empty()).await;
}

#[tokio::test]
async fn checks_and_refunds_create_no_key() {
    let Some(server) = RedisServer::redis() else { return };
    let store = connect(&patient(server.url()));
    for limit in every_algorithm(5, YEAR) {
        for cost in [Cost::Check, Cost::Refund(Hits::new(2)), Cost::Reset] {
            let asked = plan().with("a", limit, cost, Role::Enforced);
            let verdict = store.decide(&asked).await.unwrap()[0];
            assert_eq!((verdict.allowed, verdict.remaining), (true, Hits::new(5)), "{limit}");
        }
        let limit = limit.refusing_for_free();
        let refused = plan()
            .all_or_nothing()
            .with("a", limit, Cost::Take(Hits::new(4)), Role::Enforced)
            .with(
                "b",
                fixed_window(5, YEAR).refusing_for_free(),
                Cost::Take(Hits::new(6)),
                Role::Enforced,
            );
        assert!(!store.decide(&refused).await.unwrap()[1].allowed, "{limit}");
    }
    assert_eq!(server.keys(), Vec::<String>::new());
}

/// A log of a hundred hits stays in Redis' compact encoding.
#[tokio::test]
async fn a_log_of_a_hundred_hits_is_small() {
    let Some(server) = RedisServer::redis() else { return };
    let store = connect(&patient(server.url()));
    let log = SlidingLog::new(Hits::new(100), YEAR, Span::ZERO, 1000).unwrap();
    for _ in 0..100 {
        store.decide(&take("log", Limit::SlidingLog(log), 1)).await.unwrap();
    }
    let keys = server.keys();
    let key = keys.iter().find(|key| key.contains("name=log")).unwrap();
    let encoding: String = server.run(&["OBJECT", "ENCODING", key]);
    let bytes: usize = server.run(&["MEMORY", "USAGE", key]);
    // Before Redis 7, they are called ziplists.
    assert!(["listpack", "ziplist"].contains(&&*encoding), "{encoding}");
    assert!(bytes <= 3072, "{bytes} bytes");
}
