//! The commands of the program.

mod args;
mod bench;
mod check;
mod serve;
mod simulate;
mod values;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

use args::{Cli, Command};

/// What was asked for cannot be done: a configuration is refused, or the
/// service cannot start or go on. Wrong usage is 2, as clap has it.
const FAILURE: u8 = 1;

/// Does what `args` (with the name of the program first) say and returns the
/// code to end with: 0 fine, 1 configuration refused or cannot run, 2 usage.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match Cli::try_parse_from(with_default_command(args.into_iter().collect())) {
        Ok(Cli { command: Command::Serve(serve) }) => serve::run(*serve),
        Ok(Cli { command: Command::Check(check) }) => check::run(&check),
        Ok(Cli { command: Command::Bench(bench) }) => bench::run(*bench),
        Ok(Cli { command: Command::Simulate(simulate) }) => simulate::run(&simulate),
        Err(error) => {
            // Help and version come this way, too. If nobody reads it, so be it.
            let _ = error.print();
            u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
        }
    }
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
    use clap::CommandFactory as _;

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
