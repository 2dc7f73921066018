//! The machine that is measured on.

use std::fs;
use std::process::Command;
use std::thread::available_parallelism;
use std::time::{SystemTime, UNIX_EPOCH};

use chrono::DateTime;

use crate::args::Options;
use crate::process::{first_line, redis_version};
use crate::results::Machine;

const LOCK: &str = include_str!("../../Cargo.lock");

/// What the results depend on.
pub fn describe(options: &Options) -> Machine {
    let mut versions = vec![
        first_line(Command::new(&options.tidegate).arg("--version")).unwrap_or_default(),
        format!("tonic {}", locked("tonic")),
        format!("tokio {}", locked("tokio")),
    ];
    versions.extend(first_line(Command::new("rustc").arg("--version")));
    versions.extend(redis_version(options));
    Machine {
        date: date(),
        processor: processor().unwrap_or_else(|| "unknown processor".into()),
        cores: available_parallelism().map_or(1, std::num::NonZero::get),
        kernel: first_word("/proc/sys/kernel/osrelease"),
        load_before: first_word("/proc/loadavg"),
        versions,
    }
}

fn date() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let now = i64::try_from(now).ok().and_then(|now| DateTime::from_timestamp(now, 0));
    now.map(|now| now.date_naive().to_string()).unwrap_or_default()
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn first_word(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}

/// The version of a dependency that this was built with.
fn locked(name: &str) -> &'static str {
    let package = format!("name = \"{name}\"\nversion = \"");
    let version = LOCK.split_once(&package).and_then(|(_, rest)| rest.split('"').next());
    version.unwrap_or("of unknown version")
}
