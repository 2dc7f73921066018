//! Names of rule metrics, and the series that requests name.
//!
//! Rules with `detailed_metric` or `value_to_metric` take values of the request
//! into their names. Whoever sends requests could so make series without end;
//! therefore there are at most so many of them, with names of bounded length.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ahash::RandomState;
use parking_lot::RwLock;
use smallvec::SmallVec;

use super::metrics::RuleStats;

/// The `key1` of what has no room for a series of its own.
pub const OVERFLOW: &str = "_overflow";
/// The `key1` of limits that come with requests.
pub const OVERRIDE: &str = "_override";

/// Longest name that a request can give a series, in bytes, with its domain. A
/// line of statsd with it still fits into a packet.
const MAX_NAME: usize = 512;
/// Threads that count in different series rarely meet.
const SHARDS: usize = 16;
/// Between domain, first step and further steps. No part of a name contains it,
/// since control characters are replaced.
const SEPARATOR: u8 = 0;

/// How texts become parts of metric names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sanitizer {
    /// Dots are replaced as well, which otherwise split names of statsd.
    pub dots: bool,
}

impl Sanitizer {
    /// Replaces what has a meaning in lines of statsd by `_`, as the reference
    /// does: colons, bars and the dots of IPv4 addresses; and control
    /// characters, with which a client could write lines of its own.
    fn clean(self, bytes: &mut [u8]) {
        for byte in &mut *bytes {
            let unfit = matches!(byte, b':' | b'|' | 0..=0x1f | 0x7f);
            if unfit || (self.dots && *byte == b'.') {
                *byte = b'_';
            }
        }
        if !self.dots {
            clean_addresses(bytes);
        }
    }

    /// A configured part of a name.
    pub fn part(self, text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        self.clean(&mut bytes);
        // Only ASCII was replaced, by ASCII.
        String::from_utf8(bytes).unwrap_or_default()
    }
}

/// Replaces the dots in whatever looks like an IPv4 address.
fn clean_addresses(bytes: &mut [u8]) {
    let mut at = 0;
    while at < bytes.len() {
        let Some(dots) = address_at(bytes, at) else {
            at += 1;
            continue;
        };
        for dot in dots {
            if let Some(byte) = bytes.get_mut(dot) {
                *byte = b'_';
            }
            at = dot + 1;
        }
        // Past the last number, which begins no other address.
        at += digits(bytes, at);
    }
}

/// Where the dots are of an address that begins at `at`.
fn address_at(bytes: &[u8], mut at: usize) -> Option<[usize; 3]> {
    let mut dots = [0; 3];
    for dot in &mut dots {
        let number = digits(bytes, at);
        if number == 0 || bytes.get(at + number) != Some(&b'.') {
            return None;
        }
        *dot = at + number;
        at = *dot + 1;
    }
    (digits(bytes, at) > 0).then_some(dots)
}

/// How many digits there are from `at` on, at most three.
fn digits(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    rest.iter().take(3).take_while(|byte| byte.is_ascii_digit()).count()
}

/// The name of a series under construction, on the stack.
#[derive(Debug)]
pub struct NameBuf {
    bytes: SmallVec<[u8; 256]>,
    /// Where the part begins that is not yet cleaned.
    part: usize,
    parts: usize,
}

impl NameBuf {
    /// The name of a series in `domain`.
    pub fn new(domain: &str) -> Self {
        let mut name = Self { bytes: SmallVec::new(), part: 0, parts: 0 };
        name.push(domain);
        name.part = name.bytes.len();
        name
    }

    /// Begins the next step of the name.
    pub fn step(&mut self, sanitizer: Sanitizer) {
        self.finish(sanitizer);
        self.bytes.push(if self.parts < 2 { SEPARATOR } else { b'.' });
        self.parts += 1;
        self.part = self.bytes.len();
    }

    /// Adds to the step. What makes the name too long is only noticed.
    pub fn push(&mut self, text: &str) {
        let room = (MAX_NAME + 1).saturating_sub(self.bytes.len());
        let bytes = text.as_bytes();
        self.bytes.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    /// Ends the last step.
    fn finish(&mut self, sanitizer: Sanitizer) {
        if self.parts > 0
            && let Some(part) = self.bytes.get_mut(self.part..)
        {
            sanitizer.clean(part);
        }
    }

    /// The text, unless it is too long.
    fn text(&self) -> Option<&str> {
        (self.bytes.len() <= MAX_NAME).then(|| str::from_utf8(&self.bytes).ok()).flatten()
    }
}

/// The counters that a decision counts in.
#[derive(Debug)]
pub enum Counters<'s> {
    /// Those that a rule always has.
    Fixed(&'s RuleStats),
    /// Those that the request named.
    Named(Arc<RuleStats>),
}

impl Deref for Counters<'_> {
    type Target = RuleStats;

    fn deref(&self) -> &RuleStats {
        match self {
            Self::Fixed(stats) => stats,
            Self::Named(stats) => stats,
        }
    }
}

type Shard = HashMap<Box<str>, Arc<RuleStats>, RandomState>;

/// All series that requests named. They are never forgotten: a counter that
/// begins anew would be taken for one that was reset.
#[derive(Debug)]
pub(super) struct NamedSeries {
    hasher: RandomState,
    shards: Box<[RwLock<Shard>]>,
    sanitizer: Sanitizer,
    most: usize,
    count: AtomicUsize,
    full_was_told: AtomicBool,
}

