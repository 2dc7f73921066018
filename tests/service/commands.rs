//! The command line and its exit codes.

use crate::directory;
use crate::http;
use crate::process::Launch;

#[test]
fn help_and_version_are_for_people_and_end_with_0() {
    for args in [vec!["--help"], vec!["help"], vec!["serve", "--help"], vec!["check", "--help"]] {
        let ended = Launch::new(&args).output();
        assert_eq!(ended.status.code(), Some(0), "{args:?}");
        assert!(ended.stdout.contains("Usage: tidegate"), "{args:?}: {}", ended.stdout);
        assert_eq!(ended.stderr, "");
    }
    let version = Launch::new(["--version"]).output();
    assert_eq!(version.stdout, format!("tidegate {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn wrong_usage_ends_with_2_and_says_what_is_wrong() {
    for (args, told) in [
        (vec!["--bogus"], "--bogus"),
        (vec!["bogus"], "bogus"),
        (vec!["serve", "--listen", "8081"], "host:port"),
        (vec!["serve", "--grace", "10"], "expected a time"),
        (vec!["serve", "--shadow-mode=maybe"], "expected true or false"),
        (vec!["serve", "--near-limit-ratio", "80"], "from 0 to 1"),
        (vec!["serve", "--memory-limit", "lots"], "256MiB"),
        (vec!["serve", "--failure-mode", "shrug"], "open, closed, local, error"),
        (vec!["serve", "--replicas", "0"], "above zero"),
        (vec!["serve", "--redis-lanes", "100000"], "from 1 to 1000"),
        (vec!["serve", "--threads", "1001"], "from 1 to 1000"),
        (vec!["serve", "--threads", "0"], "from 1 to 1000"),
        (vec!["serve", "--redis-script", "lua"], "eval, function"),
        (vec!["check", "a", "b"], "unexpected argument"),
    ] {
        let ended = Launch::new(&args).output();
        assert_eq!(ended.status.code(), Some(2), "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(told), "{args:?}: {}", ended.stderr);
        assert_eq!(ended.stdout, "");
    }
}

#[test]
fn a_wrong_value_in_the_environment_is_told_with_its_variable() {
    let ended = Launch::new(["serve"]).env("SHADOW_MODE", "yes").output();
    assert_eq!(ended.status.code(), Some(2));
    assert!(ended.stderr.contains("SHADOW_MODE") && ended.stderr.contains("yes"), "{ended:?}");
    let ended = Launch::new(["serve"]).env("TIDEGATE_STORE", "http://:secret@host").output();
    assert_eq!(ended.status.code(), Some(2));
    assert!(ended.stderr.contains("TIDEGATE_STORE") && !ended.stderr.contains("secret"));
    let help = Launch::new(["serve", "--help"]).env("TIDEGATE_STORE", "redis://:secret@h").output();
    assert!(!help.stdout.contains("secret"), "{}", help.stdout);
}

#[test]
fn without_a_command_it_serves_the_config_yaml_of_its_directory() {
    let (directory, _) = directory();
    let running = Launch::new(["--listen", "127.0.0.1:0"])
        .env("TIDEGATE_HTTP_LISTEN", "127.0.0.1:0")
        .in_directory(directory.path())
        .start();
    assert!(running.greeting.contains("1 domain with 1 rule"), "{}", running.greeting);
    assert!(running.greeting.contains(&format!(" {} envoy.service", running.grpc)));
    assert_eq!(http::get(&running.http, "/healthz").status, 200);
}

#[test]
fn the_call_to_try_meets_a_rule() {
    let (_directory, config) = directory();
    let running = Launch::serve(&config).start();
    let request = running.greeting.split('\'').nth(1).expect("a quoted request");
    let answer = http::post(&running.http, "/json", request.as_bytes());
    assert_eq!(answer.json()["statuses"][0]["limitRemaining"], 4, "{request}: {answer:?}");
}

#[test]
fn check_ends_with_0_and_counts_or_with_1_and_lists() {
    let (directory, config) = directory();
    let good = Launch::new(["check".as_ref(), config.as_os_str()]).output();
    assert_eq!(good.status.code(), Some(0), "{good:?}");
    assert!(good.stdout.contains("1 domain with 1 rule"), "{good:?}");
    assert_eq!(good.stderr, "");

    let bad =
        "domain: t\ndescriptors:\n  - kee: a\n  - key: b\n    rate_limit: {unit: fortnight}\n";
    std::fs::write(&config, bad).expect("a file");
    for args in [vec!["check", "config.yaml"], vec!["check"], vec!["check", "."]] {
        let ended = Launch::new(&args).in_directory(directory.path()).output();
        assert_eq!(ended.status.code(), Some(1), "{args:?}: {ended:?}");
        for told in ["config.yaml", "kee", "fortnight"] {
            assert!(ended.stderr.contains(told), "{args:?}: {told} in {}", ended.stderr);
        }
        assert_eq!(ended.stdout, "");
    }
    let missing = Launch::new(["check", "no/such/file"]).output();
    assert_eq!(missing.status.code(), Some(1));
    assert!(missing.stderr.contains("no/such/file"), "{missing:?}");
}

#[test]
fn a_bad_or_missing_configuration_keeps_it_from_starting() {
    let (_directory, config) = directory();
    std::fs::write(&config, "domain: t\nunknown_key: 1\nother_key: 2\n").expect("a file");
    let ended = Launch::serve(&config).try_start().err().expect("no start");
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    for told in ["config.yaml", "unknown_key", "other_key"] {
        assert!(ended.stderr.contains(told), "{told} in {}", ended.stderr);
    }
    assert_eq!(ended.stdout, "", "nothing is promised before it is true");

    let ended = Launch::serve("no/such/file").try_start().err().expect("no start");
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("no/such/file"), "{ended:?}");
}

#[test]
fn a_port_that_is_taken_keeps_it_from_starting() {
    let (_directory, config) = directory();
    let first = Launch::serve(&config).start();
    let ended = Launch::new(["serve", "--http-listen", "127.0.0.1:0", "--listen", &first.grpc])
        .args(["--config".as_ref(), config.as_os_str()])
        .output();
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains(&first.grpc) && ended.stderr.contains("in use"), "{ended:?}");
}
