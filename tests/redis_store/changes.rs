//! Rules that change while their keys are live: what is stored is never read as
//! something else, and no change gives more than one fresh limit.

use tidegate::limit::{Cost, Limit, Lockout, Rate, SlidingLog, TokenBucket, Verdict};
use tidegate::store::memory::MemoryStore;
use tidegate::store::{Role, Store};
use tidegate::units::{Hits, Span, Timestamp};

use crate::plans::{PlanExt as _, every_algorithm, plan, take};
use crate::redis::RedisServer;
use crate::{connect, patient};

const NOON: Timestamp = Timestamp::from_secs(1_796_040_000);
const MINUTE: Span = Span::from_secs(60);
const HOUR: Span = Span::from_secs(3_600);

/// Memory, and Redis where there is one.
fn stores(server: Option<&RedisServer>) -> Vec<Store> {
    let redis = server.map(|server| Store::Redis(connect(&patient(server.url()))));
    [Store::Memory(MemoryStore::default())].into_iter().chain(redis).collect()
}

async fn hit(store: &Store, name: &str, limit: Limit, hits: u64) -> Verdict {
    store.decide(&take(name, limit, hits).at(NOON)).await.expect("a decision")[0]
}

/// A lockout refuses the failure that reaches its maximum.
fn admits(limit: &Limit) -> u64 {
    limit.ceiling().get() - u64::from(matches!(limit, Limit::Lockout(_)))
}

#[tokio::test]
async fn another_algorithm_or_window_gives_one_fresh_limit_and_no_more() {
    let server = RedisServer::redis();
    for store in stores(server.as_ref()) {
        let rules: Vec<_> =
            [every_algorithm(5, MINUTE), every_algorithm(7, HOUR)].concat().into_iter().collect();
        for (nth, before) in rules.iter().enumerate() {
            for (other, after) in rules.iter().enumerate().filter(|(other, _)| *other != nth) {
                let name = format!("{nth}-{other}");
                let mut admitted = 0;
                for turn in 0..60 {
                    let rule = if turn % 6 < 3 { before } else { after };
                    admitted += u64::from(hit(&store, &name, *rule, 1).await.allowed);
                }
                assert_eq!(admitted, admits(before) + admits(after), "{before} and {after}");
            }
        }
    }
}

#[tokio::test]
async fn another_amount_keeps_what_was_counted() {
    let server = RedisServer::redis();
    for store in stores(server.as_ref()) {
        let of = |limit: u64| {
            let mut rules = every_algorithm(limit, MINUTE);
            // The rate stays, and how much fits changes.
            let rate = Rate::new(Hits::new(limit), Hits::new(1), MINUTE).unwrap();
            rules[3] = Limit::TokenBucket(TokenBucket::new(rate));
            rules
        };
        let rules = of(10).into_iter().zip(of(20)).zip(of(4));
        // GCRA's rate is its amount: another one is another key.
        for ((ten, twenty), four) in rules.filter(|((rule, _), _)| !matches!(rule, Limit::Gcra(_)))
        {
            let left = async |limit, hits| {
                let verdict = hit(&store, "a", limit, hits).await;
                (verdict.allowed, verdict.remaining.get())
            };
            assert_eq!(left(ten, 6).await, (true, 4), "{ten}");
            assert_eq!(left(twenty, 1).await, (true, 13), "{ten}: raised");
            assert_eq!(left(four, 0).await.1, 0, "{ten}: lowered below what is used");
            assert!(!left(four, 1).await.0, "{ten}: lowered below what is used");
        }
    }
}

/// A lock or block is not longer than the rule says now, and what is told is true.
#[tokio::test]
async fn a_shorter_lock_or_block_takes_effect() {
    let server = RedisServer::redis();
    let two = Hits::new(2);
    let lockout = |lock| Limit::Lockout(Lockout::new(two, MINUTE, lock).unwrap());
    let log = |block| Limit::SlidingLog(SlidingLog::new(two, MINUTE, block, 1000).unwrap());
    let short = Span::from_secs(90);
    for store in stores(server.as_ref()) {
        for (long, shorter) in [(lockout(HOUR), lockout(short)), (log(HOUR), log(short))] {
            hit(&store, "a", long, 2).await;
            assert_eq!(hit(&store, "a", long, 1).await.retry_after, HOUR, "{long}");
            let ask = async |after: Span| {
                let check = plan().at(NOON.plus(after));
                let check = check.with("a", shorter, Cost::Check, Role::Enforced);
                store.decide(&check).await.expect("a decision")[0]
            };
            assert_eq!(ask(Span::from_secs(1)).await.retry_after, short, "{long}");
            assert_eq!(ask(Span::from_secs(90)).await.retry_after, Span::from_secs(1), "{long}");
            assert!(ask(Span::from_secs(91)).await.allowed, "{long}");
        }
    }
}
