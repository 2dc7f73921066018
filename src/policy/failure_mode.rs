//! What to answer when the store cannot decide.

/// What to answer when the store cannot decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailureMode {
    /// Let the request pass.
    #[default]
    Open,
    /// Refuse the request.
    Closed,
    /// Decide in this process, by this replica's share of the limit.
    Local,
    /// Answer with an error, so that the proxy decides.
    Error,
}

impl FailureMode {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Open, Self::Closed, Self::Local, Self::Error];

    /// How it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Local => "local",
            Self::Error => "error",
        }
    }

    /// The mode of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}
