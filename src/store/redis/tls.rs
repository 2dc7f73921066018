//! Encrypted connections to Redis.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use deadpool_redis::redis::io::AsyncDNSResolver;
use deadpool_redis::redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, RedisFuture, TlsCertificates,
};
use rustls::pki_types::ServerName;

use super::config::RedisConfigError;
use crate::pem::{self, Content};
use crate::store::{Cause, StoreError};

/// What to know beside the URL to connect by TLS. The files are read again for
/// every connection, so that they can be changed while the service runs.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// The certificates of those who may have signed that of the server, in
    /// PEM; without one, those that the system trusts.
    pub ca: Option<PathBuf>,
    /// What we show to the server: our certificate and key.
    pub identity: Option<Identity>,
    /// The name that the certificate of the server must have; without one, the
    /// host that the URL names.
    pub server_name: Option<String>,
}

/// Who we are, by certificate.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Our certificate, followed by those in between, in PEM.
    pub certificate: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
}

impl Tls {
    /// Whether there is anything in it.
    fn is_empty(&self) -> bool {
        self.ca.is_none() && self.identity.is_none() && self.server_name.is_none()
    }

    /// Checks that it fits a server that is `encrypted` or not.
    ///
    /// # Errors
    /// When it is of no use, or its name is not one.
    pub(super) fn check(&self, encrypted: bool) -> Result<(), RedisConfigError> {
        if !encrypted {
            return if self.is_empty() { Ok(()) } else { Err(RedisConfigError::TlsUnused) };
        }
        match &self.server_name {
            Some(name) if ServerName::try_from(name.as_str()).is_err() => {
                Err(RedisConfigError::ServerName(name.clone()))
            }
            _ => {
                pem::choose_provider();
                Ok(())
            }
        }
    }

    /// `info` with the certificates as they are now, if it asks for TLS.
    ///
    /// # Errors
    /// When a file cannot be used.
    pub(super) async fn apply(&self, info: ConnectionInfo) -> Result<ConnectionInfo, StoreError> {
        if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            return Ok(info);
        }
        let root_cert = match &self.ca {
            Some(path) => {
                Some(read(path, "the CA certificates for Redis", Content::Certificates).await?)
            }
            None => None,
        };
        let client_tls = match &self.identity {
            Some(Identity { certificate, key }) => Some(ClientTlsConfig {
                client_cert: read(
                    certificate,
                    "the client certificate for Redis",
                    Content::Certificates,
                )
                .await?,
                client_key: read(key, "the client key for Redis", Content::PrivateKey).await?,
            }),
            None => None,
        };
        let client = Client::build_with_tls(info, TlsCertificates { client_tls, root_cert })
            .map_err(|error| unusable(format!("the TLS of Redis cannot be set up: {error}")))?;
        Ok(self.renamed(client.get_connection_info().clone()))
    }

    /// With the name that the certificate must have in place of the host, which
    /// [`Self::resolver`] then finds.
    fn renamed(&self, info: ConnectionInfo) -> ConnectionInfo {
        let ConnectionAddr::TcpTls { port, insecure, tls_params, .. } = info.addr().clone() else {
            return info;
        };
        match &self.server_name {
            Some(name) => {
                let host = name.clone();
                info.set_addr(ConnectionAddr::TcpTls { host, port, insecure, tls_params })
            }
            None => info,
        }
    }

    /// What leads to the host of `info` although it has another name.
    pub(super) fn resolver(&self, info: &ConnectionInfo) -> Option<Resolver> {
        match (info.addr(), &self.server_name) {
            (ConnectionAddr::TcpTls { host, .. }, Some(_)) => Some(Resolver(host.clone())),
            _ => None,
        }
    }
}

/// Leads to one host, whatever name is asked for.
#[derive(Debug)]
pub(super) struct Resolver(String);

impl AsyncDNSResolver for Resolver {
    fn resolve<'a, 'b: 'a>(
        &'a self,
        _: &'b str,
        port: u16,
    ) -> RedisFuture<'a, Box<dyn Iterator<Item = SocketAddr> + Send + 'a>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((self.0.as_str(), port)).await?;
            Ok(Box::new(found) as Box<dyn Iterator<Item = SocketAddr> + Send>)
        })
    }
}

async fn read(path: &Path, what: &'static str, content: Content) -> Result<Vec<u8>, StoreError> {
    pem::read(path, what, content).await.map_err(|error| unusable(error.to_string()))
}

fn unusable(text: String) -> StoreError {
    StoreError::unavailable(Cause::Tls, text)
}

/// A server seems to speak without TLS where TLS is expected.
pub(super) const NOT_SPOKEN: &str = "is TLS spoken on this port?";

/// What to do about an error of TLS with this text; `None` if it is none.
pub(super) fn advice(text: &str) -> Option<&'static str> {
    let of = [
        ("UnknownIssuer", "name its CA by --redis-tls-ca"),
        ("certificate not valid for name", "see --redis-tls-server-name"),
        ("certificate expired", "renew the certificate of the server"),
        ("certificate not valid yet", "compare the clocks"),
        ("CertificateRequired", "give it one by --redis-tls-cert and --redis-tls-key"),
        ("InvalidContentType", NOT_SPOKEN),
        ("received fatal alert", "the server does not accept our certificate or version of TLS"),
        ("invalid peer certificate", "check the certificate of the server and --redis-tls-ca"),
    ];
    of.into_iter().find_map(|(sign, advice)| text.contains(sign).then_some(advice))
}

#[cfg(test)]
mod tests {
    use deadpool_redis::redis::IntoConnectionInfo as _;

    use super::*;

    fn info(url: &str) -> ConnectionInfo {
        url.into_connection_info().unwrap()
    }

    #[test]
    fn what_is_of_no_use_is_refused() {
        let named = |name: &str| Tls { server_name: Some(name.into()), ..Tls::default() };
        assert!(Tls::default().check(false).is_ok());
        assert!(named("cache.local").check(true).is_ok());
        assert!(matches!(named("cache.local").check(false), Err(RedisConfigError::TlsUnused)));
        let said = named("not a name").check(true).unwrap_err().to_string();
        assert!(said.contains("not a name"), "{said}");
    }

    #[tokio::test]
    async fn the_name_of_the_certificate_does_not_change_where_it_connects_to() {
        let tls = Tls { server_name: Some("cache.local".into()), ..Tls::default() };
        let info = info("rediss://127.0.0.1:7000");
        let resolver = tls.resolver(&info).unwrap();
        let info = tls.apply(info).await.unwrap();
        assert_eq!(info.addr().to_string(), "cache.local:7000");
        let found: Vec<_> = resolver.resolve("cache.local", 7000).await.unwrap().collect();
        assert_eq!(found, [SocketAddr::from(([127, 0, 0, 1], 7000))]);
    }

    #[tokio::test]
    async fn files_that_cannot_be_used_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca.pem");
        let tls = Tls { ca: Some(path.clone()), ..Tls::default() };
        for (content, said) in [(None, "cannot read the CA certificates"), (Some("x"), "in PEM")] {
            if let Some(content) = content {
                std::fs::write(&path, content).unwrap();
            }
            let text = tls.apply(info("rediss://cache")).await.unwrap_err().to_string();
            assert!(text.contains(said) && text.contains("ca.pem"), "{text}");
        }
    }
}
