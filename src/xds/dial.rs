//! One connection to the control plane.

use std::error::Error;
use std::time::Duration;

use tokio::time::timeout;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use super::options::{Tls, XdsOptions};
use crate::pem::{self, Content, PemError};

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The kernel notices a machine that is gone after about a minute …
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);
const TCP_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const TCP_KEEPALIVE_RETRIES: u32 = 3;
/// … and a process that hangs is given up at most this long after it was asked
/// for a sign of life.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    /// A file of TLS is of no use.
    #[error("TLS cannot be set up: {0}")]
    Files(#[from] PemError),
    /// The address or the content of a file is of no use.
    #[error("TLS cannot be set up: {}", chain(.0))]
    Endpoint(#[source] tonic::transport::Error),
    /// The server does not answer, or not as it should.
    #[error("cannot connect: {}", advised(chain(.0)))]
    Connect(#[source] tonic::transport::Error),
    /// The server says nothing.
    #[error("cannot connect: no answer within {} seconds", CONNECT_TIMEOUT.as_secs())]
    Silence,
}

/// Connects. Files are read, and names resolved, anew each time.
pub(super) async fn dial(options: &XdsOptions) -> Result<Channel, DialError> {
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    let uri = format!("{scheme}://{}", options.server);
    let mut endpoint = Endpoint::from_shared(uri)
        .and_then(|endpoint| endpoint.user_agent(concat!("tidegate/", env!("CARGO_PKG_VERSION"))))
        .map_err(DialError::Endpoint)?
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_keepalive(Some(TCP_KEEPALIVE))
        .tcp_keepalive_interval(Some(TCP_KEEPALIVE_INTERVAL))
        .tcp_keepalive_retries(Some(TCP_KEEPALIVE_RETRIES));
    if !options.keepalive.is_zero() {
        let interval = Duration::from(options.keepalive);
        endpoint = endpoint
            .http2_keep_alive_interval(interval)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT.min(interval));
    }
    if let Some(tls) = &options.tls {
        pem::choose_provider();
        endpoint = endpoint.tls_config(tls_config(tls).await?).map_err(DialError::Endpoint)?;
    }
    match timeout(CONNECT_TIMEOUT, endpoint.connect()).await {
        Ok(connected) => connected.map_err(DialError::Connect),
        Err(_) => Err(DialError::Silence),
    }
}

async fn tls_config(tls: &Tls) -> Result<ClientTlsConfig, PemError> {
    let mut config = ClientTlsConfig::new();
    config = match &tls.ca {
        Some(path) => {
            let ca = pem::read(path, "the CA certificates", Content::Certificates).await?;
            config.ca_certificate(Certificate::from_pem(ca))
        }
        None => config.with_native_roots(),
    };
    if let Some((certificate, key)) = &tls.identity {
        let certificate =
            pem::read(certificate, "the client certificate", Content::Certificates).await?;
        let key = pem::read(key, "the client key", Content::PrivateKey).await?;
        config = config.identity(Identity::from_pem(certificate, key));
    }
    Ok(match &tls.server_name {
        Some(name) => config.domain_name(name.as_str()),
        None => config,
    })
}

/// An error and what to do about it.
pub(super) fn advised(text: String) -> String {
    let of = [
        ("UnknownIssuer", "name its CA by --xds-tls-ca (CONFIG_GRPC_XDS_SERVER_TLS_CACERT)"),
        (
            "certificate not valid for name",
            "see --xds-tls-server-name (CONFIG_GRPC_XDS_SERVER_TLS_SAN)",
        ),
        ("certificate expired", "renew the certificate of the server"),
        ("certificate not valid yet", "compare the clocks"),
        (
            "CertificateRequired",
            "give it a certificate by --xds-tls-cert and --xds-tls-key \
             (CONFIG_GRPC_XDS_CLIENT_TLS_CERT, _KEY)",
        ),
        (
            "frame with invalid size",
            "if the server speaks TLS, see --xds-tls (CONFIG_GRPC_XDS_SERVER_USE_TLS)",
        ),
        ("InvalidContentType", "is TLS spoken on this port?"),
        // TLS 1.3 has a client speak before it knows what the server makes of its
        // certificate; the reason can be lost with the connection.
        (
            "connection closed",
            "the server hung up; if it asks for certificates, see --xds-tls-cert and \
             --xds-tls-key (CONFIG_GRPC_XDS_CLIENT_TLS_CERT, _KEY)",
        ),
        (
            "received fatal alert",
            "the server does not accept our certificate (--xds-tls-cert, \
             CONFIG_GRPC_XDS_CLIENT_TLS_CERT) or version of TLS",
        ),
    ];
    match of.into_iter().find(|(sign, _)| text.contains(sign)) {
        Some((_, advice)) => format!("{text}; {advice}"),
        None => text,
    }
}

/// An error and its causes on one line, each said once.
fn chain(error: &dyn Error) -> String {
    with_causes(error.to_string(), error)
}

/// `text` and the causes of `error`, each said once.
pub(super) fn with_causes(mut text: String, error: &dyn Error) -> String {
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}
