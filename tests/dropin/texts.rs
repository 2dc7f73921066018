//! The texts by which the reference refuses rules, in ours word for word.

use std::fs;

use crate::support::process::{Launch, eventually};

/// The rules of a domain `d` with these descriptors.
fn rules(descriptors: &str) -> String {
    format!("domain: d\ndescriptors:\n{descriptors}\n")
}

#[test]
fn all_fifteen_are_there() {
    let limit = "rate_limit: {unit: hour, requests_per_unit: 1}";
    let cases = [
        ("domain: [".to_owned(), "error loading config file: "),
        (rules("  - {1: a}"), "config error, key is not of type string: "),
        (rules("  - {key: a, burst_size: 1}"), "config error, unknown key 'burst_size'"),
        (rules("  - a"), "config error, yaml file contains list of type other than map: a"),
        (rules("  - {key: a, value: 1.5}"), "error checking config"),
        ("descriptors: []".to_owned(), "config file cannot have empty domain"),
        (rules("  - {value: a}"), "descriptor has empty key"),
        (
            rules("  - {key: a, value: b}\n  - {key: a, value: b}"),
            "duplicate descriptor composite key 'd.a_b'",
        ),
        (
            rules("  - {key: a, rate_limit: {unlimited: true, unit: hour}}"),
            "should not specify rate limit unit when unlimited",
        ),
        (rules("  - {key: a, rate_limit: {unit: foo}}"), "invalid rate limit unit 'foo'"),
        (
            rules("  - {key: a, rate_limit: {unit: hour, replaces: [{name: ''}]}}"),
            "should not have an empty replaces entry",
        ),
        (
            rules("  - {key: a, rate_limit: {name: n, unit: hour, replaces: [{name: n}]}}"),
            "replaces should not contain name of same descriptor",
        ),
        (
            rules(&format!("  - {{key: a, value: b, share_threshold: true, {limit}}}")),
            "share_threshold can only be used with wildcard values (containing '*'), but found \
             key 'a_b'",
        ),
        (
            rules(&format!("  - {{key: a, metadata: {{b: {{[1]: 2}}}}, {limit}}}")),
            "error parsing metadata: ",
        ),
    ];
    for (text, wanted) in &cases {
        refused(&[("a.yaml", text)], wanted);
    }
    let twice = rules("");
    refused(&[("a.yaml", &twice), ("b.yaml", &twice)], "duplicate domain 'd' in config file");
    assert_eq!(cases.len() + 1, 15);
}

/// By `serve`, whose log has each fault as a line.
fn refused(files: &[(&str, &str)], wanted: &str) {
    let root = tempfile::tempdir().expect("a directory");
    fs::create_dir(root.path().join("config")).expect("a directory");
    for (name, text) in files {
        fs::write(root.path().join("config").join(name), text).expect("a file");
    }
    let service = Launch::new([] as [&str; 0])
        .called("ratelimit")
        .env("RUNTIME_ROOT", root.path().to_str().expect("text"))
        .env("PORT", "0")
        .env("DEBUG_PORT", "0")
        .env("USE_STATSD", "false")
        .env("GRPC_PORT", "0")
        .env("TIDEGATE_STORE", "memory")
        .start();
    let key = format!("config.{}", files.last().expect("a file").0);
    eventually(&format!("{wanted} of {key}"), || {
        service.log().lines().any(|line| line.contains(&key) && line.contains(wanted))
    });
}
