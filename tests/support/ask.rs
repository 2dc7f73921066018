//! A short notation for requests and answers, so that a test reads like the
//! case it proves.
//!
//! | notation | meaning |
//! | --- | --- |
//! | `[k=v, k2=v2]` | one descriptor with two entries |
//! | `[k=v !h=2]` | with its own `hits_addend` |
//! | `[k=v !h=2 !refund]` | given back |
//! | `[k=v !limit=3/YEAR]` | with a limit override; the unit may be a number |
//! | `{[..], [..]} hits 4` | several descriptors, and the request's `hits_addend` |
//!
//! Answers: `OK r4`, `OVER`, `NONE` (no rule), `unlimited`; for several
//! descriptors `OVER {OK r4, OVER}`.

use tidegate::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
use tidegate::proto::rate_limit_response::{Code, DescriptorStatus};
use tidegate::proto::{RateLimitDescriptor, RateLimitRequest, RateLimitResponse};

/// The request that `text` writes.
pub fn request(domain: &str, text: &str) -> RateLimitRequest {
    let (descriptors, hits) = match text.rsplit_once(" hits ") {
        Some((descriptors, hits)) => (descriptors, hits.parse().expect("hits")),
        None => (text, 0),
    };
    let descriptors = descriptors.trim().trim_start_matches('{').trim_end_matches('}');
    RateLimitRequest {
        domain: domain.to_owned(),
        descriptors: descriptors
            .split(']')
            .map(|one| one.trim_start_matches([',', ' ']))
            .filter(|one| !one.is_empty())
            .map(|one| descriptor(one.strip_prefix('[').expect("a descriptor starts with [")))
            .collect(),
        hits_addend: hits,
    }
}

/// A descriptor with these entries, for values that the notation cannot write.
pub fn entries(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).into(), value: (*value).into() };
    RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..Default::default() }
}

fn descriptor(text: &str) -> RateLimitDescriptor {
    let mut parts = text.split(" !");
    let pairs = parts.next().unwrap_or_default();
    let pairs: Vec<(&str, &str)> = pairs
        .split(", ")
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .collect();
    let mut descriptor = entries(&pairs);
    for option in parts {
        match option.split_once('=') {
            Some(("h", hits)) => descriptor.hits_addend = Some(hits.parse().expect("hits")),
            Some(("limit", limit)) => descriptor.limit = Some(limit_override(limit)),
            None if option == "refund" => descriptor.is_negative_hits = true,
            _ => panic!("no such option: {option}"),
        }
    }
    descriptor
}

fn limit_override(text: &str) -> RateLimitOverride {
    let (requests, unit) = text.split_once('/').expect("N/UNIT");
    let names = ["UNKNOWN", "SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR", "WEEK"];
    let unit = names.iter().position(|name| *name == unit).map_or_else(
        || unit.parse().expect("a unit or a number"),
        |at| i32::try_from(at).expect("small"),
    );
    RateLimitOverride { requests_per_unit: requests.parse().expect("a number"), unit }
}

/// `response` in the notation.
pub fn answer(response: &RateLimitResponse) -> String {
    let overall = response.overall_code();
    let statuses: Vec<String> = response.statuses.iter().map(status).collect();
    let own = |one: &DescriptorStatus| one.code() == overall;
    match (&statuses[..], &response.statuses[..]) {
        ([text], [one]) if own(one) => text.clone(),
        _ => {
            let overall = if overall == Code::Ok { "OK" } else { "OVER" };
            format!("{overall} {{{}}}", statuses.join(", "))
        }
    }
}

fn status(status: &DescriptorStatus) -> String {
    let left = status.limit_remaining;
    match (status.code(), &status.current_limit) {
        (Code::Ok, Some(_)) => format!("OK r{left}"),
        (Code::OverLimit, Some(_)) if left == 0 => "OVER".into(),
        (Code::Ok, None) if left == 0 => "NONE".into(),
        (Code::Ok, None) if left == u32::MAX => "unlimited".into(),
        (code, limit) => format!("{code:?} with {limit:?}, {left} left"),
    }
}
