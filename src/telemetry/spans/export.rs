//! The way to the collector.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper_rustls::HttpsConnectorBuilder;
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_otlp::{
    ExporterBuildError, OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, Protocol,
    WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tokio::runtime::Handle;
use tokio_util::context::TokioContext;

use super::OtlpProtocol;

/// How long the client waits; the exporter itself, by
/// `OTEL_EXPORTER_OTLP_TIMEOUT`, may give up earlier.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why collectors cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// An `OTEL_…` variable is wrong.
    #[error("tracing cannot begin: {0}; check the OTEL_EXPORTER_OTLP_ variables")]
    Settings(#[from] ExporterBuildError),
    /// The certificates that the system trusts cannot be read.
    #[error("tracing cannot begin: the certificates that the system trusts: {0}")]
    Certificates(#[from] std::io::Error),
}

/// Sends spans as the settings in the environment say.
pub(super) fn exporter(protocol: OtlpProtocol) -> Result<Noting, ExportError> {
    let exporter = match protocol {
        OtlpProtocol::Grpc => opentelemetry_otlp::SpanExporter::builder().with_tonic().build()?,
        OtlpProtocol::Http => {
            let builder = opentelemetry_otlp::SpanExporter::builder()
                .with_http()
                .with_protocol(Protocol::HttpBinary);
            if is_encrypted() {
                let connector = HttpsConnectorBuilder::new().with_native_roots()?;
                let connector = connector.https_only().enable_http1().build();
                builder.with_http_client(HyperClient::new(connector, PATIENCE, None)).build()?
            } else {
                let client = HyperClient::with_default_connector(PATIENCE, None);
                builder.with_http_client(client).build()?
            }
        }
    };
    Ok(Noting { exporter, runtime: Handle::current(), failing: AtomicBool::new(false) })
}

/// Whether the collector is reached by TLS. Without, no certificates are needed,
/// and a small image has none.
fn is_encrypted() -> bool {
    let endpoints = [OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_EXPORTER_OTLP_ENDPOINT];
    let mut given = endpoints.iter().filter_map(|name| std::env::var(name).ok());
    given.find(|text| !text.is_empty()).is_some_and(|text| text.starts_with("https:"))
}

/// An exporter that works outside of the runtime, where the SDK calls it, and
/// that logs changes rather than every failure.
#[derive(Debug)]
pub(super) struct Noting {
    exporter: opentelemetry_otlp::SpanExporter,
    runtime: Handle,
    failing: AtomicBool,
}

impl SpanExporter for Noting {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let sent = TokioContext::new(self.exporter.export(batch), self.runtime.clone()).await;
        let failing = sent.is_err();
        let failed = self.failing.swap(failing, Ordering::Relaxed);
        match &sent {
            Err(error) if !failed => tracing::warn!(
                %error,
                "the collector takes no spans, and they are lost; check \
                 OTEL_EXPORTER_OTLP_ENDPOINT and TRACING_EXPORTER_PROTOCOL, or switch tracing off \
                 with TRACING_ENABLED=false"
            ),
            Ok(()) if failed => tracing::info!("the collector takes spans again"),
            _ => {}
        }
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
