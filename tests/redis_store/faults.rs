//! A server that is away, hangs or comes back; callers that leave.

use std::sync::Arc;
use std::time::Instant;

use tidegate::store::redis::{RedisConfig, RedisStore};
use tidegate::store::{Circuit, Plan, StoreError};
use tidegate::units::{Hits, Span};
use tokio::task::JoinSet;

use crate::plans::{YEAR, fixed_window, take};
use crate::redis::{PATIENCE, RedisServer, free_port};
use crate::{connect, lanes, patient, recovered, until};

fn hit() -> Plan {
    take("a", fixed_window(1_000_000, YEAR), 1)
}

/// On a runtime of one thread: lets all other tasks run until they wait.
async fn lanes_run() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn without_a_server_decisions_fail_and_name_it() {
    let port = free_port();
    let store = connect(&patient(format!("redis://user:hush@127.0.0.1:{port}")));
    // With a deadline of many seconds, only an answer at once is in time for all.
    for _ in 0..100 {
        let text = store.decide(&hit()).await.expect_err("nobody is there").to_string();
        assert!(text.contains(&format!("127.0.0.1:{port}")), "{text}");
        assert!(text.contains("refused"), "{text}");
        assert!(!text.contains("hush"), "{text}");
    }
    assert!(matches!(store.ping().await, Err(StoreError::Unavailable(_))));
}

/// F26.4: the service is there before its store.
#[tokio::test]
async fn a_server_that_comes_later_is_found() {
    let Some(mut server) = RedisServer::redis() else { return };
    server.kill();
    let store = connect(&patient(server.url()));
    assert!(matches!(store.decide(&hit()).await, Err(StoreError::Unavailable(_))));
    server.restart();
    recovered(&store, &hit()).await;
    store.ping().await.unwrap();
}

/// F23.
#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_server_costs_the_deadline_and_no_more() {
    let Some(server) = RedisServer::redis() else { return };
    let store = connect(&RedisConfig { deadline: Span::from_millis(50), ..patient(server.url()) });
    recovered(&store, &hit()).await;
    server.freeze();
    match store.decide(&hit()).await {
        Err(StoreError::Timeout(after)) => assert_eq!(after, Span::from_millis(50)),
        other => panic!("{other:?}"),
    }
    // No call hangs, none is let through, and soon none waits any more.
    let mut suspended = false;
    let deadline = Instant::now() + PATIENCE;
    while !suspended {
        assert!(Instant::now() < deadline, "the breaker never opens");
        match store.decide(&hit()).await {
            Err(StoreError::Suspended(_)) => suspended = true,
            Err(StoreError::Timeout(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(store.health().borrow().circuit, Circuit::Open);
    server.thaw();
    recovered(&store, &hit()).await;
    until("connections are back at the number of lanes", || server.connections_of_the_store() == 2)
        .await;
}

/// Work for callers who have left is not done: what waited when the server hung
/// is not counted when it wakes.
#[tokio::test]
async fn a_server_that_wakes_finds_no_pile_of_stale_decisions() {
    let Some(server) = RedisServer::redis() else { return };
    let store = Arc::new(connect(&RedisConfig { lanes: lanes(1), ..patient(server.url()) }));
    recovered(&store, &hit()).await;
    server.freeze();
    let mut waiting = JoinSet::new();
    for _ in 0..4 {
        let patient = Arc::clone(&store);
        waiting.spawn(async move { patient.decide(&hit()).await });
        // The first is on its way before anybody leaves.
        lanes_run().await;
        for _ in 0..10 {
            leave_early(Arc::clone(&store), 3).await;
        }
    }
    server.thaw();
    for answer in waiting.join_all().await {
        answer.unwrap();
    }
    let left = store.decide(&take("a", fixed_window(1_000_000, YEAR), 0)).await.unwrap();
    assert_eq!(left[0].remaining, Hits::new(1_000_000 - 5));
}

#[tokio::test]
async fn a_full_queue_refuses_at_once() {
    let Some(server) = RedisServer::redis() else { return };
    let one = lanes(1);
    let config =
        RedisConfig { lanes: one, batch_max: one, queue_max: one, ..patient(server.url()) };
    let store = Arc::new(connect(&config));
    recovered(&store, &hit()).await;
    server.freeze();
    let mut calls = JoinSet::new();
    for _ in 0..10 {
        let store = Arc::clone(&store);
        calls.spawn(async move { store.decide(&hit()).await });
        lanes_run().await;
    }
    // One is on its way, one waits; all others are answered while the server hangs.
    for _ in 0..8 {
        match calls.join_next().await.unwrap().unwrap() {
            Err(StoreError::Overloaded(1)) => {}
            other => panic!("{other:?}"),
        }
    }
    server.thaw();
    let mut decided = 0;
    for answer in calls.join_all().await {
        match answer {
            Ok(verdicts) => decided += usize::from(verdicts[0].allowed),
            // A question of the store's own may have come in between.
            Err(StoreError::Overloaded(1)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(decided > 0);
}

/// F24.
#[tokio::test(flavor = "multi_thread")]
async fn callers_that_leave_take_nothing_with_them() {
    let Some(server) = RedisServer::redis() else { return };
    let store = Arc::new(connect(&patient(server.url())));
    recovered(&store, &hit()).await;
    until("all lanes are connected", || server.connections_of_the_store() == 2).await;
    for _ in 0..50 {
        let mut callers = JoinSet::new();
        for patience in 0..200 {
            callers.spawn(leave_early(Arc::clone(&store), patience % 8));
        }
        callers.join_all().await;
        assert_eq!(server.connections_of_the_store(), 2);
    }
    for _ in 0..100 {
        store.decide(&hit()).await.unwrap();
    }
    assert_eq!(server.connections_of_the_store(), 2);
}

/// Asks, and drops the call after it was polled so many times more.
async fn leave_early(store: Arc<RedisStore>, patience: u32) {
    let plan = hit();
    tokio::select! {
        biased;
        answer = store.decide(&plan) => {
            answer.unwrap();
        }
        () = async {
            for _ in 0..patience {
                tokio::task::yield_now().await;
            }
        } => {}
    }
}

/// A connection that was closed while idle is replaced before it is needed.
#[tokio::test(flavor = "multi_thread")]
async fn connections_closed_by_the_server_are_replaced() {
    let Some(server) = RedisServer::redis() else { return };
    let store = connect(&patient(server.url()));
    recovered(&store, &hit()).await;
    until("all lanes are connected", || server.connections_of_the_store() == 2).await;
    for _ in 0..5 {
        let killed: usize = server.run(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        assert!(killed >= 2, "{killed}");
        until("both are back", || server.connections_of_the_store() == 2).await;
        recovered(&store, &hit()).await;
    }
}

#[tokio::test]
async fn a_dropped_store_closes_its_connections() {
    let Some(server) = RedisServer::redis() else { return };
    let store = connect(&patient(server.url()));
    recovered(&store, &hit()).await;
    drop(store);
    until("no connection is left", || server.connections_of_the_store() == 0).await;
}

#[test]
fn outside_a_runtime_the_store_says_so() {
    let error = RedisStore::connect(&RedisConfig::new("redis://127.0.0.1")).unwrap_err();
    assert!(error.to_string().contains("Tokio runtime"), "{error}");
}
