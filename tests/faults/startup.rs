//! F26.4: the service is there before its store.

use std::thread;
use std::time::{Duration, Instant};

use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::http;
use crate::process::{Launch, PATIENCE, eventually};
use crate::redis::{RedisServer, free_port};
use crate::rig::Rig;

async fn health(rig: &Rig) -> ServingStatus {
    let mut client = HealthClient::new(rig.channel.clone());
    let about = HealthCheckRequest { service: "ratelimit".into() };
    client.check(about).await.expect("an answer").into_inner().status()
}

/// Waits until health is this.
async fn health_is(rig: &Rig, wanted: ServingStatus) {
    let start = Instant::now();
    while health(rig).await != wanted {
        assert!(start.elapsed() < PATIENCE, "never {wanted:?}; {}", rig.gate.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Starts a server that is then away, on a port that stays its own.
fn absent() -> Option<RedisServer> {
    let mut server = RedisServer::redis()?;
    server.kill();
    Some(server)
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_answer_of_its_own_it_gets_no_traffic_until_redis_is_there() {
    let Some(mut server) = absent() else { return };
    let mut rig = Rig::start(&server.url(), &["--failure-mode", "error"]).await;
    assert_eq!(health(&rig).await, ServingStatus::NotServing);
    assert_eq!((rig.readyz().0, http::get(&rig.gate.http, "/healthcheck").status), (503, 500));
    let asked = [rig.ask("error", "a").await, rig.ask("open", "a").await];
    assert_eq!(asked, ["Unavailable", "OK"], "calls follow the modes of their rules");

    server.restart();
    eventually("ready", || rig.readyz().0 == 200);
    eventually("healthy", || http::get(&rig.gate.http, "/healthcheck").status == 200);
    health_is(&rig, ServingStatus::Serving).await;
    rig.until("error", "OK").await;
    rig.is_exact().await;

    server.kill();
    eventually("not ready", || rig.readyz().0 == 503);
    health_is(&rig, ServingStatus::NotServing).await;
}

/// In any other mode it has the answer that was asked for, and nobody at all
/// would not give it.
#[tokio::test(flavor = "multi_thread")]
async fn with_an_answer_of_its_own_it_is_ready() {
    let Some(server) = absent() else { return };
    for mode in ["open", "closed", "local"] {
        let rig = Rig::start(&server.url(), &["--failure-mode", mode]).await;
        assert_eq!(health(&rig).await, ServingStatus::Serving, "{mode}");
        let (status, body) = rig.readyz();
        assert_eq!((status, &body["ready"]), (200, &true.into()), "{mode}");
        let store = &body["store"];
        assert_eq!(store["status"], "unavailable");
        // Open, or half open while a question of our own is on its way.
        assert_ne!(store["breaker"], "closed");
        assert_eq!(store["failure_mode"], mode);
        assert!(store["error"].as_str().is_some_and(|text| text.contains("refused")), "{store}");
        assert_eq!(rig.metric("tidegate_store_up"), 0);
        assert_ne!(rig.metric("tidegate_breaker_state"), 0);
    }
}

#[test]
fn where_redis_is_required_it_does_not_start_without() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("config.yaml");
    std::fs::write(&config, "domain: t").expect("a file");
    let url = format!("redis://:hush@127.0.0.1:{}", free_port());
    let launch = Launch::serve(&config).args(["--require-store", "--store", &url]);
    let Err(ended) = launch.try_start() else { panic!("it started") };
    assert_eq!(ended.status.code(), Some(1));
    for told in ["--require-store", "refused", "127.0.0.1", "start it first, or leave"] {
        assert!(ended.stderr.contains(told), "{}", ended.stderr);
    }
    assert!(!ended.stderr.contains("hush"), "{}", ended.stderr);
}

/// It is there already: to start it is no advice.
#[test]
fn where_redis_is_required_and_refuses_the_login_that_is_told() {
    let Some(server) = RedisServer::redis() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("config.yaml");
    std::fs::write(&config, "domain: t").expect("a file");
    let url = format!("redis://nobody:hush@127.0.0.1:{}", server.port());
    let launch = Launch::serve(&config).args(["--require-store", "--store", &url]);
    let Err(ended) = launch.try_start() else { panic!("it started") };
    assert_eq!(ended.status.code(), Some(1));
    for told in ["WRONGPASS", "check the user and the password", "; leave --require-store out"] {
        assert!(ended.stderr.contains(told), "{}", ended.stderr);
    }
    for hidden in ["start it", "hush"] {
        assert!(!ended.stderr.contains(hidden), "{}", ended.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_redis_is_required_it_waits_for_it() {
    let Some(mut server) = absent() else { return };
    let url = server.url();
    let comes = thread::spawn(move || {
        server.restart();
        server
    });
    let mut rig = Rig::start(&url, &["--require-store"]).await;
    let _server = comes.join().expect("the server starts");
    rig.is_exact().await;
}
