//! The faces of the service: decode, call, encode; no decisions.

pub mod rls;
pub mod wire;
