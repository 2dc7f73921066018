//! Values that are client addresses: one client, one counter.
//!
//! An IPv4-mapped IPv6 address is the IPv4 address; IPv6 addresses are counted
//! by network, since a client has a whole one; what is no address stays text.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv6Addr};

pub use ipnet::IpNet;
use ipnet::Ipv6Net;

/// How a descriptor's value is read as an address.
///
/// ```
/// use tidegate::policy::address::AddressPolicy;
///
/// let exempt = vec!["10.0.0.0/8".parse().unwrap()];
/// let policy = AddressPolicy::new(64, Some(true), exempt).unwrap();
///
/// assert_eq!(policy.read("::ffff:203.0.113.9").unwrap().counted(), "203.0.113.9");
/// assert_eq!(policy.read("2001:db8:1:2::a").unwrap().counted(), "2001:db8:1:2::");
/// assert!(policy.read("10.1.2.3").unwrap().exempt);
/// assert!(policy.read("::1").unwrap().exempt);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressPolicy {
    ipv6_prefix: u8,
    exempt_loopback: Option<bool>,
    exempt: Box<[IpNet]>,
}

/// The prefix by which IPv6 clients are told apart unless said otherwise.
pub const DEFAULT_IPV6_PREFIX: u8 = 64;

impl AddressPolicy {
    /// IPv6 addresses counted by networks of `ipv6_prefix` bits (at most 128);
    /// `exempt` networks and, if asked, loopback are never limited. Where it is
    /// not said whether loopback is, the rule decides: see [`Client::loopback`].
    /// `None` if the prefix is longer than an address.
    pub fn new(ipv6_prefix: u8, exempt_loopback: Option<bool>, exempt: Vec<IpNet>) -> Option<Self> {
        (ipv6_prefix <= 128).then(|| Self {
            ipv6_prefix,
            exempt_loopback,
            exempt: exempt.into_iter().map(|net| net.trunc()).collect(),
        })
    }

    /// The client that `value` names, if it is an address.
    pub fn read(&self, value: &str) -> Option<Client> {
        let address = value.parse::<IpAddr>().ok()?.to_canonical();
        let loopback = address.is_loopback();
        let exempt = (loopback && self.exempt_loopback == Some(true))
            || self.exempt.iter().any(|net| net.contains(&address));
        let mut counted = AddressText::default();
        // An address fits: writing cannot fail.
        let _ = match address {
            IpAddr::V4(address) => write!(counted, "{address}"),
            IpAddr::V6(address) => self.write_network(&mut counted, address),
        };
        let loopback = loopback && self.exempt_loopback.is_none();
        Some(Client { counted, exempt, loopback })
    }

    /// Writes the first address of the network: a text that is an address
    /// itself, and so of the same client, which `…/64` would not be.
    fn write_network(&self, counted: &mut AddressText, address: Ipv6Addr) -> std::fmt::Result {
        match Ipv6Net::new(address, self.ipv6_prefix) {
            Ok(net) => write!(counted, "{}", net.network()),
            Err(_) => write!(counted, "{address}"),
        }
    }
}

/// A client by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    counted: AddressText,
    /// Whether it is never limited.
    pub exempt: bool,
    /// Whether it is this machine, and nobody said whether that is limited.
    pub loopback: bool,
}

impl Client {
    /// The text under which the client is counted.
    pub fn counted(&self) -> &str {
        self.counted.as_str()
    }
}

/// The longest text: a full IPv6 address.
const LONGEST: usize = 39;

/// An address as text, on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AddressText {
    bytes: [u8; LONGEST],
    length: usize,
}

impl AddressText {
    fn as_str(&self) -> &str {
        self.bytes.get(..self.length).and_then(|text| str::from_utf8(text).ok()).unwrap_or_default()
    }
}

impl Default for AddressText {
    fn default() -> Self {
        Self { bytes: [0; LONGEST], length: 0 }
    }
}

impl std::fmt::Write for AddressText {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.length + text.len();
        let room = self.bytes.get_mut(self.length..end).ok_or(std::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> AddressPolicy {
        AddressPolicy::new(64, Some(true), vec!["10.0.0.0/8".parse().unwrap()]).unwrap()
    }

    fn counted(value: &str) -> Option<String> {
        policy().read(value).map(|client| client.counted().to_owned())
    }

    #[test]
    fn f38_forms_of_one_address_are_one_client() {
        for form in ["1.2.3.4", "::ffff:1.2.3.4", "::ffff:102:304", "::FFFF:1.2.3.4"] {
            assert_eq!(counted(form).as_deref(), Some("1.2.3.4"), "{form}");
        }
        assert_eq!(counted("1.2.3.5").as_deref(), Some("1.2.3.5"));
        for form in ["2001:db8:1:2::a", "2001:db8:1:2:ffff::1", "2001:DB8:1:2:0:0:0:b"] {
            assert_eq!(counted(form).as_deref(), Some("2001:db8:1:2::"), "{form}");
        }
        assert_eq!(counted("2001:db8:1:3::a").as_deref(), Some("2001:db8:1:3::"));
        let mixed = counted("2001:db8:1234:5678::1.2.3.4");
        assert_eq!(mixed.as_deref(), Some("2001:db8:1234:5678::"));
    }

    #[test]
    fn f38_what_is_no_address_stays_text() {
        for text in [
            "2001:db8:1:2::/64",
            "fe80::1%eth0",
            "1.2.3.4:5678",
            "not-an-address",
            "",
            "1.2.3",
            "01.2.3.4",
        ] {
            assert_eq!(counted(text), None, "{text}");
        }
    }

    #[test]
    fn loopback_and_listed_networks_are_exempt() {
        let exempt = |value: &str| policy().read(value).is_some_and(|client| client.exempt);
        assert!(exempt("127.0.0.1") && exempt("::1") && exempt("::ffff:127.8.8.8"));
        assert!(exempt("10.1.2.3") && exempt("::ffff:10.1.2.3"));
        assert!(!exempt("11.1.2.3") && !exempt("2001:db8::1"));
        let strict = AddressPolicy::new(64, Some(false), vec![]).unwrap();
        let loopback = strict.read("127.0.0.1").unwrap();
        assert!(!loopback.exempt && !loopback.loopback);
        let unsaid = AddressPolicy::new(64, None, vec![]).unwrap();
        let loopback = unsaid.read("::1").unwrap();
        assert!(!loopback.exempt && loopback.loopback, "the rule decides");
        assert!(!unsaid.read("10.1.2.3").unwrap().loopback);
    }

    #[test]
    fn the_longest_text_fits() {
        let longest = "2001:db8:1234:5678:9abc:def0:1234:5679";
        let policy = AddressPolicy::new(127, None, vec![]).unwrap();
        let network = policy.read(longest).unwrap();
        assert_eq!(network.counted(), "2001:db8:1234:5678:9abc:def0:1234:5678");
        let whole = AddressPolicy::new(128, None, vec![]).unwrap();
        assert_eq!(whole.read(longest).unwrap().counted(), longest);
        assert_eq!(AddressPolicy::new(129, None, vec![]), None);
    }
}
