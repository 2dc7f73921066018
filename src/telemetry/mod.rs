//! What operators see: metrics, logs and readiness.

pub mod calls;
pub mod dotted;

pub mod logs;
mod maker;
pub mod metrics;
pub mod readiness;
pub mod series;
pub mod spans;
pub mod statsd;
