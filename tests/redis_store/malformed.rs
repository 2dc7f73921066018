//! Values that somebody else wrote: each counts as none, harms nobody else and is
//! replaced by the next hit.

use tidegate::limit::{Cost, Limit};
use tidegate::store::redis::RedisStore;
use tidegate::store::{Role, StoreError};
use tidegate::units::{Hits, Span};

use crate::plans::{PlanExt as _, YEAR, every_algorithm, plan, take};
use crate::redis::RedisServer;
use crate::{connect, patient};

/// Texts that are no state of any algorithm.
const NONSENSE: [&str; 13] = [
    "",
    ":",
    "::",
    "x",
    "x:y",
    "x:y:z",
    "-1",
    "1e15",
    "nan:inf",
    "99999999999999999999",
    "5:99999999999999999999:1",
    "5:5:5:5",
    "\u{0}\u{ff}",
];

/// Of those that keep a text, which is not the log.
fn keeping_texts() -> impl Iterator<Item = Limit> {
    every_algorithm(10, YEAR).into_iter().filter(|limit| !matches!(limit, Limit::SlidingLog(_)))
}

fn log() -> Limit {
    every_algorithm(10, YEAR)[1]
}

/// One hit, which must find nothing and be written like the first of all.
async fn first_hit(server: &RedisServer, store: &RedisStore, limit: Limit, key: &str, what: &str) {
    // Beside another of the same call, which it must not harm.
    let both = take("a", limit, 1).with("b", limit, Cost::Take(Hits::new(1)), Role::Enforced);
    let () = server.run(&["DEL", &key.replace("name=a", "name=b")]);
    let verdicts = store.decide(&both).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(verdicts[0].remaining, Hits::new(9), "{limit}: {what}");
    assert_eq!(verdicts[1].remaining, Hits::new(9), "{limit}: {what}");
    let again = store.decide(&take("a", limit, 1)).await.unwrap();
    assert_eq!(again[0].remaining, Hits::new(8), "{limit}: {what}");
    let expiry: i64 = server.run(&["PTTL", key]);
    assert!(expiry > 0, "{limit}: {what} is left for ever");
}

async fn key_of(server: &RedisServer, store: &RedisStore, limit: Limit) -> String {
    let () = server.run(&["FLUSHALL"]);
    store.decide(&take("a", limit, 1)).await.unwrap();
    server.keys().remove(0)
}

#[tokio::test]
async fn a_malformed_text_counts_as_none() {
    let Some(server) = RedisServer::redis() else { return };
    let store = connect(&patient(server.url()));
    for limit in keeping_texts() {
        let key = key_of(&server, &store, limit).await;
        let of_this_algorithm: &[&str] = match limit {
            Limit::FixedWindow(_) => {
                &["5", "5:", ":5", "-1:9007199254740000", "5:1:9007199254740000"]
            }
            Limit::SlidingCounter(_) => &["5:5", "5:-5:9007199254740000", "5:5:1", "5:5:1e300"],
            Limit::TokenBucket(_) => &["5", "1.5:9007199254740000", "5:1", "5:"],
            Limit::Gcra(_) => &["5", "5:", "5:6", ":6", "-9007199254740000", "9007199254740993"],
            _ => &["!", "!5", "!99999999999999999999", "5", "5*", "*5", "5*5", ",", "1e15*5"],
        };
        for value in NONSENSE.iter().chain(of_this_algorithm) {
            let () = server.run(&["SET", &key, value]);
            first_hit(&server, &store, limit, &key, &format!("{value:?}")).await;
        }
    }
}

/// Such as by `redis-cli -x`, which adds a line end.
#[tokio::test]
async fn a_number_counts_however_somebody_wrote_it() {
    let Some(server) = RedisServer::redis() else { return };
    let store = connect(&patient(server.url()));
    let limit = every_algorithm(10, YEAR)[0];
    let key = key_of(&server, &store, limit).await;
    for value in ["5:9007199254740000\n", "0x5:9007199254740000"] {
        let () = server.run(&["SET", &key, value]);
        let verdict = store.decide(&take("a", limit, 1)).await.unwrap()[0];
        assert_eq!(verdict.remaining, Hits::new(4), "{value:?}");
    }
}

