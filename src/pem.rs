//! Certificates and keys in files of PEM, and what works with them.

use std::path::{Path, PathBuf};
use std::{fs, io};

use rustls::crypto::{CryptoProvider, ring};
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
        Content::Certificates => all_certificates(&bytes).map(drop),
        Content::PrivateKey => PrivateKeyDer::from_pem_slice(&bytes).map(drop),
    };
    match checked {
        Ok(()) => Ok(bytes),
        Err(error) => Err(PemError::Unusable { what, path: path.into(), error }),
    }
}

/// Reads the certificates in a file, at least one, which messages call `what`.
/// Blocks.
///
/// # Errors
/// If it cannot be read, or holds something else.
pub fn certificates(
    path: &Path,
    what: &'static str,
) -> Result<Vec<CertificateDer<'static>>, PemError> {
    parsed(path, what, all_certificates)
}

/// Reads the private key in a file, which messages call `what`. Blocks.
///
/// # Errors
/// If it cannot be read, or holds something else.
pub fn private_key(path: &Path, what: &'static str) -> Result<PrivateKeyDer<'static>, PemError> {
    parsed(path, what, PrivateKeyDer::from_pem_slice)
}

/// Makes sure that there is a provider of cryptography. Said once, because a
/// program that has two would otherwise panic where none is chosen. If one is, it
/// stays.
pub fn choose_provider() {
    let _ = CryptoProvider::install_default(ring::default_provider());
}

fn parsed<T>(
    path: &Path,
    what: &'static str,
    parse: impl FnOnce(&[u8]) -> Result<T, pem::Error>,
) -> Result<T, PemError> {
    let bytes =
        fs::read(path).map_err(|error| PemError::Unreadable { what, path: path.into(), error })?;
    parse(&bytes).map_err(|error| PemError::Unusable { what, path: path.into(), error })
}

/// At least one certificate, and nothing that is wrong.
fn all_certificates(bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    let found = CertificateDer::pem_slice_iter(bytes).collect::<Result<Vec<_>, _>>()?;
    if found.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(found) }
}
