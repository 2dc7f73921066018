//! What operators see: metrics, logs and readiness.

pub mod logs;
pub mod metrics;
pub mod readiness;
