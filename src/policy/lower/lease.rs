//! `lease` to terms.

use std::num::NonZeroU64;
use std::ops::RangeInclusive;

use super::Lowering;
use super::span::MIN_SPAN;
use crate::limit::Limit;
use crate::policy::fault::{Position, quoted};
use crate::policy::raw::{Field, Located, RawRateLimit};
use crate::policy::rule::Grant;
use crate::store::LeaseTerms;
use crate::units::{Hits, Span};

const HOW_TO_WRITE_A_SHARE: &str = "write a share of the limit from 0.01% to 50%, such as 1%";

/// Shares that may be written, in millionths.
const SHARES: RangeInclusive<u32> = 100..=500_000;

/// What a lease has at least: the hit of the request that takes it, and one in
/// advance.
const SMALLEST: Hits = Hits::new(2);

/// A lease that is kept for longer takes too much from the other replicas.
const LONGEST_TTL: Span = Span::from_secs(60);

impl Lowering<'_> {
    /// The terms of a rule's leases, if it has any. The rule's own faults come
    /// first, and are told by a missing `grant`.
    pub(super) fn lease(
        &mut self,
        raw: &RawRateLimit,
        grant: Option<&Grant>,
    ) -> Option<LeaseTerms> {
        let lease = raw.lease.given()?;
        let share = match &lease.value.max_share {
            Field::Absent => Some(LeaseTerms::DEFAULT.share_ppm()),
            Field::Given(text) => parse_share(&text.value).or_else(|| {
                let message = format!("invalid max_share {}", quoted(&text.value));
                self.faults.push(self.fault(text.at, message).hint(HOW_TO_WRITE_A_SHARE));
                None
            }),
            Field::Faulty => None,
        };
        let ttl = match &lease.value.ttl {
            Field::Absent => Some(LeaseTerms::DEFAULT.ttl()),
            Field::Given(text) => self.ttl(text),
            Field::Faulty => None,
        };
        if let Some((message, hint)) = grant.and_then(unfit) {
            self.faults.push(self.fault(lease.at, message).hint(hint));
        } else if let (Some(grant), Some(share)) = (grant, share) {
            let at = lease.value.max_share.given().map_or(lease.at, |text| text.at);
            self.check_share(grant, share, at);
        }
        Some(LeaseTerms::new(share?, ttl?))
    }

    fn ttl(&mut self, text: &Located<String>) -> Option<Span> {
        let ttl = self.any_span("ttl", &text.value, text.at)?;
        if (MIN_SPAN..=LONGEST_TTL).contains(&ttl) {
            return Some(ttl);
        }
        let message = format!("invalid ttl {}", quoted(&text.value));
        self.faults.push(self.fault(text.at, message).hint("a lease lasts from 10ms to 60s"));
        None
    }

    /// Reports a share that never comes to a lease.
    fn check_share(&mut self, grant: &Grant, share: u32, at: Position) {
        let Grant::Limited(quotas) = grant else { return };
        let [quota] = &**quotas else { return };
        let limit = quota.limit().ceiling();
        let most = LeaseTerms::new(share, LeaseTerms::DEFAULT.ttl()).most(limit);
        if most >= SMALLEST {
            return;
        }
        let (share, smallest) = (percentage(share), SMALLEST.get());
        let message = format!(
            "a max_share of {share} has no effect: of {} it is less than the {smallest} hits that \
             a lease has at least",
            limit.get()
        );
        let hint = match least_share(limit) {
            Some(least) => {
                format!("write max_share: {} or more, or remove lease", percentage(least))
            }
            None => "remove lease: the limit is too small for one".to_owned(),
        };
        self.faults.push(self.fault(at, message).hint(hint));
    }
}

/// Why a rule cannot lease, and what to do. An unlimited one is told already.
fn unfit(grant: &Grant) -> Option<(&'static str, &'static str)> {
    let Grant::Limited(quotas) = grant else { return None };
    match &**quotas {
        [quota] => match quota.limit() {
            Limit::FixedWindow(_) | Limit::TokenBucket(_) | Limit::Gcra(_) => None,
            Limit::SlidingLog(_) | Limit::SlidingCounter(_) => Some((
                "a sliding window cannot lease: a hit must count at the moment that it passes",
                "remove lease, or use fixed_window, token_bucket or gcra",
            )),
            Limit::Lockout(_) => {
                Some(("a lockout cannot lease: no failure is counted in advance", "remove lease"))
            }
        },
        _ => Some((
            "a rule with several rates cannot lease: they pass together or not at all",
            "remove lease, or keep one rate",
        )),
    }
}

/// A share such as `1%` or `0.5%`, in millionths.
fn parse_share(text: &str) -> Option<u32> {
    let number = text.strip_suffix('%')?;
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 4 {
        return None;
    }
    let scale = 10_u32.pow(4 - u32::try_from(part.len()).ok()?);
    let part = part.parse::<u32>().ok()? * scale;
    let share = whole.parse::<u32>().ok()?.checked_mul(10_000)?.checked_add(part)?;
    SHARES.contains(&share).then_some(share)
}

/// The least share of `limit` that comes to a lease, rounded up to a hundredth of
/// a percent.
fn least_share(limit: Hits) -> Option<u32> {
    let least = NonZeroU64::new(limit.get())
        .map(|limit| (SMALLEST.get() * 1_000_000).div_ceil(limit.get()))?;
    u32::try_from(least.next_multiple_of(100)).ok().filter(|share| SHARES.contains(share))
}

/// So many millionths, as a share is written.
fn percentage(share: u32) -> String {
    let text = format!("{}.{:04}", share / 10_000, share % 10_000);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_percentage() {
        for (text, share) in
            [("1%", 10_000), ("0.5%", 5_000), ("0.01%", 100), ("12.25%", 122_500), ("50%", 500_000)]
        {
            assert_eq!(parse_share(text), Some(share), "{text}");
            assert_eq!(percentage(share), text);
        }
        for text in ["", "%", "1", "0%", "0.001%", "51%", "-1%", "1 %", "1.%", ".5%", "1.00001%"] {
            assert_eq!(parse_share(text), None, "{text}");
        }
    }

    #[test]
    fn the_least_share_that_is_told_is_the_first_that_leases() {
        for (limit, least) in
            [(100, Some(20_000)), (199, Some(10_100)), (150, Some(13_400)), (4, Some(500_000))]
                .into_iter()
                .chain([(3, None), (1, None), (0, None), (1_000_000, Some(100))])
        {
            let limit = Hits::new(limit);
            assert_eq!(least_share(limit), least, "{limit:?}");
            let most = |share| LeaseTerms::new(share, Span::ZERO).most(limit);
            assert!(least.is_none_or(|share| most(share) >= SMALLEST), "{limit:?}");
        }
    }
}
