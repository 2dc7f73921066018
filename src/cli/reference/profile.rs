//! Which defaults are in force.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::NAME;
use super::environment::Fault;
use super::table::PLACING;

/// A set of defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Ours: on this machine only, counters in memory.
    Tidegate,
    /// Ours in a container.
    Container,
    /// Those of envoyproxy/ratelimit.
    Reference,
}

impl Profile {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tidegate => "tidegate",
            Self::Container => "container",
            Self::Reference => "reference",
        }
    }
}

/// The defaults in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Which they are.
    pub profile: Profile,
    /// Why, in words that follow "because".
    pub why: String,
}

/// The name that the process was started by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// `ratelimit`, as envoyproxy/ratelimit is.
    Ratelimit,
    /// Any other.
    Other,
}

impl Entry {
    pub(super) fn of(program: Option<&Path>) -> Self {
        let name = program.and_then(Path::file_name);
        if name == Some(OsStr::new(NAME)) { Self::Ratelimit } else { Self::Other }
    }
}

/// Says which profile is wanted, where the rules below would choose another.
const ASKED: &str = "TIDEGATE_PROFILE";
/// Set by our image.
const IN_CONTAINER: &str = "TIDEGATE_CONTAINER";

impl Chosen {
    /// What is asked for; else the reference's if the process goes by its name
    /// or if one of its variables says where rules or counters are; else ours.
    pub(super) fn by(
        entry: Entry,
        lookup: &impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Fault> {
        let container = || lookup(IN_CONTAINER).is_some_and(|it| it == "true");
        let because = |profile, why: &str| Ok(Self { profile, why: why.to_owned() });
        match lookup(ASKED).unwrap_or_default().to_str() {
            Some("" | "auto") => {}
            Some("reference") => return because(Profile::Reference, "TIDEGATE_PROFILE says so"),
            Some("container") => return because(Profile::Container, "TIDEGATE_PROFILE says so"),
            Some("tidegate") => return because(Profile::Tidegate, "TIDEGATE_PROFILE says so"),
            _ => {
                let expected = "expected auto, reference, container or tidegate";
                return Err(Fault::new(ASKED, expected));
            }
        }
        if entry == Entry::Ratelimit {
            return because(Profile::Reference, "it was started as ratelimit");
        }
        if let Some(name) = PLACING.into_iter().find(|name| lookup(name).is_some()) {
            return because(Profile::Reference, &format!("{name} is set"));
        }
        if container() {
            return because(Profile::Container, "TIDEGATE_CONTAINER is set");
        }
        because(Profile::Tidegate, "nothing asks for another one")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(entry: Entry, set: &[(&str, &str)]) -> Chosen {
        let lookup = |name: &str| {
            let found = set.iter().find(|(set, _)| *set == name);
            found.map(|(_, value)| OsString::from(value))
        };
        Chosen::by(entry, &lookup).unwrap()
    }

    #[test]
    fn the_profile_follows_from_the_name_and_from_placing_variables() {
        let root = ("RUNTIME_ROOT", "/data");
        for (entry, set, profile, why) in [
            (Entry::Other, vec![], Profile::Tidegate, "nothing"),
            (Entry::Other, vec![("SHADOW_MODE", "true"), ("PORT", "1")], Profile::Tidegate, ""),
            (Entry::Other, vec![root], Profile::Reference, "RUNTIME_ROOT is set"),
            (Entry::Ratelimit, vec![], Profile::Reference, "ratelimit"),
            (Entry::Other, vec![(IN_CONTAINER, "true")], Profile::Container, IN_CONTAINER),
            (Entry::Other, vec![root, (IN_CONTAINER, "true")], Profile::Reference, "RUNTIME_ROOT"),
            (Entry::Ratelimit, vec![(ASKED, "tidegate"), root], Profile::Tidegate, ASKED),
            (Entry::Other, vec![(ASKED, "reference")], Profile::Reference, ASKED),
        ] {
            let chosen = chosen(entry, &set);
            assert_eq!(chosen.profile, profile, "{set:?}");
            assert!(chosen.why.contains(why), "{}", chosen.why);
        }
        let path = Path::new("/bin/ratelimit");
        assert_eq!(Entry::of(Some(path)), Entry::Ratelimit);
        assert_eq!(Entry::of(Some(Path::new("ratelimit/tidegate"))), Entry::Other);
    }
}
