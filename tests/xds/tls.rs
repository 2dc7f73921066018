//! F25, for control planes: encrypted connections, and who is who.

use std::path::PathBuf;

use tempfile::TempDir;
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

use crate::certificates::{Authority, Files};
use crate::plane::Plane;
use crate::process::{Launch, Running, eventually};
use crate::rules::yearly;
use crate::{http, launch, lines, ready, told};

/// A control plane that speaks TLS and knows only clients of its own authority.
struct Encrypted {
    plane: Plane,
    authority: Authority,
    directory: TempDir,
}

impl Encrypted {
    /// With a certificate for `names` that is valid until `year`.
    fn start(names: &[&str], year: i32) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let authority = Authority::new();
        authority.write(&directory.path().join("ca.crt"));
        let own = authority.issue_until(directory.path(), "server", names, year);
        authority.issue(directory.path(), "client", &["tidegate"]);
        let plane = Plane::start_with(Some(tls(&own, &directory.path().join("ca.crt"))));
        plane.send("1", &[yearly(5)]);
        Self { plane, authority, directory }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.directory.path().join(file)
    }

    /// A service that speaks TLS with it, by these variables and the files of
    /// this directory.
    fn launch(&self, variables: &[(&str, &str)]) -> Launch {
        let start = launch(&self.plane).env("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true");
        variables.iter().fold(start, |launch, (name, file)| {
            let value = self.path(file).display().to_string();
            launch.env(&format!("CONFIG_GRPC_XDS_{name}"), &value)
        })
    }
}

fn tls(own: &Files, ca: &PathBuf) -> ServerTlsConfig {
    let read = |path: &PathBuf| std::fs::read(path).expect("a file");
    ServerTlsConfig::new()
        .identity(Identity::from_pem(read(&own.certificate), read(&own.key)))
        .client_ca_root(Certificate::from_pem(read(ca)))
}

const CA: (&str, &str) = ("SERVER_TLS_CACERT", "ca.crt");
const CERT: (&str, &str) = ("CLIENT_TLS_CERT", "client.crt");
const KEY: (&str, &str) = ("CLIENT_TLS_KEY", "client.key");

/// Waits until the log says that the connection fails for this reason.
fn fails(service: &Running, why: &str) {
    eventually(why, || {
        service.log().lines().any(|line| line.contains("no connection") && line.contains(why))
    });
    assert_eq!(http::get(&service.http, "/readyz").status, 503);
}

#[test]
fn f25_both_sides_know_each_other() {
    let server = Encrypted::start(&["127.0.0.1"], 4000);
    let service = server.launch(&[CA, CERT, KEY]).start();
    ready(&service);
    assert_eq!(told(&service, "[k=a]"), "OK r4");
}

#[test]
fn f25_a_server_of_another_authority_is_not_believed() {
    let server = Encrypted::start(&["127.0.0.1"], 4000);
    Authority::new().write(&server.path("other.crt"));
    let service = server.launch(&[("SERVER_TLS_CACERT", "other.crt"), CERT, KEY]).start();
    fails(&service, "UnknownIssuer; name its CA by --xds-tls-ca");
    // Those that the system trusts did not sign it either.
    let service = server.launch(&[CERT, KEY]).start();
    fails(&service, "UnknownIssuer");
}

#[test]
fn f25_a_server_of_another_name_is_not_believed_unless_that_name_is_expected() {
    let server = Encrypted::start(&["gateway.local"], 4000);
    let service = server.launch(&[CA, CERT, KEY]).start();
    fails(&service, "see --xds-tls-server-name (CONFIG_GRPC_XDS_SERVER_TLS_SAN)");
    let named = |name: &str| {
        server.launch(&[CA, CERT, KEY]).env("CONFIG_GRPC_XDS_SERVER_TLS_SAN", name).start()
    };
    ready(&named("gateway.local"));
    fails(&named("other.local"), "certificate not valid for name");
}

#[test]
fn f25_an_expired_server_is_not_believed() {
    let server = Encrypted::start(&["127.0.0.1"], 2001);
    let service = server.launch(&[CA, CERT, KEY]).start();
    fails(&service, "renew the certificate of the server");
}

#[test]
fn f25_a_client_that_the_server_does_not_know_gets_nothing() {
    let server = Encrypted::start(&["127.0.0.1"], 4000);
    fails(&server.launch(&[CA]).start(), "CONFIG_GRPC_XDS_CLIENT_TLS_CERT");
    Authority::new().issue(server.directory.path(), "stranger", &["tidegate"]);
    let stranger = [CA, ("CLIENT_TLS_CERT", "stranger.crt"), ("CLIENT_TLS_KEY", "stranger.key")];
    fails(&server.launch(&stranger).start(), "CLIENT_TLS_CERT");
    assert_eq!(server.plane.seen().streams, 0);
}

#[test]
fn f25_plain_text_and_tls_do_not_mix() {
    let server = Encrypted::start(&["127.0.0.1"], 4000);
    fails(&launch(&server.plane).start(), "see --xds-tls (CONFIG_GRPC_XDS_SERVER_USE_TLS)");
    let plain = Plane::start();
    plain.send("1", &[yearly(5)]);
    let service = launch(&plain)
        .env("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true")
        .env("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", &server.path("ca.crt").display().to_string())
        .start();
    fails(&service, "is TLS spoken on this port?");
}

#[test]
fn f25_files_that_cannot_be_used_are_named_and_waited_for() {
    let server = Encrypted::start(&["127.0.0.1"], 4000);
    let service = server.launch(&[("SERVER_TLS_CACERT", "new.crt"), CERT, KEY]).start();
    fails(&service, "cannot read the CA certificates from");
    std::fs::write(server.path("new.crt"), "nonsense").expect("a file");
    fails(&service, "new.crt does not have the CA certificates in PEM");
    server.authority.write(&server.path("new.crt"));
    ready(&service);
}

#[test]
fn f25_files_are_read_again_for_every_connection() {
    let mut server = Encrypted::start(&["127.0.0.1"], 4000);
    let service = server.launch(&[CA, CERT, KEY]).start();
    ready(&service);
    // Everybody has new certificates, of a new authority.
    server.plane.stop();
    server.authority = Authority::new();
    let own = server.authority.issue(server.directory.path(), "server", &["127.0.0.1"]);
    let ca = server.path("new.crt");
    server.authority.write(&ca);
    server.plane.resume(Some(tls(&own, &ca)));
    eventually("the new server is not believed", || lines(&service, "UnknownIssuer") == 1);
    server.authority.issue(server.directory.path(), "client", &["tidegate"]);
    server.authority.write(&server.path("ca.crt"));
    server.plane.send("2", &[yearly(9)]);
    server.plane.accepted("2");
    assert_eq!(told(&service, "[k=a]"), "OK r8");
}

#[test]
fn a_certificate_without_its_key_is_wrong_usage() {
    let ended = Launch::new(["serve", "--xds-tls-cert", "client.crt"]).output();
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("--xds-tls-key"), "{}", ended.stderr);
}
