//! Certificates for tests, in files.

#![allow(dead_code, reason = "each test binary that includes this uses a part of it")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

/// A certificate authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// Where a certificate and its key are.
#[derive(Clone, Debug)]
pub struct Files {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    /// A new one.
    pub fn new() -> Self {
        // Whoever has the name of the issuer is taken for it.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let mut params = named(CertificateParams::default(), &format!("authority {number}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    /// Writes its certificate.
    pub fn write(&self, path: &Path) {
        std::fs::write(path, self.0.pem()).expect("a file");
    }

    /// Writes a certificate for `names` that is valid for long.
    pub fn issue(&self, directory: &Path, file: &str, names: &[&str]) -> Files {
        self.issue_until(directory, file, names, 4000)
    }

    /// The same, valid until that year.
    pub fn issue_until(&self, directory: &Path, file: &str, names: &[&str], year: i32) -> Files {
        let names: Vec<String> = names.iter().map(|&name| name.into()).collect();
        let mut params = named(CertificateParams::new(names).expect("names"), file);
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        let files = Files {
            certificate: directory.join(format!("{file}.crt")),
            key: directory.join(format!("{file}.key")),
        };
        std::fs::write(&files.certificate, certificate.pem()).expect("a file");
        std::fs::write(&files.key, key.serialize_pem()).expect("a file");
        files
    }
}

fn named(mut params: CertificateParams, name: &str) -> CertificateParams {
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
