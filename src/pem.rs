//! Certificates and keys in files of PEM.

use std::io;
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// What a file must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Certificates, at least one.
    Certificates,
    /// A private key.
    PrivateKey,
}

/// Why a file is of no use.
#[derive(Debug, thiserror::Error)]
pub enum PemError {
    /// It cannot be read.
    #[error("cannot read {what} from {}: {error}", path.display())]
    Unreadable {
        /// What it should hold, for people.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It holds something else.
    #[error("{} does not have {what} in PEM: {error}", path.display())]
    Unusable {
        /// What it should hold, for people.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Why.
        error: pem::Error,
    },
}

/// Reads a file of `content`, which messages call `what`.
///
/// # Errors
/// If it cannot be read, or holds something else.
pub async fn read(path: &Path, what: &'static str, content: Content) -> Result<Vec<u8>, PemError> {
    let bytes = tokio::fs::read(path).await.map_err(|error| PemError::Unreadable {
        what,
        path: path.into(),
        error,
    })?;
    let checked = match content {
        Content::Certificates => certificates(&bytes),
        Content::PrivateKey => PrivateKeyDer::from_pem_slice(&bytes).map(drop),
    };
    match checked {
        Ok(()) => Ok(bytes),
        Err(error) => Err(PemError::Unusable { what, path: path.into(), error }),
    }
}

/// At least one certificate, and nothing that is wrong.
fn certificates(bytes: &[u8]) -> Result<(), pem::Error> {
    let mut found = 0;
    for certificate in CertificateDer::pem_slice_iter(bytes) {
        certificate?;
        found += 1;
    }
    if found == 0 { Err(pem::Error::NoItemsFound) } else { Ok(()) }
}
