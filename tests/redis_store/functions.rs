//! Redis Functions: the library, and those who share a server.

use std::sync::Arc;

use deadpool_redis::redis::{Value, from_redis_value};
use tidegate::store::StoreError;
use tidegate::store::redis::{RedisConfig, ScriptRuntime};
use tidegate::units::Hits;
use tokio::task::JoinSet;

use crate::plans::{YEAR, fixed_window, take};
use crate::redis::RedisServer;
use crate::{allowed, connect, patient};

/// A library of another release, whose name and function only differ in the hash.
const OTHER: &str = "tidegate_0123456789abcdef";
const OTHER_RELEASE: &str = "#!lua name=tidegate_0123456789abcdef\n\
     redis.register_function('tidegate_0123456789abcdef', function() return 'other' end)";

fn by_function(server: &RedisServer) -> RedisConfig {
    RedisConfig { script: ScriptRuntime::Function, ..patient(server.url()) }
}

/// Redis and Valkey, where they have functions.
pub fn servers() -> impl Iterator<Item = RedisServer> {
    let all = [RedisServer::redis(), RedisServer::valkey()].into_iter().flatten();
    all.filter_map(RedisServer::with_functions)
}

/// The names of the libraries that the server has.
fn libraries(server: &RedisServer) -> Vec<String> {
    let listed: Vec<Vec<Value>> = server.run(&["FUNCTION", "LIST"]);
    // A library is told as fields and values in turn; its name is the first.
    let name = |library: Vec<Value>| from_redis_value(library[1].clone()).expect("a name");
    listed.into_iter().map(name).collect()
}

#[tokio::test]
async fn two_releases_share_a_server() {
    for server in servers() {
        let () = server.run(&["FUNCTION", "LOAD", OTHER_RELEASE]);
        let store = connect(&by_function(&server));
        assert!(allowed(&store, &take("a", fixed_window(1, YEAR), 1)).await.unwrap());
        let names = libraries(&server);
        let ours = names.iter().find(|name| *name != OTHER).expect("our library");
        let hash = ours.strip_prefix("tidegate_").expect("our name");
        assert!(hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{ours}");
        // Whoever cleans up may delete a library that is in use: it comes back.
        let () = server.run(&["FUNCTION", "DELETE", ours]);
        assert!(!allowed(&store, &take("a", fixed_window(1, YEAR), 1)).await.unwrap());
        assert_eq!(libraries(&server).len(), 2);
        let said: String = server.run(&["FCALL", OTHER, "0"]);
        assert_eq!(said, "other", "what is not ours stays");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_may_load_the_library_at_once() {
    for server in servers() {
        let stores: Vec<_> = (0..16).map(|_| Arc::new(connect(&by_function(&server)))).collect();
        for round in 1..=5 {
            let mut calls = JoinSet::new();
            for store in &stores {
                let store = Arc::clone(store);
                calls.spawn(
                    async move { store.decide(&take("a", fixed_window(99, YEAR), 1)).await },
                );
            }
            for answer in calls.join_all().await {
                assert!(answer.unwrap()[0].allowed);
            }
            let left = stores[0].decide(&take("a", fixed_window(99, YEAR), 0)).await.unwrap();
            assert_eq!(left[0].remaining, Hits::new(99 - 16 * round));
            assert_eq!(libraries(&server).len(), 1);
            let () = server.run(&["FUNCTION", "FLUSH"]);
        }
    }
}

/// The runtimes keep the same counters: one can follow the other.
#[tokio::test]
async fn the_runtime_may_change_without_losing_a_count() {
    let Some(server) = RedisServer::redis().and_then(RedisServer::with_functions) else { return };
    let (by_function, by_eval) = (connect(&by_function(&server)), connect(&patient(server.url())));
    for (store, left) in [(&by_function, 4), (&by_eval, 3), (&by_function, 2)] {
        let verdicts = store.decide(&take("a", fixed_window(5, YEAR), 1)).await.unwrap();
        assert_eq!(verdicts[0].remaining, Hits::new(left));
    }
}

/// Older than Redis 7.
#[tokio::test]
async fn a_server_without_functions_is_told_with_what_to_do() {
    const OLD: &[&str] = &["--rename-command", "FCALL", "", "--rename-command", "FUNCTION", ""];
    let Some(server) = RedisServer::redis() else { return };
    let server = match server.with_functions() {
        Some(_) => RedisServer::redis_with(OLD).expect("there is one"),
        // It is old.
        None => RedisServer::redis().expect("there is one"),
    };
    let store = connect(&by_function(&server));
    match store.decide(&take("secret", fixed_window(5, YEAR), 1)).await {
        Err(StoreError::Protocol(text)) => {
            assert!(text.contains("Redis 7") && text.contains("--redis-script eval"), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
        other => panic!("{other:?}"),
    }
    assert!(store.ping().await.is_err(), "not ready");
}
