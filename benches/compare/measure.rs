//! All servers in turn, round after round.

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use tidegate::bench::{self, Options as Run};
use tidegate::units::Span;

use crate::args::Options;
use crate::lanes::{self, Lane, Server};
use crate::process::Running;
use crate::results::{LaneResult, Sample};

/// Starts every server once, measures all lanes in every round and ends the
/// servers.
pub fn run(options: &Options, lanes: &[Lane]) -> Result<Vec<LaneResult>, Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let few = written(directory.path(), "rules.yaml", lanes::RULES)?;
    let many = written(directory.path(), "many.yaml", &lanes::many_rules(options.many_rules))?;
    let mut servers: HashMap<&Server, Running> = HashMap::new();
    for lane in lanes {
        if servers.contains_key(&lane.server) {
            continue;
        }
        let is_many = matches!(lane.server, Server::Tidegate { many_rules: true, .. });
        let rules = if is_many { &many } else { &few };
        let running = Running::start(&lane.server, options, rules)
            .map_err(|error| format!("{}: {error}", lane.name))?;
        servers.insert(&lane.server, running);
    }
    let name = |lane: &Lane| LaneResult { name: lane.name.clone(), samples: Vec::new() };
    let mut results: Vec<LaneResult> = lanes.iter().map(name).collect();
    for round in 1..=options.rounds {
        let mut turn: Vec<_> = lanes.iter().zip(&mut results).collect();
        // What comes later in a round may fare better or worse; so the order turns.
        if round % 2 == 0 {
            turn.reverse();
        }
        for (lane, result) in turn {
            let Some(server) = servers.get(&lane.server) else { continue };
            let sample = measure(options, lane, server)
                .map_err(|error| format!("{}: {error}", lane.name))?;
            tell(round, lane, &sample);
            result.samples.push(sample);
        }
    }
    Ok(results)
}

fn written(directory: &Path, name: &str, text: &str) -> std::io::Result<PathBuf> {
    let path = directory.join(name);
    fs::write(&path, text)?;
    Ok(path)
}

fn measure(options: &Options, lane: &Lane, server: &Running) -> Result<Sample, bench::BenchError> {
    let report = bench::run(&Run {
        target: server.target.clone(),
        allow_remote: false,
        ask: lane.ask.clone(),
        connections: options.connections,
        threads: options.threads,
        in_flight: options.in_flight,
        rate: None,
        duration: Span::from(options.seconds),
        warm_up: Span::from(options.warm_up),
        requests: None,
        patience: Span::from_secs(5),
        processes: server.processes.clone(),
    })?;
    Ok(Sample::from(&report))
}

fn tell(round: u32, lane: &Lane, sample: &Sample) {
    let micros = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.1}"));
    let failed = sample.failed.iter().map(|(name, count)| format!(", {count} {name}"));
    eprintln!(
        "round {round}: {:<34} {:>7.0}/s  server {} us, Redis {} us{}",
        lane.name,
        sample.decisions_per_second,
        micros(sample.server_us),
        micros(sample.redis_us),
        failed.collect::<String>()
    );
}
