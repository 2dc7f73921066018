//! Slots: which one a key has, and which node has which.

use crc16::{State, XMODEM};
use deadpool_redis::redis::Value;
use smallvec::SmallVec;

use crate::store::redis::url::Address;

/// How many slots a cluster has: a power of two.
pub(super) const SLOTS: u16 = 16_384;

/// Slots, and the master that has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) master: Address,
}

/// The slot of a key with this prefix: that of what stands in the first braces,
/// if anything does.
pub(in crate::store::redis) fn slot_of(prefix: &str, key: &[u8]) -> u16 {
    let mut whole: SmallVec<[u8; 256]> = SmallVec::from_slice(prefix.as_bytes());
    whole.extend_from_slice(key);
    let text = tag(&whole).unwrap_or(&whole);
    State::<XMODEM>::calculate(text) & (SLOTS - 1)
}

fn tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|&byte| byte == b'{')?;
    let inner = key.get(open + 1..)?;
    let close = inner.iter().position(|&byte| byte == b'}')?;
    inner.get(..close).filter(|tag| !tag.is_empty())
}

/// Reads the reply to `CLUSTER SLOTS` of a node at `host`. What cannot be read
/// is left out.
pub(super) fn read(reply: &Value, host: &str) -> Vec<Range> {
    let Value::Array(ranges) = reply else { return Vec::new() };
    ranges.iter().filter_map(|range| read_range(range, host)).collect()
}

/// `[first, last, [host, port, …], …]`: the first node is the master.
fn read_range(range: &Value, host: &str) -> Option<Range> {
    let Value::Array(parts) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = &**parts else {
        return None;
    };
    let [name, Value::Int(port), ..] = &**master else { return None };
    let name = match name {
        Value::BulkString(name) => std::str::from_utf8(name).ok()?,
        Value::SimpleString(name) => name,
        // The node does not know how it is reached; we do.
        Value::Nil => "",
        _ => return None,
    };
    let name = match name {
        "" => host,
        // So a node writes that it does not know the name.
        "?" => return None,
        name => name,
    };
    let slot = |slot: i64| u16::try_from(slot).ok().filter(|&slot| slot < SLOTS);
    let master = (name.to_owned(), u16::try_from(*port).ok().filter(|&port| port != 0)?);
    Some(Range { first: slot(*first)?, last: slot(*last)?, master })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // As `CLUSTER KEYSLOT` tells them.
        for (prefix, key, slot) in [
            ("", "123456789", 12_739),
            ("", "foo", 12_182),
            ("", "{foo}bar", 12_182),
            ("x{fo", "o}bar", 12_182),
            ("tidegate:1:", "{foo}|a={b}", 12_182),
            ("", "foo{}", 5_542),
            ("", "foo{}{bar}", 8_363),
        ] {
            assert_eq!(slot_of(prefix, key.as_bytes()), slot, "{prefix}{key}");
        }
    }

    fn node(host: Value, port: i64) -> Value {
        Value::Array(vec![host, Value::Int(port), text("id"), Value::Array(vec![])])
    }

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn range(first: i64, last: i64, nodes: &[Value]) -> Value {
        Value::Array([&[Value::Int(first), Value::Int(last)], nodes].concat())
    }

    #[test]
    fn masters_are_read_and_the_rest_is_left_out() {
        let replica = node(text("10.0.0.2"), 7);
        let reply = Value::Array(vec![
            range(0, 10, &[node(text("10.0.0.1"), 6379), replica]),
            range(11, 11, &[node(Value::Nil, 6380)]),
            range(12, 12, &[node(text(""), 6381)]),
            range(13, 13, &[node(text("?"), 6381)]),
            range(14, 16_384, &[node(text("a"), 6381)]),
            range(-1, 3, &[node(text("a"), 6381)]),
            range(1, 3, &[node(text("a"), 65_536)]),
            range(1, 3, &[node(text("a"), 0)]),
            range(1, 3, &[]),
            Value::Nil,
        ]);
        let expected = [(0, 10, "10.0.0.1", 6379), (11, 11, "here", 6380), (12, 12, "here", 6381)];
        let expected = expected.map(|(first, last, host, port)| Range {
            first,
            last,
            master: (host.to_owned(), port),
        });
        assert_eq!(read(&reply, "here"), expected);
        assert_eq!(read(&Value::Okay, "here"), []);
    }
}
