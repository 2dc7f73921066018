//! Settings of Redis that were given though counters live in memory.

use std::ffi::OsStr;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args as _, Command};

use super::Serve;
use super::keeping::TwoPasswords;

/// Flags about Redis that do not begin with `--redis-`.
const OTHERS: [&str; 6] = [
    "key-prefix",
    "near-cache",
    "near-cache-size",
    "near-cache-ttl",
    "require-store",
    "store-deadline",
];

/// Flags and variables about Redis that were given, each as it was: those of
/// `matches`, which are of `tidegate serve`, and passwords, which have no flag.
pub fn about_redis(matches: &ArgMatches) -> Vec<String> {
    let serve = Serve::augment_args(Command::new("serve"));
    let given = serve.get_arguments().filter_map(|arg| {
        let flag = arg.get_long().filter(|flag| is_about_redis(flag))?;
        match matches.value_source(arg.get_id().as_str())? {
            ValueSource::CommandLine => Some(format!("--{flag}")),
            ValueSource::EnvVariable => arg.get_env().map(OsStr::to_string_lossy).map(Into::into),
            _ => None,
        }
    });
    given.chain(TwoPasswords::variables_of_redis().map(str::to_owned)).collect()
}

fn is_about_redis(flag: &str) -> bool {
    flag.starts_with("redis-") || OTHERS.contains(&flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_that_are_named_here_exist() {
        let serve = Serve::augment_args(Command::new("serve"));
        let flags: Vec<&str> = serve.get_arguments().filter_map(clap::Arg::get_long).collect();
        for flag in OTHERS {
            assert!(flags.contains(&flag), "{flag}");
        }
    }

    #[test]
    fn what_stands_under_redis_in_the_help_is_about_redis() {
        let serve = Serve::augment_args(Command::new("serve"));
        for arg in serve.get_arguments().filter(|arg| arg.get_help_heading() == Some("Redis")) {
            let flag = arg.get_long().unwrap_or_default();
            // Beside counters in memory it is refused.
            assert!(is_about_redis(flag) || flag == "store-per-second", "{flag}");
        }
    }
}
