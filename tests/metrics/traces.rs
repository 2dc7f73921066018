//! What a collector of OpenTelemetry hears, by HTTP and by gRPC, from the real
//! binary.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tidegate::proto::rate_limit_service_client::RateLimitServiceClient;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

use crate::support::process::{Launch, eventually};
use crate::support::{ask, http};
use crate::{Service, launch};

const RULES: &str = "  - {key: one, rate_limit: {unit: year, requests_per_unit: 1}}";
const TRACE: &str = "463ac35c9f6413ad48485a3953bb6124";
const PARENT: &str = "a2fb4a1d1a96d312";

/// What was told so far.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().expect("not poisoned").push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// One that takes protobuf over HTTP; its URL.
    async fn http() -> (Self, String) {
        let collector = Self::default();
        let take = async |State(collector): State<Self>, body: Bytes| {
            let request = ExportTraceServiceRequest::decode(body).expect("a request");
            collector.0.lock().expect("not poisoned").push(request);
        };
        let router = Router::new().route("/v1/traces", post(take)).with_state(collector.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, router).await });
        (collector, url)
    }

    /// One that takes gRPC.
    async fn grpc() -> (Self, String) {
        let collector = Self::default();
        let service = TraceServiceServer::new(collector.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let server = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        (collector, url)
    }

    fn spans(&self) -> Vec<Span> {
        let told = self.0.lock().expect("not poisoned");
        let scopes =
            told.iter().flat_map(|one| &one.resource_spans).flat_map(|one| &one.scope_spans);
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }

    /// What is said of the service itself.
    fn resource(&self, key: &str) -> Option<String> {
        let told = self.0.lock().expect("not poisoned");
        let resource = told.first()?.resource_spans.first()?.resource.as_ref()?;
        text(&resource.attributes, key)
    }
}

fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let value = attributes.iter().find(|one| one.key == key)?.value.as_ref()?.value.as_ref()?;
    Some(match value {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn traced(url: &str, protocol: &str) -> impl FnOnce(Launch) -> Launch {
    move |launch| {
        let launch = launch.env("TRACING_ENABLED", "true").env("OTEL_EXPORTER_OTLP_ENDPOINT", url);
        let launch = launch.env("TRACING_EXPORTER_PROTOCOL", protocol);
        launch.env("OTEL_BSP_SCHEDULE_DELAY", "20")
    }
}

/// Asks with one more header.
async fn ask_with(service: &Service, text: &str, header: (&'static str, &str)) {
    let mut request = Request::new(ask::request("t", text));
    request.metadata_mut().insert(header.0, header.1.parse().expect("a header"));
    let mut client = RateLimitServiceClient::new(service.channel.clone());
    client.should_rate_limit(request).await.expect("an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_a_span_below_that_of_the_caller() {
    let (collector, url) = Collector::http().await;
    let service = launch(RULES, |launch| {
        let launch = traced(&url, "http")(launch).env("TRACING_SERVICE_NAMESPACE", "edge");
        launch.env("TRACING_SERVICE_INSTANCE_ID", "pod-7")
    })
    .await;
    let parent = format!("00-{TRACE}-{PARENT}-01");
    ask_with(&service, "[one=x]", ("traceparent", &parent)).await;
    ask_with(&service, "{[one=x], [two=y]}", ("traceparent", &parent)).await;
    eventually("both spans are told", || collector.spans().len() == 2);
    for (span, code) in collector.spans().iter().zip(["OK", "OVER_LIMIT"]) {
        assert_eq!(span.name, "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit");
        assert_eq!((hex(&span.trace_id), hex(&span.parent_span_id)), (TRACE.into(), PARENT.into()));
        assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
        for (key, value) in
            [("ratelimit.domain", "t"), ("ratelimit.code", code), ("rpc.grpc.status_code", "0")]
        {
            assert_eq!(text(&span.attributes, key).as_deref(), Some(value), "{key}");
        }
    }
    for (key, value) in [
        ("service.name", "RateLimit"),
        ("service.namespace", "edge"),
        ("service.instance.id", "pod-7"),
    ] {
        assert_eq!(collector.resource(key).as_deref(), Some(value), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_process_sends_what_is_left_by_grpc() {
    let (collector, url) = Collector::grpc().await;
    let mut service = launch(RULES, |launch| {
        traced(&url, "grpc")(launch).env("OTEL_BSP_SCHEDULE_DELAY", "3600000")
    })
    .await;
    ask_with(&service, "[one=x]", ("b3", &format!("{TRACE}-{PARENT}-1"))).await;
    service.send(tidegate::proto::RateLimitRequest::default()).await;
    let body = br#"{"domain": "t", "descriptors": [{"entries": [{"key": "one", "value": "x"}]}]}"#;
    assert_eq!(http::post(&service.running.http, "/json", body).status, 429);
    assert!(service.running.stop().status.success());
    let spans = collector.spans();
    assert_eq!(spans.len(), 3);
    assert_eq!(hex(&spans[0].trace_id), TRACE);
    let status = spans[1].status.as_ref().expect("a status");
    assert!(status.message.contains("domain must not be empty"), "{status:?}");
    assert_eq!(text(&spans[1].attributes, "rpc.grpc.status_code").as_deref(), Some("3"));
    assert_eq!(spans[2].name, "POST /json");
    assert_eq!(text(&spans[2].attributes, "ratelimit.code").as_deref(), Some("OVER_LIMIT"));
    assert_eq!(collector.resource("service.instance.id").map(|id| id.len()), Some(36));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_caller_decides_before_the_sampling_rate_does() {
    let (collector, url) = Collector::http().await;
    let mut service =
        launch(RULES, |launch| traced(&url, "http")(launch).env("TRACING_SAMPLING_RATE", "0"))
            .await;
    for _ in 0..20 {
        service.ask("[one=x]").await;
    }
    for (flags, _) in [("00", "not sampled"), ("01", "sampled")] {
        let parent = format!("00-{TRACE}-{PARENT}-{flags}");
        ask_with(&service, "[one=x]", ("traceparent", &parent)).await;
    }
    assert!(service.running.stop().status.success());
    assert_eq!(collector.spans().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_is_told_once_and_hinders_nobody() {
    for protocol in ["http", "grpc"] {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", closed.local_addr().expect("an address"));
        drop(closed);
        let mut service = launch(RULES, traced(&url, protocol)).await;
        let away = || service.running.log().matches("takes no spans").count();
        service.ask("[one=x]").await;
        eventually("it is told", || away() == 1);
        for _ in 0..50 {
            assert_eq!(service.ask("[one=x]").await, "OVER");
        }
        let ended = service.running.stop();
        assert!(ended.status.success(), "{}", ended.stderr);
        assert_eq!(ended.stderr.matches("takes no spans").count(), 1, "{}", ended.stderr);
    }
}

#[test]
fn an_endpoint_that_is_none_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("config.yaml");
    std::fs::write(&config, format!("domain: t\ndescriptors:\n{RULES}\n")).expect("a file");
    let launch = Launch::serve(&config).env("TRACING_ENABLED", "true");
    let ended = launch.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://[nonsense").output();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("OTEL_EXPORTER_OTLP_"), "{}", ended.stderr);
}
