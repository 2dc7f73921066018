//! Which keys lie together in Redis Cluster.

/// What the keys of one slot have in common. A cluster has 16,384 slots, each on
/// one master; only keys of one slot can be decided in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HashTag {
    /// All entries: each counter by itself, the rates of a rule together.
    #[default]
    Entries,
    /// The domain and the first entry.
    FirstEntry,
    /// The domain: a request is always decided in one step, by one master.
    Domain,
}

impl HashTag {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Entries, Self::FirstEntry, Self::Domain];

    /// How it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Entries => "entries",
            Self::FirstEntry => "first_entry",
            Self::Domain => "domain",
        }
    }

    /// The one of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tag| tag.name() == name)
    }
}
