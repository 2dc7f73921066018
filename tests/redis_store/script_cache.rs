//! F21: the script cache is emptied.

use std::sync::Arc;

use tidegate::limit::Limit;
use tidegate::store::redis::RedisStore;
use tidegate::units::Hits;
use tokio::task::JoinSet;

use crate::plans::{YEAR, fixed_window, take};
use crate::redis::RedisServer;
use crate::{connect, patient, recovered};

const CALLERS: u64 = 8;

fn limit() -> Limit {
    fixed_window(1_000_000, YEAR)
}

/// Makes every caller take `calls` hits; all must succeed.
async fn traffic(store: &Arc<RedisStore>, calls: u64) {
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let store = Arc::clone(store);
        callers.spawn(async move {
            for _ in 0..calls {
                store.decide(&take("a", limit(), 1)).await.unwrap();
            }
        });
    }
    callers.join_all().await;
}

async fn count(store: &RedisStore) -> u64 {
    let verdicts = store.decide(&take("a", limit(), 0)).await.unwrap();
    1_000_000 - verdicts[0].remaining.get()
}

#[tokio::test(flavor = "multi_thread")]
async fn f21_flushing_scripts_fails_no_call_and_counts_none_twice() {
    for server in [RedisServer::redis(), RedisServer::valkey()].into_iter().flatten() {
        let config = patient(server.url());
        let store = Arc::new(connect(&config));
        let running = tokio::spawn({
            let store = Arc::clone(&store);
            async move { traffic(&store, 500).await }
        });
        for _ in 0..3 {
            // Traffic runs on before, between and after.
            let seen = server.calls("evalsha");
            while !running.is_finished() && server.calls("evalsha") < seen + 50 {
                tokio::task::yield_now().await;
            }
            let () = server.run(&["SCRIPT", "FLUSH"]);
        }
        running.await.unwrap();
        assert_eq!(count(&store).await, CALLERS * 500);
        // Each lane may have had a call on its way, at the start and at each flush.
        let uploads = server.calls("eval");
        let lanes = config.lanes.get() as u64;
        assert!((1..=4 * lanes).contains(&uploads), "the script was sent {uploads} times");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f21_decisions_go_on_after_a_restart_without_data() {
    let Some(mut server) = RedisServer::redis() else { return };
    let store = Arc::new(connect(&patient(server.url())));
    traffic(&store, 20).await;
    server.kill();
    assert!(store.decide(&take("a", limit(), 1)).await.is_err());
    server.restart();
    recovered(&store, &take("a", limit(), 1)).await;
    traffic(&store, 20).await;
    let verdicts = store.decide(&take("a", limit(), 0)).await.unwrap();
    assert_eq!(verdicts[0].remaining, Hits::new(1_000_000 - CALLERS * 20 - 1));
}
