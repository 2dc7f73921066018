//! What `benches/compare` makes of its measurements.

#[path = "../benches/compare/chart.rs"]
mod chart;
#[path = "../benches/compare/figures.rs"]
mod figures;
#[path = "../benches/compare/markdown.rs"]
mod markdown;
#[path = "../benches/compare/results.rs"]
mod results;

use std::collections::BTreeMap;

use figures::{ALGORITHMS, Figure, Goal, Quantity, median};
use tidegate::policy::{LoadOptions, load_texts};
use tidegate::store::KeyBuf;
use tidegate::telemetry::metrics::Metrics;

use results::{LaneResult, Machine, Results, Sample, Setup};

const RULES: &str = include_str!("../benches/compare/rules.yaml");

/// A lane with these server CPU times, one a round.
fn lane(name: &str, server_us: &[f64]) -> LaneResult {
    let sample = |server_us: &f64| Sample {
        decisions_per_second: 40_000.0,
        mean_us: 1_500.0,
        p50_us: 1_200.0,
        p99_us: 4_900.0,
        server_us: Some(*server_us),
        ok: 100,
        ..Sample::default()
    };
    LaneResult { name: name.into(), samples: server_us.iter().map(sample).collect() }
}

fn results(lanes: Vec<LaneResult>) -> Results {
    let machine = Machine {
        date: "2026-11-30".into(),
        processor: "<Some> & \"other\" | processor".into(),
        cores: 2,
        kernel: "6.18".into(),
        load_before: "0.10".into(),
        versions: vec!["tidegate 0.1.0".into()],
    };
    let setup = Setup {
        rounds: 3,
        seconds: 2.5,
        connections: 4,
        client_threads: 2,
        in_flight: 64,
        algorithms: vec!["gcra".into()],
        peers: vec!["a|b".into()],
    };
    Results::new(machine, setup, lanes)
}

/// Everything there can be, one lane of it with Redis and failures.
fn everything() -> Results {
    let mut redis = lane("Redis", &[20.0, 21.0, 22.0]);
    for sample in &mut redis.samples {
        sample.redis_us = Some(4.0);
        sample.failed = BTreeMap::from([("Unavailable".into(), 2)]);
    }
    let names = ["no-op", "memory", "memory gcra", "a|b"];
    let lanes = names.iter().map(|name| lane(name, &[10.0, 12.0, 11.0])).chain([redis]);
    results(lanes.collect())
}

fn figure<'r>(results: &'r Results, of: &str, quantity: Quantity) -> &'r Figure {
    let found = results.figures.iter().find(|one| one.of == of && one.quantity == quantity);
    found.unwrap_or_else(|| panic!("no {quantity} of {of} in {:#?}", results.figures))
}

#[test]
fn there_is_a_rule_for_every_algorithm() {
    let rules = load_texts(&[("rules.yaml", RULES)], LoadOptions::default(), &Metrics::new());
    let rules = rules.unwrap_or_else(|error| panic!("{error}"));
    let domain = rules.domain("bench").expect("the domain that is asked");
    for name in ALGORITHMS.split(',').chain(["refused"]) {
        let mut keys = KeyBuf::default();
        assert!(domain.find([(name, "0000")], &mut keys.writer("bench")).is_some(), "{name}");
    }
}

#[test]
fn the_median_is_the_middle() {
    assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    assert_eq!(median(Vec::new()), None);
}

#[test]
fn servers_are_compared_within_a_round() {
    // The machine is twice as slow in the second round, for both.
    let results =
        results(vec![lane("no-op", &[10.0, 20.0, 10.0]), lane("memory", &[8.0, 16.0, 9.0])]);
    let figure = figure(&results, "memory", Quantity::ServerCpu);
    assert_eq!(figure.values, [0.8, 0.8, 0.9]);
    assert_eq!((figure.median, figure.goal), (0.8, Some(Goal::AtMost(0.9))));
    assert_eq!(figure.reached, Some(true));
}

#[test]
fn a_missed_goal_is_told() {
    let results = everything();
    let over = figure(&results, "Redis", Quantity::ServerCpu);
    assert_eq!((over.median, over.reached), (2.0, Some(false)));
    let absolute = figure(&results, "Redis", Quantity::RedisCpu);
    assert_eq!((absolute.against.as_deref(), absolute.median), (None, 4.0));
    let same = figure(&results, "memory gcra", Quantity::ServerCpu);
    assert_eq!((same.median, same.reached), (1.0, Some(true)));
}

#[test]
fn what_was_not_measured_is_not_compared() {
    let alone = results(vec![lane("memory", &[10.0])]);
    assert!(alone.figures.is_empty(), "{:#?}", alone.figures);
    // Nothing tells the CPU time of Redis here.
    let both = results(vec![lane("no-op", &[10.0]), lane("memory", &[10.0])]);
    assert!(both.figures.iter().all(|one| one.quantity != Quantity::RedisCpu));
}

#[test]
fn every_row_of_a_table_has_all_its_cells() {
    let page = markdown::render(&everything());
    let mut tables = 0;
    let mut columns = None;
    for line in page.lines() {
        if !line.starts_with('|') {
            columns = None;
            continue;
        }
        let cells = line.replace("\\|", "").matches('|').count() - 1;
        tables += usize::from(columns.is_none());
        assert_eq!(*columns.get_or_insert(cells), cells, "{line}\nin\n{page}");
    }
    assert_eq!(tables, 2, "{page}");
    for cell in ["| a\\|b | no-op |", "| missed |", "| reached |", "| ≤ 3.50 us |", "| 6 |"] {
        assert!(page.contains(cell), "no {cell:?} in\n{page}");
    }
}

#[test]
fn the_picture_is_well_formed_and_inside_its_frame() {
    let source = chart::render(&everything());
    let document = roxmltree::Document::parse(&source).expect("well-formed");
    let root = document.root_element();
    let number = |node: roxmltree::Node<'_, '_>, name: &str| {
        node.attribute(name).and_then(|text| text.parse::<f64>().ok()).unwrap_or_default()
    };
    let (width, height) = (number(root, "width"), number(root, "height"));
    let bars: Vec<_> = root.children().filter(|node| node.tag_name().name() == "rect").collect();
    // The ground, two keys and two bars for each of five servers.
    assert_eq!(bars.len(), 13);
    for bar in bars {
        assert!(number(bar, "x") + number(bar, "width") <= width, "{bar:?}");
        assert!(number(bar, "y") + number(bar, "height") <= height, "{bar:?}");
    }
    let shown = |text: &str| root.children().any(|node| node.text() == Some(text));
    assert!(shown("a|b") && shown("21.0 + 4.0") && shown("11.0"), "{source}");
}

#[test]
fn json_has_every_value() {
    let json = serde_json::to_value(everything()).expect("no infinite number");
    assert_eq!(json["machine"]["cores"], 2);
    assert_eq!(json["setup"]["peers"][0], "a|b");
    assert_eq!(json["lanes"][4]["name"], "Redis");
    assert_eq!(json["lanes"][4]["samples"][2]["server_us"], 22.0);
    let figures = json["figures"].as_array().expect("figures");
    let cpu = figures.iter().find(|one| one["of"] == "memory" && one["quantity"] == "server_cpu");
    assert_eq!(cpu.expect("compared")["goal"]["at_most"], 0.9);
}
