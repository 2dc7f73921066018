//! F05, F06: policies change while the service runs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Instant;

use tonic::transport::Channel;

use crate::process::{Launch, PATIENCE, Running, eventually};
use crate::{ask, directory, http, remaining, request};

fn metric(running: &Running, name: &str) -> u64 {
    let text = http::get(&running.http, "/metrics").body;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} in {text}"))
}

const LOADS: &str = "ratelimit_service_config_load_success";
const REFUSALS: &str = "ratelimit_service_config_load_error";
const STALE: &str = "tidegate_config_stale";

fn fast(config: &Path) -> Launch {
    Launch::serve(config).args(["--reload-interval", "20ms"])
}

/// Rules with this limit for `team`.
fn team(limit: u32) -> String {
    format!(
        "domain: t\ndescriptors:\n  - key: team\n    rate_limit: {{unit: year, requests_per_unit: {limit}}}\n"
    )
}

/// A directory as Kubernetes makes it of a `ConfigMap`.
struct ConfigMap<'a> {
    root: &'a Path,
    version: u32,
}

impl<'a> ConfigMap<'a> {
    fn new(root: &'a Path, text: &str) -> Self {
        fs::create_dir_all(root.join("..v1")).expect("a directory");
        fs::write(root.join("..v1/rl.yaml"), text).expect("a file");
        symlink("..v1", root.join("..data")).expect("a link");
        symlink("..data/rl.yaml", root.join("rl.yaml")).expect("a link");
        Self { root, version: 1 }
    }

    fn update(&mut self, text: &str) {
        let (old, new) = (format!("..v{}", self.version), format!("..v{}", self.version + 1));
        fs::create_dir(self.root.join(&new)).expect("a directory");
        fs::write(self.root.join(&new).join("rl.yaml"), text).expect("a file");
        symlink(&new, self.root.join("..data_tmp")).expect("a link");
        fs::rename(self.root.join("..data_tmp"), self.root.join("..data")).expect("a swap");
        fs::remove_dir_all(self.root.join(old)).expect("removed");
        self.version += 1;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f05_a_swapped_symlink_takes_effect_and_counts_stay() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = ConfigMap::new(directory.path(), &team(3));
    let running = fast(directory.path()).start();
    let channel = running.channel().await;
    assert_eq!(remaining(&channel, "team", "x").await, 2);

    config.update(&team(4));
    eventually("the update", || metric(&running, LOADS) == 2);
    assert_eq!(remaining(&channel, "team", "x").await, 2);

    let open_files = running.open_files();
    for limit in (9..29).rev() {
        config.update(&team(limit));
    }
    let start = Instant::now();
    while limit_of(&channel).await != 9 {
        assert!(start.elapsed() < PATIENCE, "the last update never came into force");
    }
    assert_eq!(metric(&running, REFUSALS), 0);
    assert_eq!(metric(&running, STALE), 0);
    eventually("no handle is left open", || running.open_files() <= open_files);
}

/// The limit in force for `team`.
async fn limit_of(channel: &Channel) -> u32 {
    let response = ask(channel, request("team", "y")).await.expect("an answer");
    let limit = response.statuses[0].current_limit.as_ref().expect("a limit");
    limit.requests_per_unit
}

#[tokio::test(flavor = "multi_thread")]
async fn f06_a_bad_reload_keeps_rules_and_counts_and_is_visible() {
    let (directory, config) = directory();
    let running = fast(directory.path()).start();
    let channel = running.channel().await;
    assert_eq!(remaining(&channel, "five", "a").await, 4);
    assert_eq!(metric(&running, LOADS), 1);

    let bad = directory.path().join("bad.yaml");
    let text = "domain: n1\ndescriptors:\n  - key: k\n    rate_limit: {unit: foo}\n";
    fs::write(&bad, text).expect("a file");
    eventually("the refusal", || metric(&running, STALE) == 1);
    assert_eq!(metric(&running, REFUSALS), 1);
    assert_eq!(remaining(&channel, "five", "a").await, 3);
    let ready = http::get(&running.http, "/readyz");
    assert_eq!((ready.status, &ready.json()["config"]["stale"]), (200, &true.into()));
    let error = ready.json()["config"]["error"].as_str().map(str::to_owned).unwrap_or_default();
    assert!(error.contains("bad.yaml") && error.contains("foo"), "{error}");
    eventually("the log", || running.log().contains("last good"));
    let log = running.log();
    assert!(log.contains("bad.yaml") && log.contains("foo"), "{log}");
    assert!(log.lines().count() < 8, "a few lines for each change: {log}");

    // The same bad files are told once; other ones are told anew.
    fs::write(&bad, text.replace("foo", "bar")).expect("a file");
    eventually("the next refusal", || running.log().contains("bar"));
    eventually("its count", || metric(&running, REFUSALS) == 2);
    assert_eq!(running.log().matches("last good").count(), 2, "{}", running.log());

    fs::remove_file(&bad).expect("removed");
    eventually("the repair", || metric(&running, LOADS) == 2);
    assert_eq!(metric(&running, STALE), 0);
    assert!(http::get(&running.http, "/readyz").json()["config"]["error"].is_null());
    assert_eq!(remaining(&channel, "five", "a").await, 2);
    assert!(config.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_gone_for_a_while_changes_nothing() {
    let (_directory, config) = directory();
    let running = fast(&config).start();
    let channel = running.channel().await;
    fs::remove_file(&config).expect("removed");
    eventually("the refusal", || metric(&running, STALE) == 1);
    assert_eq!(remaining(&channel, "five", "a").await, 4);
    fs::write(&config, team(7)).expect("a file");
    eventually("the new file", || metric(&running, STALE) == 0);
    assert_eq!(remaining(&channel, "team", "a").await, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_interval_0_nothing_is_looked_at() {
    let (_directory, config) = directory();
    let running = Launch::serve(&config).args(["--reload-interval", "0"]).start();
    fs::write(&config, team(7)).expect("a file");
    assert_eq!(remaining(&running.channel().await, "five", "a").await, 4);
}
