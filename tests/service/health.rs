//! F29: health service and reflection.

use tokio_stream::StreamExt as _;
use tonic::Code;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::process::Launch;
use crate::{directory, http, remaining};

const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";

fn about(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.into() }
}

#[tokio::test(flavor = "multi_thread")]
async fn f29_health_knows_the_names_that_are_in_use() {
    let (_directory, config) = directory();
    let running = Launch::serve(&config).start();
    let mut health = HealthClient::new(running.channel().await);
    for name in ["", "ratelimit", SERVICE] {
        let answer = health.check(about(name)).await.expect(name).into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{name:?}");
    }
    let unknown = health.check(about("nope")).await.expect_err("unknown");
    assert_eq!(unknown.code(), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn f29_a_watch_sees_the_change_and_calls_are_answered_meanwhile() {
    let (_directory, config) = directory();
    let mut running = Launch::serve(&config).args(["--drain-delay", "2s"]).start();
    let channel = running.channel().await;
    let mut health = HealthClient::new(channel.clone());
    let mut watch = health.watch(about("ratelimit")).await.expect("a watch").into_inner();
    let first = watch.next().await.expect("a state").expect("no error");
    assert_eq!(first.status(), ServingStatus::Serving);

    running.signal("TERM");
    let second = watch.next().await.expect("a change").expect("no error");
    assert_eq!(second.status(), ServingStatus::NotServing);
    // The names change one after the other.
    for name in ["", SERVICE] {
        let mut watch = health.watch(about(name)).await.expect(name).into_inner();
        while watch.next().await.expect("a state").expect("no error").status()
            != ServingStatus::NotServing
        {}
    }
    let ready = http::get(&running.http, "/readyz");
    assert_eq!((ready.status, &ready.json()["ready"]), (503, &false.into()));
    assert_eq!(http::get(&running.http, "/healthcheck").status, 500);
    assert_eq!(http::get(&running.http, "/healthz").status, 200);
    assert_eq!(remaining(&channel, "five", "draining").await, 4);
    // Also on a connection that is made only now.
    assert_eq!(remaining(&running.channel().await, "five", "draining").await, 3);

    assert!(watch.next().await.is_none(), "the watch ends in order");
    assert_eq!(running.wait().status.code(), Some(0));
}

/// The same for both versions, which differ in their package only.
macro_rules! reflection {
    ($version:ident, $channel:expr) => {{
        use tonic_reflection::pb::$version::ServerReflectionRequest;
        use tonic_reflection::pb::$version::server_reflection_client::ServerReflectionClient;
        use tonic_reflection::pb::$version::server_reflection_request::MessageRequest;
        use tonic_reflection::pb::$version::server_reflection_response::MessageResponse;

        let ask = [
            MessageRequest::ListServices(String::new()),
            MessageRequest::FileContainingSymbol(SERVICE.into()),
            MessageRequest::FileContainingSymbol(DESCRIPTOR.into()),
        ];
        let requests = tokio_stream::iter(ask).map(|message| ServerReflectionRequest {
            host: String::new(),
            message_request: Some(message),
        });
        let mut client = ServerReflectionClient::new($channel);
        let answers = client.server_reflection_info(requests).await.expect("a stream");
        let answers: Vec<_> = answers.into_inner().collect().await;
        let mut services = Vec::new();
        let mut files = Vec::new();
        for answer in answers {
            match answer.expect("no error").message_response.expect("an answer") {
                MessageResponse::ListServicesResponse(list) => {
                    services.extend(list.service.into_iter().map(|service| service.name));
                }
                MessageResponse::FileDescriptorResponse(found) => {
                    files.extend(found.file_descriptor_proto);
                }
                other => panic!("unexpected: {other:?}"),
            }
        }
        check_reflection(&services, &files);
    }};
}

const DESCRIPTOR: &str = "envoy.extensions.common.ratelimit.v3.RateLimitDescriptor";

fn check_reflection(services: &[String], files: &[Vec<u8>]) {
    use prost::Message as _;
    for name in [SERVICE, "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"] {
        assert!(services.iter().any(|service| service == name), "{name} in {services:?}");
    }
    let decoded: Vec<_> = files
        .iter()
        .map(|file| prost_types::FileDescriptorProto::decode(file.as_slice()).expect("a file"))
        .collect();
    assert_eq!(decoded[0].service[0].method[0].name(), "ShouldRateLimit");
    let descriptor = decoded[1].message_type.iter().find(|m| m.name() == "RateLimitDescriptor");
    let fields: Vec<_> = descriptor
        .expect("the message")
        .field
        .iter()
        .map(prost_types::FieldDescriptorProto::name)
        .collect();
    assert!(fields.contains(&"hits_addend") && fields.contains(&"is_negative_hits"), "{fields:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn f29_reflection_lists_and_describes_in_both_versions() {
    let (_directory, config) = directory();
    let running = Launch::serve(&config).start();
    let channel: Channel = running.channel().await;
    reflection!(v1, channel.clone());
    reflection!(v1alpha, channel);
}

#[test]
fn f29_healthcheck_says_ok() {
    let (_directory, config) = directory();
    let running = Launch::serve(&config).start();
    let answer = http::get(&running.http, "/healthcheck");
    assert_eq!((answer.status, answer.body.as_str()), (200, "OK"));
    let ready = http::get(&running.http, "/readyz");
    assert_eq!(ready.status, 200);
    let body = ready.json();
    assert_eq!(body["ready"], true);
    assert_eq!(body["config"]["path"], config.to_str().expect("text"));
    assert_eq!(body["config"]["stale"], false);
    assert_eq!(body["store"], serde_json::json!({"kind": "memory", "status": "ok"}));
}
