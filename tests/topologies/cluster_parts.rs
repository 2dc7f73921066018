//! Requests whose counters lie on several masters.

use crate::cluster::{Cluster, Kind};
use crate::process::eventually;
use crate::{ask_for, serve_rules, start_on};

const RULES: &str = "\
domain: t
charge: all_or_nothing
descriptors:
  - {key: three, rate_limit: {unit: year, requests_per_unit: 3}}
  - {key: one, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: bucket, rate_limit: {algorithm: token_bucket, burst: 3, rate: 1/50d}}
  - {key: log, rate_limit: {algorithm: sliding_window_log, limit: 3, window: 3000d}}
  - {key: counter, rate_limit: {algorithm: sliding_window_counter, limit: 3, window: 3000d}}
  - {key: gcra, rate_limit: {algorithm: gcra, burst: 3, rate: 1/50d}}
  - {key: seen, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: silver, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: gold, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: shut, failure_mode: closed, rate_limit: {unit: year, requests_per_unit: 9}}
  - {key: let, failure_mode: open, rate_limit: {unit: year, requests_per_unit: 9}}
  - {key: own, failure_mode: local, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: tell, failure_mode: error, rate_limit: {unit: year, requests_per_unit: 9}}
";

/// `rule` for a value whose counter lies on this master.
fn on(cluster: &Cluster, master: usize, rule: &str) -> String {
    let lies_there = |value: &usize| {
        Cluster::first_owner(cluster.slot(&format!("{{t|{rule}={value}}}"))) == master
    };
    format!("[{rule}={}]", (0..1000).find(lies_there).expect("a value"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_request_gives_back_what_it_took_in_other_slots() {
    let Some(cluster) = Cluster::start_with(Kind::Redis, 3, &[]) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let gate = start_on(&cluster, serve_rules(RULES, "20s", &cluster.url(), &directory));
    let channel = gate.channel().await;
    let ask = async |text: String| ask_for(channel.clone(), &text).await;
    let one = on(&cluster, 1, "one");
    for rule in ["three", "bucket", "log", "counter", "gcra"] {
        let other = on(&cluster, 0, rule);
        assert_eq!(ask(format!("{other}, [one={rule}]")).await, "OK {OK r2, OK r0}", "{rule}");
        let both = format!("{other}, [one={rule}]");
        for _ in 0..3 {
            assert_eq!(ask(both.clone()).await, "OVER {OK r2, OVER}", "{rule}");
        }
        assert_eq!(ask(other.clone()).await, "OK r1", "{rule}: nothing was taken");
    }
    // In one slot a shadow charge goes on; so it does in several.
    let seen = on(&cluster, 2, "seen");
    assert_eq!(ask(format!("{one}, {seen}")).await, "OK {OK r0, OK r4}");
    assert_eq!(ask(format!("{one}, {seen}")).await, "OVER {OVER, OK r3}");
    // Quotas refuse only together, wherever they are.
    let quotas = format!("{}, {}", on(&cluster, 0, "silver"), on(&cluster, 1, "gold"));
    assert_eq!(ask(quotas.clone()).await, "OK {OK r0, OK r1}");
    assert!(ask(quotas.clone()).await.starts_with("OK "), "gold has one left");
    assert!(ask(quotas).await.starts_with("OVER "), "both are used up");
}

/// One master is away, and has no replica.
#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_is_away_costs_its_own_counters_only() {
    let Some(mut cluster) = Cluster::start_with(Kind::Redis, 3, &[]) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let rules = RULES.replace("charge: all_or_nothing\n", "");
    let gate = start_on(&cluster, serve_rules(&rules, "20s", &cluster.url(), &directory));
    let both = start_on(&cluster, serve_rules(RULES, "20s", &cluster.url(), &directory));
    let [shut, open, own, tell] = ["shut", "let", "own", "tell"].map(|rule| on(&cluster, 0, rule));
    let there = on(&cluster, 1, "three");
    let together = on(&cluster, 2, "three");
    cluster.nodes[0].kill();
    for gate in [&gate, &both] {
        eventually("it is noticed", || gate.metric("tidegate_cluster_masters_up") == Some(2));
    }
    let channel = gate.channel().await;
    let ask = async |text: String| ask_for(channel.clone(), &text).await;
    assert_eq!(ask(there.clone()).await, "OK r2");
    assert_eq!(ask(format!("{there}, {open}")).await, "OK {OK r1, OK r8}");
    assert_eq!(ask(format!("{shut}, {there}")).await, "OVER {OVER, OK r0}");
    assert_eq!(ask(format!("{own}, {there}")).await, "OVER {OK r1, OVER}");
    assert_eq!(ask(format!("{own}, {open}")).await, "OK {OK r0, OK r8}");
    assert_eq!(ask(own.clone()).await, "OVER", "locally");
    assert_eq!(ask(format!("{tell}, {there}")).await, "Unavailable");
    assert_eq!(ask(tell).await, "Unavailable");
    assert!(gate.metric("tidegate_degraded_decisions{mode=\"open\"}") >= Some(2));

    // With all or nothing, what the others took is given back.
    let channel = both.channel().await;
    let ask = async |text: String| ask_for(channel.clone(), &text).await;
    assert!(ask(format!("{shut}, {together}")).await.starts_with("OVER {OVER, OK "));
    let untouched = "[three=nobody]";
    eventually("nothing is taken", || {
        let looked = cluster.nodes[2].keys();
        looked.iter().all(|key| !key.contains(untouched))
    });
    let check = together.replace(']', " !h=0]");
    let start = std::time::Instant::now();
    while ask(check.clone()).await != "OK r3" {
        assert!(start.elapsed() < crate::process::PATIENCE, "never given back");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}
