//! Nodes to limits and addresses.

use super::keys::Section;
use super::scalar::Meaning;
use super::{Given, Reader, field, is_nothing};
use crate::limit::sliding_log::MOST_LOGGED_HITS;
use crate::policy::raw::{
    Field, Located, RawAddresses, RawLease, RawLimit, RawRateLimit, RawReplace,
};
use crate::policy::yaml::{Kind, Node};

impl Reader<'_> {
    pub(super) fn rate_limit(&mut self, node: &Node) -> Option<RawRateLimit> {
        if is_nothing(node) {
            return None;
        }
        let entries = self.map("rate_limit", node)?;
        let limit = RawLimit { at: node.at, ..RawLimit::default() };
        let mut raw = RawRateLimit { limit, ..RawRateLimit::default() };
        for Given { name, at, node } in self.fields(Section::RateLimit, &entries) {
            match name {
                "unlimited" => raw.unlimited = self.flag(name, node),
                "name" => raw.name = self.text(name, node),
                "replaces" => raw.replaces = self.replaces(node),
                "rates" => raw.rates = self.rates(node),
                "lease" => raw.lease = self.lease(node),
                _ if self.limit_field(name, node, &mut raw.limit) => {}
                _ if self.address_field(name, node, &mut raw.addresses) => {}
                _ => self.unknown(Section::RateLimit, name, at),
            }
        }
        Some(raw)
    }

    /// Reads a field of a limit. False if it is none.
    fn limit_field(&mut self, name: &str, node: &Node, raw: &mut RawLimit) -> bool {
        match name {
            "algorithm" => raw.algorithm = self.text(name, node),
            "requests_per_unit" => raw.requests_per_unit = self.whole(name, node, 0..=u32::MAX),
            "limit" => raw.limit = self.whole(name, node, 0..=u32::MAX),
            "unit" => raw.unit = self.text(name, node),
            "unit_multiplier" => raw.unit_multiplier = self.whole(name, node, 1..=u32::MAX),
            "window" => raw.window = self.text(name, node),
            "rate" => raw.rate = self.text(name, node),
            "align" => raw.align = self.text(name, node),
            "time_zone" => raw.time_zone = self.text(name, node),
            "count_refused" => raw.count_refused = self.flag(name, node),
            "block_duration" => raw.block_duration = self.text(name, node),
            "max_window_size" => {
                raw.max_window_size = self.whole(name, node, 1..=MOST_LOGGED_HITS);
            }
            // None at once would be none at all; elsewhere it may mean one.
            "capacity" => raw.capacity = self.whole(name, node, 1..=u32::MAX),
            "burst" => raw.burst = self.whole(name, node, 1..=u32::MAX),
            "refill" => raw.refill = self.text(name, node),
            "max_attempts" => raw.max_attempts = self.whole(name, node, 0..=u32::MAX),
            "lockout" => raw.lockout = self.text(name, node),
            _ => return false,
        }
        true
    }

    /// Each rate is a text such as `10/s`, or a mapping.
    fn rates(&mut self, node: &Node) -> Field<Vec<RawLimit>> {
        let items = self.list("rates", node);
        let mut rates = Vec::with_capacity(items.len());
        for item in items.iter() {
            rates.push(self.rate(item));
        }
        match node.kind {
            Kind::List(_) => Field::Given(Located { at: node.at, value: rates }),
            _ if is_nothing(node) => Field::Absent,
            _ => Field::Faulty,
        }
    }

    fn rate(&mut self, node: &Node) -> RawLimit {
        let mut raw = RawLimit { at: node.at, ..RawLimit::default() };
        match &node.kind {
            Kind::Map(entries) => {
                for Given { name, at, node } in self.fields(Section::Rate, entries) {
                    if !self.limit_field(name, node, &mut raw) {
                        self.unknown(Section::Rate, name, at);
                    }
                }
            }
            Kind::Scalar { .. } if !is_nothing(node) => raw.rate = self.text("rate", node),
            Kind::Scalar { .. } | Kind::List(_) => {
                let shown = field::described(node);
                let fault = self.fault(node.at, format!("cannot read {shown} as one of rates"));
                self.report(fault.hint(
                    "a rate is a text such as 10/s, or a mapping such as {limit: 10, window: 1s}",
                ));
                raw.rate = Field::Faulty;
            }
        }
        raw
    }

    fn lease(&mut self, node: &Node) -> Field<RawLease> {
        if is_nothing(node) {
            return Field::Absent;
        }
        let Some(entries) = self.map("lease", node) else { return Field::Faulty };
        let mut raw = RawLease::default();
        for Given { name, at, node } in self.fields(Section::Lease, &entries) {
            match name {
                "max_share" => raw.max_share = self.text(name, node),
                "ttl" => raw.ttl = self.text(name, node),
                _ => self.unknown(Section::Lease, name, at),
            }
        }
        Field::Given(Located { at: node.at, value: raw })
    }

    fn replaces(&mut self, node: &Node) -> Vec<RawReplace> {
        let mut raw = Vec::new();
        for item in self.list("replaces", node).iter() {
            let Some(entries) = self.item(item, "- name: NAME") else { continue };
            let mut replace = RawReplace { at: item.at, name: Field::Absent };
            for Given { name, at, node } in self.fields(Section::Replace, &entries) {
                match name {
                    "name" => replace.name = self.text(name, node),
                    _ => self.unknown(Section::Replace, name, at),
                }
            }
            raw.push(replace);
        }
        raw
    }

    /// `true`, `false`, or a mapping that says how.
    pub(super) fn address(&mut self, node: &Node) -> Field<Option<RawAddresses>> {
        let Kind::Map(entries) = &node.kind else { return self.address_flag(node) };
        let mut raw = RawAddresses::default();
        for Given { name, at, node } in self.fields(Section::Address, entries) {
            if !self.address_field(name, node, &mut raw) {
                self.unknown(Section::Address, name, at);
            }
        }
        Field::Given(Located { at: node.at, value: Some(raw) })
    }

    fn address_flag(&mut self, node: &Node) -> Field<Option<RawAddresses>> {
        match field::unquoted(node) {
            Some((_, Meaning::Nothing)) => Field::Absent,
            Some((_, Meaning::Truth(said))) => {
                let value = said.then(RawAddresses::default);
                Field::Given(Located { at: node.at, value })
            }
            _ => {
                let hint =
                    "write address: true, or address: {exempt: [10.0.0.0/8], ipv6_prefix: 64}";
                self.mistyped("address", node, "true, false or a mapping", hint)
            }
        }
    }

    /// Reads a field of addresses. False if it is none.
    fn address_field(&mut self, name: &str, node: &Node, raw: &mut RawAddresses) -> bool {
        match name {
            "ipv6_prefix" => raw.ipv6_prefix = self.whole(name, node, 1..=128),
            "exempt" => raw.exempt = self.texts(name, node),
            "exempt_loopback" => raw.exempt_loopback = self.flag(name, node),
            _ => return false,
        }
        true
    }

    /// A list of texts, without those that cannot be read.
    fn texts(&mut self, name: &str, node: &Node) -> Field<Vec<Located<String>>> {
        let items = self.list(name, node);
        let mut texts = Vec::with_capacity(items.len());
        for item in items.iter() {
            texts.extend(self.text(name, item).given().cloned());
        }
        match node.kind {
            Kind::List(_) => Field::Given(Located { at: node.at, value: texts }),
            _ if is_nothing(node) => Field::Absent,
            _ => Field::Faulty,
        }
    }
}
