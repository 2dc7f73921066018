//! tidegate decides whether requests may pass.
//!
//! A request flows down through the rooms of this crate and the answer comes
//! back as values; no room knows one above it:
//!
//! ```text
//! transport -> policy (match) -> decide -> store -> limit      admin and telemetry stand beside
//! ```
//!
//! - [`limit`]: the algorithms, pure state machines.
//! - [`store`]: where counters live; one call decides a whole request.
//! - [`policy`]: from YAML to rules that can be looked up.
//! - [`decide`]: match, charge, combine.
//! - [`xds`]: rules that a control plane sends.
//! - [`transport`]: gRPC and HTTP; decode, call, encode.
//! - [`telemetry`]: metrics, logs and readiness.
//! - [`limiter`]: limits for embedding, without the service.
//! - [`mod@bench`]: a load generator for any server of the protocol.
//! - [`simulate`]: every algorithm under chosen traffic, against exact oracles; [`svg`] draws it.
//! - [`app`]: puts the parts together; [`cli`]: the commands; [`shutdown`]: the signals.

pub mod app;
pub mod bench;
pub mod cli;
pub mod clock;
pub mod decide;
pub mod limit;
pub mod limiter;
pub mod pem;
pub mod policy;
pub mod proto;
pub mod shutdown;
pub mod simulate;
pub mod store;
pub mod svg;
pub mod telemetry;
pub mod transport;
pub mod units;
pub mod xds;
