//! Slots that move to another node under load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate::limit::{Cost, Limit, SlidingLog};
use tidegate::store::redis::{RedisConfig, RedisStore};
use tidegate::store::{Plan, Role};
use tidegate::units::{Hits, Span, Timestamp};

use crate::cluster::{Cluster, Kind};
use crate::crowd::{ADMITTED, KEYS, RULES, channels, storm};
use crate::plans::{PlanExt, every_algorithm, plan};
use crate::{serve_rules, start_on};

/// Where `slot` is when it moves for the `nth` time, and where to: round and
/// round.
fn ends(slot: u16, nth: usize) -> (usize, usize) {
    let from = (Cluster::first_owner(slot) + nth) % 3;
    (from, (from + 1) % 3)
}

/// The slot moves once during each storm. Nobody is on the way when it moves
/// again: who was sent to a node by `ASK` and comes there when another move to
/// it has begun would find none of the keys.
async fn limits_are_kept_while_their_slot_moves(kind: Kind) {
    let Some(cluster) = Cluster::start_with(kind, 3, &[]) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    // All in one slot.
    let rules = RULES.replace("domain: t\n", "domain: t\nhash_tag: domain\n");
    let replicas = [(); 2]
        .map(|()| start_on(&cluster, serve_rules(&rules, "20s", &cluster.url(), &directory)));
    let channels = channels(&replicas).await;
    let slot = cluster.slot("{t}");
    for (nth, key) in KEYS.into_iter().enumerate() {
        let (from, to) = ends(slot, nth);
        let admitted = std::thread::scope(|scope| {
            scope.spawn(|| {
                cluster.begin_move(slot, from, to);
                std::thread::sleep(Duration::from_millis(50));
                while cluster.move_keys(slot, from, to, 1) > 0 {
                    std::thread::sleep(Duration::from_millis(5));
                }
                cluster.end_move(slot, from, to);
            });
            tokio::task::block_in_place(|| {
                let runtime = tokio::runtime::Handle::current();
                runtime.block_on(storm(&channels, (key, "one"), 16, 20))
            })
        });
        assert_eq!(admitted, ADMITTED, "{key}");
    }
    for replica in &replicas {
        assert_eq!(replica.metric("tidegate_store_errors"), None, "{}", replica.log());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_kept_while_their_slot_moves_in_redis() {
    limits_are_kept_while_their_slot_moves(Kind::Redis).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_kept_while_their_slot_moves_in_valkey() {
    limits_are_kept_while_their_slot_moves(Kind::Valkey).await;
}

/// The slot moves to and fro. No call lasts as long as it takes to go and come back,
/// so none comes to a node by an `ASK` of an earlier move.
#[tokio::test(flavor = "multi_thread")]
async fn limits_are_not_exceeded_while_their_slot_moves_to_and_fro() {
    let Some(cluster) = Cluster::start_with(Kind::Redis, 3, &[]) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let top = "domain: t\nhash_tag: domain\nfailure_mode: closed\n";
    let rules = RULES.replace("domain: t\n", top);
    let replicas = [(); 2].map(|()| {
        let launch = serve_rules(&rules, "50ms", &cluster.url(), &directory);
        // Or nobody would ask any more once the limit is reached.
        start_on(&cluster, launch.args(["--near-cache=false"]))
    });
    let channels = channels(&replicas).await;
    let slot = cluster.slot("{t}");
    let mut moves = 0;
    for key in ["fixed", "log"] {
        let over = AtomicBool::new(false);
        let admitted = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) || moves % 2 == 1 {
                    let (mut from, mut to) = ends(slot, 0);
                    if moves % 2 == 1 {
                        (from, to) = (to, from);
                    }
                    cluster.begin_move(slot, from, to);
                    std::thread::sleep(Duration::from_millis(25));
                    cluster.end_move(slot, from, to);
                    std::thread::sleep(Duration::from_millis(75));
                    moves += 1;
                }
            });
            let admitted = tokio::task::block_in_place(|| {
                let runtime = tokio::runtime::Handle::current();
                runtime.block_on(storm(&channels, (key, "one"), 16, 80))
            });
            over.store(true, Ordering::Relaxed);
            admitted
        });
        assert!((1..=ADMITTED).contains(&admitted), "{key}: {admitted}");
    }
    assert!(moves > 4, "{moves}");
}

