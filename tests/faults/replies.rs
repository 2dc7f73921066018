//! A rule for each reply that is an error: what callers and operators see while
//! it lasts, and that limits are exact when it is over. `docs/failure.md` has
//! the table.

use std::fs;
use std::thread;

use crate::process::eventually;
use crate::redis::{Admin, RedisServer};
use crate::rig::Rig;

/// What Redis says, and what we call it.
struct Case {
    says: &'static str,
    kind: &'static str,
    options: &'static [&'static str],
}

/// The service with failure mode `error`, and a Redis with the options of the
/// case.
async fn start(case: &Case) -> Option<(RedisServer, Admin, Rig)> {
    let server = RedisServer::redis_with(case.options)?;
    let mut rig = Rig::start(&server.url(), &["--failure-mode", "error"]).await;
    rig.is_exact().await;
    let admin = server.admin();
    Some((server, admin, rig))
}

/// While Redis says so: calls fail with its words, other modes answer, and
/// whoever asks for readiness is sent elsewhere.
async fn while_it_lasts(case: &Case, rig: &Rig) {
    told_everywhere(case.says, rig).await;
    let series = format!("tidegate_store_errors{{kind=\"{}\"}}", case.kind);
    assert!(rig.metric(&series) > 0, "{series}");
}

async fn told_everywhere(says: &str, rig: &Rig) {
    rig.until_told("error", "x", says).await;
    assert_eq!([rig.ask("open", "x").await, rig.ask("closed", "x").await], ["OK", "OVER"]);
    eventually("readiness turns and tells why", || {
        let (status, body) = rig.readyz();
        let told = body["store"]["error"].as_str().is_some_and(|error| error.contains(says));
        status == 503 && told && body["store"]["status"] == "unavailable"
    });
    assert_eq!(rig.metric("tidegate_store_up"), 0);
}

/// Afterwards everything is as before, and nothing was done to Redis that is
/// not ours to do.
async fn afterwards(rig: &mut Rig, admin: &mut Admin) {
    rig.until("error", "OK").await;
    rig.is_exact().await;
    eventually("readiness is back", || rig.readyz().0 == 200);
    let stats: String = admin.run(&["INFO", "commandstats"]);
    for command in ["script|kill", "flushall", "flushdb", "function|kill", "client|kill"] {
        let ours = command != "client|kill" && stats.contains(&format!("cmdstat_{command}:"));
        assert!(!ours, "{command} was sent: {stats}");
    }
}

/// A reply that a setting brings about and another one ends.
async fn setting(case: Case, on: &[&[&str]], off: &[&[&str]]) {
    let Some((_server, mut admin, mut rig)) = start(&case).await else { return };
    for command in on {
        let () = admin.run(command);
    }
    while_it_lasts(&case, &rig).await;
    for command in off {
        let () = admin.run(command);
    }
    afterwards(&mut rig, &mut admin).await;
}

