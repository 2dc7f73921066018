//! `ratelimit_config_check`.

use std::fs;
use std::path::Path;

use crate::FIVE;
use crate::support::process::{Ended, Launch};

fn check(directory: &Path, more: &[&str]) -> Ended {
    let launch = Launch::new(["-config_dir".as_ref(), directory.as_os_str()]).args(more);
    launch.called("ratelimit_config_check").output()
}

#[test]
fn a_good_directory_ends_with_0() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("a.yaml"), FIVE).expect("a file");
    let ended = check(directory.path(), &[]);
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let at = directory.path().display();
    let wanted = format!(
        "checking rate limit configs...\nloading config directory: {at}\n\
         opening config file: {at}/a.yaml\nall rate limit configs ok\n"
    );
    assert_eq!(ended.stdout, wanted);
    // By the name of our own program, as a container may be told.
    let path = directory.path().to_str().expect("text");
    let ended = Launch::new(["/bin/ratelimit_config_check", "-config_dir", path]).output();
    assert_eq!((ended.status.code(), ended.stdout), (Some(0), wanted));
}

#[test]
fn exit_codes_are_those_of_the_reference() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("a.yaml");
    let rule = "{unit: year, requests_per_unit: 1}";
    for (text, code, told) in [
        ("domain: ''\n".to_owned(), 1, "config file cannot have empty domain"),
        (format!("domain: t\ndescriptors: [{{key: '', rate_limit: {rule}}}]\n"), 1, "empty key"),
        ("domain: [\n".to_owned(), 2, "error loading config file"),
        ("domain: t\nnonsense: 1\n".to_owned(), 2, "unknown key 'nonsense'"),
        ("domain: t\ndescriptors: [a]\n".to_owned(), 2, "list of type other than map"),
        // Misplaced, and accepted there.
        (format!("domain: t\nunit: x\ndescriptors: [{{key: a, rate_limit: {rule}}}]\n"), 0, "ok"),
    ] {
        fs::write(&file, &text).expect("a file");
        let ended = check(directory.path(), &[]);
        assert_eq!(ended.status.code(), Some(code), "{text}: {ended:?}");
        assert!(ended.stdout.contains(told), "{text}: {ended:?}");
        assert_eq!(ended.stdout.contains("error loading rate limit configs"), code != 0);
    }
}

#[test]
fn domains_are_merged_if_that_is_asked_for() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("a.yaml"), FIVE).expect("a file");
    fs::write(directory.path().join("b.yaml"), FIVE.replace("five", "six")).expect("a file");
    let apart = check(directory.path(), &[]);
    assert_eq!(apart.status.code(), Some(1));
    assert!(apart.stdout.contains("duplicate domain 't' in config file"), "{apart:?}");
    assert_eq!(check(directory.path(), &["-merge_domain_configs"]).status.code(), Some(0));
}

#[test]
fn what_cannot_be_read_ends_with_1_and_wrong_flags_with_2() {
    let directory = tempfile::tempdir().expect("a directory");
    let missing = check(&directory.path().join("no"), &[]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(missing.stdout.contains("error opening directory"), "{missing:?}");
    fs::create_dir(directory.path().join("sub")).expect("a directory");
    let nested = check(directory.path(), &[]);
    assert_eq!(nested.status.code(), Some(1));
    assert!(nested.stdout.contains("error reading file"), "{nested:?}");
    let wrong = check(directory.path(), &["-nonsense"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(wrong.stderr.contains("flag provided but not defined: -nonsense"), "{wrong:?}");
}
