//! The keys of the format, and what was probably meant by others.

use crate::policy::fault::quoted;
use crate::policy::nearest::nearest;

/// A kind of mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// A document.
    Root,
    /// A descriptor.
    Descriptor,
    /// An `address`.
    Address,
    /// A `rate_limit`.
    RateLimit,
    /// An item of `rates`.
    Rate,
    /// An entry of `replaces`.
    Replace,
    /// A `lease`.
    Lease,
}

/// The keys of a limit: an algorithm and its fields.
const LIMIT: &[&str] = &[
    "algorithm",
    "requests_per_unit",
    "limit",
    "unit",
    "unit_multiplier",
    "window",
    "rate",
    "align",
    "time_zone",
    "count_refused",
    "block_duration",
    "max_window_size",
    "capacity",
    "burst",
    "refill",
    "max_attempts",
    "lockout",
];

const ADDRESS: &[&str] = &["ipv6_prefix", "exempt", "exempt_loopback"];

impl Section {
    /// Every kind; a key that may stand in several is sent to the first of them.
    pub const ALL: [Self; 7] = [
        Self::Descriptor,
        Self::Root,
        Self::Address,
        Self::RateLimit,
        Self::Rate,
        Self::Replace,
        Self::Lease,
    ];

    /// The keys that may stand in it.
    pub fn keys(self) -> impl Iterator<Item = &'static str> {
        let groups: [&[&str]; 3] = match self {
            Self::Root => {
                [&["domain", "charge", "failure_mode", "hash_tag", "descriptors"], &[], &[]]
            }
            Self::Descriptor => [
                &["key", "value", "rate_limit", "descriptors", "address", "metadata"],
                &["shadow_mode", "quota_mode", "failure_mode"],
                &["detailed_metric", "value_to_metric", "share_threshold"],
            ],
            Self::Address => [ADDRESS, &[], &[]],
            Self::RateLimit => {
                [&["name", "unlimited", "replaces", "rates", "lease"], LIMIT, ADDRESS]
            }
            Self::Rate => [LIMIT, &[], &[]],
            Self::Replace => [&["name"], &[], &[]],
            Self::Lease => [&["max_share", "ttl"], &[], &[]],
        };
        groups.into_iter().flatten().copied()
    }

    fn has(self, key: &str) -> bool {
        self.keys().any(|known| known == key)
    }

    /// Its keys, for messages.
    pub fn listed(self) -> String {
        self.keys().collect::<Vec<_>>().join(", ")
    }
}

/// The keys that envoyproxy/ratelimit accepts anywhere, and ignores where they
/// have no effect.
pub fn known_to_reference(key: &str) -> bool {
    const KEYS: [&str; 16] = [
        "domain",
        "key",
        "value",
        "descriptors",
        "rate_limit",
        "unit",
        "requests_per_unit",
        "unlimited",
        "shadow_mode",
        "quota_mode",
        "name",
        "replaces",
        "detailed_metric",
        "value_to_metric",
        "share_threshold",
        "metadata",
    ];
    KEYS.contains(&key)
}

/// What to do about a key that may not stand on `section`.
pub fn advice(section: Section, key: &str) -> String {
    if let Some(home) = Section::ALL.into_iter().find(|other| other.has(key)) {
        return format!("{} belongs {}", quoted(key), where_to(section, home));
    }
    if let Some(meant) = nearest(key, section.keys()) {
        return format!("did you mean '{meant}'?");
    }
    let elsewhere =
        Section::ALL.into_iter().find_map(|other| Some((other, nearest(key, other.keys())?)));
    if let Some((home, meant)) = elsewhere {
        return format!("did you mean '{meant}'? It belongs {}", where_to(section, home));
    }
    if section == Section::Root && key.starts_with("x-") {
        return "helper keys are refused; put the anchor (&name) where its value is first used"
            .to_owned();
    }
    format!("the keys here are {}", section.listed())
}

fn where_to(section: Section, home: Section) -> &'static str {
    match (section, home) {
        (
            Section::RateLimit | Section::Rate | Section::Replace | Section::Lease,
            Section::Descriptor,
        ) => "beside rate_limit, not inside",
        (Section::Address, Section::Descriptor) => "beside address, not inside",
        (_, Section::Root) => "at the top of the file, beside domain",
        (_, Section::Descriptor) => "in a descriptor, that is in an item of the list descriptors",
        (_, Section::Address) => "inside address, in a descriptor",
        (Section::Rate, Section::RateLimit) => "beside rates, not in one of them",
        (_, Section::RateLimit | Section::Rate) => "inside rate_limit",
        (_, Section::Replace) => "in an item of replaces",
        (_, Section::Lease) => "inside lease, in a rate_limit",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised() {
        let cases = [
            (Section::Root, "Domain", "did you mean 'domain'?"),
            (Section::Descriptor, "ratelimit", "did you mean 'rate_limit'?"),
            (Section::Descriptor, "vlaue", "did you mean 'value'?"),
            (Section::RateLimit, "requestsperunit", "did you mean 'requests_per_unit'?"),
            (Section::RateLimit, "units", "did you mean 'unit'?"),
            (Section::RateLimit, "shadowmode", "did you mean 'shadow_mode'? It belongs beside"),
        ];
        for (section, key, expected) in cases {
            let advice = advice(section, key);
            assert!(advice.starts_with(expected), "{key}: {advice}");
        }
    }

    #[test]
    fn a_misplaced_key_is_sent_home() {
        let cases = [
            (
                Section::RateLimit,
                "shadow_mode",
                "'shadow_mode' belongs beside rate_limit, not inside",
            ),
            (Section::Descriptor, "unit", "'unit' belongs inside rate_limit"),
            (Section::Descriptor, "burst", "'burst' belongs inside rate_limit"),
            (Section::Descriptor, "exempt", "'exempt' belongs inside address, in a descriptor"),
            (Section::Rate, "name", "'name' belongs beside rates, not in one of them"),
            (Section::Rate, "exempt", "'exempt' belongs inside address, in a descriptor"),
            (Section::Address, "shadow_mode", "'shadow_mode' belongs beside address, not inside"),
            (Section::Root, "key", "'key' belongs in a descriptor"),
            (Section::Descriptor, "charge", "'charge' belongs at the top of the file"),
        ];
        for (section, key, expected) in cases {
            let advice = advice(section, key);
            assert!(advice.starts_with(expected), "{key}: {advice}");
        }
    }

    #[test]
    fn a_key_like_no_other_gets_the_list() {
        assert_eq!(
            advice(Section::Root, "version"),
            "the keys here are domain, charge, failure_mode, hash_tag, descriptors"
        );
        assert!(advice(Section::Root, "x-base").contains("anchor"));
        assert!(
            advice(Section::Replace, &"x".repeat(1 << 20)).starts_with("the keys here are name")
        );
    }
}