/// F26.1.
#[tokio::test(flavor = "multi_thread")]
async fn oom() {
    let case = Case { says: "OOM", kind: "out_of_memory", options: &[] };
    let Some((server, mut admin, mut rig)) = start(&case).await else { return };
    let () = admin.run(&["CONFIG", "SET", "maxmemory", "1"]);
    while_it_lasts(&case, &rig).await;
    let () = admin.run(&["CONFIG", "SET", "maxmemory", "0"]);
    afterwards(&mut rig, &mut admin).await;
    for (key, value, expiry) in server.contents() {
        assert!(expiry > 0, "{key} with {value} never expires");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readonly() {
    let case = Case { says: "READONLY", kind: "read_only", options: &[] };
    setting(case, &[&["REPLICAOF", "127.0.0.1", "1"]], &[&["REPLICAOF", "NO", "ONE"]]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn masterdown() {
    let options = &["--replica-serve-stale-data", "no"];
    let case = Case { says: "MASTERDOWN", kind: "master_down", options };
    setting(case, &[&["REPLICAOF", "127.0.0.1", "1"]], &[&["REPLICAOF", "NO", "ONE"]]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn noreplicas() {
    let case = Case { says: "NOREPLICAS", kind: "persistence", options: &[] };
    let set = |number| ["CONFIG", "SET", "min-replicas-to-write", number];
    setting(case, &[&set("1")], &[&set("0")]).await;
}

/// The data cannot be saved: a directory stands where the file should.
#[tokio::test(flavor = "multi_thread")]
async fn misconf() {
    let case = Case { says: "MISCONF", kind: "persistence", options: &["--save", "3600", "1"] };
    let Some((server, mut admin, mut rig)) = start(&case).await else { return };
    let in_the_way = server.directory().join("dump.rdb");
    fs::create_dir(&in_the_way).expect("a directory");
    let () = admin.run(&["BGSAVE"]);
    while_it_lasts(&case, &rig).await;
    fs::remove_dir(&in_the_way).expect("it is empty");
    let () = admin.run(&["BGSAVE"]);
    afterwards(&mut rig, &mut admin).await;
}

/// F26.2: a script of another client that runs for too long.
#[tokio::test(flavor = "multi_thread")]
async fn busy() {
    // So it was called before Redis 7, and may be still.
    let options = &["--lua-time-limit", "50"];
    let case = Case { says: "BUSY", kind: "busy", options };
    let Some((server, mut admin, mut rig)) = start(&case).await else { return };
    let mut other = server.admin();
    let looping = thread::spawn(move || {
        let script = "local function now() local t = redis.call('TIME') \
                      return t[1] + t[2] / 1000000 end \
                      local start = now() while now() - start < 2 do end";
        other.run::<()>(&["EVAL", script, "0"]);
    });
    while_it_lasts(&case, &rig).await;
    looping.join().expect("the script ends by itself");
    afterwards(&mut rig, &mut admin).await;
}

/// F26.3: a large data set at a restart; here a small one that is read slowly.
#[tokio::test(flavor = "multi_thread")]
async fn loading() {
    let options = &["--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024"];
    let case = Case { says: "LOADING", kind: "loading", options };
    let wrong = ["--loading-process-events-interval-bytes", "none"];
    if RedisServer::redis_that_knows(&wrong, options).is_none() {
        return;
    }
    let Some((mut server, mut admin, mut rig)) = start(&case).await else { return };
    let fill = "for i = 1, 5000 do redis.call('SET', 'other:' .. i, i) end";
    let () = admin.run(&["EVAL", fill, "0"]);
    let () = admin.run(&["SAVE"]);
    server.kill();
    server.begin_restart();
    while_it_lasts(&case, &rig).await;
    rig.until("error", "OK").await;
    afterwards(&mut rig, &mut server.admin()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_clients() {
    let case = Case { says: "maxclients", kind: "", options: &[] };
    let Some((_server, mut admin, mut rig)) = start(&case).await else { return };
    let () = admin.run(&["CONFIG", "SET", "maxclients", "1"]);
    let _: usize = admin.run(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    // Redis says it and hangs up, and that may overtake what it says.
    told_everywhere(case.says, &rig).await;
    let () = admin.run(&["CONFIG", "SET", "maxclients", "100"]);
    afterwards(&mut rig, &mut admin).await;
}

/// F25.2: a right is taken from our user.
#[tokio::test(flavor = "multi_thread")]
async fn noperm() {
    let case = Case { says: "NOPERM", kind: "permission", options: &[] };
    let Some(server) = RedisServer::redis() else { return };
    let mut admin = server.admin();
    let rights = ["+evalsha", "+eval", "+time", "+get", "+psetex", "+del"];
    let user = ["ACL", "SETUSER", "limiter", "on", ">hush", "~tidegate:*"];
    let () = admin.run(&[&user[..], &rights].concat());
    let url = format!("redis://limiter:hush@127.0.0.1:{}", server.port());
    let mut rig = Rig::start(&url, &["--failure-mode", "error"]).await;
    rig.is_exact().await;
    let () = admin.run(&["ACL", "SETUSER", "limiter", "-evalsha"]);
    while_it_lasts(&case, &rig).await;
    let told = rig.until_told("error", "x", "README").await;
    assert!(!told.contains("hush"), "{told}");
    let () = admin.run(&["ACL", "SETUSER", "limiter", "+evalsha"]);
    afterwards(&mut rig, &mut admin).await;
    assert!(!rig.gate.log().contains("hush"));
}

/// One key that is not a counter fails its own requests; the store is not away.
#[tokio::test(flavor = "multi_thread")]
async fn wrongtype() {
    let case = Case { says: "WRONGTYPE", kind: "wrong_type", options: &[] };
    let Some((server, mut admin, mut rig)) = start(&case).await else { return };
    rig.until("error", "OK").await;
    let key = server.keys().into_iter().find(|key| key.contains("error=until")).expect("a key");
    let () = admin.run(&["DEL", &key]);
    let () = admin.run(&["SADD", &key, "member"]);
    let told = rig.until_told("error", "until", case.says).await;
    assert!(!told.contains("error=until"), "no text of clients: {told}");
    for _ in 0..20 {
        assert_eq!(rig.ask("error", "until").await, "Unavailable");
    }
    rig.is_exact().await;
    eventually("the store is not away", || rig.metric("tidegate_store_up") == 1);
    let () = admin.run(&["DEL", &key]);
    afterwards(&mut rig, &mut admin).await;
}
