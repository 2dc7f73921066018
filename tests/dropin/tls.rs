//! TLS and mutual TLS of the gRPC port.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use tempfile::TempDir;
use tidegate::proto::rate_limit_service_client::RateLimitServiceClient;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::certificates::{Authority, Files};
use crate::support::ask::request;
use crate::support::http;
use crate::support::process::{Launch, PATIENCE, Running};
use crate::{FIVE, Site};

const NAME: &str = "ratelimit.local";

/// Certificates in a directory: those that the server has and trusts.
struct Keys {
    directory: TempDir,
    ca: Authority,
    server: Files,
}

impl Keys {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let ca = Authority::new();
        ca.write(&directory.path().join("ca.pem"));
        let server = ca.issue(directory.path(), "server", &[NAME]);
        Self { directory, ca, server }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn launch(&self, site: &Site) -> Launch {
        site.launch()
            .env("GRPC_SERVER_USE_TLS", "true")
            .env("GRPC_SERVER_TLS_CERT", text(&self.server.certificate))
            .env("GRPC_SERVER_TLS_KEY", text(&self.server.key))
    }

    fn launch_mutual(&self, site: &Site) -> Launch {
        let launch = self.launch(site);
        launch.env("GRPC_CLIENT_TLS_CACERT", text(&self.path("ca.pem")))
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

fn pem(path: &Path) -> String {
    fs::read_to_string(path).expect("a file")
}

fn trusting(ca: &Path) -> ClientTlsConfig {
    ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem(ca))).domain_name(NAME)
}

fn showing(ca: &Path, files: &Files) -> ClientTlsConfig {
    trusting(ca).identity(Identity::from_pem(pem(&files.certificate), pem(&files.key)))
}

fn channel(service: &Running, tls: ClientTlsConfig) -> Channel {
    let endpoint = Endpoint::from_shared(format!("https://{}", service.grpc)).expect("an address");
    endpoint.tls_config(tls).expect("TLS").connect_lazy()
}

/// Whether a call over a new connection is answered.
async fn answers(service: &Running, tls: ClientTlsConfig) -> Result<(), String> {
    asks(&channel(service, tls)).await
}

