//! The keys of the format, and what was probably meant by others.

use super::super::fault::quoted;

/// A kind of mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// A document.
    Root,
    /// A descriptor.
    Descriptor,
    /// A `rate_limit`.
    RateLimit,
    /// An entry of `replaces`.
    Replace,
}

impl Section {
    /// Every kind; a key that may stand in several is sent to the first of them.
    pub const ALL: [Self; 4] = [Self::Descriptor, Self::Root, Self::RateLimit, Self::Replace];

    /// The keys that may stand in it.
    pub const fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Root => &["domain", "charge", "descriptors"],
            Self::Descriptor => &[
                "key",
                "value",
                "rate_limit",
                "descriptors",
                "shadow_mode",
                "quota_mode",
                "detailed_metric",
                "value_to_metric",
                "share_threshold",
                "metadata",
            ],
            Self::RateLimit => &[
                "unit",
                "requests_per_unit",
                "unlimited",
                "name",
                "replaces",
                "algorithm",
                "unit_multiplier",
                "window",
                "align",
                "count_refused",
            ],
            Self::Replace => &["name"],
        }
    }

    fn has(self, key: &str) -> bool {
        self.keys().contains(&key)
    }
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
    format!("the keys here are {}", section.keys().join(", "))
}

fn where_to(section: Section, home: Section) -> &'static str {
    match (section, home) {
        (Section::RateLimit | Section::Replace, Section::Descriptor) => {
            "beside rate_limit, not inside"
        }
        (_, Section::Root) => "at the top of the file, beside domain",
        (_, Section::Descriptor) => "in a descriptor, that is in an item of the list descriptors",
        (_, Section::RateLimit) => "inside rate_limit",
        (_, Section::Replace) => "in an item of replaces",
    }
}

/// The known key that `key` is probably a slip of.
fn nearest(key: &str, known: &[&'static str]) -> Option<&'static str> {
    let wanted = folded(key);
    known
        .iter()
        .map(|&candidate| (candidate, folded(candidate)))
        // Most are told apart by their length, at no cost.
        .filter(|(_, candidate)| candidate.len().abs_diff(wanted.len()) <= MAX_SLIPS)
        .map(|(name, candidate)| (strsim::osa_distance(&wanted, &candidate), name))
        .filter(|(slips, name)| *slips <= MAX_SLIPS && slips * 3 <= name.len())
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, name)| name)
}

/// Letters too many, too few, wrong or swapped.
const MAX_SLIPS: usize = 2;

/// A key without what is easily forgotten.
fn folded(key: &str) -> String {
    let kept = key.chars().filter(|char| !matches!(char, '_' | '-' | ' '));
    kept.flat_map(char::to_lowercase).collect()
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
            "the keys here are domain, charge, descriptors"
        );
        assert!(advice(Section::Root, "x-base").contains("anchor"));
        assert!(
            advice(Section::Replace, &"x".repeat(1 << 20)).starts_with("the keys here are name")
        );
    }
}
