//! What a source of rules says, before anyone has asked whether it makes sense.
//!
//! Every source (files, resources of a control plane) fills these structs;
//! `lower` turns them into rules and knows nothing of where they came from.

mod limit;

use std::sync::Arc;

pub use limit::{RawAddresses, RawLease, RawLimit, RawRateLimit, RawReplace};

use super::fault::{Place, Position};

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Located<T> {
    /// Where.
    pub at: Position,
    /// What.
    pub value: T,
}

/// What a source says about one field.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Field<T> {
    /// Nothing.
    #[default]
    Absent,
    /// This.
    Given(Located<T>),
    /// Something that could not be read. A fault says so already; whatever
    /// depends on the field stays silent.
    Faulty,
}

impl<T> Field<T> {
    /// Whether it says nothing.
    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Whether what it says could not be read.
    pub const fn is_faulty(&self) -> bool {
        matches!(self, Self::Faulty)
    }

    /// What it says, if it says anything that could be read.
    pub fn given(&self) -> Option<&Located<T>> {
        match self {
            Self::Given(located) => Some(located),
            Self::Absent | Self::Faulty => None,
        }
    }

    /// The value, if there is one.
    pub fn value(&self) -> Option<&T> {
        self.given().map(|located| &located.value)
    }
}

impl Field<bool> {
    /// Whether a flag is set. Left out, it is not.
    pub fn is_set(&self) -> bool {
        self.value().copied().unwrap_or_default()
    }
}

impl Field<String> {
    /// The text, if there is some.
    pub fn text(&self) -> &str {
        self.value().map(String::as_str).unwrap_or_default()
    }
}

/// A descriptor as people name it: `key=value`, or `key` alone.
pub fn label(key: &str, value: &str) -> String {
    if value.is_empty() { key.to_owned() } else { format!("{key}={value}") }
}

/// One document: the rules of one domain, or some of them.
#[derive(Clone, Debug)]
pub struct RawDomain {
    /// The file, or whatever else it came from.
    pub source: Arc<str>,
    /// Where the document begins.
    pub at: Position,
    /// Its name.
    pub domain: Field<String>,
    /// `independent` or `all_or_nothing`.
    pub charge: Field<String>,
    /// `open`, `closed`, `local` or `error`.
    pub failure_mode: Field<String>,
    /// `entries`, `first_entry` or `domain`.
    pub hash_tag: Field<String>,
    /// The top level of its rules.
    pub descriptors: Vec<RawDescriptor>,
}

impl RawDomain {
    /// A document that says nothing.
    pub fn new(source: Arc<str>, at: Position) -> Self {
        let (domain, charge) = (Field::Absent, Field::Absent);
        let (failure_mode, hash_tag) = (Field::Absent, Field::Absent);
        Self { source, at, domain, charge, failure_mode, hash_tag, descriptors: Vec::new() }
    }

    /// A place in this document's source.
    pub fn place(&self, at: Position) -> Place {
        Place { file: Arc::clone(&self.source), at }
    }
}

/// One node of the rule tree.
#[derive(Clone, Debug, Default)]
pub struct RawDescriptor {
    /// Where it begins.
    pub at: Position,
    /// The entry's key.
    pub key: Field<String>,
    /// The entry's value; `*` stands for any text. Absent or empty: any value.
    pub value: Field<String>,
    /// What it grants.
    pub rate_limit: Option<RawRateLimit>,
    /// What may follow.
    pub descriptors: Vec<RawDescriptor>,
    /// Values are client addresses, read like this; `None`: they are not.
    pub address: Field<Option<RawAddresses>>,
    /// Count, but never refuse.
    pub shadow_mode: Field<bool>,
    /// Refuse only together with all other quota rules.
    pub quota_mode: Field<bool>,
    /// What to answer without a store, if not what the domain says.
    pub failure_mode: Field<String>,
    /// All entries of the request name the rule's metrics.
    pub detailed_metric: Field<bool>,
    /// The value in the request names the rule's metrics.
    pub value_to_metric: Field<bool>,
    /// All values that match the wildcard share one counter.
    pub share_threshold: Field<bool>,
    /// Free content for answers.
    pub metadata: Option<prost_types::Struct>,
}
