//! Flags about the way to Redis.

use std::path::PathBuf;

use clap::Args;

use super::keeping::TwoPasswords;
use crate::store::redis::{Credentials, Identity, Tls};

/// How Redis is reached.
#[derive(Debug, Args)]
#[command(next_help_heading = "Redis")]
pub(super) struct Reaching {
    /// The certificates, in PEM, of those who may have signed that of Redis;
    /// without it, those that the system trusts. This and the next two files are
    /// read again for every connection, so that they can be changed.
    #[arg(long = "redis-tls-ca", env = "TIDEGATE_REDIS_TLS_CA", value_name = "PATH")]
    ca: Option<PathBuf>,
    /// Our certificate for Redis, in PEM.
    #[arg(
        long = "redis-tls-cert",
        env = "TIDEGATE_REDIS_TLS_CERT",
        value_name = "PATH",
        requires = "key"
    )]
    certificate: Option<PathBuf>,
    /// The private key of our certificate, in PEM.
    #[arg(
        long = "redis-tls-key",
        env = "TIDEGATE_REDIS_TLS_KEY",
        value_name = "PATH",
        requires = "certificate"
    )]
    key: Option<PathBuf>,
    /// The name that the certificate of Redis has, if it is not the host that
    /// the URL names.
    #[arg(
        long = "redis-tls-server-name",
        env = "TIDEGATE_REDIS_TLS_SERVER_NAME",
        value_name = "NAME"
    )]
    server_name: Option<String>,
    /// The user of the sentinels, which have logins of their own.
    #[arg(
        long = "redis-sentinel-username",
        env = "TIDEGATE_REDIS_SENTINEL_USERNAME",
        value_name = "NAME"
    )]
    sentinel_username: Option<String>,
    /// A file with the password of the sentinels, read again for every
    /// connection. Or put it into `TIDEGATE_REDIS_SENTINEL_PASSWORD`.
    #[arg(
        long = "redis-sentinel-password-file",
        env = "TIDEGATE_REDIS_SENTINEL_PASSWORD_FILE",
        value_name = "PATH"
    )]
    sentinel_password_file: Option<PathBuf>,
}

impl Reaching {
    /// How connections are encrypted.
    pub(super) fn tls(&self) -> Tls {
        let pair = self.certificate.clone().zip(self.key.clone());
        Tls {
            ca: self.ca.clone(),
            identity: pair.map(|(certificate, key)| Identity { certificate, key }),
            server_name: self.server_name.clone(),
        }
    }

    /// Who we are to sentinels.
    ///
    /// # Errors
    /// If there are two passwords.
    pub(super) fn sentinel_credentials(&self) -> Result<Credentials, TwoPasswords> {
        let password = TwoPasswords::OF_SENTINELS.one(self.sentinel_password_file.clone())?;
        Ok(Credentials { username: self.sentinel_username.clone(), password })
    }
}
