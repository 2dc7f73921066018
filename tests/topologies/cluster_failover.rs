//! A master of a cluster is gone: its replica takes its place, and the others
//! go on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::cluster::{Cluster, Kind};
use crate::process::{PATIENCE, Running, eventually};
use crate::{ANSWERING, EXACT, answers, ask_once, serve, serve_within, start_on};

/// So many values are spread over all masters.
const VALUES: usize = 24;

/// The place of the master with the counter that `rule` has for `value`.
fn master_of(cluster: &Cluster, rule: &str, value: &str) -> usize {
    Cluster::first_owner(cluster.slot(&format!("{{t|{rule}={value}}}")))
}

/// Asks all values again and again until told to stop; counts the answers by
/// rule and master.
async fn load(
    gate: &Running,
    masters: Arc<Vec<[usize; 3]>>,
    stop: Arc<AtomicBool>,
) -> JoinSet<BTreeMap<(usize, &'static str, String), usize>> {
    let mut callers = JoinSet::new();
    for caller in 0..4 {
        let (channel, masters, stop) = (gate.channel().await, masters.clone(), stop.clone());
        callers.spawn(async move {
            let mut seen = BTreeMap::new();
            while !stop.load(Ordering::Relaxed) {
                for value in (caller..VALUES).step_by(4) {
                    for (nth, rule) in ANSWERING.into_iter().enumerate() {
                        let value_text = value.to_string();
                        let asked = ask_once(channel.clone(), rule, &value_text);
                        let answer = timeout(PATIENCE, asked).await.unwrap_or("hangs".into());
                        let answer = answer.split(' ').next().unwrap_or_default().to_owned();
                        *seen.entry((masters[value][nth], rule, answer)).or_insert(0) += 1;
                    }
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            seen
        });
    }
    callers
}

async fn a_killed_master_is_followed(kind: Kind) {
    let Some(mut cluster) = Cluster::start(kind) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    // A replica knows the slots as well as a master.
    let seeds =
        [&cluster.nodes[5], &cluster.nodes[0]].map(|node| format!("127.0.0.1:{}", node.port()));
    let url = format!("valkey+cluster://{}", seeds.join(","));
    let gate = start_on(&cluster, serve(&url, &directory));
    let place = |rule: &str, value: usize| master_of(&cluster, rule, &value.to_string());
    let masters: Vec<[usize; 3]> =
        (0..VALUES).map(|value| ANSWERING.map(|rule| place(rule, value))).collect();
    let masters = Arc::new(masters);
    // One value of each master, half used up.
    let before: Vec<String> = (0..3)
        .map(|master| {
            (0..1000)
                .map(|value| format!("v{value}"))
                .find(|value| master_of(&cluster, "three", value) == master)
                .expect("a value")
        })
        .collect();
    for value in &before {
        assert_eq!(answers(&gate, value, 2).await, EXACT[..2]);
    }
    // Replication is asynchronous: what was acknowledged may still be lost,
    // unless it was waited for.
    for master in &cluster.nodes[..3] {
        // It waits for what its connection knows of, so that has to ask first.
        let mut admin = master.admin();
        let _: String = admin.run(&["PING"]);
        let replicas: usize = admin.run(&["WAIT", "1", "5000"]);
        assert_eq!(replicas, 1);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let load = load(&gate, masters, stop.clone()).await;
    eventually("all masters answer", || gate.metric("tidegate_cluster_masters_up") == Some(3));
    cluster.nodes[0].kill();
    eventually("the outage is noticed", || gate.metric("tidegate_cluster_masters_up") == Some(2));
    assert_eq!(gate.metric("tidegate_store_up"), Some(1), "the others answer");
    eventually("the replica is followed", || gate.metric("tidegate_cluster_masters_up") == Some(3));
    eventually("its counters are asked", || {
        let text = format!("127.0.0.1:{}", cluster.nodes[3].port());
        gate.log().contains(&text)
    });
    stop.store(true, Ordering::Relaxed);
    let mut seen: BTreeMap<(usize, &str, String), usize> = BTreeMap::new();
    for (key, count) in load.join_all().await.into_iter().flatten() {
        *seen.entry(key).or_default() += count;
    }
    for (master, rule, answer) in seen.keys() {
        let fails = *master == 0 && *rule == "closed";
        assert!(answer == "OK" || fails && answer == "OVER", "{rule} {master}: {answer}; {seen:?}");
    }
    // What was counted before is known to the replica.
    for value in &before {
        assert_eq!(answers(&gate, value, 2).await, EXACT[2..], "{value}: {}", gate.log());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_master_of_redis_is_followed_by_its_replica_under_load() {
    a_killed_master_is_followed(Kind::Redis).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_master_of_valkey_is_followed_by_its_replica_under_load() {
    a_killed_master_is_followed(Kind::Valkey).await;
}

/// Its clients hear nothing when it stops, and it takes itself for a master until
/// the others tell it otherwise.
#[tokio::test(flavor = "multi_thread")]
async fn a_master_of_a_cluster_that_hung_is_not_asked_when_it_wakes() {
    let Some(cluster) = Cluster::start(Kind::Redis) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let gate = start_on(&cluster, serve_within("100ms", &cluster.url(), &directory));
    let value = (0..1000).map(|value| format!("v{value}"));
    let value: Vec<String> =
        value.filter(|value| master_of(&cluster, "three", value) == 0).take(2).collect();
    until_decided(&gate, &value[0]).await;
    cluster.nodes[0].freeze();
    // Somebody must ask it, to notice.
    until(&gate, &value[0], |answer| answer == "Unavailable").await;
    until_decided(&gate, &value[0]).await;
    cluster.nodes[0].thaw();
    assert_eq!(answers(&gate, &value[1], 4).await, EXACT);
    let holds = |node: usize| {
        let key = format!("{{t|three={}}}", value[1]);
        cluster.nodes[node].keys().iter().any(|known| known.contains(&key))
    };
    assert!(holds(3), "{:?}", cluster.nodes[3].keys());
    eventually("it is a replica", || {
        let info: String = cluster.nodes[0].ask(&["INFO", "replication"]);
        info.contains("role:slave")
    });
}

/// Asks until the answer is one of these.
async fn until(gate: &Running, value: &str, wanted: fn(&str) -> bool) {
    let start = std::time::Instant::now();
    while !wanted(&answers(gate, value, 1).await[0]) {
        assert!(start.elapsed() < PATIENCE, "never; log:\n{}", gate.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Asks until a decision is made.
async fn until_decided(gate: &Running, value: &str) {
    until(gate, value, |answer| answer != "Unavailable").await;
}
