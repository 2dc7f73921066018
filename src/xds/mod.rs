//! Rules that a control plane sends: a client of Envoy's discovery protocol,
//! state of the world over one aggregated stream, for resources of the type
//! [`TYPE_URL`](crate::policy::TYPE_URL).
//!
//! ```text
//! client: connects, again and again -> dial: one connection
//!                                   -> stream: subscribe, judge, answer
//! ```
//!
//! Every response holds all rules. It is accepted (ACK) when all of them are
//! good and refused (NACK) with every fault otherwise; then, and while the
//! server is away, the last good rules stay in force.

mod backoff;
mod client;
mod dial;
mod options;
mod stream;

pub use backoff::Pace;
pub use client::Client;
pub use options::{Headers, NodeMetadata, Server, Tls, TlsName, XdsOptions};
pub use stream::Update;
