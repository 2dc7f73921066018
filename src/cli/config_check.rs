//! `ratelimit_config_check`, with the flags, the words and the exit codes that
//! the program of this name in envoyproxy/ratelimit has.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use super::values::truth;
use super::{FAILURE, USAGE, complain, say};
use crate::policy::{LoadError, LoadOptions, load_texts};
use crate::telemetry::metrics::Metrics;

/// What it is called.
pub const NAME: &str = "ratelimit_config_check";

const USAGE_TEXT: &str = "\
Usage of ratelimit_config_check:
  -config_dir string
    \tpath to directory containing rate limit configs
  -merge_domain_configs
    \twhether to merge configurations, referencing the same domain";

/// Checks the files of one directory. Exit codes: 0 good, 1 a file that cannot
/// be read or rules that contradict each other, 2 wrong usage, or a file that is
/// no YAML or has unknown keys.
pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let flags = match Flags::read(args) {
        Ok(Some(flags)) => flags,
        Ok(None) => {
            complain(USAGE_TEXT);
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            complain(&format!("{wrong}\n{USAGE_TEXT}"));
            return ExitCode::from(USAGE);
        }
    };
    match check(&flags) {
        Ok(()) => {
            say("all rate limit configs ok");
            ExitCode::SUCCESS
        }
        Err((message, code)) => {
            say(&message);
            ExitCode::from(code)
        }
    }
}

/// What is asked for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Flags {
    directory: String,
    merge_domains: bool,
}

impl Flags {
    /// Reads flags as Go writes them: one dash or two, `=` or, where it is not a
    /// truth value, the next argument. `None`: help is asked for.
    fn read(args: impl Iterator<Item = OsString>) -> Result<Option<Self>, String> {
        let mut flags = Self::default();
        let mut args = args.map(|arg| arg.to_string_lossy().into_owned());
        while let Some(arg) = args.next() {
            let Some(flag) = arg.strip_prefix('-') else { break };
            let flag = flag.strip_prefix('-').unwrap_or(flag);
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (flag, None),
            };
            match name {
                "config_dir" => {
                    let value = value.or_else(|| args.next());
                    flags.directory = value.ok_or("flag needs an argument: -config_dir")?;
                }
                "merge_domain_configs" => {
                    let value = value.unwrap_or_else(|| "true".into());
                    flags.merge_domains = truth(&value).map_err(|expected| {
                        format!(
                            "invalid boolean value {value:?} for -merge_domain_configs: {expected}"
                        )
                    })?;
                }
                "h" | "help" => return Ok(None),
                _ => return Err(format!("flag provided but not defined: -{name}")),
            }
        }
        Ok(Some(flags))
    }
}

/// What to say, and the exit code.
type Fault = (String, u8);

fn check(Flags { directory, merge_domains }: &Flags) -> Result<(), Fault> {
    say("checking rate limit configs...");
    say(&format!("loading config directory: {directory}"));
    let texts = texts(directory).map_err(|message| (message, FAILURE))?;
    let texts: Vec<(&str, &str)> =
        texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let options =
        LoadOptions { merge_domains: *merge_domains, lenient: true, ..LoadOptions::default() };
    let loaded = load_texts(&texts, options, &Metrics::new());
    let policies = loaded
        .map_err(|error| (format!("error loading rate limit configs: {error}"), code(&error)))?;
    for slip in policies.slips() {
        complain(&format!("ignored, as by envoyproxy/ratelimit: {slip}"));
    }
    Ok(())
}

/// Every entry of the directory, by name; all must be files.
fn texts(directory: &str) -> Result<Vec<(String, String)>, String> {
    let failed = |error| format!("error opening directory {directory}: {error}");
    let entries = std::fs::read_dir(directory).map_err(failed)?;
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| Ok(entry.map_err(failed)?.path())).collect::<Result<_, String>>()?;
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.display().to_string();
        say(&format!("opening config file: {name}"));
        let bytes =
            std::fs::read(&path).map_err(|error| format!("error reading file {name}: {error}"))?;
        Ok((name, String::from_utf8_lossy(&bytes).into_owned()))
    };
    paths.into_iter().map(read).collect()
}

/// The reference ends with 2 where it cannot read what a file says, and with 1
/// where rules contradict each other. It reads all files first.
fn code(error: &LoadError) -> u8 {
    let unreadable = ["error loading config file", "config error", "error checking config"];
    let of_reading = |message: &str| unreadable.iter().any(|start| message.starts_with(start));
    if error.faults().iter().any(|fault| of_reading(&fault.message)) { USAGE } else { FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &[&str]) -> Result<Option<Flags>, String> {
        Flags::read(args.iter().map(OsString::from))
    }

    #[test]
    fn flags_are_those_of_go() {
        let wanted = Flags { directory: "rules".into(), merge_domains: true };
        for args in [
            vec!["-config_dir", "rules", "-merge_domain_configs"],
            vec!["--merge_domain_configs=1", "--config_dir=rules"],
        ] {
            assert_eq!(read(&args).unwrap().as_ref(), Some(&wanted), "{args:?}");
        }
        assert_eq!(read(&["-help"]), Ok(None));
        for args in [vec!["-config_dir"], vec!["-other"], vec!["-merge_domain_configs=yes"]] {
            assert!(read(&args).is_err(), "{args:?}");
        }
    }
}