#[tokio::test]
async fn a_sorted_set_that_is_no_log_counts_as_none() {
    let Some(server) = RedisServer::redis() else { return };
    let store = connect(&patient(server.url()));
    let key = key_of(&server, &store, log()).await;
    let sets: [&[&str]; 12] = [
        &["9007199254740000", "foreign"],
        &["9007199254740000", ""],
        &["9007199254740000", "A1"],
        &["9007199254740000", "a1.5"],
        &["9007199254740000", "z99999999999999999999"],
        &["9007199254740000", "z1796040000000000"],
        &["1796040000000000.5", "a1"],
        &["+inf", "a1"],
        &["+inf", "b"],
        &["-inf", "b"],
        &["1e300", "z1", "5", "a1"],
        &["-5", "a1"],
    ];
    for set in sets {
        let () = server.run(&["DEL", &key]);
        let _: usize = server.run(&[&["ZADD", &*key], set].concat());
        first_hit(&server, &store, log(), &key, &format!("{set:?}")).await;
    }
}

/// What is well formed but cannot be: it neither breaks the script nor refuses for
/// longer than the limit itself ever does.
#[tokio::test]
async fn an_absurd_state_refuses_no_longer_than_a_real_one() {
    let Some(server) = RedisServer::redis() else { return };
    let store = connect(&patient(server.url()));
    let minute = Span::from_secs(60);
    let most = "4503599627370496";
    let never = "9007199254740992";
    for limit in every_algorithm(10, minute) {
        let key = key_of(&server, &store, limit).await;
        let () = server.run(&["DEL", &key]);
        let _: Option<String> = match limit {
            Limit::FixedWindow(_) | Limit::TokenBucket(_) => {
                server.run(&["SET", &key, &format!("{most}:{never}")])
            }
            Limit::SlidingLog(_) => server.run(&["ZADD", &key, "GT", "INCR", never, "b1"]),
            Limit::SlidingCounter(_) => {
                server.run(&["SET", &key, &format!("{most}:{most}:{never}")])
            }
            Limit::Gcra(_) => server.run(&["SET", &key, &format!("{never}:{most}")]),
            Limit::Lockout(_) => server.run(&["SET", &key, &format!("!{never}")]),
        };
        let verdict = store.decide(&take("a", limit, 1)).await.unwrap()[0];
        let longest = Span::from_micros(2 * minute.as_micros());
        assert!(verdict.allowed || verdict.retry_after <= longest, "{limit}: {verdict:?}");
        assert!(verdict.reset_after <= longest, "{limit}: {verdict:?}");
        let expiry: i64 = server.run(&["PTTL", &key]);
        // GCRA makes nothing of a moment so far away, and the log waits to see
        // whether the clock comes back.
        assert!(expiry > 0 || expiry == -2, "{limit} is left for ever");
    }
}

#[tokio::test]
async fn a_key_of_another_type_is_told_for_every_algorithm() {
    let Some(server) = RedisServer::redis() else { return };
    let store = connect(&patient(server.url()));
    for limit in every_algorithm(10, YEAR) {
        let key = key_of(&server, &store, limit).await;
        let () = server.run(&["DEL", &key]);
        let _: Option<String> = match limit {
            Limit::SlidingLog(_) => server.run(&["SET", &key, "5:9007199254740000"]),
            _ => server.run(&["ZADD", &key, "INCR", "1796040000000000", "a1"]),
        };
        let other = plan().with("a", limit, Cost::Take(Hits::new(1)), Role::Enforced).with(
            "b",
            limit,
            Cost::Take(Hits::new(1)),
            Role::Enforced,
        );
        match store.decide(&other).await {
            Err(StoreError::Counter(outage)) => {
                assert!(outage.to_string().contains("WRONGTYPE"), "{limit}: {outage}");
            }
            answer => panic!("{limit}: {answer:?}"),
        }
        assert_eq!(server.keys(), [key], "{limit}: nothing of a failed request is charged");
    }
}
