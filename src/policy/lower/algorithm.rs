//! The algorithms by name, and which fields each has.

use super::Lowering;
use crate::policy::fault::quoted;
use crate::policy::nearest::nearest;
use crate::policy::raw::{Field, RawAddresses, RawLimit};

/// The algorithms that rules can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    FixedWindow,
    SlidingWindowLog,
    SlidingWindowCounter,
    TokenBucket,
    Gcra,
    Lockout,
}

/// The fields that say how much and in which time. Each rate says its own.
pub const AMOUNTS: &[&str] =
    &["requests_per_unit", "limit", "unit", "unit_multiplier", "window", "rate"];

impl Algorithm {
    pub const ALL: [Self; 6] = [
        Self::FixedWindow,
        Self::SlidingWindowLog,
        Self::SlidingWindowCounter,
        Self::TokenBucket,
        Self::Gcra,
        Self::Lockout,
    ];

    /// The name in rule files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FixedWindow => "fixed_window",
            Self::SlidingWindowLog => "sliding_window_log",
            Self::SlidingWindowCounter => "sliding_window_counter",
            Self::TokenBucket => "token_bucket",
            Self::Gcra => "gcra",
            Self::Lockout => "lockout",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// The fields that it has, those of [`AMOUNTS`] first.
    pub fn fields(self) -> impl Iterator<Item = &'static str> {
        let (amounts, own): (_, &[&str]) = match self {
            Self::FixedWindow => (AMOUNTS, &["align", "time_zone", "count_refused"]),
            Self::SlidingWindowLog => (AMOUNTS, &["block_duration", "max_window_size"]),
            Self::SlidingWindowCounter => (AMOUNTS, &[]),
            Self::TokenBucket => (AMOUNTS, &["refill", "capacity", "burst"]),
            Self::Gcra => (AMOUNTS, &["burst"]),
            Self::Lockout => (
                &["max_attempts", "window", "lockout"][..],
                &["exempt", "exempt_loopback", "ipv6_prefix"],
            ),
        };
        amounts.iter().chain(own).copied()
    }

    /// Whether it has a field of this name.
    pub fn has(self, field: &str) -> bool {
        field == "algorithm" || self.fields().any(|known| known == field)
    }

    fn names<'a>(algorithms: impl IntoIterator<Item = &'a Self>) -> String {
        let names: Vec<_> = algorithms.into_iter().map(|algorithm| algorithm.name()).collect();
        names.join(", ")
    }
}

impl Lowering<'_> {
    /// The algorithm that is named; fixed windows where none is. `None` after a
    /// fault.
    pub(super) fn algorithm(&mut self, said: &Field<String>) -> Option<Algorithm> {
        let located = match said {
            Field::Absent => return Some(Algorithm::FixedWindow),
            Field::Given(located) => located,
            Field::Faulty => return None,
        };
        let algorithm = Algorithm::parse(&located.value);
        if algorithm.is_none() {
            let message = format!("invalid algorithm {}", quoted(&located.value));
            let names = Algorithm::ALL.map(Algorithm::name);
            let hint = match nearest(&located.value, names) {
                Some(meant) => format!("did you mean '{meant}'?"),
                None => format!("the algorithms are {}", Algorithm::names(&Algorithm::ALL)),
            };
            self.faults.push(self.fault(located.at, message).hint(hint));
        }
        algorithm
    }

    /// Reports fields that the algorithm does not have. False if another one was
    /// meant: none is named, and it is not the default.
    pub(super) fn check_fields(&mut self, raw: &RawLimit, algorithm: Algorithm) -> bool {
        let mut all_belong = true;
        for (name, at) in raw.present().filter(|(name, _)| !algorithm.has(name)) {
            all_belong = false;
            let message = format!("{name} does not belong to {}", algorithm.name());
            let fields = algorithm.fields().collect::<Vec<_>>().join(", ");
            let homes: Vec<_> = Algorithm::ALL.iter().filter(|other| other.has(name)).collect();
            let first = homes.first().map(|home| home.name()).unwrap_or_default();
            let homes = Algorithm::names(homes);
            let hint = if raw.algorithm.is_absent() {
                format!(
                    "it belongs to {homes}: add algorithm: {first}, or remove {name}; \
                     without an algorithm this is a fixed_window, whose fields are {fields}"
                )
            } else {
                format!("its fields are {fields}; {name} belongs to {homes}")
            };
            self.faults.push(self.fault(at, message).hint(hint));
        }
        all_belong || !raw.algorithm.is_absent()
    }

    /// Reports fields about addresses where no limit is a lockout.
    pub(super) fn check_addresses(&mut self, raw: &RawAddresses, algorithms: &[Algorithm]) {
        for (name, at) in raw.present() {
            if !algorithms.iter().any(|algorithm| algorithm.has(name)) {
                let used = Algorithm::ALL.iter().filter(|known| algorithms.contains(known));
                let message = format!("{name} does not belong to {}", Algorithm::names(used));
                let hint = format!(
                    "only lockout has it; for others write it beside rate_limit, \
                     as address: {{{name}: …}}"
                );
                self.faults.push(self.fault(at, message).hint(hint));
            }
        }
    }
}
