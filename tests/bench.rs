//! `tidegate bench` against the real service: every call is accounted for.

#[path = "support/mod.rs"]
mod support;

use std::collections::HashSet;
use std::fs;
use std::net::TcpListener;

use serde_json::Value;
use support::process::{Ended, Launch, Running};
use tidegate::bench::keys::{Keys, random_of};
use tidegate::bench::{Distribution, Process};

/// A year is a window that does not end during a test, save one in a million.
const CONFIG: &str = "
domain: bench
descriptors:
  - key: key
    rate_limit: {unit: year, requests_per_unit: 100}
  - key: once
    rate_limit: {unit: year, requests_per_unit: 1}
";

fn service() -> (tempfile::TempDir, Running) {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("config.yaml");
    fs::write(&config, CONFIG).expect("written");
    let service = Launch::serve(&config).start();
    (directory, service)
}

fn bench(address: &str, args: &[&str]) -> Ended {
    let target = match address.strip_prefix("unix:") {
        Some(_) => address.to_owned(),
        None => format!("http://{address}"),
    };
    // The duration only bounds what would otherwise never end.
    Launch::new(["bench", "--target", &target, "--warm-up", "0s", "--duration", "60s"])
        .args(args)
        .output()
}

fn json(ended: &Ended) -> Value {
    assert!(ended.status.success(), "{ended:#?}");
    serde_json::from_str(&ended.stdout).expect("JSON")
}

#[test]
fn with_a_known_limit_the_counts_are_exact() {
    let (_directory, service) = service();
    let report = json(&bench(&service.grpc, &["--keys", "1", "--requests", "250", "--json"]));
    let calls = &report["calls"];
    assert_eq!(
        (&calls["sent"], &calls["ok"], &calls["over_limit"]),
        (&250.into(), &100.into(), &150.into())
    );
    assert_eq!(calls["errors"], serde_json::json!({}));
}

#[test]
fn the_open_loop_sends_every_call_once() {
    let (_directory, service) = service();
    let args = ["--keys", "1", "--requests", "130", "--rate", "2000/s", "--json"];
    let report = json(&bench(&service.grpc, &args));
    let calls = &report["calls"];
    assert_eq!(
        (&calls["sent"], &calls["ok"], &calls["over_limit"]),
        (&130.into(), &100.into(), &30.into())
    );
    assert_eq!(calls["unsent"], 0);
    assert_eq!(report["load"]["rate"], 2000);
}

#[test]
fn the_seed_says_which_keys_are_asked() {
    let (_directory, service) = service();
    let hot = ["--distribution", "hot", "--hot-share", "0.5", "--keys", "500"];
    let args = ["--descriptor", "once", "--requests", "300", "--seed", "7", "--json"];
    let report = json(&bench(&service.grpc, &[&args[..], &hot].concat()));
    // Each key passes once, so as many calls pass as there are different keys.
    let keys = Keys::new(500, Distribution::Hot { share: 0.5 });
    let asked: HashSet<u32> = (0..300).map(|number| keys.draw(&mut random_of(7, number))).collect();
    assert!(asked.len() > 100, "{}", asked.len());
    assert_eq!(report["calls"]["ok"], asked.len());
    assert_eq!(report["calls"]["over_limit"], 300 - asked.len());
}

#[test]
fn several_descriptors_are_charged_each() {
    let (_directory, service) = service();
    let args = ["--descriptor", "key", "--descriptor", "once=a", "--requests", "40", "--json"];
    let report = json(&bench(&service.grpc, &args));
    // The second descriptor has one counter, which passes once.
    assert_eq!((&report["calls"]["ok"], &report["calls"]["over_limit"]), (&1.into(), &39.into()));
}

#[test]
fn a_table_and_a_picture_are_for_people_and_processes_are_told_apart() {
    let (directory, service) = service();
    let picture = directory.path().join("latency.svg");
    let pid = format!("limiter={}", service.id());
    let args = ["--requests", "50", "--pid", &pid, "--svg", &picture.display().to_string()];
    let ended = bench(&service.grpc, &args);
    assert!(ended.status.success(), "{ended:#?}");
    for part in ["calls      50 in ", "OK       50\n", "CPU        limiter: ", "client: "] {
        assert!(ended.stdout.contains(part), "no {part:?} in\n{}", ended.stdout);
    }
    let picture = fs::read_to_string(picture).expect("a picture");
    roxmltree::Document::parse(&picture).expect("well-formed");
}

#[test]
fn a_unix_socket_can_be_asked() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("config.yaml");
    fs::write(&config, CONFIG).expect("written");
    let listen = format!("unix:{}", directory.path().join("socket").display());
    let service = Launch::new(["serve", "--http-listen", "127.0.0.1:0", "--listen", &listen])
        .args(["--config".as_ref(), config.as_os_str()])
        .start();
    let report = json(&bench(&service.grpc, &["--requests", "5", "--json"]));
    assert_eq!(report["calls"]["ok"], 5);
}

#[test]
fn a_server_that_never_answers_does_not_hold_us_up() {
    // The system takes the connection; nobody ever reads from it.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address").to_string();
    let args = ["--duration", "100ms", "--patience", "100ms", "--in-flight", "3", "--json"];
    let target = format!("http://{address}");
    let ended = Launch::new(["bench", "--target", &target, "--warm-up", "0s"]).args(args).output();
    assert_eq!(ended.status.code(), Some(1), "{ended:#?}");
    assert!(ended.stderr.contains("they ended with unanswered"), "{ended:#?}");
    let report: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(
        (&report["calls"]["sent"], &report["calls"]["errors"]["unanswered"]),
        (&3.into(), &3.into())
    );
}

#[test]
fn refusals_name_the_cause_and_the_way_out() {
    let gone = Process { label: "gone".into(), pid: u32::MAX };
    let (_directory, service) = service();
    let pid = format!("{}={}", gone.label, gone.pid);
    for (address, args, told) in [
        ("192.0.2.1:8081", &["--requests", "1"][..], "--allow-remote"),
        (&service.grpc, &["--requests", "1", "--pid", &pid], "gone"),
        (&service.grpc, &["--requests", "1", "--svg", "/"], "cannot write /"),
        (&service.grpc, &["--requests", "1", "--domain", ""], "InvalidArgument"),
    ] {
        let ended = bench(address, args);
        assert_eq!(ended.status.code(), Some(1), "{ended:#?}");
        assert!(ended.stderr.contains(told), "no {told:?} in {ended:#?}");
    }
}
