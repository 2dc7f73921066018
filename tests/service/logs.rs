//! F39: text from clients cannot write log lines.

use tidegate::proto::{RateLimitDescriptor, RateLimitRequest};

use crate::process::{Launch, eventually};
use crate::{ask, directory, http, remaining, request};

/// What clients try to smuggle into logs.
fn values() -> Vec<String> {
    vec![
        "a\nlevel=error msg=forged".into(),
        "a\u{1b}[31m".into(),
        "a\0b".into(),
        "a\r\n\u{2028}b\u{202e}c\u{9b}d".into(),
        "x".repeat(100_000),
    ]
}

/// Asks with all of it, in every way that a request can fail or pass.
async fn provoke(level: &str, format: &str) -> String {
    let (_directory, config) = directory();
    let mut running =
        Launch::serve(&config).env("LOG_LEVEL", level).env("LOG_FORMAT", format).start();
    let channel = running.channel().await;
    for value in values() {
        // Decisions are normal.
        assert_eq!(remaining(&channel, "five", &value).await, 4);
        for _ in 0..5 {
            remaining(&channel, "five", &value).await;
        }
        // An error about the domain, and one about a number of descriptors.
        let nowhere = RateLimitRequest { domain: value.clone(), ..RateLimitRequest::default() };
        ask(&channel, nowhere).await.expect_err("no descriptors");
        let many = vec![RateLimitDescriptor::default(); 2_000];
        let many = RateLimitRequest { descriptors: many, ..request("five", &value) };
        ask(&channel, RateLimitRequest { domain: value.clone(), ..many })
            .await
            .expect_err("too many");
        // An unknown field with that name, and a body that is not JSON.
        let field = serde_json::json!({ value.as_str(): 1 }).to_string();
        assert_eq!(http::post(&running.http, "/json", field.as_bytes()).status, 400);
        assert_eq!(http::post(&running.http, "/json", value.as_bytes()).status, 400);
    }
    running.stop().stderr
}

fn one_line_each(log: &str) {
    for line in log.lines() {
        assert!(line.starts_with("20"), "a line that starts no record: {line:?}");
        assert!(line.len() < 2_000, "{} bytes in a line", line.len());
    }
    let wild = |c: char| (c.is_control() && c != '\n') || "\u{2028}\u{202e}".contains(c);
    assert!(!log.contains(wild), "{log:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn f39_each_record_is_one_line_and_values_are_cut() {
    let log = provoke("debug", "text").await;
    one_line_each(&log);
    assert!(log.contains("DEBUG"), "the test sees what it is about: {log}");
    assert!(log.contains("\\nlevel=error msg=forged"), "escaped, not dropped: {log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn f39_json_logs_stay_json() {
    let log = provoke("debug", "json").await;
    let mut debug = 0;
    for line in log.lines() {
        let record: serde_json::Value = serde_json::from_str(line).expect(line);
        assert!(record["timestamp"].is_string() && record["message"].is_string(), "{line}");
        debug += u32::from(record["level"] == "DEBUG");
    }
    assert!(debug > 0, "the test sees what it is about: {log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn f39_at_the_normal_level_nothing_of_clients_is_logged() {
    let log = provoke("info", "text").await;
    one_line_each(&log);
    for text in ["forged", "[31m", "xxx"] {
        assert!(!log.contains(text), "{text} in {log}");
    }
}

#[test]
fn f39_names_of_files_cannot_write_lines_either() {
    let (directory, _) = directory();
    let odd = directory.path().join("rules\nlevel=error msg=forged.yaml");
    std::fs::write(&odd, crate::FIVE).expect("a file");
    let running = Launch::serve(&odd).args(["--reload-interval", "20ms"]).start();
    std::fs::write(&odd, "broken: [").expect("a file");
    eventually("a refused reload", || running.log().contains("last good"));
    one_line_each(&running.log());
}
