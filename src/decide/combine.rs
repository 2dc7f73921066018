//! From verdicts to one answer.

use smallvec::SmallVec;

use super::matching::{Limited, Match, Matches};
use super::settings::Settings;
use crate::limit::{Unit, Verdict};
use crate::policy::Rule;
use crate::store::Plan;
use crate::units::{Hits, Span};

/// Whether something may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// It may.
    Ok,
    /// It may not.
    OverLimit,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Decision<'s> {
    /// Whether the request may pass.
    pub overall: Code,
    /// One status per descriptor, in request order.
    pub statuses: Statuses<'s>,
    /// What the response headers tell; none if no limit applied.
    pub headers: Option<HeaderValues>,
    /// Dynamic metadata, where switched on.
    pub metadata: Option<prost_types::Struct>,
}

/// One status per descriptor.
pub type Statuses<'s> = SmallVec<[Status<'s>; 4]>;

/// What became of one descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status<'s> {
    /// Whether it may pass.
    pub code: Code,
    /// The limit that applied.
    pub limit: Option<Applied<'s>>,
    /// What is left of it.
    pub remaining: Hits,
}

/// A limit as answers report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied<'s> {
    /// The rule's name, or empty.
    pub name: &'s str,
    /// As many requests …
    pub requests_per_unit: u32,
    /// … in each such unit.
    pub unit: Unit,
    /// How long until a refused cost can pass, or until the limit is as good as
    /// untouched.
    pub reset: Span,
}

/// The numbers of the response headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderValues {
    /// `requests_per_unit` of the limit nearest to its end.
    pub limit: u32,
    /// What is left of it.
    pub remaining: Hits,
    /// How long until it resets.
    pub reset: Span,
}

impl Status<'_> {
    /// No rule applies.
    pub const NONE: Self = Self { code: Code::Ok, limit: None, remaining: Hits::ZERO };
    /// A rule without a limit applies.
    const UNLIMITED: Self =
        Self { code: Code::Ok, limit: None, remaining: Hits::new(u32::MAX as u64) };
}

impl<'s> Applied<'s> {
    fn new(rule: Option<&'s Rule>, terms: (u32, Unit), reset: Span) -> Self {
        let name = rule.map_or("", |rule| &*rule.spec.name);
        let (requests_per_unit, unit) = terms;
        Self { name, requests_per_unit, unit, reset }
    }
}

impl<'s> Limited<'s> {
    /// The status of a limit with these verdicts, one per rate: the strictest
    /// rate speaks for all.
    fn status(&self, verdicts: &[Verdict]) -> Status<'s> {
        let (rate, verdict) = Verdict::strictest(verdicts).unwrap_or_default();
        // What can never pass resets like everything else.
        let waits = !verdict.allowed && verdict.retry_after != Span::FOREVER;
        let reset = if waits { verdict.retry_after } else { verdict.reset_after };
        Status {
            code: if verdict.allowed || self.shadow() { Code::Ok } else { Code::OverLimit },
            limit: self.terms(rate).map(|terms| Applied::new(self.rule(), terms, reset)),
            remaining: verdict.remaining,
        }
    }
}

/// Combines what applies to each descriptor with the verdicts of its charges.
pub fn combine<'s>(
    matches: &Matches<'s>,
    plan: &Plan,
    verdicts: &[Verdict],
    settings: &Settings,
) -> (Code, Statuses<'s>) {
    let mut rest = verdicts;
    let status = |found: &Match<'s>| match found {
        Match::None => Status::NONE,
        Match::Unlimited(_) => Status::UNLIMITED,
        Match::Exempt(rule, quota) => {
            let terms = (quota.requests_per_unit(), quota.unit());
            let limit = Some(Applied::new(Some(rule), terms, Span::ZERO));
            Status { code: Code::Ok, limit, remaining: quota.limit().ceiling() }
        }
        Match::Limited(limited) => {
            let (own, others) = rest.split_at(limited.keys.len().min(rest.len()));
            rest = others;
            limited.status(own)
        }
    };
    let statuses = matches.iter().map(status).collect();
    let refused = plan.refused_by(verdicts) && !settings.shadow_mode;
    (if refused { Code::OverLimit } else { Code::Ok }, statuses)
}

/// The limit that the response headers speak about: of those that refuse, the
/// one that takes longest to reset, so that waiting as told is enough; else the
/// one with the least left.
pub fn headers(
    matches: &Matches<'_>,
    statuses: &Statuses<'_>,
    settings: &Settings,
) -> Option<HeaderValues> {
    let mut picked: Option<(bool, HeaderValues)> = None;
    for (found, status) in matches.iter().zip(statuses) {
        let (Match::Limited(limited), Some(limit)) = (found, status.limit) else { continue };
        let refuses = status.code == Code::OverLimit && !limited.quota_mode(settings);
        let values = HeaderValues {
            limit: limit.requests_per_unit,
            remaining: status.remaining,
            reset: limit.reset,
        };
        let better = picked.is_none_or(|(known_refuses, known)| match (refuses, known_refuses) {
            (true, true) => values.reset >= known.reset,
            (true, false) => true,
            (false, true) => false,
            (false, false) => values.remaining < known.remaining,
        });
        if better {
            picked = Some((refuses, values));
        }
    }
    picked.map(|(_, values)| values)
}
