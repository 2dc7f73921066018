//! What is measured: which servers, asked for what.

use std::error::Error;

use tidegate::bench::{Ask, Distribution};

use crate::args::{Options, RuntimeKind, Sharing};
use crate::figures::{COMMANDS, MANY_RULES, POOLED_COMMANDS, REFUSED, THREE};
use crate::process;

/// Keys that descriptors draw from. The refused key of the rules has as many
/// digits.
const KEYS: u32 = 10_000;
/// The share of the refused key.
const HOT_SHARE: f64 = 0.9;
/// The rule that every server is asked for.
const BASE: &str = "fixed_window";

/// The rules of every server.
pub const RULES: &str = include_str!("rules.yaml");

/// A server to start.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Server {
    /// Decides nothing.
    Noop(RuntimeKind),
    /// Counters in memory or Redis, few rules or many.
    Tidegate { redis: bool, many_rules: bool },
    /// Three commands to Redis per decision.
    Naive(Sharing),
    /// One of the command line.
    Peer { name: String, command: String },
}

/// One line of the table.
#[derive(Debug)]
pub struct Lane {
    /// What the line is called.
    pub name: String,
    /// Who is asked.
    pub server: Server,
    /// For what.
    pub ask: Ask,
}

impl Server {
    /// Whether it cannot run without Redis.
    fn needs_redis(&self) -> bool {
        match self {
            Self::Noop(_) => false,
            Self::Tidegate { redis, .. } => *redis,
            Self::Naive(_) => true,
            Self::Peer { command, .. } => command.contains("{redis}"),
        }
    }
}

/// All lanes that `options` ask for, those to be compared next to each other.
pub fn all(options: &Options) -> Result<Vec<Lane>, Box<dyn Error>> {
    let mut lanes = vec![
        Lane::new("no-op", Server::Noop(RuntimeKind::Default), ask(BASE, 1)?),
        Lane::new("memory", memory(), ask(BASE, 1)?),
        Lane::new("no-op per core", Server::Noop(RuntimeKind::PerCore), ask(BASE, 1)?),
    ];
    let algorithms = options.algorithms.iter().filter(|name| *name != BASE);
    for algorithm in algorithms.clone() {
        lanes.push(Lane::new(&format!("memory {algorithm}"), memory(), ask(algorithm, 1)?));
    }
    let many = Server::Tidegate { redis: false, many_rules: true };
    lanes.extend([
        Lane::new(&format!("memory{MANY_RULES}"), many, ask(TENANT, 1)?),
        Lane::new(&format!("no-op{THREE}"), Server::Noop(RuntimeKind::Default), ask(BASE, 3)?),
        Lane::new(&format!("memory{THREE}"), memory(), ask(BASE, 3)?),
        Lane::new("Redis", redis(), ask(BASE, 1)?),
        Lane::new(COMMANDS, Server::Naive(Sharing::Multiplexed), ask(BASE, 1)?),
        Lane::new(POOLED_COMMANDS, Server::Naive(Sharing::Pooled), ask(BASE, 1)?),
        Lane::new(&format!("Redis{THREE}"), redis(), ask(BASE, 3)?),
        Lane::new(&format!("memory{REFUSED}"), memory(), refused()?),
        Lane::new(&format!("Redis{REFUSED}"), redis(), refused()?),
    ]);
    for algorithm in algorithms {
        lanes.push(Lane::new(&format!("Redis {algorithm}"), redis(), ask(algorithm, 1)?));
    }
    for (name, command) in &options.peer {
        let peer = Server::Peer { name: name.clone(), command: command.clone() };
        lanes.push(Lane::new(name, peer, ask(BASE, 1)?));
    }
    Ok(wanted(lanes, options))
}

fn wanted(mut lanes: Vec<Lane>, options: &Options) -> Vec<Lane> {
    let named = |lane: &Lane| options.only.iter().any(|text| lane.name.contains(text));
    lanes.retain(|lane| options.only.is_empty() || named(lane));
    if process::redis_version(options).is_none() {
        let before = lanes.len();
        lanes.retain(|lane| !lane.server.needs_redis());
        if lanes.len() < before {
            let path = options.redis_server.display();
            eprintln!("{path} does not run: left out what needs Redis; see --redis-server");
        }
    }
    lanes
}

fn memory() -> Server {
    Server::Tidegate { redis: false, many_rules: false }
}

fn redis() -> Server {
    Server::Tidegate { redis: true, many_rules: false }
}

impl Lane {
    fn new(name: &str, server: Server, ask: Ask) -> Self {
        Self { name: name.into(), server, ask }
    }
}

fn ask(rule: &str, descriptors: usize) -> Result<Ask, Box<dyn Error>> {
    Ok(Ask {
        domain: "bench".into(),
        descriptors: vec![rule.parse()?; descriptors],
        keys: KEYS,
        distribution: Distribution::Uniform,
        seed: 1,
    })
}

fn refused() -> Result<Ask, Box<dyn Error>> {
    Ok(Ask { distribution: Distribution::Hot { share: HOT_SHARE }, ..ask("refused", 1)? })
}

/// A key as long as that of the base rule, with a rule for each value.
const TENANT: &str = "fixed_tenant";

/// The rules, and so many more: the first ones each for a key that is asked.
pub fn many_rules(count: u32) -> String {
    let rule = |number| {
        format!(
            "  - {{key: {TENANT}, value: \"{number:04}\", \
             rate_limit: {{unit: hour, requests_per_unit: 1000000000}}}}\n"
        )
    };
    RULES.to_owned() + &(0..count.max(KEYS)).map(rule).collect::<String>()
}
