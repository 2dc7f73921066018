//! Flags about rules that a control plane sends, named as envoyproxy/ratelimit
//! names their environment variables.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{ArgAction, Args};

use crate::cli::values::{Value, count, parsed, span, truth};
use crate::units::Span;
use crate::xds::{Headers, NodeMetadata, Pace, Server, Tls, TlsName, XdsOptions};

/// The largest response unless said otherwise, as gRPC has it: 4 MiB.
const DEFAULT_MAX_MESSAGE: usize = 4 << 20;

/// Where rules come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConfigType {
    /// Files.
    File,
    /// A control plane.
    Xds,
}

/// How a control plane is asked for rules.
#[derive(Debug, Args)]
#[command(next_help_heading = "Rules by xDS")]
pub(super) struct Xds {
    /// Where rules come from: `file`, or `xds`, a control plane such as Envoy
    /// Gateway. (`FILE` and `GRPC_XDS_SOTW` are understood, too.)
    #[arg(
        long, env = "CONFIG_TYPE", value_name = "TYPE", default_value = "file",
        value_parser = Value(config_type)
    )]
    config_type: ConfigType,
    /// The control plane: `host:port`.
    #[arg(
        id = "xds_server", long = "xds-server", env = "CONFIG_GRPC_XDS_SERVER_URL",
        value_name = "ADDRESS", default_value = "localhost:18000",
        value_parser = Value(parsed::<Server>)
    )]
    server: Server,
    /// The name by which it knows what to send.
    #[arg(
        id = "xds_node_id",
        long = "xds-node-id",
        env = "CONFIG_GRPC_XDS_NODE_ID",
        value_name = "NAME",
        default_value = "default"
    )]
    node_id: String,
    /// What else it is told of us: `key=value,key=value`.
    #[arg(
        id = "xds_node_metadata", long = "xds-node-metadata",
        env = "CONFIG_GRPC_XDS_NODE_METADATA", value_name = "PAIRS", default_value = "",
        value_parser = Value(parsed::<NodeMetadata>)
    )]
    node_metadata: NodeMetadata,
    /// Headers for it: `name:value,name:value`. A password is better put into the
    /// environment variable.
    #[arg(
        id = "xds_headers", long = "xds-headers",
        env = "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", value_name = "PAIRS",
        default_value = "", hide_env_values = true, value_parser = Value(parsed::<Headers>)
    )]
    headers: Headers,
    /// Be ready although there are no rules yet: calls end in an error until
    /// they come.
    #[arg(
        long, env = "FORCE_START_WITHOUT_INITIAL_CONFIG", value_name = "BOOL",
        value_parser = Value(truth), num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "false", action = ArgAction::Set
    )]
    start_without_config: bool,
    #[command(flatten)]
    link: Link,
    #[command(flatten)]
    tls: TlsArgs,
}

/// How the connection is kept.
#[derive(Debug, Args)]
#[command(next_help_heading = "Rules by xDS")]
struct Link {
    /// How long to wait after an attempt to connect that failed, twice as long
    /// after each further one.
    #[arg(
        id = "xds_connect_retry_interval", long = "xds-connect-retry-interval",
        env = "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", value_name = "TIME",
        default_value = "3s", value_parser = Value(span)
    )]
    connect_retry_interval: Span,
    /// How long to wait after the control plane has ended the stream.
    #[arg(
        id = "xds_backoff_initial_interval", long = "xds-backoff-initial-interval",
        env = "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", value_name = "TIME", default_value = "10s",
        value_parser = Value(span)
    )]
    backoff_initial_interval: Span,
    /// No wait is longer.
    #[arg(
        id = "xds_backoff_max_interval", long = "xds-backoff-max-interval",
        env = "XDS_CLIENT_BACKOFF_MAX_INTERVAL", value_name = "TIME", default_value = "60s",
        value_parser = Value(span)
    )]
    backoff_max_interval: Span,
    /// By which share of itself a wait may be shortened at random.
    #[arg(
        id = "xds_backoff_random_factor", long = "xds-backoff-random-factor",
        env = "XDS_CLIENT_BACKOFF_RANDOM_FACTOR", value_name = "RATIO", default_value = "0.5",
        value_parser = Value(factor)
    )]
    backoff_random_factor: f64,
    /// Whether waits are shortened at random, so that replicas do not come back
    /// all at once.
    #[arg(
        id = "xds_backoff_jitter", long = "xds-backoff-jitter", env = "XDS_CLIENT_BACKOFF_JITTER",
        value_name = "BOOL", value_parser = Value(truth), num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "true", action = ArgAction::Set
    )]
    backoff_jitter: bool,
    /// The largest response in bytes; 0 for 4 MiB.
    #[arg(
        id = "xds_max_message_size", long = "xds-max-message-size",
        env = "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", value_name = "BYTES", default_value = "0",
        value_parser = Value(max_message)
    )]
    max_message_size: usize,
    /// After which silence the control plane is asked for a sign of life; 0 for
    /// never. Servers in Go end connections that ask more often than every five
    /// minutes unless they are told otherwise. (A machine that is gone is
    /// noticed within about a minute in any case.)
    #[arg(
        id = "xds_keepalive", long = "xds-keepalive", env = "TIDEGATE_XDS_KEEPALIVE",
        value_name = "TIME", default_value = "330s", value_parser = Value(span)
    )]
    keepalive: Span,
}

