//! What stands under `deploy/` and in config.yaml is good.

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
fn other_manifests_are_yaml() {
    let manifests =
        ["deploy/compose.yaml", "deploy/envoy/envoy.yaml", "deploy/envoy/failures-only.yaml"];
    for path in manifests {
        assert_eq!(documents(path).len(), 1, "{path}");
    }
}
