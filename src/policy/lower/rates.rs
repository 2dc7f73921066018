//! Several limits on one rule, and what they have in common.

use std::collections::{HashMap, HashSet};

use super::Lowering;
use super::algorithm::{AMOUNTS, Algorithm};
use super::limit::Beside;
use crate::policy::fault::{Place, quoted};
use crate::policy::raw::{Field, Located, RawLimit, RawRateLimit};
use crate::policy::rule::Quota;

/// The most rates that one rule may have: each is a counter per key.
const MOST_RATES: usize = 16;

impl Lowering<'_> {
    /// All `rates` of a rule. `None` after a fault.
    pub(super) fn rates(
        &mut self,
        raw: &RawRateLimit,
        rates: &Located<Vec<RawLimit>>,
    ) -> Option<Vec<Quota>> {
        let count = rates.value.len();
        if count == 0 || count > MOST_RATES {
            let message = format!("a rule has from 1 to {MOST_RATES} rates, not {count}");
            let hint = "write one or more, such as rates: [10/s, 100/m]";
            self.faults.push(self.fault(rates.at, message).hint(hint));
            return None;
        }
        let mut common = Common { raw: &raw.limit, used: HashSet::new() };
        let mut algorithms = Vec::with_capacity(count);
        let beside = if count > 1 { Beside::OtherRates } else { Beside::Nothing };
        let mut quotas = Vec::with_capacity(count);
        for rate in &rates.value {
            let said =
                if rate.algorithm.is_absent() { &common.raw.algorithm } else { &rate.algorithm };
            let algorithm = self.algorithm(said);
            algorithms.extend(algorithm);
            let quota = algorithm.and_then(|algorithm| {
                self.quota(&common.completed(rate, algorithm), algorithm, beside)
            });
            quotas.extend(quota.map(|quota| (rate, quota)));
        }
        if algorithms.len() == count {
            self.check_common(raw, &common, &algorithms);
        }
        self.check_distinct(&quotas);
        (quotas.len() == count).then(|| quotas.into_iter().map(|(_, quota)| quota).collect())
    }

    /// Reports what stands beside `rates` without effect.
    fn check_common(&mut self, raw: &RawRateLimit, common: &Common<'_>, rates: &[Algorithm]) {
        for (name, at) in common.raw.present() {
            if AMOUNTS.contains(&name) || matches!(name, "refill" | "max_attempts") {
                let message = format!("should not specify {name} together with rates");
                let hint = format!("each rate says its own: move {name} into one of them");
                self.faults.push(self.fault(at, message).hint(hint));
            } else if !common.used.contains(name) {
                let message = format!("{name} applies to none of the rates");
                let hint = format!("remove {name}, or write it into the rate that it is meant for");
                self.faults.push(self.fault(at, message).hint(hint));
            }
        }
        self.check_addresses(&raw.addresses, rates);
    }

    /// Reports rates whose counters would have one key.
    fn check_distinct(&mut self, quotas: &[(&RawLimit, Quota)]) {
        let mut seen: HashMap<&str, &RawLimit> = HashMap::new();
        for (raw, quota) in quotas {
            let tag = quota.tag().as_str();
            let Some(first) = seen.get(tag) else {
                seen.insert(tag, raw);
                continue;
            };
            let first = Place { file: self.source.clone(), at: first.at };
            let message = format!("two rates count on one counter ({})", quoted(tag));
            let hint = format!(
                "the other stands at {first}; keep the stricter one, or give them different windows \
                 or algorithms"
            );
            self.faults.push(self.fault(raw.at, message).hint(hint));
        }
    }
}

/// What stands beside `rates`.
struct Common<'r> {
    raw: &'r RawLimit,
    /// Fields that belong to one of the rates at least.
    used: HashSet<&'static str>,
}

impl Common<'_> {
    /// `rate` with all that it leaves out and that belongs to it.
    fn completed(&mut self, rate: &RawLimit, algorithm: Algorithm) -> RawLimit {
        let (raw, mut whole) = (self.raw, rate.clone());
        if rate.algorithm.is_absent() {
            self.fill(algorithm, "algorithm", &mut whole.algorithm, &raw.algorithm);
        }
        self.fill(algorithm, "align", &mut whole.align, &raw.align);
        if whole.align.text() == "calendar" {
            self.fill(algorithm, "time_zone", &mut whole.time_zone, &raw.time_zone);
        }
        self.fill(algorithm, "count_refused", &mut whole.count_refused, &raw.count_refused);
        self.fill(algorithm, "block_duration", &mut whole.block_duration, &raw.block_duration);
        self.fill(algorithm, "max_window_size", &mut whole.max_window_size, &raw.max_window_size);
        if rate.burst.is_absent() {
            self.fill(algorithm, "capacity", &mut whole.capacity, &raw.capacity);
        }
        if rate.capacity.is_absent() {
            self.fill(algorithm, "burst", &mut whole.burst, &raw.burst);
        }
        self.fill(algorithm, "lockout", &mut whole.lockout, &raw.lockout);
        whole
    }

    fn fill<T: Clone>(
        &mut self,
        algorithm: Algorithm,
        name: &'static str,
        own: &mut Field<T>,
        common: &Field<T>,
    ) {
        if !algorithm.has(name) {
            return;
        }
        self.used.insert(name);
        if own.is_absent() {
            own.clone_from(common);
        }
    }
}
