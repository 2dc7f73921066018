//! Programs that tests need beside our own.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

/// The program `name`: what the environment variable `variable` says, or the
/// one in PATH. `None` (with a printed reason) where it is missing and nobody
/// promised that it is not.
pub fn find(name: &str, variable: &str) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(variable) {
        return Some(path.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|path| path.is_file());
    if found.is_none() {
        assert!(
            std::env::var_os("TIDEGATE_REQUIRE_TOOLS").is_none(),
            "{name} is not in PATH; tests/run installs it"
        );
        println!(
            "SKIPPED: there is no {name} in PATH and {variable} is not set; tests/run installs it"
        );
    }
    found
}

/// A port that nobody listens on. Another process may take it before it is
/// used, so whoever starts something on it must notice when that fails.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

/// The first line that a program prints about its version, for logs.
pub fn version(program: &PathBuf) -> String {
    let output = Command::new(program).arg("--version").output().expect("the program runs");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .find(|line| !line.is_empty())
        .unwrap_or("?")
        .into()
}
