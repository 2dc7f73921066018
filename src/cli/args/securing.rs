//! Flags about gRPC connections: how they are encrypted, and how old they may
//! become.

use std::path::PathBuf;

use clap::Args;

use crate::cli::values::{Value, span};
use crate::transport::age::Age;
use crate::transport::tls::TlsFiles;
use crate::units::Span;

/// How connections are served.
#[derive(Debug, Args)]
#[command(next_help_heading = "gRPC connections")]
pub(super) struct Securing {
    /// Our certificate, in PEM, followed by those in between: gRPC speaks TLS.
    /// This and the next files are read again when they change; open connections
    /// go on.
    #[arg(long, env = "TIDEGATE_TLS_CERT", value_name = "PATH", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of our certificate, in PEM.
    #[arg(long, env = "TIDEGATE_TLS_KEY", value_name = "PATH", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The certificates, in PEM, of those who may have signed that of a client.
    /// With it, a client must show one.
    #[arg(long, env = "TIDEGATE_TLS_CLIENT_CA", value_name = "PATH", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// The host name or IP address that the certificate of a client must have.
    #[arg(long, env = "TIDEGATE_TLS_CLIENT_SAN", value_name = "NAME", requires = "tls_client_ca")]
    tls_client_san: Option<String>,
    /// How old a connection may become, give or take 10 %, until its client is
    /// told to connect anew, and so comes to know of new instances; 0 for any
    /// age.
    #[arg(
        long, env = "GRPC_MAX_CONNECTION_AGE", value_name = "TIME", default_value = "24h",
        value_parser = Value(span)
    )]
    max_connection_age: Span,
    /// How long its calls may take after that; 0 for as long as they will.
    #[arg(
        long, env = "GRPC_MAX_CONNECTION_AGE_GRACE", value_name = "TIME", default_value = "1h",
        value_parser = Value(span)
    )]
    max_connection_age_grace: Span,
}

impl Securing {
    /// How connections are encrypted, if they are.
    pub(super) fn tls(&self) -> Option<TlsFiles> {
        let (certificate, key) = self.tls_cert.clone().zip(self.tls_key.clone())?;
        Some(TlsFiles {
            certificate,
            key,
            client_ca: self.tls_client_ca.clone(),
            client_name: self.tls_client_san.clone(),
        })
    }

    /// How old they may become.
    pub(super) fn age(&self) -> Age {
        Age { most: self.max_connection_age, grace: self.max_connection_age_grace }
    }
}
