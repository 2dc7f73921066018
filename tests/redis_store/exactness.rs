//! Never one too many, and no digit lost.

use std::collections::HashSet;
use std::sync::Arc;

use tidegate::limit::{Cost, Gcra, Limit, Rate, TokenBucket, Verdict};
use tidegate::store::memory::MemoryStore;
use tidegate::store::{Role, Store};
use tidegate::units::{Hits, Span, Timestamp};
use tokio::task::JoinSet;

use crate::plans::{PlanExt as _, YEAR, every_algorithm, fixed_window, plan, take};
use crate::redis::RedisServer;
use crate::{connect, patient};

const TASKS: u64 = 64;
const CALLS: u64 = 100;
const LIMIT: u64 = 1000;

const NOON: Timestamp = Timestamp::from_secs(1_796_040_000);

/// Two replicas of the service on one Redis.
fn two_stores(server: &RedisServer) -> Vec<Arc<Store>> {
    let urls = [server.url(), server.unix_url()];
    urls.map(|url| Arc::new(Store::Redis(connect(&patient(url))))).into()
}

/// Runs the callers, spread over `stores`, on one counter; gives the verdicts
/// with the weights that were asked. A weight is `1..=heaviest` by turns.
async fn storm(
    stores: &[Arc<Store>],
    name: &'static str,
    limit: Limit,
    heaviest: u64,
) -> Vec<(u64, Verdict)> {
    let mut callers = JoinSet::new();
    for (task, store) in (0..TASKS).zip(stores.iter().cycle()) {
        let store = Arc::clone(store);
        callers.spawn(async move {
            let mut seen = Vec::new();
            for call in 0..CALLS {
                let weight = 1 + (task + call) % heaviest;
                // In memory it is the plan that tells the time.
                let plan = take(name, limit, weight);
                let plan = if let Store::Memory(_) = &*store { plan.at(NOON) } else { plan };
                seen.push((weight, store.decide(&plan).await.unwrap()[0]));
            }
            seen
        });
    }
    callers.join_all().await.concat()
}

fn weight_admitted(answers: &[(u64, Verdict)]) -> u64 {
    answers.iter().filter(|(_, verdict)| verdict.allowed).map(|(weight, _)| weight).sum()
}

/// What may pass of [`LIMIT`]: the failure that reaches the maximum locks.
fn room(limit: &Limit) -> u64 {
    if let Limit::Lockout(_) = limit { LIMIT - 1 } else { LIMIT }
}

async fn admit_exactly_to_the_limit(stores: &[Arc<Store>]) {
    for limit in every_algorithm(LIMIT, YEAR) {
        let room = room(&limit);
        let answers = storm(stores, "single", limit, 1).await;
        assert_eq!(weight_admitted(&answers), room, "{limit}");
        let admitted = answers.iter().filter(|(_, verdict)| verdict.allowed);
        let left: HashSet<_> = admitted.map(|(_, verdict)| verdict.remaining).collect();
        assert_eq!(left.len() as u64, room, "{limit}: two callers were told the same remainder");

        let weighted = weight_admitted(&storm(stores, "weighted", limit, 7).await);
        assert!((room - 6..=room).contains(&weighted), "{limit}: {weighted} admitted");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f28_concurrent_callers_in_memory_are_admitted_exactly_to_the_limit() {
    admit_exactly_to_the_limit(&[Arc::new(Store::Memory(MemoryStore::default()))]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f28_concurrent_callers_of_two_replicas_are_admitted_exactly_to_the_limit() {
    let Some(server) = RedisServer::redis() else { return };
    admit_exactly_to_the_limit(&two_stores(&server)).await;
}

/// F27.2.
#[tokio::test]
async fn f27_numbers_keep_all_their_digits() {
    for server in [RedisServer::redis(), RedisServer::valkey()].into_iter().flatten() {
        let store = connect(&patient(server.url()));
        let plan = take("big", fixed_window(u64::from(u32::MAX), YEAR), u64::from(u32::MAX));
        for allowed in [true, false] {
            assert_eq!(store.decide(&plan).await.unwrap()[0].allowed, allowed);
        }
        let [(key, value, _)] = &server.contents()[..] else { panic!("one key") };
        let (count, end) = value.split_once(':').expect("count:end");
        assert_eq!(count, "8589934590", "{key}");
        assert_eq!(end.len(), 16, "microseconds until the year 2286 have 16 digits: {end}");
        assert!(end.bytes().all(|byte| byte.is_ascii_digit()), "{end}");
    }
}

/// F27.1: five seconds of calls, one each 500 us.
#[tokio::test]
async fn f27_a_thousand_per_second_are_a_thousand() {
    for server in [RedisServer::redis(), RedisServer::valkey()].into_iter().flatten() {
        let store = connect(&patient(server.url()));
        let rate = Rate::new(Hits::new(1), Hits::new(1000), Span::from_secs(1)).unwrap();
        let both = [Limit::TokenBucket(TokenBucket::new(rate)), Limit::Gcra(Gcra::new(rate))];
        let mut admitted = [0, 0];
        for call in 0..10_000 {
            let now = NOON.plus(Span::from_micros(call * 500));
            let plan = both.iter().fold(plan().at(now), |plan, limit| {
                plan.with("a", *limit, Cost::Take(Hits::new(1)), Role::Enforced)
            });
            let verdicts = store.decide(&plan).await.unwrap();
            for (admitted, verdict) in admitted.iter_mut().zip(&verdicts) {
                *admitted += u64::from(verdict.allowed);
            }
            if call % 997 == 0 {
                written_in_digits(&server);
            }
        }
        assert_eq!(admitted, [5_000, 5_000]);
    }
}

/// F27.3: what is stored tells microseconds apart.
#[tokio::test]
async fn f27_moments_that_differ_by_a_microsecond_are_stored_apart() {
    for server in [RedisServer::redis(), RedisServer::valkey()].into_iter().flatten() {
        let store = connect(&patient(server.url()));
        let stored = async |now: Timestamp| {
            let () = server.run(&["FLUSHALL"]);
            for limit in every_algorithm(10, Span::from_secs(60)) {
                store.decide(&take("a", limit, 1).at(now)).await.unwrap();
            }
            written_in_digits(&server);
            let mut contents = server.contents();
            contents.sort();
            contents.into_iter().map(|(key, value, _)| (key, value)).collect::<Vec<_>>()
        };
        let (now, next) = (NOON.plus(Span::from_micros(1)), NOON.plus(Span::from_micros(2)));
        let apart = stored(now).await.into_iter().zip(stored(next).await);
        let same: Vec<_> = apart.filter(|(one, two)| one == two).map(|(one, _)| one.0).collect();
        // Windows that are the same for both moments.
        assert_eq!(same, ["tidegate:1:test|name=a|fw60s", "tidegate:1:test|name=a|sc60s"]);
    }
}

/// No value has an exponent or a fraction.
fn written_in_digits(server: &RedisServer) {
    for (key, value, _) in server.contents() {
        assert!(!value.contains("e+") && !value.contains('.'), "{key}: {value}");
    }
}
