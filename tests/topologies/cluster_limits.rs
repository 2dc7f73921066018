//! Clusters of Redis and of Valkey: limits are kept to the unit.

use std::collections::BTreeSet;

use tidegate::proto::rate_limit_service_client::RateLimitServiceClient;
use tidegate::proto::{RateLimitRequest, RateLimitResponse};

use crate::cluster::{Cluster, Kind};
use crate::crowd::{ADMITTED, KEYS, RULES, channels, storm};
use crate::redis::RedisServer;
use crate::{EXACT, answers, ask, ask_for, serve, serve_rules, start_on};

async fn four_processes_share_limits(kind: Kind) {
    let Some(cluster) = Cluster::start_with(kind, 3, &[]) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let replicas =
        [(); 4].map(|()| start_on(&cluster, serve_rules(RULES, "20s", &cluster.url(), &directory)));
    let channels = channels(&replicas).await;
    for key in KEYS {
        assert_eq!(storm(&channels, (key, "one"), 64, 4).await, ADMITTED, "{key}");
    }
    let nodes = cluster.keys().into_iter().filter(|keys| !keys.is_empty()).count();
    assert!(nodes > 1, "all on one node: {:?}", cluster.keys());
}

#[tokio::test(flavor = "multi_thread")]
async fn four_processes_admit_exactly_the_limit_in_a_cluster_of_redis() {
    four_processes_share_limits(Kind::Redis).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn four_processes_admit_exactly_the_limit_in_a_cluster_of_valkey() {
    four_processes_share_limits(Kind::Valkey).await;
}

/// A rule with two rates, which must share a slot, beside those of every algorithm.
/// The amounts are more than F22 takes.
const TWO: &str = "  - {key: two, rate_limit: {rates: [{window: 2000d, limit: 300, align: first_hit}, {window: 3000d, limit: 900, align: first_hit}]}}\n";
const MANY_KEYS: [&str; 6] = ["fixed", "log", "counter", "bucket", "gcra", "two"];

/// A request with 20 descriptors of all kinds.
pub fn twenty() -> RateLimitRequest {
    let one = |nth: usize| format!("[{}={}]", MANY_KEYS[nth % MANY_KEYS.len()], nth);
    ask::request("t", &(0..20).map(one).collect::<Vec<_>>().join(", "))
}

pub fn left(response: &RateLimitResponse) -> BTreeSet<u32> {
    assert_eq!(response.statuses.len(), 20);
    response.statuses.iter().map(|status| status.limit_remaining).collect()
}

/// F22.
#[tokio::test(flavor = "multi_thread")]
async fn f22_twenty_descriptors_in_as_many_slots_are_counted_while_slots_move() {
    let Some(cluster) = Cluster::start_with(Kind::Redis, 3, &[]) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let rules = format!("{RULES}{TWO}");
    let gate = start_on(&cluster, serve_rules(&rules, "20s", &cluster.url(), &directory));
    let mut client = RateLimitServiceClient::new(gate.channel().await);
    for nth in 1..=50 {
        let response = client.should_rate_limit(twenty()).await.expect("an answer").into_inner();
        assert_eq!(left(&response), BTreeSet::from([300 - nth]), "{response:?}");
    }
    let keys = cluster.keys();
    assert!(keys.iter().all(|keys| !keys.is_empty()), "a node has none: {keys:?}");

    // Every slot of the first node that is in use goes to the second one.
    let slots: BTreeSet<u16> = keys[0].iter().map(|key| cluster.slot(key)).collect();
    let moving = std::thread::scope(|scope| {
        let mover = scope.spawn(|| {
            for &slot in &slots {
                cluster.begin_move(slot, 0, 1);
                while cluster.move_keys(slot, 0, 1, 1) > 0 {}
                cluster.end_move(slot, 0, 1);
            }
        });
        tokio::task::block_in_place(|| {
            let runtime = tokio::runtime::Handle::current();
            let mut calls = 50;
            while !mover.is_finished() && calls < 250 {
                calls += 1;
                let response = runtime.block_on(client.should_rate_limit(twenty()));
                let response = response.expect("an answer").into_inner();
                assert_eq!(left(&response), BTreeSet::from([300 - calls]), "{response:?}");
            }
            calls
        })
    });
    // Another process counts on, by functions.
    let launch = serve_rules(&rules, "20s", &cluster.url(), &directory);
    let other = start_on(&cluster, launch.args(["--redis-script", "function"]));
    let mut client = RateLimitServiceClient::new(other.channel().await);
    let response = client.should_rate_limit(twenty()).await.expect("an answer").into_inner();
    assert_eq!(left(&response), BTreeSet::from([300 - moving - 1]));
    assert_eq!(cluster.keys()[0], [""; 0], "all are gone from the first node");
    let all: usize = cluster.keys().iter().map(Vec::len).sum();
    assert_eq!(all, 20 + 3, "one key for each rate");
    assert_eq!(gate.metric("tidegate_store_errors"), None, "no decision failed");
}

/// `hash_tag: first_entry`: what callers have in common first shares a slot.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_entry_decides_the_slot() {
    let Some(cluster) = Cluster::start_with(Kind::Redis, 3, &[]) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let rules = "\
domain: t
descriptors:
  - key: user
    descriptors:
      - {key: path, rate_limit: {unit: year, requests_per_unit: 3}}
";
    let launch = serve_rules(rules, "20s", &cluster.url(), &directory);
    let gate = start_on(&cluster, launch.args(["--redis-hash-tag", "first_entry"]));
    let channel = gate.channel().await;
    for user in ["a", "b", "c"] {
        let three = ["x", "y", "z"].map(|path| format!("[user={user}, path={path}]")).join(", ");
        for expected in EXACT {
            let overall = expected.split(' ').next().unwrap_or_default();
            let all = format!("{overall} {{{expected}, {expected}, {expected}}}");
            assert_eq!(ask_for(channel.clone(), &three).await, all);
        }
    }
    let keys = cluster.keys().concat();
    assert_eq!(keys.len(), 9, "{keys:?}");
    for user in ["a", "b", "c"] {
        let own = keys.iter().filter(|key| key.contains(&format!("user={user}")));
        let slots: BTreeSet<u16> = own.map(|key| cluster.slot(key)).collect();
        assert_eq!(slots.len(), 1, "{keys:?}");
    }
}

