//! The runtime directory: which files count, what they are called, and changes.

use std::fs;
use std::os::unix::fs::symlink;

use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::support::http;
use crate::support::process::{Running, eventually};
use crate::{FIVE, Site, answer};

const LOADS: &str = "ratelimit_service_config_load_success";
const BAD: &str = "domain: bad\ndescriptors:\n  - key: ''\n";

fn domain(name: &str) -> String {
    FIVE.replace("domain: t", &format!("domain: {name}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_file_counts_however_deep_and_whatever_it_is_called() {
    let Some(site) = Site::new(&[("README", &domain("a")), ("x/y/z.txt", &domain("b"))]) else {
        return;
    };
    site.write(".hidden", &domain("c"));
    site.write(".d/e.yaml", &domain("d"));
    let all = site.start();
    for domain in ["a", "b", "c", "d"] {
        assert_eq!(answer(&all, domain, "[five=x]").await, "OK r4", "{domain}");
    }
    let fewer = site.launch().env("RUNTIME_IGNOREDOTFILES", "true").start();
    for (domain, wanted) in [("a", "OK r3"), ("b", "OK r3"), ("c", "NONE"), ("d", "NONE")] {
        assert_eq!(answer(&fewer, domain, "[five=x]").await, wanted, "{domain}");
    }
}

#[test]
fn errors_call_a_file_by_its_runtime_key() {
    let Some(site) = Site::new(&[("x/bad.yaml", BAD)]) else { return };
    for (watch_root, key) in [("true", "config.x.bad.yaml:3:"), ("false", " x.bad.yaml:3:")] {
        let service = site.launch().env("RUNTIME_WATCH_ROOT", watch_root).start();
        eventually("the log", || service.log().contains("descriptor has empty key"));
        assert!(service.log().contains(key), "{key} in {}", service.log());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_directories_can_be_named_otherwise() {
    let Some(site) = Site::new(&[]) else { return };
    fs::create_dir_all(site.root.path().join("limits")).expect("a directory");
    fs::write(site.root.path().join("limits/a.yaml"), FIVE).expect("a file");
    // Without a subdirectory the reference loads nothing and says nothing.
    let launch = site.launch().env("RUNTIME_SUBDIRECTORY", "");
    let service = launch.env("RUNTIME_APPDIRECTORY", "limits").start();
    assert_eq!(answer(&service, "t", "[five=x]").await, "OK r4");
}

/// E3: the reference starts with bad rules and answers every call by an error.
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_first_configuration_is_an_error_of_each_call_until_it_is_good() {
    let Some(site) = Site::new(&[("a.yaml", BAD)]) else { return };
    let service = site.start();
    let said = answer(&service, "t", "[five=x]").await;
    assert_eq!(said, "error Unknown: no rate limit configuration loaded");
    assert_eq!(service.metric("ratelimit_service_config_load_error"), Some(1));
    assert_eq!(http::get(&service.http, "/healthcheck").status, 200, "as there");
    site.write("a.yaml", FIVE);
    eventually("the repair", || service.metric(LOADS) == Some(1));
    assert_eq!(answer(&service, "t", "[five=x]").await, "OK r4");
}

/// L1.
#[tokio::test(flavor = "multi_thread")]
async fn files_come_and_go() {
    let Some(site) = Site::new(&[("a.yaml", FIVE)]) else { return };
    let service = site.launch().env("RUNTIME_WATCH_ROOT", "false").start();
    assert_eq!(answer(&service, "u", "[block=x]").await, "NONE");
    let block = "domain: u\ndescriptors:\n  - key: block\n    rate_limit: {unit: second, requests_per_unit: 0}\n";
    site.write("b.yaml", block);
    eventually("a second load", || service.metric(LOADS) == Some(2));
    assert_eq!(answer(&service, "u", "[block=x]").await, "OVER");
    site.remove("b.yaml");
    eventually("a third load", || service.metric(LOADS) == Some(3));
    assert_eq!(answer(&service, "u", "[block=x]").await, "NONE");
}

async fn health(service: &Running) -> ServingStatus {
    let mut client = HealthClient::new(service.channel().await);
    let about = HealthCheckRequest { service: "ratelimit".into() };
    client.check(about).await.expect("an answer").into_inner().status()
}

/// K2.
#[tokio::test(flavor = "multi_thread")]
async fn health_can_depend_on_rules() {
    let Some(site) = Site::new(&[]) else { return };
    let service = site.launch().env("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", "true").start();
    let status = || http::get(&service.http, "/healthcheck").status;
    assert_eq!((status(), health(&service).await), (500, ServingStatus::NotServing));
    site.write("a.yaml", FIVE);
    eventually("health with rules", || status() == 200);
    while health(&service).await != ServingStatus::Serving {}
    // A bad configuration changes nothing, an empty one does.
    site.write("b.yaml", BAD);
    eventually("the refusal", || service.metric("ratelimit_service_config_load_error") == Some(1));
    assert_eq!((status(), health(&service).await), (200, ServingStatus::Serving));
    site.remove("b.yaml");
    site.remove("a.yaml");
    eventually("health without rules", || status() == 500);
    while health(&service).await != ServingStatus::NotServing {}
}

/// K1.
#[test]
fn health_turns_with_sigterm() {
    let Some(site) = Site::new(&[("a.yaml", FIVE)]) else { return };
    let mut service = site.launch().env("TIDEGATE_DRAIN_DELAY", "20s").start();
    let answer = http::get(&service.http, "/healthcheck");
    assert_eq!((answer.status, answer.body.as_str()), (200, "OK"));
    service.signal("TERM");
    eventually("health", || http::get(&service.http, "/healthcheck").status == 500);
    service.signal("TERM");
    service.wait();
}

/// F05, in a `ConfigMap` with dot files allowed, where the reference finds the
/// same file twice and refuses it.
#[tokio::test(flavor = "multi_thread")]
async fn a_config_map_is_read_once_and_its_update_is_noticed() {
    let Some(site) = Site::new(&[("..v1/rl.yaml", FIVE)]) else { return };
    symlink("..v1", site.rules().join("..data")).expect("a link");
    symlink("..data/rl.yaml", site.rules().join("rl.yaml")).expect("a link");
    for ignored in ["true", "false"] {
        let service = site.launch().env("RUNTIME_IGNOREDOTFILES", ignored).start();
        let said = answer(&service, "t", &format!("[five={ignored}]")).await;
        assert_eq!(said, "OK r4", "{}", service.log());
    }
    let service = site.launch().env("RUNTIME_IGNOREDOTFILES", "true").start();
    site.write("..v2/rl.yaml", &FIVE.replace('5', "9"));
    symlink("..v2", site.rules().join("..data_tmp")).expect("a link");
    fs::rename(site.rules().join("..data_tmp"), site.rules().join("..data")).expect("a swap");
    eventually("the update", || service.metric(LOADS) == Some(2));
    assert_eq!(answer(&service, "t", "[five=x]").await, "OK r8");
}

/// The reference's own kind of update: its root is a link that is set anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_root_that_is_replaced_is_noticed() {
    let Some(site) = Site::new(&[]) else { return };
    for (name, text) in [("v1", FIVE.to_owned()), ("v2", FIVE.replace('5', "9"))] {
        fs::create_dir_all(site.root.path().join(name).join("app/config")).expect("directories");
        let file = site.root.path().join(name).join("app/config/a.yaml");
        fs::write(file, text).expect("a file");
    }
    let root = site.root.path().join("current");
    symlink("v1", &root).expect("a link");
    let service = site.launch().env("RUNTIME_ROOT", root.to_str().expect("text")).start();
    assert_eq!(answer(&service, "t", "[five=x]").await, "OK r4");
    symlink("v2", site.root.path().join("next")).expect("a link");
    fs::rename(site.root.path().join("next"), &root).expect("a swap");
    eventually("the update", || service.metric(LOADS) == Some(2));
    assert_eq!(answer(&service, "t", "[five=x]").await, "OK r7");
}
