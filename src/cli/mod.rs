//! The commands of the program.

mod args;
mod bench;
mod check;
mod config_check;
pub mod reference;
mod serve;
mod simulate;
mod values;

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _};

use args::{Cli, Command};
use reference::Defaults;

/// What was asked for cannot be done: a configuration is refused, or the
/// service cannot start or go on. Wrong usage is 2, as clap has it.
const FAILURE: u8 = 1;
/// The command line or the environment says what cannot be.
const USAGE: u8 = 2;

/// Does what `args` (with the name of the program first) say and returns the
/// code to end with: 0 fine, 1 configuration refused or cannot run, 2 usage.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args = as_called(args.into_iter().collect());
    let program = args.first().map(PathBuf::from);
    if program.as_deref().and_then(Path::file_name) == Some(OsStr::new(config_check::NAME)) {
        return config_check::run(args.into_iter().skip(1));
    }
    let args = with_default_command(args);
    let defaults = if args.get(1).is_some_and(|command| command == "serve") {
        Defaults::read(program.as_deref(), |name| std::env::var_os(name))
    } else {
        Ok(Defaults::none())
    };
    let defaults = match defaults {
        Ok(defaults) => defaults,
        Err(faults) => {
            complain(&format!("tidegate: {faults}"));
            return ExitCode::from(USAGE);
        }
    };
    match parse(&defaults, args) {
        Ok((Cli { command: Command::Serve(serve) }, matches)) => {
            serve::run(*serve, &defaults, &matches)
        }
        Ok((Cli { command: Command::Check(check) }, _)) => check::run(&check),
        Ok((Cli { command: Command::Bench(bench) }, _)) => bench::run(*bench),
        Ok((Cli { command: Command::Simulate(simulate) }, _)) => simulate::run(&simulate),
        Err(error) => {
            // Help and version come this way, too. If nobody reads it, so be it.
            let _ = error.print();
            u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
        }
    }
}

fn parse(defaults: &Defaults, args: Vec<OsString>) -> Result<(Cli, ArgMatches), clap::Error> {
    let mut command = defaults.apply(Cli::command());
    let matches = command.try_get_matches_from_mut(args)?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    Ok((cli, matches))
}

/// The command line without what comes before the name of a program that we
/// stand for: an image whose entry point is `tidegate` may be given
/// `/bin/ratelimit` as the command.
fn as_called(mut args: Vec<OsString>) -> Vec<OsString> {
    let stands_for = args.get(1).map(Path::new).and_then(Path::file_name);
    if stands_for.is_some_and(|name| name == reference::NAME || name == config_check::NAME) {
        args.remove(0);
    }
    args
}

/// Puts `serve` where no command was given.
fn with_default_command(mut args: Vec<OsString>) -> Vec<OsString> {
    let first = args.get(1).and_then(|arg| arg.to_str());
    let about_the_program = matches!(first, Some("-h" | "--help" | "-V" | "--version"));
    // What is not text is no flag of ours and no command either; clap says so.
    if first.is_none_or(|arg| arg.starts_with('-')) && !about_the_program {
        args.insert(args.len().min(1), "serve".into());
    }
    args
}

/// Writes `text` to standard output. If nobody reads it, so be it.
fn say(text: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Writes a complaint to standard error. If nobody reads it, so be it.
fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(args: &[&str]) -> Vec<OsString> {
        with_default_command(args.iter().map(Into::into).collect())
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn without_a_command_it_serves() {
        assert_eq!(completed(&["tidegate"]), ["tidegate", "serve"]);
        assert_eq!(
            completed(&["tidegate", "--store", "memory"]),
            ["tidegate", "serve", "--store", "memory"]
        );
    }

    #[test]
    fn commands_and_questions_about_the_program_stay() {
        for args in [["tidegate", "check"], ["tidegate", "--help"], ["tidegate", "-V"]] {
            assert_eq!(completed(&args), args);
        }
    }
}
