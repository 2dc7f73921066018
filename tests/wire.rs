//! Our trimmed messages are Envoy's: the same values have the same bytes, in
//! both directions, for every field.

#[path = "wire/discovery.rs"]
mod discovery;

use std::collections::BTreeMap;

use envoy_types::pb::envoy::config::core::v3 as their_core;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3 as their_common;
use envoy_types::pb::envoy::service::ratelimit::v3 as theirs;
use envoy_types::pb::google::protobuf as their_google;
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use prost::Message;
use prost_types::value::Kind;
use prost_types::{Duration, ListValue, Struct, Timestamp, Value};
use tidegate::proto::rate_limit_descriptor::{Entry, RateLimitOverride};
use tidegate::proto::rate_limit_response::quota::ExpirationSpecifier;
use tidegate::proto::rate_limit_response::{Code, DescriptorStatus, Quota, RateLimit, rate_limit};
use tidegate::proto::{HeaderValue, RateLimitDescriptor, RateLimitRequest, RateLimitResponse};

// Field by field, by name: a value of ours as one of theirs.

fn their_request(request: RateLimitRequest) -> theirs::RateLimitRequest {
    theirs::RateLimitRequest {
        domain: request.domain,
        descriptors: request.descriptors.into_iter().map(their_descriptor).collect(),
        hits_addend: request.hits_addend,
    }
}

fn their_descriptor(descriptor: RateLimitDescriptor) -> their_common::RateLimitDescriptor {
    use their_common::rate_limit_descriptor as their;
    let entry = |Entry { key, value }| their::Entry { key, value };
    let limit = |RateLimitOverride { requests_per_unit, unit }| their::RateLimitOverride {
        requests_per_unit,
        unit,
    };
    their_common::RateLimitDescriptor {
        entries: descriptor.entries.into_iter().map(entry).collect(),
        limit: descriptor.limit.map(limit),
        hits_addend: descriptor.hits_addend.map(|value| their_google::UInt64Value { value }),
        is_negative_hits: descriptor.is_negative_hits,
    }
}

fn their_response(response: RateLimitResponse) -> theirs::RateLimitResponse {
    let headers = |headers: Vec<HeaderValue>| headers.into_iter().map(their_header).collect();
    theirs::RateLimitResponse {
        overall_code: response.overall_code,
        statuses: response.statuses.into_iter().map(their_status).collect(),
        response_headers_to_add: headers(response.response_headers_to_add),
        request_headers_to_add: headers(response.request_headers_to_add),
        raw_body: response.raw_body,
        dynamic_metadata: response.dynamic_metadata.map(their_struct),
        quota: response.quota.map(their_quota),
    }
}

fn their_header(HeaderValue { key, value, raw_value }: HeaderValue) -> their_core::HeaderValue {
    their_core::HeaderValue { key, value, raw_value }
}

fn their_status(status: DescriptorStatus) -> theirs::rate_limit_response::DescriptorStatus {
    let limit = |RateLimit { name, requests_per_unit, unit }| {
        theirs::rate_limit_response::RateLimit { name, requests_per_unit, unit }
    };
    let span = |Duration { seconds, nanos }| their_google::Duration { seconds, nanos };
    theirs::rate_limit_response::DescriptorStatus {
        code: status.code,
        current_limit: status.current_limit.map(limit),
        limit_remaining: status.limit_remaining,
        duration_until_reset: status.duration_until_reset.map(span),
        quota: status.quota.map(their_quota),
    }
}

fn their_quota(quota: Quota) -> theirs::rate_limit_response::Quota {
    use theirs::rate_limit_response::quota as their;
    let until = |ExpirationSpecifier::ValidUntil(Timestamp { seconds, nanos })| {
        their::ExpirationSpecifier::ValidUntil(their_google::Timestamp { seconds, nanos })
    };
    theirs::rate_limit_response::Quota {
        requests: quota.requests,
        id: quota.id,
        expiration_specifier: quota.expiration_specifier.map(until),
    }
}

