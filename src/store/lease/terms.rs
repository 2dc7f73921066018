//! What a rule says of leases.

use crate::units::{Hits, Span};

/// How much a replica may take of a limit in advance, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    share_ppm: u32,
    ttl: Span,
}

impl LeaseTerms {
    /// One percent, for one second.
    pub const DEFAULT: Self = Self { share_ppm: 10_000, ttl: Span::from_secs(1) };

    /// So many millionths of the limit, for `ttl`.
    pub const fn new(share_ppm: u32, ttl: Span) -> Self {
        Self { share_ppm, ttl }
    }

    /// The share, in millionths.
    pub const fn share_ppm(&self) -> u32 {
        self.share_ppm
    }

    /// How long a lease is kept.
    pub const fn ttl(&self) -> Span {
        self.ttl
    }

    /// The most hits of `limit` at once. Rounded down, so that it may be none.
    pub fn most(&self, limit: Hits) -> Hits {
        let most = u128::from(limit.get()) * u128::from(self.share_ppm) / 1_000_000;
        Hits::new(u64::try_from(most).unwrap_or(u64::MAX))
    }
}
