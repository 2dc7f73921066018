//! Spans of calls, for collectors of OpenTelemetry.
//!
//! A span is begun where the caller asks for one or the sampling rate picks it.
//! Batches are sent by a thread of the SDK from a bounded queue; what does not
//! fit is dropped, and no call waits.

mod export;
mod parent;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use opentelemetry::trace::{Span as _, SpanKind, Status, Tracer as _, TracerProvider as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider, Span};

pub use export::ExportError;

use super::calls::Method;
use crate::proto::rate_limit_service_server::SERVICE_NAME;

/// How long the last batch may hold up the end of the process.
const PATIENCE: Duration = Duration::from_secs(5);
/// How much of a text from a client a span carries, in bytes.
const MAX_TEXT: usize = 128;

/// How collectors are told. Where they are and how they are reached, the
/// `OTEL_EXPORTER_OTLP_…` variables say.
#[derive(Clone, Debug)]
pub struct SpanOptions {
    /// How spans travel.
    pub protocol: OtlpProtocol,
    /// Which share of calls without a sampled or unsampled parent has a span.
    pub sampling_rate: f64,
    /// `service.name`.
    pub service: String,
    /// `service.namespace`.
    pub namespace: Option<String>,
    /// `service.instance.id`; random if it is not given.
    pub instance: Option<String>,
}

/// How spans travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtlpProtocol {
    /// Protobuf over HTTP.
    Http,
    /// gRPC.
    Grpc,
}

/// What makes spans, or makes none. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Spans(Option<Arc<Tracing>>);

#[derive(Debug)]
struct Tracing {
    tracer: SdkTracer,
    provider: SdkTracerProvider,
}

/// The span of a call; ends when it is dropped.
#[derive(Debug)]
pub struct CallSpan(Span);

/// What came of a call.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    /// A decision.
    Decided {
        /// Whether the request was refused.
        over_limit: bool,
    },
    /// An error.
    Failed {
        /// The gRPC code.
        code: i32,
        /// The message.
        message: &'a str,
    },
}

impl Spans {
    /// Begins to make spans. To be called in the runtime of tokio.
    ///
    /// # Errors
    /// If the collector's address or the trusted certificates cannot be read.
    pub fn start(options: SpanOptions) -> Result<Self, ExportError> {
        let exporter = export::exporter(options.protocol)?;
        let rate = Sampler::TraceIdRatioBased(options.sampling_rate);
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_sampler(Sampler::ParentBased(Box::new(rate)))
            .with_resource(resource(options))
            .build();
        let tracer = provider.tracer(env!("CARGO_PKG_NAME"));
        Ok(Self(Some(Arc::new(Tracing { tracer, provider }))))
    }

    /// Whether spans are made at all.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins the span of a call with these headers.
    pub fn begin(&self, method: Method, headers: &HeaderMap) -> Option<CallSpan> {
        let tracing = self.0.as_ref()?;
        let parent = parent::of(headers);
        Some(CallSpan::begin(&tracing.tracer, method, &parent))
    }

    /// Sends what is left.
    pub async fn finish(&self) {
        let Some(tracing) = self.0.clone() else { return };
        let ended = tokio::task::spawn_blocking(move || {
            tracing.provider.shutdown_with_timeout(PATIENCE).map_err(|error| error.to_string())
        });
        if let Ok(Err(error)) = ended.await {
            tracing::warn!(%error, "the last spans may be lost");
        }
    }
}

impl CallSpan {
    fn begin(tracer: &SdkTracer, method: Method, parent: &Context) -> Self {
        let (name, system): (Cow<'static, str>, _) = match method {
            Method::ShouldRateLimit => (format!("{SERVICE_NAME}/{}", method.name()).into(), "grpc"),
            Method::Json => ("POST /json".into(), "http"),
        };
        let span = tracer
            .span_builder(name)
            .with_kind(SpanKind::Server)
            .with_attributes([KeyValue::new("rpc.system", system)]);
        Self(span.start_with_context(tracer, parent))
    }

    /// Notes what was asked and what came of it, and ends the span.
    pub fn answered(mut self, domain: &str, descriptors: usize, outcome: Outcome<'_>) {
        if !self.0.is_recording() {
            return;
        }
        self.0.set_attribute(KeyValue::new("ratelimit.domain", clipped(domain)));
        let count = i64::try_from(descriptors).unwrap_or(i64::MAX);
        self.0.set_attribute(KeyValue::new("ratelimit.descriptors", count));
        let code = match outcome {
            Outcome::Decided { over_limit } => {
                let code = if over_limit { "OVER_LIMIT" } else { "OK" };
                self.0.set_attribute(KeyValue::new("ratelimit.code", code));
                0
            }
            Outcome::Failed { code, message } => {
                self.0.set_status(Status::error(clipped(message)));
                code
            }
        };
        self.0.set_attribute(KeyValue::new("rpc.grpc.status_code", i64::from(code)));
        self.0.end();
    }
}

fn clipped(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT)].to_owned()
}

/// Who makes the spans; `OTEL_RESOURCE_ATTRIBUTES` adds to it.
fn resource(options: SpanOptions) -> Resource {
    let SpanOptions { service, namespace, instance, .. } = options;
    let instance = instance.unwrap_or_else(random_uuid);
    let namespace = namespace.map(|namespace| KeyValue::new("service.namespace", namespace));
    Resource::builder()
        .with_service_name(service)
        .with_attribute(KeyValue::new("service.instance.id", instance))
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_attributes(namespace)
        .build()
}

/// A random UUID, version 4.
fn random_uuid() -> String {
    let bits = fastrand::u128(..);
    let bits = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_have_ids_of_their_own() {
        let (one, other) = (random_uuid(), random_uuid());
        assert_ne!(one, other);
        assert_eq!((one.len(), &one[14..15]), (36, "4"));
        assert!(matches!(&one[19..20], "8" | "9" | "a" | "b"), "{one}");
    }

    #[test]
    fn without_a_collector_there_is_no_span() {
        assert!(Spans::default().begin(Method::Json, &HeaderMap::new()).is_none());
    }
}
