//! `tidegate simulate`: what each algorithm lets pass.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tokio::runtime::Builder;

use super::values::{Value, parsed, span};
use super::{FAILURE, complain, say};
use crate::app::StoreArg;
use crate::limit::LONGEST;
use crate::simulate::{self, Report, Settings};
use crate::units::Span;

/// Of the limit, so that about a third must be refused.
const USUAL_LOAD: f64 = 1.5;
/// In windows.
const USUAL_DURATION: u64 = 20;

const MAX_LIMIT: i64 = 100_000;
const MAX_RATE: f64 = 1_000_000.0;

const EXAMPLES: &str = "\
Examples:
  tidegate simulate
  tidegate simulate --limit 30 --window 10s --rate 4 --svg algorithms.svg
  tidegate simulate --store redis://127.0.0.1:6379

Exit codes: 0 fine, 1 there is no such limit or no answer from Redis, 2 wrong usage";

/// `tidegate simulate`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Simulate {
    /// Hits that a window admits.
    #[arg(
        long, value_name = "COUNT", default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(1..=MAX_LIMIT)
    )]
    limit: u32,
    /// How long it is, from 10ms to ten years.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = Value(window))]
    window: Span,
    /// Hits that a token bucket holds, and the burst of gcra; by default the
    /// limit. They come back at the limit per window.
    #[arg(
        long, value_name = "COUNT",
        value_parser = clap::value_parser!(u32).range(1..=MAX_LIMIT)
    )]
    burst: Option<u32>,
    /// Hits per second that come on average in random traffic; by default half
    /// as many again as the limit admits.
    #[arg(long, value_name = "NUMBER", value_parser = Value(rate))]
    rate: Option<f64>,
    /// For how long they come; by default 20 windows.
    #[arg(long, value_name = "TIME", value_parser = Value(span))]
    duration: Option<Span>,
    /// The same seed makes the same traffic.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Also measure what keys take in this Redis, at `redis://…`. Keys of nobody
    /// else are written, and removed again.
    #[arg(long, value_name = "STORE", default_value = "memory", value_parser = Value(parsed::<StoreArg>))]
    store: StoreArg,
    /// Also draw it.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

impl Simulate {
    fn settings(&self) -> Settings {
        let rate = USUAL_LOAD * f64::from(self.limit) / seconds(self.window);
        let usual = Span::from_micros(self.window.as_micros().saturating_mul(USUAL_DURATION));
        Settings {
            limit: self.limit,
            window: self.window,
            burst: self.burst.unwrap_or(self.limit),
            rate: self.rate.unwrap_or(rate),
            duration: self.duration.unwrap_or(usual),
            seed: self.seed,
        }
    }

    fn redis(&self) -> Option<&str> {
        match &self.store {
            StoreArg::Memory => None,
            StoreArg::Redis(url) => Some(url),
        }
    }
}

/// Simulates, and tells what came of it.
pub fn run(command: &Simulate) -> ExitCode {
    match simulated(command) {
        Ok(report) => {
            say(&report.to_string());
            ExitCode::SUCCESS
        }
        Err(reason) => {
            complain(&format!("tidegate simulate: {reason}"));
            ExitCode::from(FAILURE)
        }
    }
}

fn simulated(command: &Simulate) -> Result<Report, String> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    let report = runtime.block_on(simulate::run(command.settings(), command.redis()));
    let report = report.map_err(|error| error.to_string())?;
    if let Some(path) = &command.svg {
        let written = fs::write(path, report.svg());
        written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(report)
}

fn window(text: &str) -> Result<Span, String> {
    let window = span(text)?;
    if (Span::from_millis(10)..=LONGEST).contains(&window) {
        Ok(window)
    } else {
        Err("expected a time from 10ms to ten years (87600h)".into())
    }
}

fn rate(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|rate| *rate > 0.0 && *rate <= MAX_RATE)
        .ok_or_else(|| format!("expected hits per second, above 0 and up to {MAX_RATE:.0}"))
}

#[expect(clippy::cast_precision_loss, reason = "at most ten years")]
fn seconds(span: Span) -> f64 {
    span.as_micros() as f64 / 1e6
}
