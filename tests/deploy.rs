//! What stands under `deploy/` and in config.yaml is good.

use std::process::Command;

use serde::Deserialize as _;
use serde_yaml::Value;
use tidegate::policy::{LoadOptions, load, load_texts};
use tidegate::telemetry::metrics::Metrics;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn documents(path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(format!("{ROOT}/{path}")).expect("a file");
    let documents = serde_yaml::Deserializer::from_str(&text).map(Value::deserialize);
    documents.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What the program says of its flags.
fn help() -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = program.args(["serve", "--help"]).output().expect("the binary runs");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn every_file_of_rules_loads() {
    let rules = ["config.yaml", "deploy/envoy/rules.yaml", "deploy/envoy/failures-only-rules.yaml"];
    for path in rules {
        let loaded =
            load(format!("{ROOT}/{path}").as_ref(), LoadOptions::default(), &Metrics::new());
        loaded.unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn the_rules_in_the_config_map_load() {
    let manifests = documents("deploy/kubernetes/tidegate.yaml");
    let map = manifests.iter().find(|one| one["kind"] == "ConfigMap").expect("a ConfigMap");
    for (name, text) in map["data"].as_mapping().expect("data") {
        let (name, text) = (name.as_str().expect("a name"), text.as_str().expect("text"));
        let loaded = load_texts(&[(name, text)], LoadOptions::default(), &Metrics::new());
        loaded.unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn envoy_gateway_is_told_of_an_image_and_of_flags_that_exist() {
    let manifests = documents("deploy/envoy-gateway/envoy-gateway.yaml");
    let text = manifests[0]["data"]["envoy-gateway.yaml"].as_str().expect("text");
    let config: Value = serde_yaml::from_str(text).expect("YAML within YAML");
    let container = &config["provider"]["kubernetes"]["rateLimitDeployment"]["container"];
    assert!(container["image"].as_str().is_some_and(|image| image.starts_with("tidegate:")));
    let help = help();
    for variable in container["env"].as_sequence().expect("variables") {
        let name = variable["name"].as_str().expect("a name");
        assert!(help.contains(&format!("[env: {name}=")), "{name}");
    }
}

#[test]
fn the_flags_of_xds_are_those_that_its_documentation_lists() {
    let text = std::fs::read_to_string(format!("{ROOT}/docs/xds.md")).expect("a file");
    let help = help();
    let flags = help.lines().filter_map(|line| line.trim().strip_prefix("--xds-"));
    let flags: Vec<_> = flags.filter_map(|rest| rest.split([' ', '[']).next()).collect();
    assert!(flags.len() >= 15, "{flags:?}");
    for flag in flags {
        assert!(text.contains(&format!("`--xds-{flag}`")), "--xds-{flag}");
    }
    for variable in help.split("[env: ").filter_map(|rest| rest.split(['=', ']']).next()) {
        let of_xds = variable.contains("XDS_") && !variable.ends_with("_KEY");
        assert!(!of_xds || text.contains(&format!("`{variable}`")), "{variable}");
    }
}

#[test]
fn other_manifests_are_yaml() {
    let manifests = [
        "deploy/compose.yaml",
        "deploy/envoy/envoy.yaml",
        "deploy/envoy/failures-only.yaml",
        "deploy/envoy-gateway/policy.yaml",
    ];
    for path in manifests {
        assert_eq!(documents(path).len(), 1, "{path}");
    }
}
