//! `tidegate check`: are these policies good?

use std::process::ExitCode;

use super::args::Check;
use super::{FAILURE, complain, say};
use crate::policy::load;
use crate::telemetry::metrics::Metrics;

/// Tells every fault, or how much there is.
pub fn run(check: &Check) -> ExitCode {
    match load(&check.path, check.reading.options(), &Metrics::new()) {
        Ok(policies) => {
            let (domains, rules) = (policies.len(), policies.rule_count());
            say(&format!(
                "{}: good, {} with {}",
                check.path.display(),
                counted(domains, "domain"),
                counted(rules, "rule")
            ));
            ExitCode::SUCCESS
        }
        Err(error) => {
            complain(&error.to_string());
            ExitCode::from(FAILURE)
        }
    }
}

/// `1 rule`, `2 rules`.
pub fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
