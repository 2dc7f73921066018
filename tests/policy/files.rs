//! Rules on a file system.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use tempfile::TempDir;
use tidegate::policy::{Layout, LoadError, LoadOptions, Policies, Signature, load};
use tidegate::telemetry::metrics::Metrics;

fn load_at(path: &Path) -> Result<Policies, LoadError> {
    load(path, LoadOptions::default(), &Metrics::new())
}

fn refusal(path: &Path) -> String {
    load_at(path).map(|policies| policies.len()).expect_err("a refusal").to_string()
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    fs::write(path, text).expect("a file");
}

/// A directory with these files in it, each with a domain of its own.
fn directory(files: &[&str]) -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for (index, file) in files.iter().enumerate() {
        write(&directory.path().join(file), &format!("domain: d{index}\n"));
    }
    directory
}

#[test]
fn a_directory_is_read_with_all_below_it() {
    let rules = directory(&["a.yaml", "b.yml", "sub/deep/c.yaml"]);
    for other in [".hidden.yaml", ".git/d.yaml", "README.md", "a.yaml~", "Makefile"] {
        write(&rules.path().join(other), "not: rules\n");
    }
    assert_eq!(load_at(rules.path()).map(|policies| policies.len()).expect("loads"), 3);
    let one = load_at(&rules.path().join("b.yml")).expect("a file by itself");
    assert!(one.domain("d1").is_some() && one.len() == 1);
}

#[test]
fn files_are_read_once_however_many_ways_lead_there() {
    let rules = directory(&["a.yaml"]);
    symlink(rules.path().join("a.yaml"), rules.path().join("b.yaml")).expect("a symlink");
    symlink(rules.path(), rules.path().join("loop")).expect("a symlink");
    assert_eq!(load_at(rules.path()).map(|policies| policies.len()).expect("loads"), 1);
}

#[test]
fn what_cannot_be_read_is_named() {
    let rules = directory(&["a.yaml"]);
    let missing = rules.path().join("missing");
    let expected = format!("{}: cannot be read: No such file", missing.display());
    assert!(refusal(&missing).starts_with(&expected), "{}", refusal(&missing));

    symlink(&missing, rules.path().join("z.yaml")).expect("a symlink");
    symlink(&missing, rules.path().join("harmless.txt")).expect("a symlink");
    let found = refusal(rules.path());
    assert!(found.contains("z.yaml: cannot be read") && !found.contains("harmless"), "{found}");

    let pipe = rules.path().join("pipe.yaml");
    let _listener = UnixListener::bind(&pipe).expect("a socket");
    let found = refusal(rules.path());
    assert!(found.contains("pipe.yaml: cannot be read: not a regular file"), "{found}");

    let empty = tempfile::tempdir().expect("a directory");
    let found = refusal(empty.path());
    assert!(found.contains("the directory holds no rule file; put a *.yaml"), "{found}");
}

#[test]
fn a_directory_that_cannot_be_meant_is_refused() {
    let rules = directory(&["a.yaml"]);
    for number in 0..20_000 {
        fs::File::create(rules.path().join(number.to_string())).expect("a file");
    }
    let found = refusal(rules.path());
    assert!(found.contains("cannot be read: more than 20000 entries"), "{found}");
}

#[test]
fn f03_bytes_that_are_no_text_are_refused() {
    let rules = directory(&[]);
    let path = rules.path().join("a.yaml");
    fs::write(&path, b"domain: t\nx: \xff\xfe\n").expect("a file");
    let found = refusal(&path);
    assert!(found.starts_with(&format!("{}:2:4: error loading config file", path.display())));
    assert!(found.contains("UTF-8"), "{found}");
}

/// Updates a `ConfigMap` as the platform does: a new directory, a swapped
/// symlink, and the old directory gone.
fn update(directory: &Path, version: &str, domain: &str) {
    let data = directory.join(version);
    write(&data.join("rl.yaml"), &format!("domain: {domain}\n"));
    let (new, current) = (directory.join("..data_tmp"), directory.join("..data"));
    let before = fs::read_link(&current);
    symlink(version, &new).expect("a symlink");
    fs::rename(&new, &current).expect("swapped");
    if let Ok(before) = before {
        fs::remove_dir_all(directory.join(before)).expect("removed");
    }
}

#[test]
fn f05_a_swapped_symlink_is_noticed_and_its_file_read_once() {
    let rules = tempfile::tempdir().expect("a directory");
    let path = rules.path();
    update(path, "..v1", "d1");
    symlink("..data/rl.yaml", path.join("rl.yaml")).expect("a symlink");
    let mut before = Signature::of(path, Layout::Rules);
    for version in 2..20 {
        update(path, &format!("..v{version}"), &format!("d{version}"));
        let after = Signature::of(path, Layout::Rules);
        assert_ne!(before, after, "version {version}");
        assert_eq!(after, Signature::of(path, Layout::Rules), "nothing changed");
        let policies = load_at(path).expect("loads");
        assert!(policies.domain(&format!("d{version}")).is_some() && policies.len() == 1);
        before = after;
    }
}

#[test]
fn every_kind_of_change_shows_in_the_signature() {
    let rules = directory(&["a.yaml", "sub/b.yaml"]);
    let path = rules.path();
    let (a, b) = (path.join("a.yaml"), path.join("sub/b.yaml"));
    let mut before = Signature::of(path, Layout::Rules);
    let mut expect_change = |what: &str| {
        let after = Signature::of(path, Layout::Rules);
        assert_ne!(before, after, "{what}");
        before = after;
    };
    write(&a, "domain: longer\n");
    expect_change("another size");
    write(&b.with_extension("new"), "domain: other!\n");
    fs::rename(b.with_extension("new"), &b).expect("renamed");
    expect_change("another file in its place");
    write(&path.join("c.yml"), "domain: c\n");
    expect_change("a file more");
    fs::remove_file(&a).expect("removed");
    expect_change("a file less");
    symlink("nowhere", &a).expect("a symlink");
    expect_change("a symlink to nothing");
    fs::remove_dir_all(path).expect("removed");
    expect_change("nothing there");
    assert_eq!(Signature::of(path, Layout::Rules), Signature::of(path, Layout::Rules));
}
