//! The configurations recorded from the reference.

use serde::Deserialize;
use tidegate::policy::{LoadOptions, Position, load_texts};
use tidegate::telemetry::metrics::Metrics;

#[derive(Deserialize)]
struct Vectors {
    configs: Vec<Config>,
    decisions: Vec<Decision>,
}

#[derive(Deserialize)]
struct Config {
    name: String,
    yaml: String,
    accepted: bool,
    message: Option<String>,
}

#[derive(Deserialize)]
struct Decision {
    name: String,
    settings: std::collections::BTreeMap<String, String>,
    files: std::collections::BTreeMap<String, String>,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../cases/vectors.json")).expect("valid vectors")
}

/// Where the reference's YAML library speaks, we speak for ourselves.
fn expected(recorded: &str) -> &str {
    let text = recorded.strip_prefix("x.yaml: ").expect("the file's name");
    match text.find("yaml: line ") {
        Some(at) => &text[..at + "yaml: line ".len()],
        None => text,
    }
}

#[test]
fn configurations_are_accepted_or_refused_as_the_reference_does() {
    let configs = vectors().configs;
    assert_eq!(configs.len(), 24);
    for Config { name, yaml, accepted, message } in configs {
        let options = LoadOptions::default();
        let result = load_texts(&[("x.yaml", &yaml)], options, &Metrics::new());
        assert_eq!(result.is_ok(), accepted, "{name}: {result:?}");
        let Err(error) = result else { continue };
        let recorded = message.expect("refusals have a message");
        let fault = &error.faults()[0];
        assert!(fault.message.contains(expected(&recorded)), "{name}: {error}");
        assert!(fault.position >= Position::START, "{name}: {error}");
        let Position { line, column } = fault.position;
        assert!(error.to_string().starts_with(&format!("x.yaml:{line}:{column}: ")), "{error}");
        assert!(fault.hint.is_some(), "{name}: what to do about {error}");
    }
}

#[test]
fn every_recorded_rule_file_loads() {
    for Decision { name, settings, files } in vectors().decisions {
        let merge_domains = settings.get("MERGE_DOMAIN_CONFIG").is_some_and(|on| on == "true");
        let files: Vec<_> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
        let options = LoadOptions { merge_domains, ..LoadOptions::default() };
        let policies = load_texts(&files, options, &Metrics::new());
        assert!(policies.is_ok_and(|policies| policies.is_empty() == files.is_empty()), "{name}");
    }
}
