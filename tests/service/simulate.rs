//! `tidegate simulate`.

use crate::process::Launch;
use crate::redis::RedisServer;

/// Little traffic, so that a debug build shows it soon.
const LITTLE: [&str; 7] = ["simulate", "--limit", "10", "--window", "1s", "--duration", "20s"];

#[test]
fn it_shows_a_table_and_draws_a_picture() {
    let directory = tempfile::tempdir().expect("a directory");
    let picture = directory.path().join("algorithms.svg");
    let ended = Launch::new(LITTLE)
        .args(["--seed".as_ref(), "3".as_ref(), "--svg".as_ref(), picture.as_os_str()])
        .output();
    assert_eq!((ended.status.code(), &*ended.stderr), (Some(0), ""), "{ended:?}");
    // What everybody should know of fixed windows.
    let fixed = ended.stdout.lines().find(|line| line.starts_with("boundary  fixed_window"));
    assert!(fixed.is_some_and(|line| line.contains(" 2.00 ")), "{}", ended.stdout);
    let drawn = std::fs::read_to_string(picture).expect("a picture");
    assert!(drawn.starts_with("<svg ") && drawn.contains("sliding_window_log"), "{drawn}");
}

#[test]
fn keys_are_measured_in_redis_and_removed() {
    let Some(server) = RedisServer::redis() else { return };
    let ended = Launch::new(LITTLE).args(["--store", &server.url()]).output();
    assert_eq!((ended.status.code(), &*ended.stderr), (Some(0), ""), "{ended:?}");
    let gcra = ended.stdout.lines().rev().find(|line| line.starts_with("gcra"));
    let bytes = gcra.and_then(|line| line.split_whitespace().last()?.parse::<u64>().ok());
    assert!(bytes.is_some_and(|bytes| (50..300).contains(&bytes)), "{}", ended.stdout);
    assert_eq!(server.keys(), Vec::<String>::new());
}

#[test]
fn what_cannot_be_simulated_is_told() {
    for (args, code, told) in [
        (["--limit", "0"], 2, "1..=100000"),
        (["--window", "1ms"], 2, "10ms"),
        (["--rate", "NaN"], 2, "hits per second"),
        (["--rate", "1000000"], 1, "smaller --rate"),
        (["--store", "redis://127.0.0.1:1"], 1, "refused"),
        (["--svg", "/nowhere/at/all.svg"], 1, "/nowhere/at/all.svg"),
    ] {
        let small = ["simulate", "--burst", "5", "--duration", "60s"];
        let ended = Launch::new(small).args(args).output();
        assert_eq!(ended.status.code(), Some(code), "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(told), "{args:?}: {}", ended.stderr);
        assert_eq!(ended.stdout, "", "{args:?}");
    }
}