/// How the connection is encrypted.
#[derive(Debug, Args)]
#[command(next_help_heading = "Rules by xDS")]
struct TlsArgs {
    /// Speak TLS with the control plane. Files of TLS are read again for every
    /// connection, so that they can be changed.
    #[arg(
        id = "xds_tls", long = "xds-tls", env = "CONFIG_GRPC_XDS_SERVER_USE_TLS",
        value_name = "BOOL", value_parser = Value(truth), num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "false", action = ArgAction::Set
    )]
    enabled: bool,
    /// The certificates, in PEM, of those who may have signed that of the
    /// control plane; without it, those that the system trusts.
    #[arg(
        id = "xds_tls_ca",
        long = "xds-tls-ca",
        env = "CONFIG_GRPC_XDS_SERVER_TLS_CACERT",
        value_name = "PATH"
    )]
    ca: Option<PathBuf>,
    /// The name that its certificate has, if it is not the host that we connect
    /// to.
    #[arg(
        id = "xds_tls_server_name", long = "xds-tls-server-name",
        env = "CONFIG_GRPC_XDS_SERVER_TLS_SAN", value_name = "NAME",
        value_parser = Value(parsed::<TlsName>)
    )]
    server_name: Option<TlsName>,
    /// Our certificate for it, in PEM.
    #[arg(
        id = "xds_tls_cert",
        long = "xds-tls-cert",
        env = "CONFIG_GRPC_XDS_CLIENT_TLS_CERT",
        value_name = "PATH",
        requires = "xds_tls_key"
    )]
    certificate: Option<PathBuf>,
    /// The private key of our certificate, in PEM.
    #[arg(
        id = "xds_tls_key",
        long = "xds-tls-key",
        env = "CONFIG_GRPC_XDS_CLIENT_TLS_KEY",
        value_name = "PATH",
        requires = "xds_tls_cert"
    )]
    key: Option<PathBuf>,
}

impl Xds {
    /// How to ask a control plane, if one is to be asked.
    pub(super) fn options(self) -> Option<XdsOptions> {
        let Self { link, tls, .. } = self;
        (self.config_type == ConfigType::Xds).then(|| XdsOptions {
            server: self.server,
            node_id: self.node_id,
            node_metadata: self.node_metadata,
            headers: self.headers,
            tls: tls.options(),
            pace: link.pace(),
            max_message: link.max_message_size,
            keepalive: link.keepalive,
            start_without_config: self.start_without_config,
        })
    }
}

impl Link {
    fn pace(&self) -> Pace {
        let jitter = self.backoff_random_factor;
        Pace {
            connect: self.connect_retry_interval,
            stream: self.backoff_initial_interval,
            longest: self.backoff_max_interval,
            jitter: if self.backoff_jitter { jitter } else { 0.0 },
        }
    }
}

impl TlsArgs {
    fn options(self) -> Option<Tls> {
        self.enabled.then(|| Tls {
            ca: self.ca,
            identity: self.certificate.zip(self.key),
            server_name: self.server_name,
        })
    }
}

fn config_type(text: &str) -> Result<ConfigType, String> {
    match text {
        "file" | "FILE" => Ok(ConfigType::File),
        "xds" | "GRPC_XDS_SOTW" => Ok(ConfigType::Xds),
        _ => Err("expected file (or FILE) or xds (or GRPC_XDS_SOTW)".into()),
    }
}

/// The reference grows waits by this factor; more than the whole of a wait cannot
/// be taken from it.
fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor: &f64| factor.is_finite() && *factor >= 0.0);
    factor.map(|factor| factor.min(1.0)).ok_or_else(|| "expected a number from 0 to 1".into())
}

fn max_message(text: &str) -> Result<usize, String> {
    if text == "0" { Ok(DEFAULT_MAX_MESSAGE) } else { count(text).map(NonZeroUsize::get) }
}
