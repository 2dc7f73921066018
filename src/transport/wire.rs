//! Between the messages of the wire and the values of the decision. The only
//! file that names both.

use crate::decide::{
    Applied, Code, Decision, Descriptor, HeaderNames, HeaderValues, Override, Request,
    RequestError, Settings, Status,
};
use crate::limit::Unit;
use crate::proto::rate_limit_response::rate_limit::Unit as WireUnit;
use crate::proto::rate_limit_response::{self, Code as WireCode, DescriptorStatus};
use crate::proto::{
    HeaderValue, RateLimitDescriptor, RateLimitRequest, RateLimitResponse, ResetRequest,
};
use crate::units::Span;

/// Most entries in one descriptor; rules are never nearly that deep.
pub(super) const MAX_ENTRIES: usize = 256;

/// Looks at a message as a request.
///
/// # Errors
/// If it asks nothing that can be decided.
pub fn request<'a>(
    message: &'a RateLimitRequest,
    settings: &Settings,
) -> Result<Request<'a>, RequestError> {
    read(&message.domain, &message.descriptors, message.hits_addend, settings)
}

/// Looks at a message as a request to be forgotten.
///
/// # Errors
/// If it names nothing.
pub fn reset_request<'a>(
    message: &'a ResetRequest,
    settings: &Settings,
) -> Result<Request<'a>, RequestError> {
    read(&message.domain, &message.descriptors, 0, settings)
}

fn read<'a>(
    domain: &'a str,
    descriptors: &'a [RateLimitDescriptor],
    hits_addend: u32,
    settings: &Settings,
) -> Result<Request<'a>, RequestError> {
    if domain.is_empty() {
        return Err(RequestError::EmptyDomain);
    }
    let sent = descriptors.len();
    if sent == 0 {
        return Err(RequestError::NoDescriptors);
    }
    if sent > settings.max_descriptors {
        return Err(RequestError::TooManyDescriptors { sent, most: settings.max_descriptors });
    }
    let descriptors = descriptors.iter().enumerate();
    let descriptors = descriptors.map(|(index, one)| descriptor(index, one));
    Ok(Request { domain, hits_addend, descriptors: descriptors.collect::<Result<_, _>>()? })
}

fn descriptor(index: usize, message: &RateLimitDescriptor) -> Result<Descriptor<'_>, RequestError> {
    let sent = message.entries.len();
    if sent > MAX_ENTRIES {
        return Err(RequestError::TooManyEntries { index, sent, most: MAX_ENTRIES });
    }
    let limit = match &message.limit {
        None => None,
        Some(limit) => Some(
            override_of(limit.requests_per_unit, limit.unit)
                .ok_or(RequestError::UnknownUnit { index, unit: limit.unit })?,
        ),
    };
    Ok(Descriptor {
        entries: message.entries.iter().map(|one| (&*one.key, &*one.value)).collect(),
        limit,
        hits_addend: message.hits_addend,
        is_negative_hits: message.is_negative_hits,
    })
}

/// The limit that comes with a request, if there is such a unit.
pub(super) fn override_of(requests_per_unit: u32, unit: i32) -> Option<Override> {
    Some(Override { requests_per_unit, unit: unit_from_wire(unit)? })
}

/// The unit of this number. The request's enum has no WEEK, the response's has
/// one as 7; we take it in both.
fn unit_from_wire(number: i32) -> Option<Unit> {
    Some(match WireUnit::try_from(number).ok()? {
        WireUnit::Unknown => return None,
        WireUnit::Second => Unit::Second,
        WireUnit::Minute => Unit::Minute,
        WireUnit::Hour => Unit::Hour,
        WireUnit::Day => Unit::Day,
        WireUnit::Week => Unit::Week,
        WireUnit::Month => Unit::Month,
        WireUnit::Year => Unit::Year,
    })
}

/// The number of a unit in answers.
pub(super) const fn unit_number(unit: Unit) -> i32 {
    let unit = match unit {
        Unit::Second => WireUnit::Second,
        Unit::Minute => WireUnit::Minute,
        Unit::Hour => WireUnit::Hour,
        Unit::Day => WireUnit::Day,
        Unit::Week => WireUnit::Week,
        Unit::Month => WireUnit::Month,
        Unit::Year => WireUnit::Year,
    };
    unit as i32
}

/// A decision as a message.
pub fn response(decision: Decision<'_>, settings: &Settings) -> RateLimitResponse {
    let headers = settings.response_headers.as_ref().zip(decision.headers);
    RateLimitResponse {
        overall_code: code(decision.overall),
        statuses: decision.statuses.iter().map(status).collect(),
        response_headers_to_add: headers.map(headers_to_wire).unwrap_or_default(),
        dynamic_metadata: decision.metadata,
        ..RateLimitResponse::default()
    }
}

/// The number of a code.
pub(super) const fn code(code: Code) -> i32 {
    let code = match code {
        Code::Ok => WireCode::Ok,
        Code::OverLimit => WireCode::OverLimit,
    };
    code as i32
}

fn status(status: &Status<'_>) -> DescriptorStatus {
    DescriptorStatus {
        code: code(status.code),
        current_limit: status.limit.as_ref().map(applied),
        limit_remaining: status.remaining.to_u32(),
        duration_until_reset: status.limit.map(|limit| duration(limit.reset)),
        quota: None,
    }
}

fn applied(limit: &Applied<'_>) -> rate_limit_response::RateLimit {
    rate_limit_response::RateLimit {
        name: limit.name.to_owned(),
        requests_per_unit: limit.requests_per_unit,
        unit: unit_number(limit.unit),
    }
}

fn duration(span: Span) -> prost_types::Duration {
    prost_types::Duration { seconds: seconds(span).cast_signed(), nanos: 0 }
}

/// Whole seconds, rounded up: Envoy's headers cut the fraction off, and a
/// client that comes back too early is refused again.
pub(super) fn seconds(span: Span) -> u64 {
    span.ceil_secs().min(i64::MAX.cast_unsigned())
}

fn headers_to_wire((names, values): (&HeaderNames, HeaderValues)) -> Vec<HeaderValue> {
    let header = |name: &str, value: u64| HeaderValue {
        key: name.to_owned(),
        value: value.to_string(),
        raw_value: Vec::new(),
    };
    vec![
        header(&names.limit, values.limit.into()),
        header(&names.remaining, values.remaining.get()),
        header(&names.reset, values.reset.ceil_secs()),
    ]
}
