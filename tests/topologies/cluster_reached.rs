//! How clusters are reached: by TLS, by a user with few rights, and what is said
//! where there is none.

use crate::certificates::Authority;
use crate::cluster::{Cluster, Kind};
use crate::process::eventually;
use crate::redis::{RedisServer, free_port};
use crate::{EXACT, answers, serve, start_on};

/// The rights that the README lists, and those that a cluster needs beside them.
fn documented_rights() -> impl Iterator<Item = &'static str> {
    let readme = include_str!("../../README.md");
    let more = "+cluster|slots +asking";
    assert!(readme.contains(&format!("`{more}`")));
    let rule =
        readme.lines().find_map(|line| line.strip_prefix("ACL SETUSER tidegate on >PASSWORD "));
    rule.expect("a rule in the README").split(' ').chain(more.split(' '))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_reached_by_tls_by_a_user_with_few_rights() {
    let directory = tempfile::tempdir().expect("a directory");
    let authority = Authority::new();
    authority.write(&directory.path().join("ca.crt"));
    authority.issue(directory.path(), "server", &["cache.example"]);
    let path = |file: &str| directory.path().join(file).display().to_string();
    let mut ports = Vec::new();
    let started = Cluster::start_each(Kind::Redis, 3, || {
        let port = free_port();
        ports.push(port);
        let tls = [
            ["--tls-port", &port.to_string()],
            ["--tls-ca-cert-file", &path("ca.crt")],
            ["--tls-cert-file", &path("server.crt")],
            ["--tls-key-file", &path("server.key")],
            ["--tls-auth-clients", "no"],
            // Or nodes tell their other ports.
            ["--tls-cluster", "yes"],
        ];
        let user = ["--user", "limited", "on", ">hush"].into_iter().chain(documented_rights());
        let tls = tls.as_flattened().iter().map(|option| (*option).to_owned());
        tls.chain(user.map(str::to_owned)).collect()
    });
    let Some(cluster) = started else { return };
    // One seed is enough.
    let url = format!("rediss+cluster://limited:hush@127.0.0.1:1,127.0.0.1:{}", ports[2]);
    let launch = serve(&url, &directory).args([
        "--redis-tls-ca",
        &path("ca.crt"),
        "--redis-tls-server-name",
        "cache.example",
    ]);
    let gate = start_on(&cluster, launch);
    for value in 0..12 {
        assert_eq!(answers(&gate, &value.to_string(), 4).await, EXACT, "{}", gate.log());
    }
    assert!(cluster.keys().iter().all(|keys| !keys.is_empty()), "{:?}", cluster.keys());
    // ASKING is one of the rights.
    let slot = cluster.slot("{t|three=new}");
    let (from, to) = (Cluster::first_owner(slot), (Cluster::first_owner(slot) + 1) % 3);
    cluster.begin_move(slot, from, to);
    assert_eq!(answers(&gate, "new", 4).await, EXACT, "{}", gate.log());
    assert!(!gate.log().contains("hush"), "{}", gate.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_cluster_is_told_and_what_becomes_one_is_found() {
    let Some(server) = RedisServer::redis() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let url = format!("redis+cluster://127.0.0.1:{}", server.port());
    let gate = serve(&url, &directory).start();
    assert_eq!(answers(&gate, "a", 1).await, ["Unavailable"]);
    let state = crate::http::get(&gate.http, "/readyz").json();
    let error = state["store"]["error"].as_str().expect("an error").to_owned();
    assert!(error.contains("begin its URL with redis://"), "{error}");
    assert_eq!(gate.metric("tidegate_store_up"), Some(0));

    let bus = free_port().to_string();
    let options = ["--cluster-enabled", "yes", "--cluster-port", &bus];
    let Some(node) = RedisServer::redis_with(&options) else { return };
    let url = format!("redis+cluster://127.0.0.1:{}", node.port());
    let gate = serve(&url, &directory).start();
    assert_eq!(answers(&gate, "a", 1).await, ["Unavailable"]);
    let () = node.run(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    eventually("it is found", || gate.metric("tidegate_store_up") == Some(1));
    assert_eq!(answers(&gate, "a", 4).await, EXACT);
}
