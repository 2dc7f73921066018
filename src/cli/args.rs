//! The command line.

mod idle;
mod keeping;
mod lanes;
mod near;
mod reaching;
mod reporting;
mod securing;
mod topology;
mod tracing;
mod xds;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

pub use idle::about_redis;
use keeping::Keeping;
use keeping::TwoPasswords;
use reporting::{Reporting, ReportingError};
use securing::Securing;
use tracing::Traces;
use xds::Xds;

use super::bench::Bench;
use super::simulate::Simulate;
use super::values::{Value, count, count_to, header_name, parsed, ratio, span, truth};
use crate::app::{ConfigSource, Options, StopOptions};
use crate::decide::{HeaderNames, Settings};
use crate::policy::LoadOptions;
use crate::telemetry::logs::{LogFormat, LogLevel};
use crate::transport::listen::{HostPort, Listen};
use crate::units::Span;

/// Most threads that serve: more than the cores that a machine has are of no use.
const MOST_THREADS: usize = 1000;

const EXAMPLES: &str = "\
Examples:
  tidegate                                         serve ./config.yaml, counters in memory
  tidegate serve --config rules/ --store redis://cache:6379
  tidegate check rules/
  tidegate bench --descriptor user                 measure a server on this machine

Exit codes: 0 fine, 1 configuration refused or cannot start, 2 wrong usage";

/// Decides whether requests may pass: a rate-limit service for Envoy and for
/// direct callers.
///
/// Without a command it serves: `tidegate` is `tidegate serve`.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, max_term_width = 100, subcommand_required = true, after_help = EXAMPLES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer rate-limit requests over gRPC and HTTP.
    Serve(Box<Serve>),
    /// Check policies: exit code 0 if they are good, 1 with every fault on
    /// standard error if they are not.
    Check(Check),
    /// Measure a server, this or any other of Envoy's protocol: decisions per
    /// second, latency and CPU time.
    Bench(Box<Bench>),
    /// Show what each algorithm lets pass under made-up traffic, compared with an
    /// exact sliding window, and what its keys take.
    Simulate(Box<Simulate>),
}

/// `tidegate check`.
#[derive(Debug, Args)]
pub struct Check {
    /// A file, or a directory of files, with policies.
    #[arg(value_name = "PATH", env = "TIDEGATE_CONFIG", default_value = "config.yaml")]
    pub path: PathBuf,
    /// How to read them.
    #[command(flatten)]
    pub reading: Reading,
}

/// How policies are read.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Policies")]
pub struct Reading {
    /// Let several files or documents hold rules of one domain.
    #[arg(
        long, env = "MERGE_DOMAIN_CONFIG", value_name = "BOOL", value_parser = Value(truth),
        num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", action = ArgAction::Set
    )]
    merge_domains: bool,
    /// Ignore what envoyproxy/ratelimit ignores (misplaced keys, further
    /// documents, keys written twice), and log it, instead of refusing it.
    #[arg(
        long, env = "TIDEGATE_LENIENT", value_name = "BOOL", value_parser = Value(truth),
        num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", action = ArgAction::Set
    )]
    lenient: bool,
    /// A refused request consumes nothing, in domains that do not say otherwise.
    #[arg(
        long, env = "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", value_name = "BOOL",
        value_parser = Value(truth), num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "false", action = ArgAction::Set
    )]
    all_or_nothing: bool,
}

impl Reading {
    /// The same for the loader.
    pub fn options(self) -> LoadOptions {
        LoadOptions {
            merge_domains: self.merge_domains,
            lenient: self.lenient,
            all_or_nothing: self.all_or_nothing,
            ..LoadOptions::default()
        }
    }
}

