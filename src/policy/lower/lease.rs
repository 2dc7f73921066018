//! `lease` to terms.

use super::Lowering;
use crate::limit::Limit;
use crate::policy::fault::quoted;
use crate::policy::raw::{Field, RawRateLimit};
use crate::policy::rule::Grant;
use crate::store::LeaseTerms;
use crate::units::Span;

const HOW_TO_WRITE_A_SHARE: &str = "write a share of the limit from 0.01% to 50%, such as 1%";

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
            Field::Given(text) => {
                let ttl = self.span("ttl", &text.value, text.at);
                if ttl.is_some_and(|ttl| ttl > LONGEST_TTL) {
                    let message = format!("invalid ttl {}", quoted(&text.value));
                    let hint = "a lease lasts from 10ms to 60s";
                    self.faults.push(self.fault(text.at, message).hint(hint));
                }
                ttl
            }
            Field::Faulty => None,
        };
        if let Some((message, hint)) = grant.and_then(unfit) {
            self.faults.push(self.fault(lease.at, message).hint(hint));
        }
        Some(LeaseTerms::new(share?, ttl?))
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
    (100..=500_000).contains(&share).then_some(share)
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
        }
        for text in ["", "%", "1", "0%", "0.001%", "51%", "-1%", "1 %", "1.%", ".5%", "1.00001%"] {
            assert_eq!(parse_share(text), None, "{text}");
        }
    }
}
