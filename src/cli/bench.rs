//! `tidegate bench`: how fast is a server?

use std::fs;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::available_parallelism;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};

use super::values::{Value, parsed, span};
use super::{FAILURE, complain, say};
use crate::bench::keys::MAX_KEYS;
use crate::bench::{
    self, Ask, Distribution, MAX_DURATION, Options, Process, Report, Shape, Target,
};
use crate::units::Span;

const MAX_CONNECTIONS: u64 = 1_024;
const MAX_IN_FLIGHT: u64 = 65_536;
const MAX_THREADS: u64 = 256;
const MAX_DESCRIPTORS: u64 = 1_024;
const MAX_RATE: u32 = 1_000_000;
const MAX_EXPONENT: f64 = 10.0;

const EXAMPLES: &str = "\
Examples:
  tidegate bench --descriptor user --pid server=$(pidof tidegate)
  tidegate bench --descriptor path=/login,remote_address --rate 5000 --svg latency.svg
  tidegate bench --descriptor user --distribution hot --hot-share 0.9 --json

Exit codes: 0 decisions were measured, 1 there was not one, 2 wrong usage";

/// `tidegate bench`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Bench {
    /// The server to ask: `http://host:port` or `unix:/path`.
    #[arg(long, value_name = "ADDRESS", default_value = "http://127.0.0.1:8081", value_parser = Value(parsed::<Target>))]
    target: Target,
    /// Ask also a server that is not on this machine.
    #[arg(long)]
    allow_remote: bool,
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    asking: Asking,
    #[command(flatten)]
    telling: Telling,
}

/// How much to ask.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
struct Load {
    /// Connections to open.
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = upto(MAX_CONNECTIONS))]
    connections: u64,
    /// Calls that may wait for their answer at once, over all connections.
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = upto(MAX_IN_FLIGHT))]
    in_flight: u64,
    /// Client threads; by default one per core, and not more than connections.
    #[arg(long, value_name = "COUNT", value_parser = upto(MAX_THREADS))]
    threads: Option<u64>,
    /// Calls per second, sent whether or not earlier ones are answered; their
    /// latency counts from when they were due. Without a rate, each answer is
    /// followed by the next call.
    #[arg(long, value_name = "N/s", value_parser = Value(rate))]
    rate: Option<NonZeroU32>,
    /// How long to ask, at most one hour.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = Value(some_time))]
    duration: Span,
    /// How long to ask before that without counting.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = Value(bounded_time))]
    warm_up: Span,
    /// How long to wait at the end for calls that are still open.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = Value(bounded_time))]
    patience: Span,
    /// Calls to count at most; the duration ends them as well.
    #[arg(long, value_name = "COUNT", value_parser = upto(u64::MAX))]
    requests: Option<u64>,
}

/// What to ask.
#[derive(Debug, Args)]
#[command(next_help_heading = "Requests")]
struct Asking {
    /// The domain.
    #[arg(long, value_name = "NAME", default_value = "bench")]
    domain: String,
    /// A descriptor: entries such as `user` or `path=/login,user`. An entry
    /// without a value gets a key. Give it several times for several
    /// descriptors.
    #[arg(long, value_name = "ENTRIES", default_value = "key")]
    descriptor: Vec<Shape>,
    /// Descriptors of each request; those given are repeated in turn.
    #[arg(long, value_name = "COUNT", value_parser = upto(MAX_DESCRIPTORS))]
    descriptors: Option<u64>,
    /// Keys that each descriptor draws from.
    #[arg(
        long, value_name = "COUNT", default_value_t = 10_000,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_KEYS))
    )]
    keys: u32,
    /// How keys are drawn.
    #[arg(long, value_name = "NAME", value_enum, default_value = "uniform")]
    distribution: DistributionArg,
    /// The share of calls for the hot key.
    #[arg(long, value_name = "SHARE", default_value_t = 0.9, value_parser = Value(share))]
    hot_share: f64,
    /// The k-th key is asked as often as 1/k to this power.
    #[arg(long, value_name = "NUMBER", default_value_t = 1.0, value_parser = Value(exponent))]
    zipf_exponent: f64,
    /// The same seed asks the same keys in the same order.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
}

/// What to tell, and how.
#[derive(Debug, Args)]
#[command(next_help_heading = "Results")]
struct Telling {
    /// A process whose CPU time per decision is measured, on Linux: LABEL=PID.
    /// May be given several times.
    #[arg(long, value_name = "LABEL=PID", value_parser = Value(parsed::<Process>))]
    pid: Vec<Process>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Also draw the distribution of latencies.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// [`Distribution`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum DistributionArg {
    /// All keys alike.
    Uniform,
    /// The k-th key 1/k times as often as the first.
    Zipf,
    /// One key with a share of its own, the others alike.
    Hot,
}

/// Asks, and tells what came of it.
pub fn run(command: Bench) -> ExitCode {
    let Bench { target, allow_remote, load, asking, telling } = command;
    let Telling { pid, json, svg } = telling;
    let options = load.options(target, allow_remote, asking.ask(), pid);
    let report = match bench::run(&options) {
        Ok(report) => report,
        Err(error) => return failed(&error.to_string()),
    };
    if let Some(path) = svg
        && let Err(error) = fs::write(&path, report.svg())
    {
        return failed(&format!("cannot write {}: {error}", path.display()));
    }
    match if json { serde_json::to_string_pretty(&report) } else { Ok(report.to_string()) } {
        Ok(text) => say(&text),
        Err(error) => return failed(&format!("cannot write the report: {error}")),
    }
    if report.decisions() == 0 { failed(&nothing_decided(&report)) } else { ExitCode::SUCCESS }
}

