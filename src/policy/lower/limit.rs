//! `rate_limit` to limits.
//!
//! Each algorithm has a function here that reads its own fields.

use super::Lowering;
use super::algorithm::Algorithm;
use super::amount::Amount;
use crate::limit::sliding_log::DEFAULT_MAX_WINDOW_SIZE;
use crate::limit::{
    FixedWindow, Gcra, Limit, Lockout, ParameterError, Rate, SlidingCounter, SlidingLog,
    TokenBucket, Unit,
};
use crate::policy::fault::Position;
use crate::policy::raw::{Field, RawLimit, RawRateLimit};
use crate::policy::rule::{Grant, Quota};
use crate::units::{Hits, Span};

const DEFAULT_MAX_ATTEMPTS: u32 = 10;
const DEFAULT_ATTEMPT_WINDOW: Span = Span::from_secs(60);
const DEFAULT_LOCKOUT: Span = Span::from_secs(300);

/// What a limit shares its rule with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Nothing that matters to it.
    Nothing,
    /// Further rates.
    OtherRates,
    /// Hot keys take hits in advance.
    Lease,
}

impl Lowering<'_> {
    /// What a `rate_limit` grants. `None` after a fault.
    pub(super) fn grant(&mut self, raw: &RawRateLimit) -> Option<Grant> {
        if raw.unlimited.is_faulty() {
            return None;
        }
        if raw.unlimited.is_set() {
            self.check_unlimited(raw);
            return Some(Grant::Unlimited);
        }
        self.quotas(raw).map(|quotas| Grant::Limited(quotas.into()))
    }

    /// The limits that must all pass. `None` after a fault.
    pub(super) fn quotas(&mut self, raw: &RawRateLimit) -> Option<Vec<Quota>> {
        match &raw.rates {
            Field::Absent => {
                let algorithm = self.algorithm(&raw.limit.algorithm)?;
                self.check_addresses(&raw.addresses, &[algorithm]);
                let leases = raw.lease.given().is_some();
                let beside = if leases { Beside::Lease } else { Beside::Nothing };
                Some(vec![self.quota(&raw.limit, algorithm, beside)?])
            }
            Field::Given(rates) => self.rates(raw, rates),
            Field::Faulty => None,
        }
    }

    /// Like the reference, accepts `requests_per_unit` and a meaningless unit.
    fn check_unlimited(&mut self, raw: &RawRateLimit) {
        let rates = raw.rates.given().map(|rates| ("rates", rates.at));
        let lease = raw.lease.given().map(|lease| ("lease", lease.at));
        let others = raw.limit.present().chain(raw.addresses.present()).chain(rates).chain(lease);
        for (name, at) in others {
            let what = match name {
                "requests_per_unit" => continue,
                "unit" if Unit::parse(raw.limit.unit.text()).is_none() => continue,
                "unit" => "rate limit unit",
                name => name,
            };
            let message = format!("should not specify {what} when unlimited");
            let hint = format!("remove {name}, or unlimited");
            self.faults.push(self.fault(at, message).hint(hint));
        }
    }

    /// One limit, with what stands beside it on the same rule.
    pub(super) fn quota(
        &mut self,
        raw: &RawLimit,
        algorithm: Algorithm,
        beside: Beside,
    ) -> Option<Quota> {
        if !self.check_fields(raw, algorithm) {
            return None;
        }
        match algorithm {
            Algorithm::FixedWindow => self.fixed_window(raw, beside),
            Algorithm::SlidingWindowLog => self.sliding_log(raw),
            Algorithm::SlidingWindowCounter => self.sliding_counter(raw),
            Algorithm::TokenBucket => self.token_bucket(raw),
            Algorithm::Gcra => self.gcra(raw),
            Algorithm::Lockout => self.lockout(raw),
        }
    }

    fn fixed_window(&mut self, raw: &RawLimit, beside: Beside) -> Option<Quota> {
        let amount = self.amount(raw, Algorithm::FixedWindow);
        let align = self.align(raw, amount.map(|amount| amount.window));
        let count_refused = self.count_refused(raw, beside);
        let amount = amount?;
        let limit = FixedWindow::new(amount.hits(), amount.window.span());
        let limit = self.checked(limit, amount.at)?;
        let limit = limit.with_align(align?).with_count_refused(count_refused?);
        Some(amount.quota(Limit::FixedWindow(limit)))
    }

    fn sliding_log(&mut self, raw: &RawLimit) -> Option<Quota> {
        let amount = self.amount(raw, Algorithm::SlidingWindowLog);
        let block = self.span_or("block_duration", &raw.block_duration, Span::ZERO);
        let most = or(&raw.max_window_size, DEFAULT_MAX_WINDOW_SIZE);
        let amount = amount?;
        // A faulty block must not hide what is wrong with the rest.
        let (hits, window) = (amount.hits(), amount.window.span());
        let limit = SlidingLog::new(hits, window, block.unwrap_or(Span::ZERO), most?);
        let limit = self.checked(limit, amount.at);
        block.and(Some(amount.quota(Limit::SlidingLog(limit?))))
    }

    fn sliding_counter(&mut self, raw: &RawLimit) -> Option<Quota> {
        let amount = self.amount(raw, Algorithm::SlidingWindowCounter)?;
        let limit = SlidingCounter::new(amount.hits(), amount.window.span());
        Some(amount.quota(Limit::SlidingCounter(self.checked(limit, amount.at)?)))
    }

    fn token_bucket(&mut self, raw: &RawLimit) -> Option<Quota> {
        let amount = self.amount(raw, Algorithm::TokenBucket);
        let capacity = self.either(["capacity", "burst"], [&raw.capacity, &raw.burst]);
        let amount = amount?;
        let rate = self.steady(amount, or(&capacity, amount.requests_per_unit))?;
        Some(amount.quota(Limit::TokenBucket(TokenBucket::new(rate))))
    }

    fn gcra(&mut self, raw: &RawLimit) -> Option<Quota> {
        let amount = self.amount(raw, Algorithm::Gcra)?;
        let rate = self.steady(amount, or(&raw.burst, amount.requests_per_unit))?;
        Some(amount.quota(Limit::Gcra(Gcra::new(rate))))
    }

    /// The amount as a steady rate with room for so many hits at once.
    fn steady(&mut self, amount: Amount, capacity: Option<u32>) -> Option<Rate> {
        // A faulty capacity must not hide what is wrong with the rest.
        let hits = Hits::from(capacity.unwrap_or(1));
        let rate = Rate::new(hits, amount.hits(), amount.window.span());
        capacity.and(self.checked(rate, amount.at))
    }

    /// Answers report the attempts as requests per unit.
    fn lockout(&mut self, raw: &RawLimit) -> Option<Quota> {
        let window = self.span_or("window", &raw.window, DEFAULT_ATTEMPT_WINDOW);
        let duration = self.span_or("lockout", &raw.lockout, DEFAULT_LOCKOUT);
        let max_attempts = or(&raw.max_attempts, DEFAULT_MAX_ATTEMPTS);
        let at = raw.max_attempts.given().map_or(raw.at, |attempts| attempts.at);
        // A faulty span must not hide what is wrong with the attempts.
        let limit = Lockout::new(
            Hits::from(max_attempts?),
            window.unwrap_or(DEFAULT_ATTEMPT_WINDOW),
            duration.unwrap_or(DEFAULT_LOCKOUT),
        );
        let limit = Limit::Lockout(self.checked(limit, at)?);
        duration.and(Some(Quota::new(limit, max_attempts?, Unit::reporting(window?))))
    }

    fn span_or(&mut self, name: &str, field: &Field<String>, default: Span) -> Option<Span> {
        match field {
            Field::Absent => Some(default),
            Field::Given(located) => self.span(name, &located.value, located.at),
            Field::Faulty => None,
        }
    }

    /// The limit, unless its parameters make none.
    fn checked<T>(&mut self, limit: Result<T, ParameterError>, at: Position) -> Option<T> {
        limit
            .map_err(|error| {
                let text = error.to_string();
                // What is wrong; what to do.
                let fault = match text.split_once("; ") {
                    Some((message, hint)) => self.fault(at, message).hint(hint),
                    None => self.fault(at, text),
                };
                self.faults.push(fault);
            })
            .ok()
    }
}

/// What the field says, or the default. `None` if it could not be read.
fn or<T: Copy>(field: &Field<T>, default: T) -> Option<T> {
    match field {
        Field::Absent => Some(default),
        Field::Given(located) => Some(located.value),
        Field::Faulty => None,
    }
}
