//! Which values are client addresses, and how they are read.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::Lowering;
use crate::policy::address::{AddressPolicy, DEFAULT_IPV6_PREFIX};
use crate::policy::fault::{Place, Position, quoted};
use crate::policy::raw::{Field, Located, RawAddresses, RawDescriptor};
use crate::policy::rule::RuleSpec;

impl Lowering<'_> {
    /// How the values of a descriptor with this rule are read as addresses, if
    /// they are. A lockout is for clients: its own descriptor names them unless
    /// `address` on the way to it says which one does.
    pub(super) fn address(
        &mut self,
        raw: &RawDescriptor,
        rule: Option<&RuleSpec>,
    ) -> Option<AddressPolicy> {
        let inside = raw.rate_limit.as_ref().map(|limit| &limit.addresses);
        let said = self.trail.iter().find_map(|step| step.address);
        if let (Some(inside), Some(said)) = (inside, said) {
            let said = Place { file: self.source.clone(), at: said };
            for (name, at) in inside.present() {
                let message = format!("should not specify {name} here, since address is at {said}");
                let hint = format!("write {name} into that address");
                self.faults.push(self.fault(at, message).hint(hint));
            }
        }
        let inside = inside.map(|inside| self.policy(inside));
        match &raw.address {
            Field::Given(Located { value, .. }) => value.as_ref().and_then(|own| self.policy(own)),
            Field::Absent
                if said.is_none() && rule.is_some_and(|rule| rule.grant.has_lockout()) =>
            {
                inside.flatten()
            }
            Field::Absent | Field::Faulty => None,
        }
    }

    fn policy(&mut self, raw: &RawAddresses) -> Option<AddressPolicy> {
        let exempt = raw.exempt.value().map_or(&[][..], Vec::as_slice);
        let exempt: Vec<_> =
            exempt.iter().filter_map(|text| self.network(&text.value, text.at)).collect();
        let prefix = raw.ipv6_prefix.value().copied();
        let prefix = prefix.map_or(Some(DEFAULT_IPV6_PREFIX), |bits| u8::try_from(bits).ok())?;
        AddressPolicy::new(prefix, raw.exempt_loopback.value().copied(), exempt)
    }

    /// A network such as `10.0.0.0/8`, or a single address.
    fn network(&mut self, text: &str, at: Position) -> Option<IpNet> {
        let parsed = match text.split_once('/') {
            Some(_) => text.parse::<IpNet>().ok(),
            None => text.parse::<IpAddr>().map(IpNet::from).ok(),
        };
        let hint = match parsed {
            None => "write a network such as 10.0.0.0/8 or 2001:db8::/32, or an address".to_owned(),
            Some(IpNet::V6(net)) if is_mapped(net) => {
                // Clients are never seen in this form.
                format!("write the IPv4 network: {}", quoted(&unmapped(net)))
            }
            Some(net) if net.addr() != net.network() => format!(
                "it is one address in a larger network: write {} for the network or {} for the \
                 address",
                quoted(&net.trunc().to_string()),
                quoted(&net.addr().to_string())
            ),
            Some(net) => return Some(net),
        };
        let message = format!("invalid network {} in exempt", quoted(text));
        self.faults.push(self.fault(at, message).hint(hint));
        None
    }
}

/// Whether a network lies in `::ffff:0:0/96`, the IPv4 addresses.
fn is_mapped(net: Ipv6Net) -> bool {
    net.prefix_len() >= 96 && net.addr().to_ipv4_mapped().is_some()
}

fn unmapped(net: Ipv6Net) -> String {
    let address = net.addr().to_ipv4_mapped();
    let net = address.and_then(|address| Ipv4Net::new(address, net.prefix_len() - 96).ok());
    net.map(|net| net.trunc().to_string()).unwrap_or_default()
}
