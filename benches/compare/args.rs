//! The command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};

use crate::figures::ALGORITHMS;
use crate::results::Setup;

/// Compares servers, each a process of its own, in alternation.
#[derive(Debug, Parser)]
#[command(name = "compare", max_term_width = 100, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// The servers that this program is itself.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// What to compare.
    #[command(flatten)]
    pub options: Options,
}

/// The servers that this program is itself. They print where they listen and
/// serve until they are killed.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answers OK and decides nothing.
    #[command(hide = true)]
    Noop {
        /// On which runtime.
        #[arg(value_enum)]
        runtime: RuntimeKind,
    },
    /// Decides by three separate commands to Redis.
    #[command(hide = true)]
    Naive {
        /// How connections are shared.
        #[arg(value_enum)]
        sharing: Sharing,
        /// The URL of Redis.
        redis: String,
    },
}

/// How decisions share connections to Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum Sharing {
    /// All at once on a few: commands of different decisions ride together.
    Multiplexed,
    /// Each on one of a pool, by the defaults of the library, which also asks
    /// for a sign of life each time.
    Pooled,
}

/// How threads and connections go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum RuntimeKind {
    /// Tokio's default: one runtime, threads steal work from each other.
    Default,
    /// One runtime and one listener for each core.
    PerCore,
}

/// What to compare.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// How often every server is measured.
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// How many seconds each time.
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = seconds)]
    pub seconds: Duration,
    /// How many seconds each time before that, without counting.
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = seconds)]
    pub warm_up: Duration,
    /// Connections of the client.
    #[arg(long, value_name = "COUNT", default_value = "4")]
    pub connections: NonZeroUsize,
    /// Threads of the client.
    #[arg(long, value_name = "COUNT", default_value_t = cores())]
    pub threads: NonZeroUsize,
    /// Calls in flight, over all connections.
    #[arg(long, value_name = "COUNT", default_value = "64")]
    pub in_flight: NonZeroUsize,
    /// The algorithms to measure: names of rules in `benches/compare/rules.yaml`.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = ALGORITHMS)]
    pub algorithms: Vec<String>,
    /// Measure only what has this in its name; may be given several times. What
    /// it is compared with has to be named as well.
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// How many rules many are.
    #[arg(long, value_name = "COUNT", default_value_t = 100_000)]
    pub many_rules: u32,
    /// The tidegate to measure.
    #[arg(long, value_name = "PATH", default_value = env!("CARGO_BIN_EXE_tidegate"))]
    pub tidegate: PathBuf,
    /// The Redis (or Valkey) to measure with. Without it, servers that need one
    /// are left out.
    #[arg(long, value_name = "PATH", env = "REDIS_SERVER", default_value = "redis-server")]
    pub redis_server: PathBuf,
    /// Where `compare.md`, `compare.svg` and `compare.json` go.
    #[arg(long, value_name = "DIRECTORY", default_value = "target/compare")]
    pub out: PathBuf,
    /// Another server: its name and the command that runs it in the foreground.
    /// In the command, {port} is a free port, {redis} the host:port of a Redis of
    /// its own, and {rules} the file of the rules. It is asked for domain
    /// `bench` and descriptor `fixed_window`.
    #[arg(long, value_name = "NAME=COMMAND", value_parser = pair)]
    pub peer: Vec<(String, String)>,
    /// Where that server listens, if not at <http://127.0.0.1:{port}>.
    #[arg(long, value_name = "NAME=ADDRESS", value_parser = pair)]
    pub peer_target: Vec<(String, String)>,
    /// Cargo says it; it means nothing here.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    /// What of this belongs to the results.
    pub fn setup(&self) -> Setup {
        Setup {
            rounds: self.rounds,
            seconds: self.seconds.as_secs_f64(),
            connections: self.connections.get(),
            client_threads: self.threads.min(self.connections).get(),
            in_flight: self.in_flight.get(),
            algorithms: self.algorithms.clone(),
            peers: self.peer.iter().map(|(name, _)| name.clone()).collect(),
        }
    }
}

fn cores() -> NonZeroUsize {
    available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|time| *time <= Duration::from_mins(10))
        .ok_or_else(|| "expected seconds, at most 600".into())
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.into(), value.into()))
}