fn their_struct(Struct { fields }: Struct) -> their_google::Struct {
    let fields = fields.into_iter().map(|(name, value)| (name, their_value(value))).collect();
    their_google::Struct { fields }
}

fn their_value(value: Value) -> their_google::Value {
    use their_google::value::Kind as Their;
    let list = |ListValue { values }: ListValue| their_google::ListValue {
        values: values.into_iter().map(their_value).collect(),
    };
    let kind = |kind| match kind {
        Kind::NullValue(null) => Their::NullValue(null),
        Kind::NumberValue(number) => Their::NumberValue(number),
        Kind::StringValue(text) => Their::StringValue(text),
        Kind::BoolValue(truth) => Their::BoolValue(truth),
        Kind::StructValue(fields) => Their::StructValue(their_struct(fields)),
        Kind::ListValue(values) => Their::ListValue(list(values)),
    };
    their_google::Value { kind: value.kind.map(kind) }
}

// Any value of ours.

fn requests() -> impl Strategy<Value = RateLimitRequest> {
    (any::<String>(), vec(descriptors(), 0..4), any::<u32>()).prop_map(
        |(domain, descriptors, hits_addend)| RateLimitRequest { domain, descriptors, hits_addend },
    )
}

fn descriptors() -> impl Strategy<Value = RateLimitDescriptor> {
    let entry = any::<(String, String)>().prop_map(|(key, value)| Entry { key, value });
    let limit = any::<(u32, i32)>()
        .prop_map(|(requests_per_unit, unit)| RateLimitOverride { requests_per_unit, unit });
    (vec(entry, 0..4), of(limit), any::<Option<u64>>(), any::<bool>()).prop_map(
        |(entries, limit, hits_addend, is_negative_hits)| RateLimitDescriptor {
            entries,
            limit,
            hits_addend,
            is_negative_hits,
        },
    )
}

/// Responses whose structs have at most `fields` fields.
fn responses(fields: usize) -> impl Strategy<Value = RateLimitResponse> {
    let headers = || vec(headers(), 0..3);
    let metadata = of(structs(fields));
    let bytes = vec(any::<u8>(), 0..9);
    (any::<i32>(), vec(statuses(), 0..4), headers(), headers(), bytes, metadata, of(quotas()))
        .prop_map(
            |(
                overall_code,
                statuses,
                response_headers,
                request_headers,
                raw_body,
                metadata,
                quota,
            )| {
                RateLimitResponse {
                    overall_code,
                    statuses,
                    response_headers_to_add: response_headers,
                    request_headers_to_add: request_headers,
                    raw_body,
                    dynamic_metadata: metadata,
                    quota,
                }
            },
        )
}

fn headers() -> impl Strategy<Value = HeaderValue> {
    any::<(String, String, Vec<u8>)>().prop_map(|(key, value, raw_value)| HeaderValue {
        key,
        value,
        raw_value,
    })
}

fn statuses() -> impl Strategy<Value = DescriptorStatus> {
    let limit = any::<(String, u32, i32)>().prop_map(|(name, requests_per_unit, unit)| RateLimit {
        name,
        requests_per_unit,
        unit,
    });
    let span = any::<(i64, i32)>().prop_map(|(seconds, nanos)| Duration { seconds, nanos });
    (any::<i32>(), of(limit), any::<u32>(), of(span), of(quotas())).prop_map(
        |(code, current_limit, limit_remaining, duration_until_reset, quota)| DescriptorStatus {
            code,
            current_limit,
            limit_remaining,
            duration_until_reset,
            quota,
        },
    )
}

fn quotas() -> impl Strategy<Value = Quota> {
    let until = any::<(i64, i32)>().prop_map(|(seconds, nanos)| Timestamp { seconds, nanos });
    (any::<u32>(), any::<String>(), of(until)).prop_map(|(requests, id, until)| Quota {
        requests,
        id,
        expiration_specifier: until.map(ExpirationSpecifier::ValidUntil),
    })
}

