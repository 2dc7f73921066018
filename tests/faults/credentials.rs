//! F25: users, passwords and databases, from outside.

use std::fs;

use crate::process::{Launch, eventually};
use crate::redis::{Admin, RedisServer};
use crate::rig::Rig;

const USER: &[&str] = &[
    "limiter",
    "on",
    ">hush",
    "~tidegate:*",
    "+evalsha",
    "+eval",
    "+time",
    "+get",
    "+psetex",
    "+del",
    "+select",
];

/// A server that knows the user from its start.
fn server() -> Option<RedisServer> {
    RedisServer::redis_with(&[&["--user"], USER].concat())
}

/// Keys by database, as `INFO keyspace` tells it.
fn keyspace(admin: &mut Admin) -> String {
    admin.run(&["INFO", "keyspace"])
}

/// The ids of the connections of the service.
fn ids(admin: &mut Admin) -> Vec<String> {
    let clients: String = admin.run(&["CLIENT", "LIST"]);
    let ours = clients.lines().filter(|client| client.contains(" user=limiter "));
    ours.map(|client| client.split(' ').next().unwrap_or_default().to_owned()).collect()
}

fn kill_ours(admin: &mut Admin) {
    let _: usize = admin.run(&["CLIENT", "KILL", "USER", "limiter"]);
}

fn as_limiter(launch: Launch) -> Launch {
    launch.args(["--redis-username", "limiter"])
}

/// F25.1 and F25.4.
#[tokio::test(flavor = "multi_thread")]
async fn user_password_and_database_survive_flushes_and_restarts() {
    let Some(mut server) = server() else { return };
    let url = server.url() + "/3";
    let password = |launch: Launch| as_limiter(launch).env("TIDEGATE_REDIS_PASSWORD", "hush");
    let mut rig = Rig::launch(&url, password).await;
    rig.is_exact().await;
    let () = server.run(&["SCRIPT", "FLUSH"]);
    rig.is_exact().await;
    server.kill();
    server.restart();
    rig.until("error", "OK").await;
    rig.is_exact().await;
    let told = keyspace(&mut server.admin());
    assert!(told.contains("db3:") && !told.contains("db0:"), "{told}");
    assert!(!(rig.gate.log() + &rig.gate.greeting).contains("hush"));
}

/// What must hold while Redis does not let us do our work.
async fn is_told_once(rig: &Rig, admin: &mut Admin, text: &str) {
    let told = rig.until_told("error", "a", text).await;
    assert!(!told.contains("wrong-one") && !told.contains("hush"), "{told}");
    assert_eq!(rig.readyz().0, 503);
    // While many questions fail, one line is logged, and nobody hammers.
    let since = rig.metric("tidegate_breaker_transitions{to=\"half_open\"}");
    let connections = received(admin);
    eventually("ten more questions", || {
        rig.metric("tidegate_breaker_transitions{to=\"half_open\"}") >= since + 10
    });
    let log = rig.gate.log();
    assert_eq!(log.lines().filter(|line| line.contains(text)).count(), 1, "{log}");
    assert!(!log.contains("wrong-one") && !log.contains("hush"), "{log}");
    let more = received(admin) - connections;
    assert!(more <= 100, "{more} connections for ten questions");
}

/// Connections that the server ever took.
fn received(admin: &mut Admin) -> u64 {
    let stats: String = admin.run(&["INFO", "stats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
    line.and_then(|count| count.parse().ok()).expect("a count")
}

/// F25.2.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_run_no_script_is_told_once() {
    let Some(server) = server() else { return };
    let mut admin = server.admin();
    let () = admin.run(&["ACL", "SETUSER", "limiter", "-evalsha", "-eval"]);
    let url = format!("redis://limiter:hush@127.0.0.1:{}", server.port());
    let rig = Rig::start(&url, &["--failure-mode", "error"]).await;
    is_told_once(&rig, &mut admin, "evalsha").await;
}

/// F25.3.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_told_once() {
    let Some(server) = server() else { return };
    let mut admin = server.admin();
    let url = format!("redis://limiter:wrong-one@127.0.0.1:{}", server.port());
    let mut rig = Rig::start(&url, &["--failure-mode", "error"]).await;
    is_told_once(&rig, &mut admin, "WRONGPASS").await;
    let () = admin.run(&["ACL", "SETUSER", "limiter", ">wrong-one"]);
    rig.until("error", "OK").await;
    rig.is_exact().await;
}

/// F25.5.
#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_is_rotated_is_followed_without_a_restart() {
    let Some(server) = server() else { return };
    let mut admin = server.admin();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("password");
    fs::write(&path, "hush\n").expect("a file");
    let file = path.to_str().expect("text");
    let with_file = |launch| as_limiter(launch).args(["--redis-password-file", file]);
    let mut rig = Rig::launch(&server.url(), with_file).await;
    rig.is_exact().await;
    let before = ids(&mut admin);

    let () = admin.run(&["ACL", "SETUSER", "limiter", ">second", "<hush"]);
    rig.is_exact().await;
    assert_eq!(ids(&mut admin), before, "connections that are open go on");
    fs::write(&path, "second\n").expect("a file");
    kill_ours(&mut admin);
    rig.until("error", "OK").await;
    rig.is_exact().await;
    eventually("the new connections are as many", || ids(&mut admin).len() == before.len());

    // The other way round: the file comes late. One connection that cannot be
    // made again is told, also while the others go on.
    let () = admin.run(&["ACL", "SETUSER", "limiter", ">third", "<second"]);
    let one = ids(&mut admin).remove(0).replace("id=", "");
    let _: usize = admin.run(&["CLIENT", "KILL", "ID", &one]);
    if before.len() > 1 {
        eventually("it is told", || rig.gate.log().contains("one of the connections"));
        rig.is_exact().await;
    }
    kill_ours(&mut admin);
    rig.until_told("error", "a", "WRONGPASS").await;
    fs::remove_file(&path).expect("it was there");
    rig.until_told("error", "a", "cannot read the password").await;
    fs::write(&path, "third").expect("a file");
    rig.until("error", "OK").await;
    rig.is_exact().await;
    let log = rig.gate.log();
    assert!(!["hush", "second\"", "third"].iter().any(|text| log.contains(text)), "{log}");
}

#[test]
fn two_passwords_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("config.yaml");
    fs::write(&config, "domain: t").expect("a file");
    let launch = Launch::serve(&config)
        .args(["--store", "redis://127.0.0.1:1", "--redis-password-file", "somewhere"])
        .env("TIDEGATE_REDIS_PASSWORD", "hush");
    let Err(ended) = launch.try_start() else { panic!("it started") };
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("TIDEGATE_REDIS_PASSWORD"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("hush"), "{}", ended.stderr);
}
