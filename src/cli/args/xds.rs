//! Flags about rules that a control plane sends, named as envoyproxy/ratelimit
//! names their environment variables.

use std::path::PathBuf;

use clap::{ArgAction, Args};

use crate::cli::values::{Value, count, parsed, ratio, span, truth};
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
        long, env = "CONFIG_GRPC_XDS_SERVER_URL", value_name = "ADDRESS",
        default_value = "localhost:18000", value_parser = Value(parsed::<Server>)
    )]
    xds_server: Server,
    /// The name by which it knows what to send.
    #[arg(long, env = "CONFIG_GRPC_XDS_NODE_ID", value_name = "NAME", default_value = "default")]
    xds_node_id: String,
    /// What else it is told of us: `key=value,key=value`.
    #[arg(
        long, env = "CONFIG_GRPC_XDS_NODE_METADATA", value_name = "PAIRS", default_value = "",
        value_parser = Value(parsed::<NodeMetadata>)
    )]
    xds_node_metadata: NodeMetadata,
    /// Headers for it: `name:value,name:value`. A secret is better put into the
    /// environment variable.
    #[arg(
        long, env = "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", value_name = "PAIRS",
        default_value = "", hide_env_values = true, value_parser = Value(parsed::<Headers>)
    )]
    xds_headers: Headers,
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
        long, env = "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", value_name = "TIME",
        default_value = "3s", value_parser = Value(span)
    )]
    xds_connect_retry_interval: Span,
    /// How long to wait after the control plane has ended the stream.
    #[arg(
        long, env = "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", value_name = "TIME",
        default_value = "10s", value_parser = Value(span)
    )]
    xds_backoff_initial_interval: Span,
    /// No wait is longer.
    #[arg(
        long, env = "XDS_CLIENT_BACKOFF_MAX_INTERVAL", value_name = "TIME",
        default_value = "60s", value_parser = Value(span)
    )]
    xds_backoff_max_interval: Span,
    /// By which share of itself a wait may be shortened at random.
    #[arg(
        long, env = "XDS_CLIENT_BACKOFF_RANDOM_FACTOR", value_name = "RATIO",
        default_value = "0.5", value_parser = Value(ratio)
    )]
    xds_backoff_random_factor: f32,
    /// Whether waits are shortened at random, so that replicas do not come back
    /// all at once.
    #[arg(
        long, env = "XDS_CLIENT_BACKOFF_JITTER", value_name = "BOOL", value_parser = Value(truth),
        num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "true", action = ArgAction::Set
    )]
    xds_backoff_jitter: bool,
    /// The largest response in bytes; 0 for 4 MiB.
    #[arg(
        long, env = "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", value_name = "BYTES", default_value = "0",
        value_parser = Value(max_message)
    )]
    xds_max_message_size: usize,
    /// After which silence the control plane is asked for a sign of life; 0 for
    /// never. Servers in Go end connections that ask more often than every five
    /// minutes unless they are told otherwise. (A machine that is gone is
    /// noticed within about a minute in any case.)
    #[arg(
        long, env = "TIDEGATE_XDS_KEEPALIVE", value_name = "TIME", default_value = "330s",
        value_parser = Value(span)
    )]
    xds_keepalive: Span,
}

/// How the connection is encrypted.
#[derive(Debug, Args)]
#[command(next_help_heading = "Rules by xDS")]
struct TlsArgs {
    /// Speak TLS with the control plane. Files of TLS are read again for every
    /// connection, so that they can be changed.
    #[arg(
        long, env = "CONFIG_GRPC_XDS_SERVER_USE_TLS", value_name = "BOOL",
        value_parser = Value(truth), num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "false", action = ArgAction::Set
    )]
    xds_tls: bool,
    /// The certificates, in PEM, of those who may have signed that of the
    /// control plane; without it, those that the system trusts.
    #[arg(long, env = "CONFIG_GRPC_XDS_SERVER_TLS_CACERT", value_name = "PATH")]
    xds_tls_ca: Option<PathBuf>,
    /// The name that its certificate has, if it is not the host that we connect
    /// to.
    #[arg(
        long, env = "CONFIG_GRPC_XDS_SERVER_TLS_SAN", value_name = "NAME",
        value_parser = Value(parsed::<TlsName>)
    )]
    xds_tls_server_name: Option<TlsName>,
    /// Our certificate for it, in PEM.
    #[arg(
        long,
        env = "CONFIG_GRPC_XDS_CLIENT_TLS_CERT",
        value_name = "PATH",
        requires = "xds_tls_key"
    )]
    xds_tls_cert: Option<PathBuf>,
    /// The private key of our certificate, in PEM.
    #[arg(
        long,
        env = "CONFIG_GRPC_XDS_CLIENT_TLS_KEY",
        value_name = "PATH",
        requires = "xds_tls_cert"
    )]
    xds_tls_key: Option<PathBuf>,
}

impl Xds {
    /// How to ask a control plane, if one is to be asked.
    pub(super) fn options(self) -> Option<XdsOptions> {
        let Self { link, tls, .. } = self;
        (self.config_type == ConfigType::Xds).then(|| XdsOptions {
            server: self.xds_server,
            node_id: self.xds_node_id,
            node_metadata: self.xds_node_metadata,
            headers: self.xds_headers,
            tls: tls.options(),
            pace: link.pace(),
            max_message: link.xds_max_message_size,
            keepalive: link.xds_keepalive,
            start_without_config: self.start_without_config,
        })
    }
}

impl Link {
    fn pace(&self) -> Pace {
        let jitter = f64::from(self.xds_backoff_random_factor);
        Pace {
            connect: self.xds_connect_retry_interval,
            stream: self.xds_backoff_initial_interval,
            longest: self.xds_backoff_max_interval,
            jitter: if self.xds_backoff_jitter { jitter } else { 0.0 },
        }
    }
}

impl TlsArgs {
    fn options(self) -> Option<Tls> {
        self.xds_tls.then(|| Tls {
            ca: self.xds_tls_ca,
            identity: self.xds_tls_cert.zip(self.xds_tls_key),
            server_name: self.xds_tls_server_name,
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

fn max_message(text: &str) -> Result<usize, String> {
    if text == "0" { Ok(DEFAULT_MAX_MESSAGE) } else { count(text) }
}