/// Text from callers stays in the slot of its domain, and counts by itself.
#[tokio::test(flavor = "multi_thread")]
async fn crafted_text_never_leaves_its_slot() {
    let Some(cluster) = Cluster::start_with(Kind::Redis, 3, &[]) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let rules = "\
domain: t
hash_tag: domain
descriptors:
  - {key: three, rate_limit: {unit: year, requests_per_unit: 3}}
";
    let gate = start_on(&cluster, serve_rules(rules, "20s", &cluster.url(), &directory));
    let long = "x".repeat(65_536);
    let wild =
        ["{b}", "}{", "}|{other}", "{}", "{", "}", "\0", "|three={x}", "%7Bb%7D", "#", &long];
    for value in wild {
        let mut client = RateLimitServiceClient::new(gate.channel().await);
        for expected in EXACT {
            let descriptors = vec![ask::entries(&[("three", value)])];
            let request = RateLimitRequest { domain: "t".into(), descriptors, hits_addend: 1 };
            let response = client.should_rate_limit(request).await.expect("an answer");
            assert_eq!(ask::answer(response.get_ref()), expected, "{value:.20}");
        }
    }
    let mut keys = cluster.keys();
    keys.retain(|keys| !keys.is_empty());
    assert_eq!(keys.len(), 1, "more than one node: {keys:?}");
    assert_eq!(keys[0].len(), wild.len(), "{keys:?}");
    let slots: BTreeSet<u16> = keys[0].iter().map(|key| cluster.slot(key)).collect();
    assert_eq!(slots.into_iter().collect::<Vec<_>>(), [cluster.slot("{t}")]);
}

/// Without a cluster, and through Valkey: the same limits on one server.
#[tokio::test(flavor = "multi_thread")]
async fn a_single_valkey_needs_no_tags() {
    let Some(server) = RedisServer::valkey() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let gate = serve(&server.url(), &directory).start();
    assert_eq!(answers(&gate, "a", 4).await, EXACT);
    assert_eq!(server.keys(), ["tidegate:1:t|three=a|fw31536000s"]);
}
