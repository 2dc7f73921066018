//! Redis that cannot be reached at the start: the log says so once, with where and
//! why, and once that it is there.

use tempfile::TempDir;

use crate::process::{Running, eventually};
use crate::redis::RedisServer;
use crate::sentinel::Group;
use crate::{EXACT, answers, serve};

/// The lines of the log with this text.
fn lines(gate: &Running, text: &str) -> Vec<String> {
    gate.log().lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
}

/// The one line that tells that it is away.
async fn told_once(gate: &Running, says: &str, port: u16) {
    eventually("it is told", || !lines(gate, says).is_empty());
    for _ in 0..20 {
        assert_eq!(answers(gate, "a", 1).await, ["Unavailable"]);
    }
    let told = lines(gate, " WARN ");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains(says) && told[0].contains(&format!("127.0.0.1:{port}")), "{told:?}");
}

async fn found_once(gate: &Running, says: &str) {
    eventually("it is found", || gate.metric("tidegate_store_up") == Some(1));
    assert_eq!(answers(gate, "b", 4).await, EXACT, "{}", gate.log());
    eventually("that is told", || !lines(gate, says).is_empty());
    assert_eq!(lines(gate, says).len(), 1, "{}", gate.log());
    assert_eq!(lines(gate, " WARN ").len(), 1, "{}", gate.log());
}

fn directory() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster() {
    let Some(mut node) = RedisServer::redis_with(&["--cluster-enabled", "yes"]) else { return };
    let _: () = node.run(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    node.kill();
    let directory = directory();
    let gate = serve(&format!("redis+cluster://127.0.0.1:{}", node.port()), &directory).start();
    told_once(&gate, "the cluster cannot be reached", node.port()).await;
    // A node that starts again says for a while that its cluster is down.
    node.restart();
    eventually("it is found", || gate.metric("tidegate_store_up") == Some(1));
    assert_eq!(answers(&gate, "b", 4).await, EXACT, "{}", gate.log());
    for says in ["the cluster cannot be reached", "the cluster tells its slots"] {
        eventually("that is told", || !lines(&gate, says).is_empty());
        assert_eq!(lines(&gate, says).len(), 1, "{}", gate.log());
    }
}

/// It is asked again and again, and answers each time that it is none.
#[tokio::test(flavor = "multi_thread")]
async fn no_cluster() {
    let Some(server) = RedisServer::redis() else { return };
    let directory = directory();
    let gate = serve(&format!("redis+cluster://127.0.0.1:{}", server.port()), &directory).start();
    eventually("it is asked again", || server.calls("cluster|slots") + server.calls("cluster") > 4);
    told_once(&gate, "begin its URL with redis://", server.port()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_sentinel() {
    let Some(server) = RedisServer::redis() else { return };
    let directory = directory();
    let url = format!("redis+sentinel://127.0.0.1:{}/main", server.port());
    let gate = serve(&url, &directory).start();
    told_once(&gate, "this is no sentinel; name its sentinels instead, or", server.port()).await;
}

/// The other way round: a sentinel, by the URL of something else.
#[tokio::test(flavor = "multi_thread")]
async fn a_sentinel_that_is_taken_for_something_else() {
    let Some(group) = Group::start(&[], &[]) else { return };
    let port = group.sentinels[0].port;
    for scheme in ["redis", "redis+cluster"] {
        let directory = directory();
        let gate = serve(&format!("{scheme}://127.0.0.1:{port}"), &directory).start();
        told_once(&gate, "redis+sentinel://", port).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server() {
    let Some(mut server) = RedisServer::redis() else { return };
    server.kill();
    let directory = directory();
    let gate = serve(&server.url(), &directory).start();
    told_once(&gate, "the store is away", server.port()).await;
    server.restart();
    found_once(&gate, "the store answers again").await;
}

/// Of three sentinels none is there, and then one.
#[tokio::test(flavor = "multi_thread")]
async fn sentinels() {
    let Some(mut group) = Group::start(&[], &[]) else { return };
    let url = group.url();
    for sentinel in &mut group.sentinels {
        sentinel.kill();
    }
    let directory = directory();
    let gate = serve(&url, &directory).start();
    eventually("it is told", || !lines(&gate, "the store is away").is_empty());
    let told = lines(&gate, " WARN ");
    let named = |port: u16| told[0].contains(&format!("127.0.0.1:{port}"));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(group.sentinels.iter().any(|sentinel| named(sentinel.port)), "{told:?}");
    group.sentinels[1].restart();
    found_once(&gate, "the store answers again").await;
}
