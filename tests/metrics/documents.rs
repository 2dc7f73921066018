//! What is written about metrics is so: the list in docs/metrics.md and the
//! dashboard.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tidegate::telemetry::metrics::{LABELS, Metrics};

const DOCUMENT: &str = include_str!("../../docs/metrics.md");
const DASHBOARD: &str = include_str!("../../deploy/grafana/tidegate.json");

/// Names and labels of all metrics there are.
fn metrics() -> BTreeMap<String, Vec<String>> {
    let metrics = Metrics::new();
    let described = metrics.descriptions().iter();
    described.map(|one| (one.name.clone(), one.labels.clone())).collect()
}

/// What stands in ticks in a cell.
fn ticked(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_document_lists_every_metric_with_its_labels_and_no_other() {
    let mut listed = BTreeMap::new();
    let (lists, _) = DOCUMENT.split_once("\n## Dotted names").expect("a part with other tables");
    for row in lists.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        let name = ticked(cells[0]).remove(0);
        let is_a_name = name.chars().all(|c| c == '_' || c.is_ascii_lowercase());
        if is_a_name && (name.starts_with("ratelimit_") || name.starts_with("tidegate_")) {
            assert!(listed.insert(name, ticked(cells[1])).is_none(), "twice: {row}");
        }
    }
    assert_eq!(listed, metrics());
}

#[test]
fn labels_that_tags_must_not_have_are_those_there_are() {
    let metrics = metrics();
    let used: BTreeSet<&str> = metrics.values().flatten().map(String::as_str).collect();
    let known: BTreeSet<&str> = LABELS.iter().copied().collect();
    assert_eq!(known, &used | &BTreeSet::from(["le", "quantile"]));
}

/// Every query of the dashboard.
fn queries(dashboard: &Value) -> Vec<&str> {
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let queries = targets.map(|target| target["expr"].as_str().expect("a query"));
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    queries.chain(variables.iter().filter_map(|one| one["query"]["query"].as_str())).collect()
}

/// The metrics that a query names.
fn named(query: &str) -> Vec<&str> {
    let words = query.split(|c: char| c != '_' && !c.is_ascii_alphanumeric());
    words.filter(|word| word.starts_with("ratelimit_") || word.starts_with("tidegate_")).collect()
}

#[test]
fn the_dashboard_uses_only_metrics_and_labels_that_exist() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let metrics = metrics();
    let mut used = BTreeSet::new();
    for query in queries(&dashboard) {
        let names = named(query);
        assert!(!names.is_empty(), "{query}");
        for name in names {
            let name = name.strip_suffix("_bucket").unwrap_or(name);
            let labels = metrics.get(name).unwrap_or_else(|| panic!("no metric {name}: {query}"));
            for by in query.split("by (").skip(1).filter_map(|rest| rest.split(')').next()) {
                for label in by.split(", ") {
                    let there = label == "le" || labels.iter().any(|known| known == label);
                    assert!(there, "{name} has no {label}: {query}");
                }
            }
            used.insert(name.to_owned());
        }
    }
    assert!(used.len() > 20, "{used:?}");
}

#[test]
fn the_panels_of_the_dashboard_do_not_overlap() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in dashboard["panels"].as_array().expect("panels") {
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{panel}");
        let at = |name: &str| panel["gridPos"][name].as_u64().expect("a number");
        assert!(at("x") + at("w") <= 24, "{panel}");
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(cells.insert((x, y)), "{panel}");
            }
        }
    }
}
