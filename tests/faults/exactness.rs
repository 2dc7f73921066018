//! Several processes, one limit: never one too many, whatever their clocks say.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta};
use tempfile::TempDir;

use crate::crowd::{ADMITTED, KEYS, RULES, channels, storm};
use crate::http;
use crate::process::{Launch, Running};
use crate::redis::RedisServer;

/// No decision must be answered by a failure mode, however busy the machine.
const PATIENT: [&str; 4] = ["--store-deadline", "20s", "--failure-mode", "error"];

fn config() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("config.yaml");
    std::fs::write(&path, RULES).expect("a file");
    (directory, path)
}

fn replica(config: &Path, server: &RedisServer) -> Launch {
    Launch::serve(config).args(PATIENT).args(["--store", &server.url()])
}

/// F28, with four processes of 64 callers each.
#[tokio::test(flavor = "multi_thread")]
async fn f28_four_processes_admit_exactly_the_limit() {
    let Some(server) = RedisServer::redis() else { return };
    let (_directory, config) = config();
    let replicas = [(); 4].map(|()| replica(&config, &server).start());
    let channels = Arc::new(channels(&replicas).await);
    for key in KEYS {
        assert_eq!(storm(&channels, (key, "one"), 64, 4).await, ADMITTED, "{key}");
    }
}

/// The library that shifts the clock of a process: what `LIBFAKETIME` names, or
/// where Debian puts it.
fn clock_shifter() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("LIBFAKETIME") {
        return Some(path.into());
    }
    let libraries = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let shifter = |dir: std::fs::DirEntry| dir.path().join("faketime/libfaketimeMT.so.1");
    let found = libraries.map(shifter).find(|path| path.is_file());
    if found.is_none() {
        let required = std::env::var_os("TIDEGATE_REQUIRE_TOOLS").is_some();
        assert!(!required, "there is no libfaketime; tests/run installs it");
        println!("SKIPPED: there is no libfaketime; tests/run installs it");
    }
    found
}

/// What a process takes for the present: when it read its rules.
fn started(replica: &Running) -> DateTime<chrono::FixedOffset> {
    let body = http::get(&replica.http, "/readyz").json();
    let text = body["config"]["loaded_at"].as_str().expect("a time").to_owned();
    DateTime::parse_from_rfc3339(&text).expect("a time")
}

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_whose_clocks_differ_by_an_hour_share_one_limit() {
    let Some(server) = RedisServer::redis() else { return };
    let Some(shifter) = clock_shifter() else { return };
    let shifter = shifter.to_str().expect("text").to_owned();
    let (_directory, config) = config();
    // The monotonic clock stays, as it would where an administrator set the date.
    let ahead = replica(&config, &server)
        .env("LD_PRELOAD", &shifter)
        .env("FAKETIME", "+1h")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .env("DONT_FAKE_MONOTONIC", "1");
    let replicas = [replica(&config, &server).start(), ahead.start()];
    let apart = started(&replicas[1]) - started(&replicas[0]);
    assert!((apart - TimeDelta::hours(1)).abs() < TimeDelta::minutes(10), "{apart}");
    let channels = channels(&replicas).await;
    for key in KEYS {
        assert_eq!(storm(&channels, (key, "one"), 8, 25).await, ADMITTED, "{key}");
    }
}
