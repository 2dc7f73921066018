//! What is foreign, malformed or forbidden harms nobody else, and leaves
//! nothing half done.

use std::sync::Arc;

use tidegate::limit::Cost;
use tidegate::store::redis::RedisConfig;
use tidegate::store::{Cause, Outage, Role, StoreError};
use tidegate::units::Hits;
use tokio::task::JoinSet;

use crate::plans::{PlanExt as _, YEAR, every_algorithm, fixed_window, plan, take};
use crate::redis::RedisServer;
use crate::{allowed, connect, lanes, patient, recovered, until};

/// Makes the key of counter `name` something else, and gives its name in Redis.
async fn foreign_key(server: &RedisServer, name: &str) -> String {
    let store = connect(&patient(server.url()));
    store.decide(&take(name, fixed_window(10, YEAR), 1)).await.unwrap();
    let key = server.keys().remove(0);
    let () = server.run(&["DEL", &key]);
    let () = server.run(&["SADD", &key, "member"]);
    key
}

#[tokio::test]
async fn a_key_of_another_type_fails_its_own_request_only() {
    let Some(server) = RedisServer::redis() else { return };
    let key = foreign_key(&server, "secret").await;
    let store = Arc::new(connect(&RedisConfig { lanes: lanes(1), ..patient(server.url()) }));
    let mut calls = JoinSet::new();
    for call in 0..40 {
        let store = Arc::clone(&store);
        calls.spawn(async move {
            let foreign = call % 4 == 0;
            let plan = take("good", fixed_window(100, YEAR), 1);
            let cost = Cost::Take(Hits::new(1));
            let plan = if foreign {
                plan.with("secret", fixed_window(10, YEAR), cost, Role::Enforced)
            } else {
                plan
            };
            (foreign, store.decide(&plan).await)
        });
    }
    for (foreign, answer) in calls.join_all().await {
        match answer {
            Err(StoreError::Counter(Outage { cause: Cause::WrongType, text })) if foreign => {
                assert!(text.contains("WRONGTYPE"), "{text}");
                assert!(!text.contains("secret"), "{text}");
            }
            Ok(verdicts) if !foreign => assert!(verdicts[0].allowed),
            other => panic!("foreign: {foreign}, {other:?}"),
        }
    }
    let left = store.decide(&take("good", fixed_window(100, YEAR), 0)).await.unwrap();
    assert_eq!(left[0].remaining, Hits::new(70), "failed requests charge nothing");
    let kind: String = server.run(&["TYPE", &key]);
    assert_eq!(kind, "set", "what is not ours stays as it is");
}

/// A failed request names a new key twice, after the key that fails it: of what
/// comes later in a request that has failed, nothing is known.
#[tokio::test]
async fn keys_after_one_that_cannot_be_read_harm_nobody() {
    let Some(server) = RedisServer::redis() else { return };
    foreign_key(&server, "secret").await;
    let store = Arc::new(connect(&RedisConfig { lanes: lanes(1), ..patient(server.url()) }));
    let one = Cost::Take(Hits::new(1));
    for limit in every_algorithm(10, YEAR) {
        let mut calls = JoinSet::new();
        for call in 0..8 {
            let store = Arc::clone(&store);
            calls.spawn(async move {
                let foreign = call % 2 == 0;
                let plan = if foreign {
                    let plan = take("secret", fixed_window(10, YEAR), 1);
                    let plan = plan.with("new", limit, one, Role::Enforced);
                    plan.with("new", limit, one, Role::Enforced)
                } else {
                    take("good", limit, 1)
                };
                (foreign, store.decide(&plan).await)
            });
        }
        for (foreign, answer) in calls.join_all().await {
            match answer {
                Err(StoreError::Counter(Outage { cause: Cause::WrongType, .. })) if foreign => {}
                Ok(verdicts) if !foreign => assert!(verdicts[0].allowed, "{limit}"),
                other => panic!("{limit}: foreign: {foreign}, {other:?}"),
            }
        }
        let left = store.decide(&take("new", limit, 1)).await.unwrap();
        assert_eq!(left[0].remaining, Hits::new(9), "{limit}: failed requests charge nothing");
    }
}

/// F26.1.
#[tokio::test]
async fn without_memory_nothing_is_charged_by_halves() {
    let Some(server) = RedisServer::redis() else { return };
    let store = connect(&patient(server.url()));
    let limit = fixed_window(10, YEAR);
    assert!(allowed(&store, &take("old", limit, 1)).await.unwrap());
    let both = take("old", limit, 1).with("new", limit, Cost::Take(Hits::new(1)), Role::Enforced);
    let () = server.run(&["CONFIG", "SET", "maxmemory", "1"]);
    match store.decide(&both).await {
        Err(StoreError::Unavailable(outage)) => assert_eq!(outage.cause, Cause::OutOfMemory),
        other => panic!("{other:?}"),
    }
    let () = server.run(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(server.keys().len(), 1, "no key of the failed request");
    let verdicts = store.decide(&both).await.unwrap();
    assert_eq!([verdicts[0].remaining, verdicts[1].remaining], [Hits::new(8), Hits::new(9)]);
}

/// A master that became a replica refuses writes. It stays one, and the name
/// may lead to the new master: the lane connects again.
#[tokio::test]
async fn a_server_that_became_a_replica_is_left() {
    let Some(server) = RedisServer::redis() else { return };
    let store = connect(&RedisConfig { lanes: lanes(1), ..patient(server.url()) });
    let plan = take("a", fixed_window(10, YEAR), 1);
    store.decide(&plan).await.unwrap();
    let () = server.run(&["REPLICAOF", "127.0.0.1", "1"]);
    let handshakes = server.calls("hello");
    match store.decide(&plan).await {
        Err(StoreError::Unavailable(outage)) => assert_eq!(outage.cause, Cause::ReadOnly),
        other => panic!("{other:?}"),
    }
    until("the lane connects again", || server.calls("hello") > handshakes).await;
    let () = server.run(&["REPLICAOF", "NO", "ONE"]);
    recovered(&store, &plan).await;
    let verdicts = store.decide(&take("a", fixed_window(10, YEAR), 0)).await.unwrap();
    assert_eq!(verdicts[0].remaining, Hits::new(8), "counts survive");
}

#[tokio::test]
async fn a_request_without_charges_needs_no_server() {
    let store = connect(&patient("redis://127.0.0.1:1"));
    assert!(store.decide(&plan()).await.unwrap().is_empty());
}
