//! What nodes reply about a slot that they do not have, or not quite.

use deadpool_redis::redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::store::redis::url::Address;

/// What the script hears from a node about a key that has gone.
pub(in crate::store::redis) const NOT_HERE: &str = "non local key in a cluster";

/// Where to ask instead. A host without a name is that of the node which says
/// so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store::redis) enum Redirect {
    /// `MOVED`: the slot belongs to that node from now on.
    Moved {
        /// The slot.
        slot: u16,
        /// The node.
        to: Address,
    },
    /// `ASK`: for this once, that node has the keys.
    Ask {
        /// The node.
        to: Address,
    },
    /// `TRYAGAIN`: the keys are on their way. Or a call found one gone when it
    /// wrote. If that was the first, nothing was done; if not, only those hear of it
    /// who asked about the key, and what one request of several keys had written
    /// before is written again: hits then count twice, and so do refunds.
    Unsettled,
}

impl Redirect {
    /// The redirection in `error`, if it is one.
    pub(in crate::store::redis) fn of(error: &RedisError) -> Option<Self> {
        match error.kind() {
            ErrorKind::Server(ServerErrorKind::Moved) => {
                let (address, slot) = error.redirect_node()?;
                Some(Self::Moved { slot, to: address_of(address)? })
            }
            ErrorKind::Server(ServerErrorKind::Ask) => {
                let (address, _) = error.redirect_node()?;
                Some(Self::Ask { to: address_of(address)? })
            }
            ErrorKind::Server(ServerErrorKind::TryAgain) => Some(Self::Unsettled),
            _ if error.detail().is_some_and(|detail| detail.contains(NOT_HERE)) => {
                Some(Self::Unsettled)
            }
            _ => None,
        }
    }
}

/// Reads `host:port`; an address of version 6 has colons of its own.
fn address_of(text: &str) -> Option<Address> {
    let (host, port) = text.rsplit_once(':')?;
    // So a node writes that it does not know the name.
    (host != "?").then_some((host.to_owned(), port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_nodes_are_read() {
        for (text, expected) in [
            ("127.0.0.1:6381", Some(("127.0.0.1", 6381))),
            ("fe80::1:6381", Some(("fe80::1", 6381))),
            (":6381", Some(("", 6381))),
            ("?:6381", None),
            ("a", None),
            ("a:b", None),
            ("a:65536", None),
        ] {
            let expected = expected.map(|(host, port): (&str, u16)| (host.to_owned(), port));
            assert_eq!(address_of(text), expected, "{text}");
        }
    }
}