fn store(cluster: &Cluster) -> RedisStore {
    let config = RedisConfig { deadline: Span::from_secs(20), ..RedisConfig::new(cluster.url()) };
    RedisStore::connect(&config).expect("a valid configuration")
}

/// In the middle of every window.
const NOW: Timestamp = Timestamp::from_secs(1_796_004_769);

/// A log whose hits have all left is emptied before the next hit goes in. In a
/// slot that is moving, the key is then at the other node.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_runs_empty_on_the_way_goes_on_at_the_other_node() {
    let Some(cluster) = Cluster::start_with(Kind::Redis, 3, &[]) else { return };
    let store = store(&cluster);
    let (hits, window) = (Hits::new(2), Span::from_secs(1));
    let log = Limit::SlidingLog(SlidingLog::new(hits, window, Span::ZERO, 1000).expect("a log"));
    let hit = |at| plan().with("a", log, Cost::take(Hits::new(1)), Role::Enforced).at(at);
    let first = store.decide(&hit(NOW)).await.expect("a verdict");
    assert!(first[0].allowed);
    let keys: Vec<String> = cluster.keys().concat();
    let slot = cluster.slot(&keys[0]);
    let (from, to) = ends(slot, 0);
    cluster.begin_move(slot, from, to);
    let later = NOW.plus(Span::from_secs(5));
    for expected in [true, true, false] {
        let verdicts = store.decide(&hit(later)).await.expect("a verdict");
        assert_eq!(verdicts[0].allowed, expected);
    }
    assert_eq!((cluster.nodes[from].keys().len(), cluster.nodes[to].keys().len()), (0, 1));
    cluster.end_move(slot, from, to);
    assert!(!store.decide(&hit(later)).await.expect("a verdict")[0].allowed);
}

/// Some keys of a request are here and others there: rules that are decided by
/// themselves are, one after the other.
#[tokio::test(flavor = "multi_thread")]
async fn rules_whose_keys_are_on_both_nodes_are_decided_one_by_one() {
    let Some(cluster) = Cluster::start_with(Kind::Redis, 3, &[]) else { return };
    let store = store(&cluster);
    // A tag of our own puts them into one slot.
    let config = RedisConfig {
        deadline: Span::from_secs(20),
        key_prefix: "{same}".into(),
        ..RedisConfig::new(cluster.url())
    };
    let same = RedisStore::connect(&config).expect("a valid configuration");
    drop(store);
    let all = |plan: Plan| {
        let limits = every_algorithm(9, Span::from_secs(3600));
        limits.iter().enumerate().fold(plan, |plan, (nth, limit)| {
            plan.with(&nth.to_string(), *limit, Cost::take(Hits::new(1)), Role::Enforced)
        })
    };
    let left = |verdicts: &[tidegate::limit::Verdict]| {
        verdicts.iter().map(|verdict| verdict.remaining.get()).collect::<Vec<_>>()
    };
    assert_eq!(left(&same.decide(&all(plan().at(NOW))).await.expect("verdicts")), [8; 6]);
    let slot = cluster.slot("{same}");
    let (from, to) = ends(slot, 0);
    cluster.begin_move(slot, from, to);
    for expected in [7_usize, 6, 5] {
        // Those of the store's own questions move as well, and are gone.
        while cluster.nodes[to].keys().len() < 8 - expected {
            cluster.move_keys(slot, from, to, 1);
        }
        let verdicts = same.decide(&all(plan().at(NOW))).await.expect("verdicts");
        assert_eq!(left(&verdicts), [expected as u64; 6]);
    }
    assert_eq!((cluster.nodes[from].keys().len(), cluster.nodes[to].keys().len()), (3, 3));
    cluster.end_move(slot, from, to);
    assert_eq!(left(&same.decide(&all(plan().at(NOW))).await.expect("verdicts")), [4; 6]);
}
