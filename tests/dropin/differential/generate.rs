//! Rules and requests at random, of the kinds in which the reference is clear:
//! names without `_` and without the same entries under two limits, since it
//! mixes those up.

use std::fmt::Write as _;

use fastrand::Rng;
use tidegate::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
use tidegate::proto::{RateLimitDescriptor, RateLimitRequest};

const KEYS: [&str; 4] = ["a", "b", "user", "Pfad"];
const VALUES: [&str; 10] = ["", "x", "xy", "xyz", "x*", "x*z", "*z", "*", "404", "yes"];
const ASKED: [&str; 9] = ["", "x", "xy", "xyz", "xaz", "z", "404", "yes", "q"];
const UNITS: [(&str, u64); 8] = [
    ("second", 1),
    ("minute", 60),
    ("HOUR", 3600),
    ("hour", 3600),
    ("Day", 86_400),
    ("week", 604_800),
    ("month", 2_592_000),
    ("year", 31_536_000),
];
const SETTINGS: [&str; 5] = [
    "SHADOW_MODE",
    "QUOTA_MODE",
    "RESPONSE_DYNAMIC_METADATA",
    "LIMIT_RESPONSE_HEADERS_ENABLED",
    "MERGE_DOMAIN_CONFIG",
];

/// Rules, settings, and where requests come from.
pub(super) struct Round {
    rng: Rng,
    pub(super) rules: String,
    second_file: Option<String>,
    pub(super) settings: Vec<(&'static str, &'static str)>,
    shortest: u64,
    names_metrics: bool,
}

impl Round {
    pub(super) fn new(rng: Rng) -> Self {
        let mut round = Self {
            rng,
            rules: String::new(),
            second_file: None,
            settings: Vec::new(),
            shortest: u64::MAX,
            names_metrics: false,
        };
        round.names_metrics = round.one_in(2);
        for name in SETTINGS {
            if round.one_in(4) {
                round.settings.push((name, "true"));
            }
        }
        round.rules = round.file("d");
        if round.one_in(4) {
            // There, the order of files is left to chance, and wildcards go by it.
            let text = if round.one_in(2) {
                round.file("d").replace("key: ", "key: second-")
            } else {
                round.file("e")
            };
            round.second_file = Some(text);
        }
        round
    }

    pub(super) fn files(&self) -> Vec<(&str, &str)> {
        let second = self.second_file.iter().map(|text| ("second.yaml", text.as_str()));
        std::iter::once(("first.yaml", self.rules.as_str())).chain(second).collect()
    }

    /// Whether the shortest window that there is has ended in between.
    pub(super) fn windows_ended(&self, from: u64, to: u64) -> bool {
        from / self.shortest != to / self.shortest
    }

    fn one_in(&mut self, count: u32) -> bool {
        self.rng.u32(..count) == 0
    }

    fn file(&mut self, domain: &str) -> String {
        let mut text = format!("domain: {domain}\n");
        if self.one_in(20) {
            text.push_str("unit: second\n");
        }
        self.level(&mut text, 0);
        if self.one_in(20) {
            text.push_str("---\ndomain: other\n");
        }
        text
    }

    fn level(&mut self, text: &mut String, depth: usize) {
        let indent = "  ".repeat(depth * 2);
        let _ = writeln!(text, "{indent}descriptors:");
        let mut seen: Vec<(&str, &str)> = Vec::new();
        for _ in 0..self.rng.usize(1..6) {
            let key = self.rng.choice(KEYS).expect("one");
            let value = self.rng.choice(VALUES).expect("one");
            let again = seen.contains(&(key, value));
            // A duplicate is refused by both, now and then.
            if again && !self.one_in(50) {
                continue;
            }
            seen.push((key, value));
            let _ = writeln!(text, "{indent}  - key: {key}");
            let quoted = match value {
                "404" | "yes" => value.to_owned(),
                _ => format!("'{value}'"),
            };
            if !value.is_empty() {
                let _ = writeln!(text, "{indent}    value: {quoted}");
            }
            if !self.one_in(5) {
                self.limit(text, &format!("{indent}    "));
            }
            self.flags(text, &format!("{indent}    "), value.contains('*'));
            if depth < 2 && self.one_in(3) {
                self.level(text, depth + 1);
            }
        }
        if seen.is_empty() {
            let _ = writeln!(text, "{indent}  - key: last");
        }
    }

