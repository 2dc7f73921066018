//! What a source says about a limit.

use super::{Field, Located};
use crate::policy::fault::Position;

/// What a rule grants.
#[derive(Clone, Debug, Default)]
pub struct RawRateLimit {
    /// Everything, uncounted.
    pub unlimited: Field<bool>,
    /// The rule's name.
    pub name: Field<String>,
    /// Names of the rules that it displaces.
    pub replaces: Vec<RawReplace>,
    /// The limit or, beside `rates`, what they have in common.
    pub limit: RawLimit,
    /// Several limits that must all pass.
    pub rates: Field<Vec<RawLimit>>,
    /// How the descriptor's values are read as addresses.
    pub addresses: RawAddresses,
    /// How hot keys take hits in advance.
    pub lease: Field<RawLease>,
}

/// How hot keys take hits in advance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawLease {
    /// The most at once, as a share of the limit: `1%`.
    pub max_share: Field<String>,
    /// For how long.
    pub ttl: Field<String>,
}

/// One entry of `replaces`.
#[derive(Clone, Debug)]
pub struct RawReplace {
    /// Where it begins.
    pub at: Position,
    /// The name of the rules to displace.
    pub name: Field<String>,
}

/// A limit: an algorithm and the fields of all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawLimit {
    /// Where it begins.
    pub at: Position,
    /// The algorithm that decides.
    pub algorithm: Field<String>,
    /// How many.
    pub requests_per_unit: Field<u32>,
    /// Another word for `requests_per_unit`.
    pub limit: Field<u32>,
    /// In which unit of time.
    pub unit: Field<String>,
    /// How many units make a window.
    pub unit_multiplier: Field<u32>,
    /// The window, instead of a unit: `90s`.
    pub window: Field<String>,
    /// Amount and window in one: `10/s`.
    pub rate: Field<String>,
    /// Where windows start: `epoch`, `first_hit` or `calendar`.
    pub align: Field<String>,
    /// Whose calendar.
    pub time_zone: Field<String>,
    /// Whether refused hits are counted.
    pub count_refused: Field<bool>,
    /// How long a refusal blocks.
    pub block_duration: Field<String>,
    /// The most hits that a log may hold.
    pub max_window_size: Field<u32>,
    /// The most hits at once.
    pub capacity: Field<u32>,
    /// Another word for `capacity`.
    pub burst: Field<u32>,
    /// What comes back, as `rate` is written.
    pub refill: Field<String>,
    /// How many failures lock.
    pub max_attempts: Field<u32>,
    /// For how long.
    pub lockout: Field<String>,
}

/// How values are read as client addresses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawAddresses {
    /// By how many bits IPv6 clients are told apart.
    pub ipv6_prefix: Field<u32>,
    /// Networks that are never limited.
    pub exempt: Field<Vec<Located<String>>>,
    /// Whether loopback is never limited.
    pub exempt_loopback: Field<bool>,
}

/// The name of a field and where its value stands.
pub type Present = (&'static str, Position);

impl RawLimit {
    /// The fields that are there.
    pub fn present(&self) -> impl Iterator<Item = Present> {
        let fields = [
            at("algorithm", &self.algorithm),
            at("requests_per_unit", &self.requests_per_unit),
            at("limit", &self.limit),
            at("unit", &self.unit),
            at("unit_multiplier", &self.unit_multiplier),
            at("window", &self.window),
            at("rate", &self.rate),
            at("align", &self.align),
            at("time_zone", &self.time_zone),
            at("count_refused", &self.count_refused),
            at("block_duration", &self.block_duration),
            at("max_window_size", &self.max_window_size),
            at("capacity", &self.capacity),
            at("burst", &self.burst),
            at("refill", &self.refill),
            at("max_attempts", &self.max_attempts),
            at("lockout", &self.lockout),
        ];
        fields.into_iter().flatten()
    }
}

impl RawAddresses {
    /// The fields that are there.
    pub fn present(&self) -> impl Iterator<Item = Present> {
        let fields = [
            at("ipv6_prefix", &self.ipv6_prefix),
            at("exempt", &self.exempt),
            at("exempt_loopback", &self.exempt_loopback),
        ];
        fields.into_iter().flatten()
    }
}

fn at<T>(name: &'static str, field: &Field<T>) -> Option<Present> {
    field.given().map(|located| (name, located.at))
}
