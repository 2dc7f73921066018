//! The faces of the service: decode, call, encode; no decisions.

pub mod age;
pub mod call;
pub mod connection;
mod direct;
pub mod grpc;
pub mod http;
pub mod json;
pub mod listen;
pub mod rls;
pub mod stats;
pub mod tls;
pub mod web;
pub mod wire;
pub mod workers;
