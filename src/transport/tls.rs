//! TLS for those who call: certificates from files, which may be replaced while
//! the service runs, and who may come.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::pem::{self, PemError};

/// How long a client may take to agree on how to encrypt.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// How often files are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Where certificates are, and who may come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Our certificate, followed by those in between, in PEM.
    pub certificate: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
    /// The certificates, in PEM, of those who may have signed that of a client.
    /// With it, a client must show one.
    pub client_ca: Option<PathBuf>,
    /// The name that the certificate of a client must have.
    pub client_name: Option<String>,
}

/// Why TLS cannot be spoken.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is of no use.
    #[error(transparent)]
    File(#[from] PemError),
    /// The certificate does not go with the key, or either is not usable.
    #[error(
        "{} and {} cannot be used for the gRPC server: {why}", certificate.display(), key.display()
    )]
    Unusable {
        /// The certificate.
        certificate: PathBuf,
        /// The key.
        key: PathBuf,
        /// What is wrong.
        why: Error,
    },
    /// The CA certificates cannot be used.
    #[error("{} cannot be used to verify clients: {why}", .path.display())]
    ClientCa {
        /// Where they are.
        path: PathBuf,
        /// What is wrong.
        why: VerifierBuilderError,
    },
    /// No certificate can have that name.
    #[error(
        "{0:?} cannot be the name in the certificate of a client; expected a host name or an IP \
         address"
    )]
    ClientName(String),
}

/// Encrypts connections by the certificates as they are now. Clones share them.
#[derive(Clone, Debug)]
pub struct Tls {
    files: Arc<TlsFiles>,
    config: Arc<ArcSwap<ServerConfig>>,
    seen: Stamps,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// If one cannot be used.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        // Before reading: a change in between then shows at the next look.
        let seen = Stamps::of(&files);
        let config = Arc::new(ArcSwap::from(server_config(&files)?));
        Ok(Self { files: Arc::new(files), config, seen })
    }

    /// Agrees with a client on how to encrypt.
    ///
    /// # Errors
    /// If that fails or takes too long.
    pub async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let acceptor = TlsAcceptor::from(self.config.load_full());
        let agreed = timeout(HANDSHAKE_PATIENCE, acceptor.accept(stream)).await;
        agreed.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Takes changed files into use, for ever. Connections that are open go on.
    pub async fn follow(mut self) {
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            let looked = tokio::task::spawn_blocking(move || {
                self.look();
                self
            });
            match looked.await {
                Ok(tls) => self = tls,
                Err(error) => {
                    tracing::error!(%error, "certificates are not followed any more: restart");
                    return;
                }
            }
        }
    }

    /// Looks once. Files that cannot be used, perhaps since only one of two is
    /// there yet, are looked at again when they change again.
    fn look(&mut self) {
        let stamps = Stamps::of(&self.files);
        if stamps == self.seen {
            return;
        }
        match server_config(&self.files) {
            Ok(config) => {
                self.config.store(config);
                tracing::info!(certificate = %self.files.certificate.display(), "new certificates are in use");
            }
            Err(error) => {
                tracing::error!(%error, "the changed certificates are refused, the last good ones stay in use");
            }
        }
        self.seen = stamps;
    }
}

/// What tells whether files changed, without reading them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamps([Option<Stamp>; 3]);

/// A file by device and number, the times of its change in nanoseconds and its
/// size.
type Stamp = ((u64, u64), (i64, i64), u64);

impl Stamps {
    fn of(files: &TlsFiles) -> Self {
        let paths = [Some(&files.certificate), Some(&files.key), files.client_ca.as_ref()];
        let stamp = |it: Metadata| ((it.dev(), it.ino()), (it.ctime(), it.ctime_nsec()), it.size());
        // What cannot be read says so when it is loaded.
        Self(paths.map(|path| fs::metadata(path?).ok().map(stamp)))
    }
}

fn server_config(files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let what = "the certificate of the gRPC server";
    let certificates = pem::certificates(&files.certificate, what)?;
    let key = pem::private_key(&files.key, "the private key of the gRPC server")?;
    let verifier = verifier(files, &provider)?;
    let unusable = |why| TlsError::Unusable {
        certificate: files.certificate.clone(),
        key: files.key.clone(),
        why,
    };
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(certificates, key).map_err(unusable)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

fn verifier(
    files: &TlsFiles,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
    let Some(path) = &files.client_ca else { return Ok(None) };
    let mut roots = RootCertStore::empty();
    let failed = |why| TlsError::ClientCa { path: path.clone(), why };
    for certificate in pem::certificates(path, "the CA certificates of the gRPC server")? {
        roots.add(certificate).map_err(|_| failed(VerifierBuilderError::NoRootAnchors))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(provider));
    let chain = verifier.build().map_err(failed)?;
    Ok(Some(match &files.client_name {
        None => chain,
        Some(name) => Arc::new(Named { chain, name: parsed_name(name)? }),
    }))
}

fn parsed_name(name: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(name.to_owned()).map_err(|_| TlsError::ClientName(name.to_owned()))
}

/// Accepts clients whose certificate, beside being good, has a certain name.
#[derive(Debug)]
struct Named {
    chain: Arc<dyn ClientCertVerifier>,
    name: ServerName<'static>,
}

impl ClientCertVerifier for Named {
    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.chain.verify_client_cert(certificate, between, now)?;
        let certificate = ParsedCertificate::try_from(certificate)?;
        // What it would rather be called is nothing for the ears of others.
        verify_server_name(&certificate, &self.name)
            .map_err(|_| Error::InvalidCertificate(CertificateError::NotValidForName))?;
        Ok(verified)
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chain.root_hint_subjects()
    }

    fn client_auth_mandatory(&self) -> bool {
        true
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
        self.chain.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
        self.chain.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}
