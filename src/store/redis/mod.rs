//! Counters in Redis.

use super::{Plan, StoreError, Verdicts};

/// Counters in Redis.
#[derive(Debug, Default)]
pub struct RedisStore {}

impl RedisStore {
    /// Decides all charges of `plan` atomically.
    ///
    /// # Errors
    /// When Redis could not decide.
    pub async fn decide(&self, _plan: &Plan) -> Result<Verdicts, StoreError> {
        Ok(Verdicts::new())
    }
}