/// `tidegate serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// The file, or the directory of files, with the policies.
    #[arg(long, env = "TIDEGATE_CONFIG", value_name = "PATH", default_value = "config.yaml")]
    config: PathBuf,
    /// Where gRPC listens: `host:port` or `unix:/path`.
    #[arg(
        long, env = "TIDEGATE_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:8081",
        value_parser = Value(parsed::<Listen>)
    )]
    listen: Listen,
    /// Where HTTP listens: `host:port`.
    #[arg(
        long, env = "TIDEGATE_HTTP_LISTEN", value_name = "ADDRESS",
        default_value = "127.0.0.1:8080", value_parser = Value(parsed::<HostPort>)
    )]
    http_listen: HostPort,
    /// How policies are read.
    #[command(flatten)]
    reading: Reading,
    /// How often to look for changed policies; 0 for never.
    #[arg(
        long, env = "TIDEGATE_RELOAD_INTERVAL", value_name = "TIME", default_value = "1s",
        value_parser = Value(span), help_heading = "Policies"
    )]
    reload_interval: Span,
    /// Start although the policies are bad or missing; calls fail until there are
    /// good ones.
    #[arg(
        long, env = "TIDEGATE_START_WITH_BAD_CONFIG", value_name = "BOOL",
        value_parser = Value(truth), num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "false", action = ArgAction::Set,
        help_heading = "Policies"
    )]
    start_with_bad_config: bool,
    /// Be ready only while there are rules of at least one domain.
    #[arg(
        long, env = "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", value_name = "BOOL",
        value_parser = Value(truth), num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "false", action = ArgAction::Set,
        help_heading = "Policies"
    )]
    healthy_with_config: bool,
    #[command(flatten)]
    securing: Securing,
    #[command(flatten)]
    xds: Xds,
    #[command(flatten)]
    answering: Answering,
    #[command(flatten)]
    keeping: Keeping,
    #[command(flatten)]
    reporting: Reporting,
    #[command(flatten)]
    tracing: Traces,
    #[command(flatten)]
    running: Running,
}

/// What was given contradicts itself.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// Two passwords for one server.
    #[error(transparent)]
    Passwords(#[from] TwoPasswords),
    /// About metrics.
    #[error(transparent)]
    Reporting(#[from] ReportingError),
}

/// What answers say.
#[derive(Debug, Args)]
#[command(next_help_heading = "Answers")]
struct Answering {
    /// Decide and count, but answer OK.
    #[arg(
        long, env = "SHADOW_MODE", value_name = "BOOL", value_parser = Value(truth),
        num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", action = ArgAction::Set
    )]
    shadow_mode: bool,
    /// Refuse a request only if all its rules refuse it.
    #[arg(
        long, env = "QUOTA_MODE", value_name = "BOOL", value_parser = Value(truth),
        num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", action = ArgAction::Set
    )]
    quota_mode: bool,
    /// Answer with headers that tell about the limit.
    #[arg(
        long, env = "LIMIT_RESPONSE_HEADERS_ENABLED", value_name = "BOOL",
        value_parser = Value(truth), num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "false", action = ArgAction::Set
    )]
    response_headers: bool,
    /// Name of the header with the limit.
    #[arg(
        long, env = "LIMIT_LIMIT_HEADER", value_name = "NAME", default_value = "RateLimit-Limit",
        value_parser = Value(header_name)
    )]
    limit_header: String,
    /// Name of the header with what is left of the limit.
    #[arg(
        long, env = "LIMIT_REMAINING_HEADER", value_name = "NAME",
        default_value = "RateLimit-Remaining", value_parser = Value(header_name)
    )]
    remaining_header: String,
    /// Name of the header with the seconds until the limit resets.
    #[arg(
        long, env = "LIMIT_RESET_HEADER", value_name = "NAME", default_value = "RateLimit-Reset",
        value_parser = Value(header_name)
    )]
    reset_header: String,
    /// Answer with the request and the metadata of its rules as dynamic metadata.
    #[arg(
        long, env = "RESPONSE_DYNAMIC_METADATA", value_name = "BOOL", value_parser = Value(truth),
        num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", action = ArgAction::Set
    )]
    dynamic_metadata: bool,
    /// End bad requests with `UNKNOWN`, as envoyproxy/ratelimit does, instead of
    /// `INVALID_ARGUMENT`.
    #[arg(
        long, env = "TIDEGATE_REFERENCE_CODES", value_name = "BOOL", value_parser = Value(truth),
        num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", action = ArgAction::Set
    )]
    reference_codes: bool,
    /// Most descriptors in one request.
    #[arg(
        long, env = "TIDEGATE_MAX_DESCRIPTORS", value_name = "COUNT", default_value = "1024",
        value_parser = Value(count::<NonZeroUsize>)
    )]
    max_descriptors: NonZeroUsize,
    /// Share of a limit from which metrics call hits near it.
    #[arg(
        long, env = "NEAR_LIMIT_RATIO", value_name = "RATIO", default_value = "0.8",
        value_parser = Value(ratio)
    )]
    near_limit_ratio: f32,
}

