//! What the faces say to requests that are not decisions: wrong paths, wrong
//! bodies, too much of everything.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use tidegate::proto::RateLimitRequest;
use tonic::Code;

use crate::process::{Launch, Running};
use crate::{ask, directory, http, remaining, request};

fn start() -> (tempfile::TempDir, Running) {
    let (directory, config) = directory();
    let running = Launch::serve(config).start();
    (directory, running)
}

#[test]
fn an_unknown_path_lists_those_there_are() {
    let (_directory, running) = start();
    let answer = http::get(&running.http, "/");
    assert_eq!(answer.status, 404);
    for path in ["/healthz", "/readyz", "/healthcheck", "/json", "/metrics"] {
        assert!(answer.body.contains(path), "{path} in {}", answer.body);
    }
    assert_eq!(http::get(&running.http, "/json").status, 405);
}

#[test]
fn metrics_are_in_the_text_format() {
    let (_directory, running) = start();
    let answer = http::get(&running.http, "/metrics");
    assert!(answer.head.contains("text/plain; version=0.0.4"), "{}", answer.head);
    assert!(answer.body.contains("\nratelimit_service_config_load_success 1\n"));
    assert!(answer.body.contains("\ntidegate_config_stale 0\n"));
}

#[test]
fn f12_f14_json_answers_200_429_and_400() {
    let (_directory, running) = start();
    let body = br#"{"domain": "t", "descriptors": [{"entries": [{"key": "five", "value": "a"}]}]}"#;
    for left in (0..5).rev() {
        let answer = http::post(&running.http, "/json", body);
        assert_eq!(answer.status, 200);
        let status = &answer.json()["statuses"][0];
        assert_eq!(answer.json()["overallCode"], "OK");
        assert_eq!(status["currentLimit"]["unit"], "YEAR");
        assert_eq!(status["limitRemaining"].as_u64().unwrap_or(0), left);
    }
    let over = http::post(&running.http, "/json", body);
    assert_eq!((over.status, &over.json()["overallCode"]), (429, &"OVER_LIMIT".into()));

    for (body, told) in [
        ("", "EOF"),
        ("}", "expected value"),
        (r#"{"domain": "t", "descriptor": []}"#, "descriptor"),
        (r#"{"domain": "", "descriptors": [{}]}"#, "domain must not be empty"),
        (r#"{"domain": "t"}"#, "descriptor list must not be empty"),
        (r#"{"domain": "t", "descriptors": [{}], "hitsAddend": -1}"#, "out of range"),
    ] {
        let answer = http::post(&running.http, "/json", body.as_bytes());
        assert_eq!(answer.status, 400, "{body}: {answer:?}");
        let message = answer.json()["message"].as_str().map(str::to_owned).unwrap_or_default();
        assert!(message.contains(told), "{body}: {message}");
    }
}

/// F15: whoever asks for too much hinders nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn f15_huge_requests_do_not_disturb_others() {
    let (_directory, running) = start();
    let huge = {
        let mut huge = request("five", "x");
        huge.descriptors = vec![huge.descriptors[0].clone(); 100_000];
        huge
    };
    let channels = [running.channel().await, running.channel().await];
    let storm = (0..10).map(|_| {
        let (channel, huge) = (channels[0].clone(), huge.clone());
        tokio::spawn(async move { ask(&channel, huge).await.map_err(|status| status.code()) })
    });
    let storm: Vec<_> = storm.collect();
    for _ in 0..100 {
        let mut probe = request("five", "probe");
        probe.descriptors[0].hits_addend = Some(0);
        ask(&channels[1], probe).await.expect("an answer");
    }
    for refused in storm {
        assert_eq!(refused.await.expect("no panic"), Err(Code::ResourceExhausted));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_above_4_mib_is_refused_and_the_connection_lives() {
    let (_directory, running) = start();
    let channel = running.channel().await;
    for round in 0..3 {
        let huge = request("five", &"x".repeat(5 << 20));
        let refused = ask(&channel, huge).await.expect_err("too large");
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
        assert!(refused.message().contains("4194304"), "{refused}");
        assert_eq!(remaining(&channel, "five", "probe").await, 4 - round);
    }
    let body = vec![b' '; 5 << 20];
    assert_eq!(http::post(&running.http, "/json", &body).status, 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_descriptors_are_refused_and_the_bound_can_be_moved() {
    let (_directory, config) = directory();
    let running = Launch::serve(config).args(["--max-descriptors", "2"]).start();
    let channel = running.channel().await;
    let with = |count| {
        let one = request("five", "a");
        RateLimitRequest { descriptors: vec![one.descriptors[0].clone(); count], ..one }
    };
    assert_eq!(ask(&channel, with(2)).await.expect("an answer").statuses.len(), 2);
    let refused = ask(&channel, with(3)).await.expect_err("too many");
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_protocol_hurt_nobody() {
    let (_directory, running) = start();
    let garbage: Vec<u8> =
        (0..65_536u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for address in [&running.grpc, &running.http] {
        for start in [&b""[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"POST /json HTTP/1.1\r\n"] {
            let mut stream = TcpStream::connect(address).expect("a connection");
            // The server may hang up at any point.
            let _ = stream.write_all(start).and_then(|()| stream.write_all(&garbage));
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }
    }
    assert_eq!(remaining(&running.channel().await, "five", "after").await, 4);
    assert_eq!(http::get(&running.http, "/healthz").status, 200);
    assert!(!running.log().contains("panicked"), "{}", running.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_no_request_ends_the_call_only() {
    use tonic::client::Grpc;
    use tonic::codegen::http::uri::PathAndQuery;

    let (_directory, running) = start();
    let channel = running.channel().await;
    // A message whose first field has the wrong type.
    let wrong = tonic_health::pb::HealthCheckResponse { status: 300 };
    let mut client = Grpc::new(channel.clone());
    client.ready().await.expect("a connection");
    let path =
        PathAndQuery::from_static("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit");
    let codec: tonic_prost::ProstCodec<_, tidegate::proto::RateLimitResponse> =
        tonic_prost::ProstCodec::default();
    let refused = client.unary(tonic::Request::new(wrong), path, codec).await.expect_err("no");
    assert_eq!(refused.code(), Code::Internal, "{refused}");
    assert_eq!(remaining(&channel, "five", "after").await, 4);
}
