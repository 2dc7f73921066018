//! One server: by TLS, by its Unix socket, and one that may not be written to.

use crate::certificates::Authority;
use crate::process::eventually;
use crate::redis::{RedisServer, free_port};
use crate::{EXACT, answers, serve};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_reached_by_tls_with_certificates_from_flags_and_variables() {
    let directory = tempfile::tempdir().expect("a directory");
    let authority = Authority::new();
    authority.write(&directory.path().join("ca.crt"));
    authority.issue(directory.path(), "server", &["cache.example"]);
    authority.issue(directory.path(), "client", &["tidegate"]);
    let path = |file: &str| directory.path().join(file).display().to_string();
    let port = free_port().to_string();
    let options = [
        ["--tls-port", &port],
        ["--tls-ca-cert-file", &path("ca.crt")],
        ["--tls-cert-file", &path("server.crt")],
        ["--tls-key-file", &path("server.key")],
    ];
    let Some(_server) = RedisServer::redis_with(options.as_flattened()) else { return };

    let url = format!("rediss://127.0.0.1:{port}");
    let gate = serve(&url, &directory)
        .args(["--redis-tls-ca", &path("ca.crt"), "--redis-tls-server-name", "cache.example"])
        .env("TIDEGATE_REDIS_TLS_CERT", &path("client.crt"))
        .env("TIDEGATE_REDIS_TLS_KEY", &path("client.key"))
        .start();
    assert_eq!(answers(&gate, "a", 4).await, EXACT);

    let keyless = serve(&url, &directory).args(["--redis-tls-cert", &path("client.crt")]);
    let ended = keyless.output();
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    assert!(ended.stderr.contains("--redis-tls-key"), "{}", ended.stderr);

    let plain = serve("redis://127.0.0.1", &directory).args(["--redis-tls-ca", &path("ca.crt")]);
    let ended = plain.output();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("rediss://"), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_reached_by_its_unix_socket() {
    let Some(server) = RedisServer::redis() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let gate = serve(&format!("{}?db=4", server.unix_url()), &directory).start();
    assert_eq!(answers(&gate, "a", 4).await, EXACT);
    let keyspace: String = server.run(&["INFO", "keyspace"]);
    assert!(keyspace.contains("db4:") && !keyspace.contains("db0:"), "{keyspace}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_replica_is_recognised() {
    let Some(server) = RedisServer::redis() else { return };
    let () = server.run(&["REPLICAOF", "127.0.0.1", &free_port().to_string()]);
    let directory = tempfile::tempdir().expect("a directory");
    let gate = serve(&server.url(), &directory).start();
    eventually("the log says so", || gate.log().contains("this is a read-only replica"));
    assert_eq!(answers(&gate, "a", 1).await, ["Unavailable"]);
    // A replica that lost its master may say that instead.
    let () = server.run(&["REPLICAOF", "NO", "ONE"]);
    eventually("decisions succeed", || gate.metric("tidegate_store_up") == Some(1));
    assert_eq!(answers(&gate, "a", 4).await, EXACT);
}