/// How the process behaves.
#[derive(Debug, Args)]
#[command(next_help_heading = "Process")]
struct Running {
    /// How many threads serve gRPC connections; as many as there are cores
    /// unless said otherwise, and 1000 at most. A connection stays with one thread.
    #[arg(
        long, env = "TIDEGATE_THREADS", value_name = "COUNT",
        value_parser = Value(count_to::<MOST_THREADS>)
    )]
    threads: Option<NonZeroUsize>,
    /// How long calls are still answered after SIGTERM, while health already
    /// sends clients elsewhere.
    #[arg(
        long, env = "TIDEGATE_DRAIN_DELAY", value_name = "TIME", default_value = "0s",
        value_parser = Value(span)
    )]
    drain_delay: Span,
    /// How long calls in flight may take after that.
    #[arg(
        long, env = "TIDEGATE_GRACE", value_name = "TIME", default_value = "10s",
        value_parser = Value(span)
    )]
    grace: Span,
    /// From which level on to log: off, error, warn, info, debug or trace. Text
    /// from clients is logged at debug only, cut at 128 bytes.
    #[arg(
        long, env = "LOG_LEVEL", value_name = "LEVEL", default_value = "info",
        value_parser = Value(parsed::<LogLevel>)
    )]
    log_level: LogLevel,
    /// How to log.
    #[arg(
        long,
        env = "LOG_FORMAT",
        value_name = "FORMAT",
        value_enum,
        default_value = "text",
        ignore_case = true
    )]
    log_format: FormatArg,
}

/// [`LogFormat`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormatArg {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

impl Serve {
    /// How to log.
    pub fn logging(&self) -> (LogLevel, LogFormat) {
        let format = match self.running.log_format {
            FormatArg::Text => LogFormat::Text,
            FormatArg::Json => LogFormat::Json,
        };
        (self.running.log_level, format)
    }

    /// The same for the service.
    ///
    /// # Errors
    /// If what was given contradicts itself.
    pub fn options(self) -> Result<Options, UsageError> {
        let files =
            ConfigSource::Files { path: self.config, reload_interval: self.reload_interval };
        Ok(Options {
            config: self.xds.options().map_or(files, |xds| ConfigSource::Xds(Box::new(xds))),
            load: self.reading.options(),
            start_with_bad_config: self.start_with_bad_config,
            healthy_with_config: self.healthy_with_config,
            grpc: self.listen,
            tls: self.securing.tls(),
            age: self.securing.age(),
            http: self.http_listen,
            threads: self.running.threads.unwrap_or_else(cores),
            reference_codes: self.answering.reference_codes,
            decide: self.answering.settings(&self.keeping),
            store: self.keeping.options()?,
            stop: StopOptions { drain_delay: self.running.drain_delay, grace: self.running.grace },
            report: self.reporting.options(self.tracing)?,
        })
    }
}

/// As many threads as can run at once.
fn cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

impl Answering {
    fn settings(self, keeping: &Keeping) -> Settings {
        Settings {
            shadow_mode: self.shadow_mode,
            quota_mode: self.quota_mode,
            response_headers: self.response_headers.then_some(HeaderNames {
                limit: self.limit_header,
                remaining: self.remaining_header,
                reset: self.reset_header,
            }),
            dynamic_metadata: self.dynamic_metadata,
            near_limit_ratio: self.near_limit_ratio,
            max_descriptors: self.max_descriptors.get(),
            failure_mode: keeping.failure_mode(),
            hash_tag: keeping.hash_tag(),
            replicas: keeping.replicas(),
            local_memory: keeping.memory_limit(),
        }
    }
}
