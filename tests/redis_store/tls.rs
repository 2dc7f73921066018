//! F25: encrypted connections.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tidegate::store::redis::{Identity, RedisConfig, Tls};
use tidegate::store::{Cause, StoreError};
use tidegate::units::Hits;

use crate::certificates::{Authority, Files};
use crate::plans::{YEAR, fixed_window, take};
use crate::redis::{RedisServer, free_port};
use crate::{allowed, connect, patient, recovered, until};

/// A server that speaks TLS and knows only clients of its own authority.
struct Encrypted {
    server: RedisServer,
    authority: Authority,
    port: u16,
    directory: TempDir,
}

impl Encrypted {
    /// A Redis with a certificate for `names`, and `more` options.
    fn redis(names: &[&str], more: &[&str]) -> Option<Self> {
        let directory = tempfile::tempdir().expect("a directory");
        let authority = Authority::new();
        let ca = directory.path().join("ca.crt");
        authority.write(&ca);
        let own = authority.issue(directory.path(), "server", names);
        let port = free_port();
        let options = with_tls(port, &ca, &own, more);
        let options: Vec<&str> = options.iter().map(|option| &**option).collect();
        let wrong = ["--tls-port", "1", "--tls-cert-file", "none"];
        let server = RedisServer::redis_that_knows(&wrong, &options)?;
        Some(Self { server, authority, port, directory })
    }

    fn path(&self, file: &str) -> PathBuf {
        self.directory.path().join(file)
    }

    /// With our own certificate and that of the authority.
    fn config(&self) -> RedisConfig {
        let files = self.authority.issue(self.directory.path(), "client", &["tidegate"]);
        let tls = Tls {
            ca: Some(self.path("ca.crt")),
            identity: Some(Identity { certificate: files.certificate, key: files.key }),
            server_name: None,
        };
        RedisConfig { tls, ..patient(format!("rediss://127.0.0.1:{}", self.port)) }
    }
}

fn with_tls(port: u16, ca: &Path, own: &Files, more: &[&str]) -> Vec<String> {
    let text = |path: &Path| path.display().to_string();
    let port = port.to_string();
    let (ca, certificate, key) = (text(ca), text(&own.certificate), text(&own.key));
    let own = ["--tls-port", &port, "--tls-ca-cert-file", &ca, "--tls-cert-file", &certificate];
    let all = own.into_iter().chain(["--tls-key-file", &key]).chain(more.iter().copied());
    all.map(String::from).collect()
}

