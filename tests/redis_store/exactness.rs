//! Never one too many, and no digit lost.

use std::collections::HashSet;
use std::sync::Arc;

use tidegate::limit::Verdict;
use tidegate::store::redis::RedisStore;
use tokio::task::JoinSet;

use crate::plans::{YEAR, fixed_window, take};
use crate::redis::RedisServer;
use crate::{connect, patient};

const TASKS: u64 = 64;
const CALLS: u64 = 100;
const LIMIT: u64 = 1000;

/// Runs the callers, spread over `stores`, on one counter; gives the verdicts
/// with the weights that were asked. A weight is `1..=heaviest` by turns.
async fn storm(
    stores: &[Arc<RedisStore>],
    name: &'static str,
    heaviest: u64,
) -> Vec<(u64, Verdict)> {
    let mut callers = JoinSet::new();
    for (task, store) in (0..TASKS).zip(stores.iter().cycle()) {
        let store = Arc::clone(store);
        callers.spawn(async move {
            let mut seen = Vec::new();
            for call in 0..CALLS {
                let weight = 1 + (task + call) % heaviest;
                let plan = take(name, fixed_window(LIMIT, YEAR), weight);
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

/// F28.
#[tokio::test(flavor = "multi_thread")]
async fn f28_concurrent_callers_are_admitted_exactly_to_the_limit() {
    let Some(server) = RedisServer::redis() else { return };
    let stores = [Arc::new(connect(&patient(server.url())))];
    let answers = storm(&stores, "single", 1).await;
    assert_eq!(weight_admitted(&answers), LIMIT);
    let admitted = answers.iter().filter(|(_, verdict)| verdict.allowed);
    let left: HashSet<_> = admitted.map(|(_, verdict)| verdict.remaining).collect();
    assert_eq!(left.len() as u64, LIMIT, "two callers were told the same remainder");

    let weighted = weight_admitted(&storm(&stores, "weighted", 7).await);
    assert!((LIMIT - 6..=LIMIT).contains(&weighted), "{weighted} admitted");
}

/// F28: two replicas of the service.
#[tokio::test(flavor = "multi_thread")]
async fn f28_two_stores_share_one_limit_exactly() {
    let Some(server) = RedisServer::redis() else { return };
    let stores =
        [connect(&patient(server.url())), connect(&patient(server.unix_url()))].map(Arc::new);
    assert_eq!(weight_admitted(&storm(&stores, "shared", 1).await), LIMIT);
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
