//! F25: what the store needs to be allowed, and what it says without.

use tidegate::limit::{
    Cost, FixedWindow, Gcra, Limit, Lockout, Rate, SlidingCounter, SlidingLog, TokenBucket,
};
use tidegate::store::redis::{RedisConfig, ScriptRuntime};
use tidegate::store::{Cause, Role, StoreError};
use tidegate::units::{Hits, Span, Timestamp};

use crate::functions::servers;
use crate::plans::{PlanExt as _, YEAR, fixed_window, plan, take};
use crate::redis::RedisServer;
use crate::{allowed, connect, patient};

/// A user with these rights alone, and how it connects.
fn user(server: &RedisServer, rights: &[&str]) -> RedisConfig {
    let rule = [&["ACL", "SETUSER", "limited", "on", ">hush", "resetkeys"], rights].concat();
    let () = server.run(&rule);
    patient(format!("redis://limited:hush@127.0.0.1:{}", server.port()))
}

/// The rights that the README tells to give.
fn documented_rights() -> Vec<&'static str> {
    let readme = include_str!("../../README.md");
    let rule =
        readme.lines().find_map(|line| line.strip_prefix("ACL SETUSER tidegate on >PASSWORD "));
    rule.expect("a rule in the README").split(' ').collect()
}

/// The same for functions.
fn documented_rights_for_functions() -> Vec<&'static str> {
    let rights = documented_rights().into_iter().filter(|right| !right.starts_with("+eval"));
    let readme = include_str!("../../README.md");
    assert!(readme.contains("`+fcall +function|load`\ninstead of `+evalsha +eval`"));
    rights.chain(["+fcall", "+function|load"]).collect()
}

#[tokio::test]
async fn the_documented_rights_are_enough_for_functions() {
    for server in servers() {
        let user = user(&server, &documented_rights_for_functions());
        let store = connect(&RedisConfig { script: ScriptRuntime::Function, ..user });
        let hit = take("a", fixed_window(3, YEAR), 1);
        assert!(allowed(&store, &hit).await.unwrap());
        let () = server.run(&["FUNCTION", "FLUSH"]);
        assert!(allowed(&store, &hit).await.unwrap());
        let () = server.run(&["ACL", "SETUSER", "limited", "-function|load"]);
        assert!(allowed(&store, &hit).await.unwrap(), "it is loaded");
        let () = server.run(&["FUNCTION", "FLUSH"]);
        let error = store.decide(&hit).await.unwrap_err().to_string();
        assert!(error.contains("function|load"), "{error}");
    }
}

#[tokio::test]
async fn the_documented_rights_are_enough_also_after_a_flush() {
    for server in [RedisServer::redis(), RedisServer::valkey()].into_iter().flatten() {
        let store = connect(&user(&server, &documented_rights()));
        let hit = take("a", fixed_window(2, YEAR), 1);
        assert!(allowed(&store, &hit).await.unwrap());
        let () = server.run(&["SCRIPT", "FLUSH"]);
        assert!(allowed(&store, &hit).await.unwrap());
        assert!(!allowed(&store, &hit).await.unwrap());
        let reset = plan().with("a", fixed_window(2, YEAR), Cost::Reset, Role::Enforced);
        assert!(allowed(&store, &reset).await.unwrap());
        assert_eq!(server.keys(), Vec::<String>::new());
        store.ping().await.unwrap();
    }
}

/// Every command that the script may need: hits, refusals with a block, refunds,
/// a clock that steps back, resets.
#[tokio::test]
async fn the_documented_rights_are_enough_for_every_algorithm() {
    let Some(server) = RedisServer::redis() else { return };
    let store = connect(&user(&server, &documented_rights()));
    let day = Span::from_secs(86_400);
    let rate = Rate::new(Hits::new(2), Hits::new(2), day).unwrap();
    let limits = [
        Limit::FixedWindow(FixedWindow::new(Hits::new(2), day).unwrap()),
        Limit::SlidingLog(SlidingLog::new(Hits::new(2), day, day, 1000).unwrap()),
        Limit::SlidingLog(SlidingLog::new(Hits::new(2), day, Span::ZERO, 1000).unwrap()),
        Limit::SlidingCounter(SlidingCounter::new(Hits::new(2), day).unwrap()),
        Limit::TokenBucket(TokenBucket::new(rate)),
        Limit::Gcra(Gcra::new(rate)),
        Limit::Lockout(Lockout::new(Hits::new(2), day, day).unwrap()),
    ];
    let one = Hits::new(1);
    let costs = [Cost::Take(one), Cost::Take(one), Cost::Take(one), Cost::Refund(one)];
    let mut now = Timestamp::from_secs(1_796_004_780);
    for limit in limits {
        for cost in costs.into_iter().chain([Cost::Take(one), Cost::Check, Cost::Reset]) {
            now = now.minus(Span::from_secs(7));
            let plan = plan().at(now).with("all", limit, cost, Role::Enforced);
            store.decide(&plan).await.unwrap_or_else(|error| panic!("{limit}, {cost:?}: {error}"));
        }
    }
}

#[tokio::test]
async fn missing_rights_are_named() {
    let Some(server) = RedisServer::redis() else { return };
    let cases: [(&[&str], &str); 3] = [
        (&["~tidegate:*", "+time", "+get", "+psetex"], "evalsha"),
        (&["~tidegate:*", "+evalsha", "+eval", "+time", "+psetex"], "the README lists"),
        (&["~other:*", "+evalsha", "+eval", "+time", "+get", "+psetex"], "NOPERM"),
    ];
    for (rights, named) in cases {
        let store = connect(&user(&server, rights));
        let error = store.decide(&take("a", fixed_window(2, YEAR), 1)).await.unwrap_err();
        assert!(error.to_string().contains(named), "{rights:?}: {error}");
        match error {
            StoreError::Unavailable(outage) | StoreError::Counter(outage) => {
                assert_eq!(outage.cause, Cause::Permission, "{rights:?}");
            }
            other => panic!("{other:?}"),
        }
        let () = server.run(&["ACL", "DELUSER", "limited"]);
    }
    assert_eq!(server.keys(), Vec::<String>::new());
}

#[tokio::test]
async fn a_wrong_password_is_told_without_it() {
    let Some(server) = RedisServer::redis() else { return };
    let () = server.run(&["ACL", "SETUSER", "limited", "on", ">right", "~*", "+@all"]);
    let store = connect(&patient(format!("redis://limited:hush@127.0.0.1:{}", server.port())));
    let text = store.ping().await.unwrap_err().to_string();
    assert!(text.contains(&format!("127.0.0.1:{}", server.port())), "{text}");
    assert!(text.to_lowercase().contains("password"), "{text}");
    assert!(!text.contains("hush"), "{text}");
}

#[tokio::test]
async fn the_database_and_the_prefix_are_those_of_the_configuration() {
    let Some(server) = RedisServer::redis() else { return };
    let config = RedisConfig { key_prefix: "mine:".into(), ..patient(server.url() + "/3") };
    let store = connect(&config);
    assert!(allowed(&store, &take("a", fixed_window(2, YEAR), 1)).await.unwrap());
    assert_eq!(server.keys(), Vec::<String>::new());
    let () = server.run(&["SWAPDB", "0", "3"]);
    assert_eq!(server.keys(), ["mine:test|name=a|fw31536000s"]);
}
