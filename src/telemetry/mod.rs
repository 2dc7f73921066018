//! What operators see: metrics, logs and readiness.

pub mod calls;

pub mod logs;
pub mod metrics;
pub mod readiness;
pub mod series;