    fn limit(&mut self, text: &mut String, indent: &str) {
        let _ = writeln!(text, "{indent}rate_limit:");
        if self.one_in(3) {
            let name = self.rng.choice(["n1", "n2"]).expect("one");
            let _ = writeln!(text, "{indent}  name: {name}");
        } else if self.one_in(4) {
            let name = self.rng.choice(["n1", "n2", "n3"]).expect("one");
            let _ = writeln!(text, "{indent}  replaces: [{{name: {name}}}]");
        }
        if self.one_in(10) {
            let _ = writeln!(text, "{indent}  unlimited: true");
            if self.one_in(3) {
                let _ = writeln!(text, "{indent}  requests_per_unit: 7");
            }
            if self.one_in(6) {
                let _ = writeln!(
                    text,
                    "{indent}  unit: {}",
                    if self.one_in(2) { "foo" } else { "day" }
                );
            }
            return;
        }
        // Seconds make most comparisons moot.
        let from = usize::from(!self.one_in(20));
        let (unit, seconds) = UNITS[self.rng.usize(from..UNITS.len())];
        let unit = if self.one_in(100) { "fortnight" } else { unit };
        self.shortest = self.shortest.min(seconds);
        let _ = writeln!(text, "{indent}  unit: {unit}");
        let amount = match self.rng.u32(..40) {
            0 => return,
            1 => "010".to_owned(),
            // With one more, the reference has no headers.
            2 => "4294967294".to_owned(),
            3 => format!("3\n{indent}  shadow_mode: true"),
            _ => self.rng.u32(..12).to_string(),
        };
        let _ = writeln!(text, "{indent}  requests_per_unit: {amount}");
    }

    fn flags(&mut self, text: &mut String, indent: &str, wild: bool) {
        let flags = ["shadow_mode", "quota_mode", "detailed_metric", "value_to_metric"];
        let of_metrics = if self.names_metrics { 4 } else { 2 };
        for flag in &flags[..of_metrics] {
            if self.one_in(6) {
                let _ = writeln!(text, "{indent}{flag}: true");
            }
        }
        if if wild { self.one_in(3) } else { self.one_in(100) } {
            let _ = writeln!(text, "{indent}share_threshold: true");
        }
        // There, names of metrics make metadata get lost.
        if !self.names_metrics && self.one_in(6) {
            let number = self.rng.u32(..3);
            let _ = writeln!(
                text,
                "{indent}metadata: {{m: {{n{number}: {number}}}, s: text, l: [1, a]}}"
            );
        }
    }

    pub(super) fn request(&mut self) -> RateLimitRequest {
        let domain = match self.rng.u32(..40) {
            0 => "",
            1 => "unknown",
            2..6 => "e",
            _ => "d",
        };
        let descriptors = match self.rng.u32(..30) {
            0 => 0,
            1..15 => 1,
            _ => self.rng.usize(1..5),
        };
        RateLimitRequest {
            domain: domain.into(),
            descriptors: (0..descriptors).map(|_| self.descriptor()).collect(),
            hits_addend: if self.one_in(3) { self.rng.u32(..5) } else { 0 },
        }
    }

    fn descriptor(&mut self) -> RateLimitDescriptor {
        let depth = if self.one_in(30) { 0 } else { self.rng.usize(1..4) };
        let mut entries: Vec<Entry> = (0..depth)
            .map(|_| Entry {
                key: self.rng.choice(KEYS).expect("one").into(),
                value: self.rng.choice(ASKED).expect("one").into(),
            })
            .collect();
        let mut limit = None;
        if self.one_in(15) {
            let (requests, unit) = (self.rng.u32(..6), self.rng.i32(2..8));
            // Entries of its own: there, a rule for the same entries counts with it.
            let value = format!("{requests}o{unit}");
            entries.push(Entry { key: "override".into(), value });
            limit = Some(RateLimitOverride { requests_per_unit: requests, unit });
            self.shortest = self.shortest.min(60);
        }
        let hits_addend = self.one_in(5).then(|| self.rng.u64(..5));
        RateLimitDescriptor { entries, limit, hits_addend, ..Default::default() }
    }
}
