//! What a node of Redis Cluster says to somebody who takes it for a server of
//! its own.

use crate::process::eventually;
use crate::redis::{Admin, RedisServer, free_port};
use crate::rig::Rig;

/// A node, with a port for the others that is in range.
fn node() -> Option<(RedisServer, u16)> {
    let bus = free_port();
    let port = bus.to_string();
    let options = ["--cluster-enabled", "yes", "--cluster-port", &port];
    Some((RedisServer::redis_that_knows(&["--cluster-port", "none"], &options)?, bus))
}

fn is_up(admin: &mut Admin) -> bool {
    let info: String = admin.run(&["CLUSTER", "INFO"]);
    info.contains("cluster_state:ok")
}

/// The slot of the counter that `rule` has for `value`.
fn slot_of(admin: &mut Admin, rule: &str, value: &str) -> String {
    let key = format!("tidegate:1:t|{rule}={value}|fw31536000s");
    let slot: u16 = admin.run(&["CLUSTER", "KEYSLOT", &key]);
    slot.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_cluster_node_says_is_told_and_concerns_its_slots_only() {
    let Some((first, _)) = node() else { return };
    let Some((second, bus)) = node() else { return };
    let (mut admin, mut other) = (first.admin(), second.admin());
    let mut rig = Rig::start(&first.url(), &["--failure-mode", "error"]).await;
    rig.until_told("error", "a", "CLUSTERDOWN").await;
    assert_eq!(rig.readyz().0, 503);

    let () = admin.run(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    let meet = ["CLUSTER", "MEET", "127.0.0.1", &second.port().to_string(), &bus.to_string()];
    let () = admin.run(&meet);
    eventually("they know each other", || is_up(&mut admin) && is_up(&mut other));
    rig.until("error", "OK").await;
    rig.is_exact().await;

    let theirs: String = other.run(&["CLUSTER", "MYID"]);
    let (asked, moved) = ("asked", "moved");
    let slot = slot_of(&mut admin, "error", asked);
    let () = admin.run(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &theirs]);
    rig.until_told("error", asked, "ASK").await;
    let () = admin.run(&["CLUSTER", "SETSLOT", &slot, "STABLE"]);
    rig.until("error", "OK").await;
    rig.is_exact().await;

    let slot = slot_of(&mut admin, "error", moved);
    let () = admin.run(&["CLUSTER", "SETSLOT", &slot, "NODE", &theirs]);
    let told = rig.until_told("error", moved, "MOVED").await;
    assert!(told.contains("Redis Cluster"), "and what to do: {told}");
    assert!(rig.metric("tidegate_store_errors{kind=\"cluster\"}") > 0);
    rig.is_exact().await;
    eventually("the store is not away", || rig.metric("tidegate_store_up") == 1);
}
