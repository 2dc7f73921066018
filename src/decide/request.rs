//! A request as the decision sees it: borrowed from the wire and checked.

use smallvec::SmallVec;

use crate::limit::{Cost, FixedWindow, Limit, Unit};
use crate::units::Hits;

/// One question. Not empty, and within the bounds of the service.
#[derive(Debug)]
pub struct Request<'a> {
    /// The namespace of the rules.
    pub domain: &'a str,
    /// The cost that the request named, if it named one above zero; also the
    /// cost of each descriptor without one of its own.
    pub hits_addend: u32,
    /// What the request is.
    pub descriptors: SmallVec<[Descriptor<'a>; 4]>,
}

/// One view of the request.
#[derive(Debug)]
pub struct Descriptor<'a> {
    /// Keys and values, in order.
    pub entries: SmallVec<[(&'a str, &'a str); 4]>,
    /// The limit that the caller brought along.
    pub limit: Option<Override>,
    /// The cost that the descriptor named.
    pub hits_addend: Option<u64>,
    /// Whether the cost is given back.
    pub is_negative_hits: bool,
}

/// A limit that comes with the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Override {
    /// How many hits in each unit.
    pub requests_per_unit: u32,
    /// The unit.
    pub unit: Unit,
}

impl Override {
    /// The limit it asks for: a fixed window, as configured ones are by default.
    pub fn limit(self) -> Limit {
        Limit::FixedWindow(FixedWindow::of_unit(Hits::from(self.requests_per_unit), self.unit))
    }
}

impl Request<'_> {
    /// What `descriptor` costs: its own addend, where 0 only checks; without
    /// one the request's, where 0 counts as 1.
    pub fn cost(&self, descriptor: &Descriptor<'_>) -> Cost {
        let hits = match descriptor.hits_addend {
            Some(hits) => Hits::new(hits),
            None => Hits::from(self.hits_addend.max(1)),
        };
        if descriptor.is_negative_hits { Cost::refund(hits) } else { Cost::take(hits) }
    }
}

/// Why a request was not decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No domain.
    #[error("rate limit domain must not be empty")]
    EmptyDomain,
    /// No descriptors.
    #[error("rate limit descriptor list must not be empty")]
    NoDescriptors,
    /// More descriptors than one request may have.
    #[error(
        "the request has {sent} descriptors and at most {most} are allowed; \
         send fewer, or raise --max-descriptors"
    )]
    TooManyDescriptors {
        /// As many as were sent.
        sent: usize,
        /// As many as are allowed.
        most: usize,
    },
    /// More entries in one descriptor than it may have.
    #[error(
        "descriptor {index} has {sent} entries and at most {most} are allowed; \
         no rule is that deep, so send only the entries that rules name"
    )]
    TooManyEntries {
        /// Which descriptor, from 0.
        index: usize,
        /// As many as were sent.
        sent: usize,
        /// As many as are allowed.
        most: usize,
    },
    /// An override with a unit that does not exist.
    #[error(
        "descriptor {index} carries a limit with unit {unit}; \
         write SECOND (1), MINUTE (2), HOUR (3), DAY (4), MONTH (5), YEAR (6) or WEEK (7)"
    )]
    UnknownUnit {
        /// Which descriptor, from 0.
        index: usize,
        /// The number sent.
        unit: i32,
    },
}