fn failed(reason: &str) -> ExitCode {
    complain(&format!("tidegate bench: {reason}"));
    ExitCode::from(FAILURE)
}

fn nothing_decided(report: &Report) -> String {
    match report.calls.errors.keys().next() {
        Some(name) => format!("not one call was decided; they ended with {name}"),
        None => "not one call was sent".into(),
    }
}

impl Load {
    fn options(
        self,
        target: Target,
        allow_remote: bool,
        ask: Ask,
        processes: Vec<Process>,
    ) -> Options {
        let cores = available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Options {
            target,
            allow_remote,
            ask,
            connections: whole(self.connections),
            threads: self.threads.map_or(cores, whole),
            in_flight: whole(self.in_flight),
            rate: self.rate,
            duration: self.duration,
            warm_up: self.warm_up,
            requests: self.requests,
            patience: self.patience,
            processes,
        }
    }
}

impl Asking {
    fn ask(self) -> Ask {
        let count = self.descriptors.map_or(self.descriptor.len(), |count| whole(count).get());
        Ask {
            domain: self.domain,
            descriptors: self.descriptor.into_iter().cycle().take(count).collect(),
            keys: self.keys,
            distribution: match self.distribution {
                DistributionArg::Uniform => Distribution::Uniform,
                DistributionArg::Zipf => Distribution::Zipf { exponent: self.zipf_exponent },
                DistributionArg::Hot => Distribution::Hot { share: self.hot_share },
            },
            seed: self.seed,
        }
    }
}

/// From one to `most`.
fn upto(most: u64) -> RangedU64ValueParser<u64> {
    RangedU64ValueParser::new().range(1..=most)
}

/// A count that its parser has bounded.
fn whole(count: u64) -> NonZeroUsize {
    usize::try_from(count).ok().and_then(NonZeroUsize::new).unwrap_or(NonZeroUsize::MIN)
}

/// `5000` or `5000/s`.
fn rate(text: &str) -> Result<NonZeroU32, String> {
    text.strip_suffix("/s")
        .unwrap_or(text)
        .parse()
        .ok()
        .filter(|rate: &NonZeroU32| rate.get() <= MAX_RATE)
        .ok_or_else(|| format!("expected calls per second, from 1 to {MAX_RATE}"))
}

fn bounded_time(text: &str) -> Result<Span, String> {
    let time = span(text)?;
    if time <= MAX_DURATION { Ok(time) } else { Err("at most one hour".into()) }
}

fn some_time(text: &str) -> Result<Span, String> {
    let time = bounded_time(text)?;
    if time.is_zero() { Err("expected some time".into()) } else { Ok(time) }
}

fn share(text: &str) -> Result<f64, String> {
    number(text, 1.0).ok_or_else(|| "expected a number from 0 to 1".into())
}

fn exponent(text: &str) -> Result<f64, String> {
    number(text, MAX_EXPONENT).ok_or_else(|| format!("expected a number from 0 to {MAX_EXPONENT}"))
}

fn number(text: &str, most: f64) -> Option<f64> {
    text.parse().ok().filter(|number| (0.0..=most).contains(number))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::args::{Cli, Command};
    use super::*;

    fn options(args: &[&str]) -> Result<Options, String> {
        let args = ["tidegate", "bench"].iter().chain(args);
        match Cli::try_parse_from(args).map_err(|error| error.to_string())?.command {
            Command::Bench(bench) => Ok(bench.load.options(
                bench.target,
                bench.allow_remote,
                bench.asking.ask(),
                bench.telling.pid,
            )),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn descriptors_are_repeated_in_turn() {
        let shown = |args: &[&str]| -> Vec<String> {
            options(args).unwrap().ask.descriptors.iter().map(ToString::to_string).collect()
        };
        assert_eq!(shown(&[]), ["key"]);
        assert_eq!(shown(&["--descriptors", "3"]), ["key", "key", "key"]);
        let two = ["--descriptor", "a", "--descriptor", "b=1,c"];
        assert_eq!(shown(&two), ["a", "b=1,c"]);
        assert_eq!(shown(&[&two[..], &["--descriptors=3"]].concat()), ["a", "b=1,c", "a"]);
        assert_eq!(shown(&[&two[..], &["--descriptors=1"]].concat()), ["a"]);
    }

    #[test]
    fn every_run_is_bounded() {
        for args in [
            ["--duration", "0s"],
            ["--duration", "2h"],
            ["--warm-up", "2h"],
            ["--requests", "0"],
            ["--rate", "0"],
            ["--rate", "1000001/s"],
            ["--connections", "0"],
            ["--connections", "1025"],
            ["--in-flight", "65537"],
            ["--keys", "10000001"],
            ["--hot-share", "1.5"],
            ["--zipf-exponent", "NaN"],
            ["--descriptor", "=x"],
            ["--target", "127.0.0.1:1"],
            ["--pid", "server"],
        ] {
            let error = options(&args).unwrap_err();
            assert!(error.contains(args[0]), "{args:?}: {error}");
        }
        assert_eq!(options(&["--rate", "500/s"]).unwrap().rate, NonZeroU32::new(500));
    }
}
