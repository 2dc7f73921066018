//! F30: how the process ends.

use tidegate::proto::{RateLimitRequest, RateLimitResponse};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;

use crate::process::{Launch, Running, eventually};
use crate::{directory, http, remaining, request};

const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// A call that has begun but whose request is sent only when told: from the
/// server's side a call in flight.
struct Slow {
    request: mpsc::Sender<RateLimitRequest>,
    answer: tokio::task::JoinHandle<Result<RateLimitResponse, Status>>,
}

impl Slow {
    async fn begin(channel: Channel) -> Self {
        let (request, messages) = mpsc::channel(1);
        let mut client = Grpc::new(channel);
        client.ready().await.expect("a connection");
        let answer = tokio::spawn(async move {
            let codec: tonic_prost::ProstCodec<RateLimitRequest, RateLimitResponse> =
                tonic_prost::ProstCodec::default();
            let messages = tonic::Request::new(ReceiverStream::new(messages));
            let path = PathAndQuery::from_static(METHOD);
            client.client_streaming(messages, path, codec).await.map(tonic::Response::into_inner)
        });
        Self { request, answer }
    }

    async fn finish(self) -> Result<RateLimitResponse, Status> {
        let _ = self.request.send(request("five", "slow")).await;
        drop(self.request);
        self.answer.await.expect("no panic")
    }
}

fn start(args: &[&str]) -> (tempfile::TempDir, Running) {
    let (directory, config) = directory();
    let running = Launch::serve(config).args(args).start();
    (directory, running)
}

/// Once the port is closed, all that is left are calls in flight.
fn until_closed(running: &Running) {
    eventually("the port is closed", || std::net::TcpStream::connect(&running.grpc).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn f30_calls_in_flight_finish_and_the_exit_code_is_0() {
    for signal in ["TERM", "INT"] {
        let (_directory, mut running) = start(&[]);
        let channel = running.channel().await;
        let slow = Slow::begin(channel.clone()).await;
        // The connection is in use by now: this call came after the slow one.
        assert_eq!(remaining(&channel, "five", "a").await, 4);
        let body = r#"{"domain": "t", "descriptors": [{"entries": [{"key": "five"}]}]}"#;
        let (half, rest) = body.split_at(20);
        let mut json = http::Call::begin(&running.http, "POST", "/json", body.len());
        json.send(half.as_bytes());
        assert_eq!(http::get(&running.http, "/healthz").status, 200);

        running.signal(signal);
        until_closed(&running);
        let answer = slow.finish().await.expect("an answer");
        assert_eq!(answer.statuses[0].limit_remaining, 4);
        json.send(rest.as_bytes());
        assert_eq!(json.finish().status, 200);
        let ended = running.wait();
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
        assert!(!ended.stderr.contains("cut off"), "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f30_the_grace_time_bounds_the_stop() {
    let (_directory, mut running) = start(&["--grace", "50ms"]);
    let channel = running.channel().await;
    let slow = Slow::begin(channel.clone()).await;
    assert_eq!(remaining(&channel, "five", "a").await, 4);
    let ended = running.stop();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert!(ended.stderr.contains("grace time is over"), "{ended:?}");
    slow.finish().await.expect_err("cut off");
}

/// A prober or a pool that connects ahead: it has no call that could finish.
#[tokio::test(flavor = "multi_thread")]
async fn f30_clients_that_say_nothing_do_not_hold_up_the_stop() {
    let (_directory, mut running) = start(&["--grace", "1h"]);
    let connect = || std::net::TcpStream::connect(&running.grpc).expect("a connection");
    let (_silent, mut stammering) = (connect(), connect());
    std::io::Write::write_all(&mut stammering, b"PRI * HT").expect("sent");
    assert_eq!(remaining(&running.channel().await, "five", "a").await, 4);
    let ended = running.stop();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn f30_a_second_signal_ends_the_process_at_once() {
    let (directory, config) = directory();
    let socket = directory.path().join("grpc.sock");
    let listen = format!("unix:{}", socket.display());
    let mut running = Launch::new(["serve", "--http-listen", "127.0.0.1:0", "--listen", &listen])
        .args(["--config".as_ref(), config.as_os_str()])
        .args(["--drain-delay", "1h"])
        .start();
    running.signal("TERM");
    eventually("the drain begins", || http::get(&running.http, "/readyz").status == 503);
    let ended = running.stop();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("second signal"), "{ended:?}");
    assert!(!socket.exists(), "even so the socket is removed");
}

/// What a balancer does: it stays until health turns, then sends calls to the
/// next instance.
#[tokio::test(flavor = "multi_thread")]
async fn f30_no_call_is_lost_while_instances_take_turns() {
    let (_directory, config) = directory();
    let launch = || Launch::serve(&config).args(["--drain-delay", "1s"]).start();
    let mut current = launch();
    let (balancer, target) = watch::channel(current.channel().await);
    let calls = tokio::spawn(async move {
        let mut calls = 0;
        while target.has_changed().is_ok() {
            let channel = target.borrow().clone();
            remaining(&channel, "five", &format!("call {calls}")).await;
            calls += 1;
        }
        calls
    });
    for _ in 0..3 {
        let next = launch();
        let channel = next.channel().await;
        current.signal("TERM");
        eventually("health turns", || http::get(&current.http, "/readyz").status == 503);
        balancer.send(channel).expect("the caller is there");
        let ended = tokio::task::spawn_blocking(move || current.wait()).await.expect("no panic");
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
        current = next;
    }
    drop(balancer);
    assert!(calls.await.expect("no call failed") > 3);
}