impl NamedSeries {
    /// At most `most` series.
    pub(super) fn new(most: NonZeroUsize, sanitizer: Sanitizer) -> Self {
        let hasher = RandomState::new();
        let shard = || RwLock::new(Shard::with_hasher(hasher.clone()));
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            hasher,
            sanitizer,
            most: most.get(),
            count: AtomicUsize::new(0),
            full_was_told: AtomicBool::new(false),
        }
    }

    /// How texts become parts of names.
    pub(super) fn sanitizer(&self) -> Sanitizer {
        self.sanitizer
    }

    /// How many series there are.
    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The counters of this name, new ones by `make` (of domain, first step and
    /// the others) if there are none yet; `None` where there is no room.
    pub(super) fn get(
        &self,
        mut name: NameBuf,
        make: impl FnOnce(&str, &str, &str) -> RuleStats,
    ) -> Option<Arc<RuleStats>> {
        name.finish(self.sanitizer);
        let text = name.text()?;
        let shard = self.hasher.hash_one(text) >> 32;
        let shard = self.shards.get(usize::try_from(shard).ok()? % SHARDS)?;
        if let Some(known) = shard.read().get(text) {
            return Some(Arc::clone(known));
        }
        let mut shard = shard.write();
        if let Some(known) = shard.get(text) {
            return Some(Arc::clone(known));
        }
        self.take_room()?;
        let (domain, steps) = text.split_once(char::from(SEPARATOR))?;
        let (first, others) = steps.split_once(char::from(SEPARATOR)).unwrap_or((steps, ""));
        let stats = Arc::new(make(domain, first, others));
        shard.insert(text.into(), Arc::clone(&stats));
        Some(stats)
    }

    fn take_room(&self) -> Option<()> {
        let more = |count: usize| (count < self.most).then_some(count + 1);
        let taken = self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        if taken.is_err() && !self.full_was_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                series = self.most,
                "as many metric series as allowed are named by requests; further ones are counted \
                 in key1=\"{OVERFLOW}\" of their domain. Use detailed_metric and value_to_metric \
                 only for values of which there are few, or raise --max-metric-series"
            );
        }
        taken.ok().map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::Metrics;

    const PLAIN: Sanitizer = Sanitizer { dots: false };

    #[test]
    fn what_means_something_to_statsd_is_replaced() {
        for (text, clean) in [
            ("path_/a:*:b", "path_/a_*_b"),
            ("a|b\nc:1|c\x7f", "a_b_c_1_c_"),
            ("host_a.b.c", "host_a.b.c"),
            ("ip_10.0.0.1", "ip_10_0_0_1"),
            ("1.2.3.4.5", "1_2_3_4.5"),
            ("1234.2.3.4567", "1234_2_3_4567"),
            ("1.2.3.4-5.6.7.8", "1_2_3_4-5_6_7_8"),
            ("1.2.3.", "1.2.3."),
            ("v1.2.3", "v1.2.3"),
            ("é:ü", "é_ü"),
        ] {
            assert_eq!(PLAIN.part(text), clean, "{text}");
        }
        assert_eq!(Sanitizer { dots: true }.part("host_a.b"), "host_a_b");
    }

    fn series(most: usize) -> NamedSeries {
        NamedSeries::new(NonZeroUsize::new(most).unwrap(), PLAIN)
    }

    fn name(domain: &str, steps: &[&str]) -> NameBuf {
        let mut name = NameBuf::new(domain);
        for step in steps {
            name.step(PLAIN);
            name.push(step);
        }
        name
    }

    #[test]
    fn a_name_is_the_domain_the_first_step_and_the_others() {
        let metrics = Metrics::new();
        let seen = std::cell::RefCell::new(Vec::new());
        let make = |domain: &str, first: &str, others: &str| {
            seen.borrow_mut().push(format!("{domain} {first} {others}"));
            metrics.rule(domain, &[first, others])
        };
        let series = series(9);
        for steps in [&["a:1"][..], &["a", "b"], &["a", "b", "c.d"], &["a", "b.c", "d"]] {
            for _ in 0..2 {
                assert!(series.get(name("x:y", steps), make).is_some());
            }
        }
        assert_eq!(*seen.borrow(), ["x:y a_1 ", "x:y a b", "x:y a b.c.d"]);
        assert_eq!(series.len(), 3);
    }

    #[test]
    fn there_are_at_most_so_many_and_none_with_a_long_name() {
        let metrics = Metrics::new();
        let make = |domain: &str, first: &str, others: &str| metrics.rule(domain, &[first, others]);
        let series = series(2);
        assert!(series.get(name("d", &[&"é".repeat(255)]), make).is_some());
        for long in ["é".repeat(256), "x".repeat(1 << 20)] {
            assert!(series.get(name("d", &[&long]), make).is_none());
        }
        assert!(series.get(name("d", &["a"]), make).is_some());
        assert!(series.get(name("d", &["b"]), make).is_none());
        assert!(series.get(name("d", &["a"]), make).is_some(), "known ones stay");
        assert_eq!(series.len(), 2);
    }
}
