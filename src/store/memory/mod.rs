//! Counters in this process.

use super::{Plan, Verdicts};

/// Counters in this process.
#[derive(Debug, Default)]
pub struct MemoryStore {}

impl MemoryStore {
    /// Decides all charges of `plan` atomically.
    pub fn decide(&self, _plan: &Plan) -> Verdicts {
        Verdicts::new()
    }
}