async fn asks(channel: &Channel) -> Result<(), String> {
    let mut client = RateLimitServiceClient::new(channel.clone());
    let answer = client.should_rate_limit(request("t", "[other=x]")).await;
    answer.map(drop).map_err(|status| format!("{status:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_trust_the_server_are_answered_and_http_stays_plain() {
    let Some(site) = Site::new(&[("a.yaml", FIVE)]) else { return };
    let keys = Keys::new();
    let service = keys.launch(&site).start();
    assert!(service.greeting.contains("grpcurl -cacert"), "{}", service.greeting);
    assert_eq!(answers(&service, trusting(&keys.path("ca.pem"))).await, Ok(()));
    assert_eq!(http::get(&service.http, "/healthcheck").status, 200);

    let other = Authority::new();
    other.write(&keys.path("other.pem"));
    assert!(answers(&service, trusting(&keys.path("other.pem"))).await.is_err());
    let plain = Endpoint::from_shared(format!("http://{}", service.grpc)).expect("an address");
    assert!(asks(&plain.connect_lazy()).await.is_err(), "plain text on the TLS port");
    // None of that did any harm.
    assert_eq!(answers(&service, trusting(&keys.path("ca.pem"))).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_clients_with_a_good_certificate_are_answered() {
    let Some(site) = Site::new(&[("a.yaml", FIVE)]) else { return };
    let keys = Keys::new();
    let (ca, at) = (keys.path("ca.pem"), keys.directory.path());
    let service = keys.launch_mutual(&site).env("GRPC_CLIENT_TLS_SAN", "envoy.local").start();
    let good = keys.ca.issue(at, "good", &["other.local", "envoy.local"]);
    let unnamed = keys.ca.issue(at, "unnamed", &["other.local"]);
    let expired = keys.ca.issue_until(at, "expired", &["envoy.local"], 2001);
    let foreign = Authority::new().issue(at, "foreign", &["envoy.local"]);

    assert_eq!(answers(&service, showing(&ca, &good)).await, Ok(()));
    assert!(answers(&service, trusting(&ca)).await.is_err(), "without a certificate");
    for (what, files) in [("wrong name", unnamed), ("expired", expired), ("wrong CA", foreign)] {
        assert!(answers(&service, showing(&ca, &files)).await.is_err(), "{what}");
    }
    assert_eq!(answers(&service, showing(&ca, &good)).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_name_every_certificate_of_the_ca_will_do() {
    let Some(site) = Site::new(&[("a.yaml", FIVE)]) else { return };
    let keys = Keys::new();
    let service = keys.launch_mutual(&site).start();
    let files = keys.ca.issue(keys.directory.path(), "any", &["any.local"]);
    assert_eq!(answers(&service, showing(&keys.path("ca.pem"), &files)).await, Ok(()));
    assert!(answers(&service, trusting(&keys.path("ca.pem"))).await.is_err());
}

/// Certificates of another authority take the place of the old ones while calls
/// go on.
#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_replaced_under_load() {
    let Some(site) = Site::new(&[("a.yaml", FIVE)]) else { return };
    let keys = Keys::new();
    let service = keys.launch(&site).start();
    let old = channel(&service, trusting(&keys.path("ca.pem")));
    assert_eq!(asks(&old).await, Ok(()));
    let (calls, end) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    let load = tokio::spawn({
        let (calls, end) = (calls.clone(), end.clone());
        async move {
            while !end.load(Ordering::SeqCst) {
                asks(&old).await?;
                calls.fetch_add(1, Ordering::SeqCst);
            }
            Ok::<(), String>(())
        }
    });

    let successor = Authority::new();
    successor.write(&keys.path("next.pem"));
    let files = successor.issue(keys.directory.path(), "next", &[NAME]);
    // One after the other: for a moment the two do not belong together.
    fs::rename(&files.certificate, &keys.server.certificate).expect("replaced");
    fs::rename(&files.key, &keys.server.key).expect("replaced");
    let start = Instant::now();
    while answers(&service, trusting(&keys.path("next.pem"))).await.is_err() {
        assert!(start.elapsed() < PATIENCE, "never in use: {}", service.log());
    }
    assert!(answers(&service, trusting(&keys.path("ca.pem"))).await.is_err(), "the old one");
    let before = calls.load(Ordering::SeqCst);
    while calls.load(Ordering::SeqCst) < before + 50 {
        assert!(!load.is_finished(), "a call has failed");
        tokio::task::yield_now().await;
    }
    end.store(true, Ordering::SeqCst);
    assert_eq!(load.await.expect("no panic"), Ok(()), "no call fails");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_certificates_keep_the_good_ones_in_use() {
    let Some(site) = Site::new(&[("a.yaml", FIVE)]) else { return };
    let keys = Keys::new();
    let service = keys.launch(&site).start();
    fs::write(&keys.server.certificate, "nonsense").expect("a file");
    let start = Instant::now();
    while !service.log().contains("the last good ones stay in use") {
        assert!(start.elapsed() < PATIENCE, "never told: {}", service.log());
        tokio::task::yield_now().await;
    }
    assert!(service.log().contains("server.crt"), "{}", service.log());
    assert_eq!(answers(&service, trusting(&keys.path("ca.pem"))).await, Ok(()));
}

#[test]
fn what_cannot_be_used_keeps_it_from_starting() {
    let Some(site) = Site::new(&[("a.yaml", FIVE)]) else { return };
    let keys = Keys::new();
    let other = keys.ca.issue(keys.directory.path(), "other", &[NAME]);
    let missing = text(&keys.path("no.pem")).to_owned();
    for (name, value, told) in [
        ("GRPC_SERVER_TLS_CERT", "", "GRPC_SERVER_TLS_CERT"),
        ("GRPC_SERVER_TLS_CERT", missing.as_str(), "cannot read the certificate"),
        ("GRPC_SERVER_TLS_KEY", text(&other.key), "cannot be used"),
        ("GRPC_SERVER_TLS_KEY", text(&other.certificate), "does not have the private key"),
        ("GRPC_CLIENT_TLS_CACERT", text(&other.key), "does not have the CA certificates"),
        ("GRPC_CLIENT_TLS_SAN", "not a name", "cannot be the name"),
    ] {
        let ended = keys.launch_mutual(&site).env(name, value).output();
        assert!(matches!(ended.status.code(), Some(1 | 2)), "{name}: {ended:?}");
        assert!(ended.stderr.contains(told), "{name}: {told} in {ended:?}");
    }
}
