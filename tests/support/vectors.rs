//! The recorded answers, and answers in the form in which they are recorded.

#![allow(dead_code, reason = "each test binary that includes this uses a part of it")]

use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, ReflectMessage as _};
use serde_json::{Map, Value};
use tidegate::proto::{DESCRIPTORS, RateLimitRequest, RateLimitResponse};

/// Everything that was recorded.
pub fn recorded() -> Value {
    serde_json::from_str(include_str!("../cases/vectors.json")).expect("JSON")
}

/// A recorded request.
pub fn request(json: &Value) -> RateLimitRequest {
    let kind = message("envoy.service.ratelimit.v3.RateLimitRequest");
    let request = DynamicMessage::deserialize(kind, json).expect("a request");
    request.transcode_to().expect("the same message")
}

/// A recorded answer; an error as its message, since we choose better codes.
pub fn wanted(response: &Value) -> Value {
    match response.get("error") {
        Some(error) => error["message"].clone(),
        None => normal(response.clone()),
    }
}

pub fn message(name: &str) -> MessageDescriptor {
    let pool = DescriptorPool::decode(DESCRIPTORS).expect("descriptors");
    pool.get_message_by_name(name).expect("a message")
}

pub fn to_json(response: &RateLimitResponse) -> Value {
    let kind = message("envoy.service.ratelimit.v3.RateLimitResponse");
    let response = DynamicMessage::decode(kind, &*response.encode_to_vec()).expect("a response");
    assert_eq!(response.descriptor().name(), "RateLimitResponse");
    serde_json::to_value(&response).expect("JSON")
}

/// Numbers as doubles, since JSON does not tell 1 from 1.0.
pub fn normal(value: Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().into(),
        Value::Array(items) => items.into_iter().map(normal).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name, normal(value)))
            .collect::<Map<_, _>>()
            .into(),
        other => other,
    }
}
