//! The servers that this program is itself.

pub mod naive;
pub mod noop;

use std::net::SocketAddr;

/// Tells whoever started us where we listen, as tidegate does.
fn announce(address: SocketAddr) {
    println!("  gRPC  {address}");
}
