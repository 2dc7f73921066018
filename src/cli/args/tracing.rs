//! Flags about traces.

use clap::{ArgAction, Args, ValueEnum};

use crate::cli::values::{Value, ratio, truth};
use crate::telemetry::spans::{OtlpProtocol, SpanOptions};

/// How calls are traced.
#[derive(Debug, Args)]
#[command(next_help_heading = "Traces")]
pub(super) struct Traces {
    /// Send spans of calls to a collector of OpenTelemetry, where
    /// `OTEL_EXPORTER_OTLP_ENDPOINT` says.
    #[arg(
        id = "tracing", long = "tracing", env = "TRACING_ENABLED", value_name = "BOOL", value_parser = Value(truth),
        num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", action = ArgAction::Set
    )]
    enabled: bool,
    /// How spans travel.
    #[arg(
        long,
        env = "TRACING_EXPORTER_PROTOCOL",
        value_name = "PROTOCOL",
        value_enum,
        default_value = "http"
    )]
    tracing_protocol: ProtocolArg,
    /// Which share of calls is traced, where the caller leaves it open.
    #[arg(
        long, env = "TRACING_SAMPLING_RATE", value_name = "RATIO", default_value = "1",
        value_parser = Value(ratio)
    )]
    tracing_sampling_rate: f32,
    /// The name of this service in traces.
    #[arg(long, env = "TRACING_SERVICE_NAME", value_name = "NAME", default_value = "RateLimit")]
    tracing_service_name: String,
    /// The namespace of this service in traces.
    #[arg(long, env = "TRACING_SERVICE_NAMESPACE", value_name = "NAME")]
    tracing_service_namespace: Option<String>,
    /// The name of this process in traces; random unless given.
    #[arg(long, env = "TRACING_SERVICE_INSTANCE_ID", value_name = "NAME")]
    tracing_service_instance_id: Option<String>,
}

/// [`OtlpProtocol`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ProtocolArg {
    /// Protobuf over HTTP.
    Http,
    /// gRPC.
    Grpc,
}

impl Traces {
    /// The same for the service; `None` if calls are not traced.
    pub(super) fn options(self) -> Option<SpanOptions> {
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        self.enabled.then(|| SpanOptions {
            protocol: match self.tracing_protocol {
                ProtocolArg::Http => OtlpProtocol::Http,
                ProtocolArg::Grpc => OtlpProtocol::Grpc,
            },
            sampling_rate: f64::from(self.tracing_sampling_rate),
            service: self.tracing_service_name,
            namespace: given(self.tracing_service_namespace),
            instance: given(self.tracing_service_instance_id),
        })
    }
}