fn structs(fields: usize) -> impl Strategy<Value = Struct> {
    let leaf = prop_oneof![
        Just(Kind::NullValue(0)),
        any::<f64>().prop_filter("NaN equals nothing", |n| !n.is_nan()).prop_map(Kind::NumberValue),
        any::<String>().prop_map(Kind::StringValue),
        any::<bool>().prop_map(Kind::BoolValue),
    ];
    let value =
        leaf.prop_map(|kind| Value { kind: Some(kind) }).prop_recursive(3, 12, 3, move |value| {
            prop_oneof![
                vec(value.clone(), 0..3).prop_map(|values| Kind::ListValue(ListValue { values })),
                maps(value, fields).prop_map(|fields| Kind::StructValue(Struct { fields })),
            ]
            .prop_map(|kind| Value { kind: Some(kind) })
        });
    maps(value, fields).prop_map(|fields| Struct { fields })
}

fn maps(
    value: impl Strategy<Value = Value>,
    fields: usize,
) -> impl Strategy<Value = BTreeMap<String, Value>> {
    btree_map(any::<String>(), value, 0..=fields)
}

/// `ours` and `theirs` are the same on the wire, in both directions.
fn same<Our, Their>(ours: &Our, theirs: &Their) -> Result<(), TestCaseError>
where
    Our: Message + Default + PartialEq + std::fmt::Debug,
    Their: Message + Default + PartialEq + std::fmt::Debug,
{
    let (our_bytes, their_bytes) = (ours.encode_to_vec(), theirs.encode_to_vec());
    prop_assert_eq!(&our_bytes, &their_bytes);
    prop_assert_eq!(&Our::decode(their_bytes.as_slice()).expect("ours reads"), ours);
    prop_assert_eq!(&Their::decode(our_bytes.as_slice()).expect("theirs reads"), theirs);
    Ok(())
}

proptest! {
    #[test]
    fn requests_are_the_same(request in requests()) {
        same(&request, &their_request(request.clone()))?;
    }

    // Maps have no order on the wire, so bytes are compared with one field only.
    #[test]
    fn responses_are_the_same(response in responses(1)) {
        same(&response, &their_response(response.clone()))?;
    }

    #[test]
    fn structs_of_several_fields_have_the_same_values(response in responses(4)) {
        let theirs = their_response(response.clone());
        let read = RateLimitResponse::decode(theirs.encode_to_vec().as_slice()).expect("ours");
        prop_assert_eq!(&read, &response);
        let read = theirs::RateLimitResponse::decode(response.encode_to_vec().as_slice());
        prop_assert_eq!(&read.expect("theirs"), &theirs);
    }

    #[test]
    fn garbage_is_refused_or_read_but_never_fatal(bytes in vec(any::<u8>(), 0..200)) {
        let ours = RateLimitRequest::decode(bytes.as_slice());
        let theirs = theirs::RateLimitRequest::decode(bytes.as_slice());
        prop_assert_eq!(ours.ok().map(their_request), theirs.ok());
    }
}

#[test]
fn numbers_of_enums_are_the_same() {
    use envoy_types::pb::envoy::r#type::v3::RateLimitUnit as TheirUnit;
    use theirs::rate_limit_response::{Code as TheirCode, rate_limit::Unit as TheirLimitUnit};
    use tidegate::proto::envoy::r#type::v3::RateLimitUnit;
    for number in -1..100 {
        let names = (
            Code::try_from(number).ok().map(|code| code.as_str_name()),
            rate_limit::Unit::try_from(number).ok().map(|unit| unit.as_str_name()),
            RateLimitUnit::try_from(number).ok().map(|unit| unit.as_str_name()),
        );
        let their_names = (
            TheirCode::try_from(number).ok().map(|code| code.as_str_name()),
            TheirLimitUnit::try_from(number).ok().map(|unit| unit.as_str_name()),
            TheirUnit::try_from(number).ok().map(|unit| unit.as_str_name()),
        );
        assert_eq!(names, their_names, "{number}");
    }
}
