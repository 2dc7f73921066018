//! The README's examples, run as written against a real service.

mod support;

use std::process::Command;

use serde_json::Value;

use support::process::{Launch, Running};
use support::tools::find;

const README: &str = include_str!("../README.md");
const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config.yaml");

/// The code blocks of the README: what stands after the three ticks, and the
/// text.
fn blocks() -> Vec<(&'static str, &'static str)> {
    let parts: Vec<&str> = README.split("\n```").collect();
    // Every other part is outside of a block.
    let blocks = parts.iter().skip(1).step_by(2);
    blocks.filter_map(|block| block.split_once('\n')).collect()
}

/// Runs a command of the README, with the addresses of `service` in place of
/// the default ones.
fn run(command: &str, service: &Running) -> Option<String> {
    let program = command.split_whitespace().next().expect("a command");
    if program == "grpcurl" && std::env::var_os("TIDEGATE_WITHOUT_GRPCURL").is_some() {
        println!("SKIPPED: there is no grpcurl");
        return None;
    }
    find(program, &program.to_uppercase())?;
    let command =
        command.replace("127.0.0.1:8081", &service.grpc).replace("127.0.0.1:8080", &service.http);
    let output = Command::new("sh").args(["-c", &command]).output().expect("a shell");
    assert!(output.status.success(), "{command}\n{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).expect("text"))
}

/// JSON without what depends on the moment: spans of time.
fn timeless(mut value: Value) -> Value {
    match &mut value {
        Value::String(text) if is_span(text) => *text = "some time".into(),
        Value::Array(items) => items.iter_mut().for_each(|item| *item = timeless(item.take())),
        Value::Object(fields) => {
            fields.values_mut().for_each(|field| *field = timeless(field.take()));
        }
        _ => {}
    }
    value
}

fn is_span(text: &str) -> bool {
    text.strip_suffix('s').is_some_and(|number| number.parse::<f64>().is_ok())
}

#[test]
fn every_example_gives_the_answer_that_stands_under_it() {
    let service = Launch::serve(CONFIG).start();
    let blocks = blocks();
    let mut examples = 0;
    for pair in blocks.windows(2) {
        let [("sh example", command), ("json", answer)] = pair else { continue };
        examples += 1;
        let Some(output) = run(command, &service) else { continue };
        let parse = |text: &str| -> Value {
            serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
        };
        assert_eq!(timeless(parse(&output)), timeless(parse(answer)), "{command}");
    }
    let marked = blocks.iter().filter(|(kind, _)| *kind == "sh example").count();
    assert!(examples >= 2 && examples == marked, "{examples} of {marked} examples have an answer");
}

#[test]
fn the_commands_of_the_readme_exist() {
    let commands: Vec<&str> =
        blocks().iter().filter(|(kind, _)| *kind == "sh").map(|b| b.1).collect();
    assert!(commands.iter().any(|command| command.trim() == "cargo run --release"), "{commands:?}");
    assert!(commands.iter().any(|command| command.trim() == "tests/run"), "{commands:?}");
    assert!(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run").is_file());
}