/// Why no connection comes about.
async fn refusal(config: &RedisConfig) -> String {
    match connect(config).ping().await {
        Err(StoreError::Unavailable(outage)) => {
            assert_eq!(outage.cause, Cause::Tls, "{outage}");
            outage.text
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn decisions_are_made_over_tls() {
    let Some(encrypted) = Encrypted::redis(&["127.0.0.1"], &[]) else { return };
    let store = connect(&encrypted.config());
    let hit = take("a", fixed_window(2, YEAR), 1);
    for allowed_now in [true, true, false] {
        assert_eq!(allowed(&store, &hit).await.unwrap(), allowed_now);
    }
}

/// F25.4, with TLS: also the password and the database survive.
#[tokio::test]
async fn f25_a_new_connection_is_encrypted_and_logs_in_as_the_first_did() {
    let user = ["--user", "limited", "on", ">hush", "~*", "+@all"];
    let Some(mut encrypted) = Encrypted::redis(&["127.0.0.1"], &user) else { return };
    let url = format!("rediss://limited:hush@127.0.0.1:{}/3", encrypted.port);
    let store = connect(&RedisConfig { url, ..encrypted.config() });
    let hit = take("a", fixed_window(10, YEAR), 1);
    recovered(&store, &hit).await;
    encrypted.server.kill();
    encrypted.server.begin_restart();
    recovered(&store, &hit).await;
    let verdicts = store.decide(&hit).await.unwrap();
    assert_eq!(verdicts[0].remaining, Hits::new(8), "empty at first, then two hits");
    let url = format!("rediss://limited:hush@127.0.0.1:{}/0", encrypted.port);
    let other = connect(&RedisConfig { url, ..encrypted.config() });
    let verdicts = other.decide(&hit).await.unwrap();
    assert_eq!(verdicts[0].remaining, Hits::new(9), "database 0 was not counted into");
}

#[tokio::test]
async fn a_server_of_another_authority_is_refused() {
    let Some(encrypted) = Encrypted::redis(&["127.0.0.1"], &[]) else { return };
    let mut config = encrypted.config();
    Authority::new().write(&encrypted.path("other.crt"));
    config.tls.ca = Some(encrypted.path("other.crt"));
    let text = refusal(&config).await;
    assert!(text.contains("UnknownIssuer") && text.contains("--redis-tls-ca"), "{text}");
    config.tls.ca = None;
    let text = refusal(&config).await;
    assert!(text.contains("--redis-tls-ca"), "not known to the system: {text}");
}

#[tokio::test]
async fn the_certificate_must_have_the_name_that_was_asked_for() {
    let Some(encrypted) = Encrypted::redis(&["cache.example"], &[]) else { return };
    let mut config = encrypted.config();
    let text = refusal(&config).await;
    assert!(text.contains("--redis-tls-server-name"), "{text}");
    config.tls.server_name = Some("cache.example".into());
    recovered(&connect(&config), &take("a", fixed_window(2, YEAR), 1)).await;
    config.tls.server_name = Some("other.example".into());
    let text = refusal(&config).await;
    assert!(text.contains("other.example"), "{text}");
}

#[tokio::test]
async fn an_expired_certificate_is_called_that() {
    let Some(encrypted) = Encrypted::redis(&["127.0.0.1"], &[]) else { return };
    let old =
        encrypted.authority.issue_until(encrypted.directory.path(), "old", &["127.0.0.1"], 2020);
    let text = |path: &Path| path.display().to_string();
    let files = ["tls-cert-file", &text(&old.certificate), "tls-key-file", &text(&old.key)];
    let () = encrypted.server.run(&[&["CONFIG", "SET"][..], &files].concat());
    let text = refusal(&encrypted.config()).await;
    assert!(text.contains("expired") && text.contains("renew"), "{text}");
}

#[tokio::test]
async fn a_server_that_wants_to_know_us_says_so() {
    let Some(encrypted) = Encrypted::redis(&["127.0.0.1"], &[]) else { return };
    let mut config = encrypted.config();
    config.tls.identity = None;
    let text = refusal(&config).await;
    assert!(text.contains("--redis-tls-cert"), "{text}");
    let strange = Authority::new().issue(encrypted.directory.path(), "strange", &["tidegate"]);
    config.tls.identity = Some(Identity { certificate: strange.certificate, key: strange.key });
    let text = refusal(&config).await;
    assert!(text.contains("does not accept our certificate"), "{text}");
}

#[tokio::test]
async fn a_port_without_tls_is_recognised() {
    let Some(encrypted) = Encrypted::redis(&["127.0.0.1"], &[]) else { return };
    let url = format!("rediss://127.0.0.1:{}", encrypted.server.port());
    let config = RedisConfig { url, ..encrypted.config() };
    let text = connect(&config).ping().await.unwrap_err().to_string();
    assert!(text.contains("is TLS spoken on this port?"), "{text}");
}

/// Certificates are replaced while the service runs.
#[tokio::test]
async fn certificates_are_read_again_for_every_connection() {
    let Some(encrypted) = Encrypted::redis(&["127.0.0.1"], &[]) else { return };
    let config = encrypted.config();
    let store = connect(&config);
    let hit = take("a", fixed_window(100, YEAR), 1);
    recovered(&store, &hit).await;

    let authority = Authority::new();
    authority.write(&encrypted.path("new-ca.crt"));
    let own = authority.issue(encrypted.directory.path(), "new-server", &["127.0.0.1"]);
    let text = |path: &Path| path.display().to_string();
    let (ca, certificate, key) =
        (text(&encrypted.path("new-ca.crt")), text(&own.certificate), text(&own.key));
    let files = ["tls-ca-cert-file", &ca, "tls-cert-file", &certificate, "tls-key-file", &key];
    let () = encrypted.server.run(&[&["CONFIG", "SET"][..], &files].concat());
    let () = encrypted.server.run(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    until("the new authority is not trusted", || !store.health().borrow().is_up()).await;

    authority.write(&encrypted.path("ca.crt"));
    authority.issue(encrypted.directory.path(), "client", &["tidegate"]);
    recovered(&store, &hit).await;
}
