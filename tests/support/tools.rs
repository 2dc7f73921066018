//! Programs that tests need beside our own.

use std::path::PathBuf;

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
