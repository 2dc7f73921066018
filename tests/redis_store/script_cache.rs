//! F21: what Redis keeps of the script is lost.

use std::sync::Arc;

use tidegate::limit::{Cost, Limit};
use tidegate::store::redis::{RedisConfig, RedisStore, ScriptRuntime};
use tidegate::store::{Plan, Role};
use tidegate::units::Hits;
use tokio::task::JoinSet;

use crate::functions::servers;
use crate::plans::{PlanExt as _, YEAR, every_algorithm, plan};
use crate::redis::RedisServer;
use crate::{connect, patient, recovered};

const CALLERS: u64 = 8;
const LIMIT: u64 = 1000;

/// A runtime, the command that runs the script, the one that sends it, and what
/// makes Redis forget it.
type Way = (ScriptRuntime, &'static str, &'static str, &'static [&'static str]);

const EVAL: Way = (ScriptRuntime::Eval, "evalsha", "eval", &["SCRIPT", "FLUSH"]);
const FUNCTION: Way = (ScriptRuntime::Function, "fcall", "function|load", &["FUNCTION", "FLUSH"]);

/// One charge of each algorithm.
fn each(hits: u64) -> Plan {
    let cost = Cost::take(Hits::new(hits));
    let add = |plan: Plan, limit: Limit| plan.with("a", limit, cost, Role::Enforced);
    every_algorithm(LIMIT, YEAR).into_iter().fold(plan(), add)
}

/// Makes every caller take `calls` hits; all must succeed.
async fn traffic(store: &Arc<RedisStore>, calls: u64) {
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let store = Arc::clone(store);
        callers.spawn(async move {
            for _ in 0..calls {
                store.decide(&each(1)).await.unwrap();
            }
        });
    }
    callers.join_all().await;
}

/// What each algorithm has counted; the same for all, or it is told.
async fn count(store: &RedisStore) -> u64 {
    let verdicts = store.decide(&each(0)).await.unwrap();
    let counts: Vec<_> = verdicts.iter().map(|one| LIMIT - one.remaining.get()).collect();
    assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
    counts[0]
}

async fn flush_during_traffic(server: &RedisServer, way: Way) {
    let (script, call, upload, flush) = way;
    let config = RedisConfig { script, ..patient(server.url()) };
    let store = Arc::new(connect(&config));
    let running = tokio::spawn({
        let store = Arc::clone(&store);
        async move { traffic(&store, 100).await }
    });
    for _ in 0..3 {
        // Traffic runs on before, between and after.
        let seen = server.calls(call);
        while !running.is_finished() && server.calls(call) < seen + 20 {
            tokio::task::yield_now().await;
        }
        let () = server.run(flush);
    }
    running.await.unwrap();
    assert_eq!(count(&store).await, CALLERS * 100);
    // Each lane may have had a call on its way, at the start and at each flush.
    let uploads = server.calls(upload);
    let lanes = config.lanes.get() as u64;
    assert!((1..=4 * lanes).contains(&uploads), "the script was sent {uploads} times");
}

#[tokio::test(flavor = "multi_thread")]
async fn f21_flushing_scripts_fails_no_call_and_counts_none_twice() {
    for server in [RedisServer::redis(), RedisServer::valkey()].into_iter().flatten() {
        flush_during_traffic(&server, EVAL).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f21_flushing_functions_fails_no_call_and_counts_none_twice() {
    for server in servers() {
        flush_during_traffic(&server, FUNCTION).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f21_decisions_go_on_after_a_restart_without_data() {
    for script in [ScriptRuntime::Eval, ScriptRuntime::Function] {
        let Some(mut server) = RedisServer::redis() else { return };
        if script == ScriptRuntime::Function {
            let Some(able) = server.with_functions() else { return };
            server = able;
        }
        let store = Arc::new(connect(&RedisConfig { script, ..patient(server.url()) }));
        traffic(&store, 20).await;
        server.kill();
        assert!(store.decide(&each(1)).await.is_err());
        server.restart();
        recovered(&store, &each(1)).await;
        traffic(&store, 20).await;
        assert_eq!(count(&store).await, CALLERS * 20 + 1);
    }
}
