//! Sentinel: a failover is followed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::process::{PATIENCE, Running, eventually};
use crate::sentinel::Group;
use crate::{ANSWERING, EXACT, answers, serve, serve_within};

/// Steady load until it is told to stop; gives the answers that were not
/// expected.
struct Load {
    stop: Arc<AtomicBool>,
    callers: JoinSet<Vec<String>>,
}

impl Load {
    async fn start(gate: &Running, expected: fn(&str, &str) -> bool) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut callers = JoinSet::new();
        for caller in 0..4 {
            let (stop, channel) = (stop.clone(), gate.channel().await);
            callers.spawn(async move {
                let mut odd = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    for rule in ANSWERING {
                        let answer =
                            crate::ask_once(channel.clone(), rule, &caller.to_string()).await;
                        if !expected(rule, &answer) {
                            odd.push(format!("{rule}: {answer}"));
                        }
                    }
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                odd
            });
        }
        Self { stop, callers }
    }

    async fn stop(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.callers.join_all().await.concat()
    }
}

/// Asks until decisions are made again.
async fn until_decided(gate: &Running) {
    let start = Instant::now();
    while answers(gate, "probe", 1).await == ["Unavailable"] {
        assert!(start.elapsed() < PATIENCE, "no decision; log:\n{}", gate.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_master_is_followed_by_its_replica_under_load() {
    let Some(mut group) = Group::start(&[], &[]) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let gate = serve_within("50ms", &group.url(), &directory).start();
    until_decided(&gate).await;
    assert_eq!(answers(&gate, "before", 2).await, EXACT[..2]);
    // Replication is asynchronous: what was acknowledged may still be lost,
    // unless it was waited for.
    let mut admin = group.master.admin();
    let _: String = admin.run(&["PING"]);
    let replicas: usize = admin.run(&["WAIT", "1", "5000"]);
    assert_eq!(replicas, 1);

    let load = Load::start(&gate, |rule, answer| match rule {
        "closed" => answer.starts_with("OK") || answer == "OVER",
        _ => answer.starts_with("OK"),
    })
    .await;
    group.master.kill();
    eventually("the outage is noticed", || gate.metric("tidegate_store_up") == Some(0));
    until_decided(&gate).await;
    let odd = load.stop().await;
    assert!(odd.is_empty(), "{odd:?}");

    assert_eq!(answers(&gate, "after", 4).await, EXACT);
    assert_eq!(answers(&gate, "before", 2).await, EXACT[2..], "counts survive");
    let log = gate.log();
    assert!(log.contains("the sentinels name another master"), "{log}");
}

/// A master that is demoted closes its connections; one that hung and wakes does
/// not know yet, and must not be asked any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_hung_is_not_asked_when_it_wakes() {
    let Some(group) = Group::start(&[], &[]) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let gate = serve_within("50ms", &group.url(), &directory).start();
    until_decided(&gate).await;
    group.master.freeze();
    eventually("the replica is promoted", || {
        let info: String = group.replica.ask(&["INFO", "replication"]);
        info.contains("role:master")
    });
    until_decided(&gate).await;
    eventually("all connections lead to the new master", || {
        gate.log().contains("the sentinels name another master")
    });
    group.master.thaw();
    // It takes itself for the master until a sentinel tells it otherwise.
    assert_eq!(answers(&gate, "after", 4).await, EXACT);
    let (old, new) = (group.master.keys(), group.replica.keys());
    assert!(new.iter().any(|key| key.contains("three=after")), "{new:?}");
    assert!(!old.iter().any(|key| key.contains("three=after")), "{old:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn logins_of_servers_and_sentinels_are_two_and_one_dead_sentinel_is_no_harm() {
    let servers = ["--user", "limited", "on", ">hush", "~*", "+@all"];
    let sentinels = ["user watcher on >secret +@all"];
    let Some(mut group) = Group::start(&servers, &sentinels) else { return };
    group.sentinels[0].kill();
    let directory = tempfile::tempdir().expect("a directory");
    let url = group.url().replace("://", "://limited:hush@");
    let launch = || serve(&url, &directory).args(["--redis-sentinel-username", "watcher"]);
    let gate = launch().env("TIDEGATE_REDIS_SENTINEL_PASSWORD", "secret").start();
    until_decided(&gate).await;
    assert_eq!(answers(&gate, "a", 4).await, EXACT);

    let stranger = launch().env("TIDEGATE_REDIS_SENTINEL_PASSWORD", "guess").start();
    eventually("the log says why", || stranger.log().contains("WRONGPASS"));
    for log in [gate.log(), stranger.log()] {
        assert!(
            !log.contains("hush") && !log.contains("secret") && !log.contains("guess"),
            "{log}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_no_sentinel_knows_is_told() {
    let Some(group) = Group::start(&[], &[]) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let gate = serve(&group.url().replace("/main", "/mian"), &directory).start();
    eventually("the log says so", || gate.log().contains("knows no master \"mian\""));
    assert_eq!(answers(&gate, "a", 1).await, ["Unavailable"]);
}
