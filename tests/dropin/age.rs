//! F31: connections have an age, and calls do not notice.

use std::time::Instant;

use tidegate::proto::RateLimitRequest;
use tidegate::proto::rate_limit_service_client::RateLimitServiceClient;
use tokio_stream::StreamExt as _;
use tonic::Status;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::frames::{ACK, DATA, END_STREAM, GOAWAY, HEADERS, PING, Wire};
use crate::relay::Relay;
use crate::support::ask::request;
use crate::support::process::PATIENCE;
use crate::{FIVE, Site};

fn endpoint(address: &str) -> Endpoint {
    Endpoint::from_shared(format!("http://{address}")).expect("an address")
}

/// Whether this client says that the service has not taken a call: it gives up
/// what it has not sent yet when it is sent elsewhere, and now and then it opens
/// a stream after it was sent elsewhere and has said so, of which it is then told
/// that it is not served. Envoy and gRPC's own clients make such calls there.
fn was_not_taken(status: &Status) -> bool {
    let told = format!("{status:?}");
    [
        "Canceled, \"connection closed\"",
        "Canceled, \"connection was not ready\"",
        "GoAway(b\"\", NO_ERROR, Remote)",
    ]
    .iter()
    .any(|told_so| told.contains(told_so))
}

#[tokio::test(flavor = "multi_thread")]
async fn f31_clients_are_sent_elsewhere_and_no_call_fails() {
    let Some(site) = Site::new(&[("a.yaml", FIVE)]) else { return };
    // Long enough for calls on a busy machine, too.
    let launch = site.launch().env("GRPC_MAX_CONNECTION_AGE", "500ms");
    let service = launch.env("GRPC_MAX_CONNECTION_AGE_GRACE", "20s").start();
    let relay = Relay::to(&service.grpc).await;
    let channel = endpoint(&relay.address).connect_lazy();
    let mut client = RateLimitServiceClient::new(channel);
    let asked: RateLimitRequest = request("t", "[other=x]");
    let (start, mut calls) = (Instant::now(), 0);
    while relay.connections() < 5 {
        match client.should_rate_limit(asked.clone()).await {
            Ok(_) => calls += 1,
            Err(status) if was_not_taken(&status) => {}
            Err(status) => panic!("call {calls}, {} connections: {status:?}", relay.connections()),
        }
        assert!(start.elapsed() < PATIENCE, "only {} connections", relay.connections());
    }
    assert!(calls > 20, "{calls} calls on 5 connections");
}

/// RFC 9113, 6.8: the first farewell refuses nothing; which calls are served is
/// told when the client has acknowledged it.
#[test]
fn f31_a_call_that_crosses_the_farewell_is_answered() {
    let Some(site) = Site::new(&[("a.yaml", FIVE)]) else { return };
    let launch = site.launch().env("GRPC_MAX_CONNECTION_AGE", "100ms");
    let service = launch.env("GRPC_MAX_CONNECTION_AGE_GRACE", "20s").start();
    let mut wire = Wire::to(&service.grpc);
    assert_eq!(wire.until(GOAWAY).last_stream(), u32::MAX >> 1);
    let ping = wire.until(PING);
    // Sent before the farewell came, as far as the service can know.
    wire.call(1, &request("t", "[five=x]"));
    wire.send(PING, ACK, 0, &ping.payload);
    let rest = wire.rest();
    let farewell = rest.iter().find(|frame| frame.kind == GOAWAY).expect("another farewell");
    assert_eq!(farewell.last_stream(), 1);
    let answer: Vec<(u8, bool)> = rest
        .iter()
        .filter(|frame| frame.stream == 1)
        .map(|frame| (frame.kind, frame.flags & END_STREAM != 0))
        .collect();
    assert_eq!(answer, [(HEADERS, false), (DATA, false), (HEADERS, true)], "{rest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn f31_calls_that_outlast_the_grace_are_cut_off() {
    let Some(site) = Site::new(&[("a.yaml", FIVE)]) else { return };
    let launch = site.launch().env("GRPC_MAX_CONNECTION_AGE", "100ms");
    let service = launch.env("GRPC_MAX_CONNECTION_AGE_GRACE", "100ms").start();
    let channel = endpoint(&service.grpc).connect().await.expect("a connection");
    let mut health = HealthClient::new(channel);
    let about = HealthCheckRequest { service: "ratelimit".into() };
    let mut watch = health.watch(about).await.expect("a watch").into_inner();
    assert!(watch.next().await.is_some_and(|first| first.is_ok()));
    // Health may change meanwhile. A watch has no end of its own.
    let end = async { while watch.next().await.is_some_and(|update| update.is_ok()) {} };
    tokio::time::timeout(PATIENCE, end).await.expect("cut off");
}

#[tokio::test(flavor = "multi_thread")]
async fn f31_by_default_connections_stay() {
    let Some(site) = Site::new(&[("a.yaml", FIVE)]) else { return };
    let launch = site.launch().env("GRPC_MAX_CONNECTION_AGE", "0");
    let service = launch.start();
    let relay = Relay::to(&service.grpc).await;
    let mut client = RateLimitServiceClient::new(endpoint(&relay.address).connect_lazy());
    for _ in 0..200 {
        client.should_rate_limit(request("t", "[other=x]")).await.expect("an answer");
    }
    assert_eq!(relay.connections(), 1);
}
