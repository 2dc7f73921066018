//! Servers side by side: `cargo bench --bench compare`.
//!
//! Every server is a process of its own, asked by the same client in turn,
//! several rounds long. What counts are ratios within one round: a noisy
//! machine is noisy for both sides. The median of the rounds goes into a table
//! (Markdown), a picture (SVG) and a file for programs (JSON).
//!
//! The naive server and those that decide nothing are this program itself,
//! started again with a hidden command.

mod args;
mod chart;
mod figures;
mod lanes;
mod machine;
mod markdown;
mod measure;
mod process;
mod results;
mod servers;

use std::error::Error;
use std::fs;
use std::process::ExitCode;

use clap::Parser as _;

use args::{Cli, Command, Options};
use results::Results;

fn main() -> ExitCode {
    let Cli { command, options } = Cli::parse();
    let done = match command {
        Some(Command::Noop { runtime }) => servers::noop::run(runtime),
        Some(Command::Naive { sharing, redis }) => servers::naive::run(sharing, &redis),
        None => compare(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compare: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(options: &Options) -> Result<(), Box<dyn Error>> {
    let lanes = lanes::all(options)?;
    let machine = machine::describe(options);
    let measured = measure::run(options, &lanes)?;
    let results = Results::new(machine, options.setup(), measured);
    fs::create_dir_all(&options.out)?;
    let markdown = markdown::render(&results);
    fs::write(options.out.join("compare.md"), &markdown)?;
    fs::write(options.out.join("compare.svg"), chart::render(&results))?;
    fs::write(options.out.join("compare.json"), serde_json::to_string_pretty(&results)?)?;
    println!("{markdown}\nwritten to {}", options.out.display());
    Ok(())
}
