//! The wire messages in proto3's JSON.

use prost::Message as _;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor};
use prost_types::{EnumValueDescriptorProto, FileDescriptorSet};

use crate::proto::rate_limit_response::rate_limit::Unit;
use crate::proto::{DESCRIPTORS, RateLimitRequest, RateLimitResponse};

const REQUEST: &str = "envoy.service.ratelimit.v3.RateLimitRequest";
const RESPONSE: &str = "envoy.service.ratelimit.v3.RateLimitResponse";

/// Reads requests and writes responses as JSON. Cheap to clone.
#[derive(Clone, Debug)]
pub struct JsonCodec {
    request: MessageDescriptor,
    response: MessageDescriptor,
}

/// What can go wrong with JSON.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The descriptors built into the program lack a message.
    #[error("the built-in descriptors cannot be used: {0}")]
    Descriptors(String),
    /// The text is not JSON, or not of this message.
    #[error("not a RateLimitRequest in proto3 JSON: {0}")]
    Unreadable(#[source] serde_json::Error),
    /// A message of ours does not fit its own description.
    #[error("the message cannot be converted: {0}")]
    Convert(#[source] prost::DecodeError),
    /// The answer cannot be written.
    #[error("the answer cannot be written as JSON: {0}")]
    Unwritable(#[source] serde_json::Error),
}

impl JsonCodec {
    /// A codec by the built-in descriptors.
    ///
    /// # Errors
    /// If those cannot be used.
    pub fn new() -> Result<Self, JsonError> {
        let mut files = FileDescriptorSet::decode(DESCRIPTORS)
            .map_err(|error| JsonError::Descriptors(error.to_string()))?;
        name_week(&mut files);
        let pool = DescriptorPool::from_file_descriptor_set(files)
            .map_err(|error| JsonError::Descriptors(error.to_string()))?;
        let message = |name: &str| {
            pool.get_message_by_name(name)
                .ok_or_else(|| JsonError::Descriptors(format!("{name} is missing")))
        };
        Ok(Self { request: message(REQUEST)?, response: message(RESPONSE)? })
    }

    /// Reads a request. Field names may be in camel case or as in the proto
    /// file; unknown ones are refused.
    ///
    /// # Errors
    /// If `text` is not a request; says what and where.
    pub fn decode(&self, text: &[u8]) -> Result<RateLimitRequest, JsonError> {
        let options = DeserializeOptions::new().deny_unknown_fields(true);
        let mut reader = serde_json::Deserializer::from_slice(text);
        let message =
            DynamicMessage::deserialize_with_options(self.request.clone(), &mut reader, &options)
                .and_then(|message| reader.end().map(|()| message))
                .map_err(JsonError::Unreadable)?;
        message.transcode_to().map_err(JsonError::Convert)
    }

    /// Writes a response: camel case, enums by name, absent fields left out.
    ///
    /// # Errors
    /// If the response does not fit its own description.
    pub fn encode(&self, response: &RateLimitResponse) -> Result<Vec<u8>, JsonError> {
        let bytes = response.encode_to_vec();
        let message = DynamicMessage::decode(self.response.clone(), bytes.as_slice())
            .map_err(JsonError::Convert)?;
        serde_json::to_vec(&message).map_err(JsonError::Unwritable)
    }
}

/// A limit that comes with a request may be for a week: the number is taken, though
/// Envoy's enum of units has no name for it. In JSON it has the name that it has in
/// answers.
fn name_week(files: &mut FileDescriptorSet) {
    let enums = files.file.iter_mut().filter(|file| file.package() == "envoy.type.v3");
    let mut enums = enums.flat_map(|file| &mut file.enum_type);
    if let Some(units) = enums.find(|one| one.name() == "RateLimitUnit") {
        units.value.push(EnumValueDescriptorProto {
            name: Some(Unit::Week.as_str_name().to_owned()),
            number: Some(Unit::Week.into()),
            options: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use prost_types::Duration;

    use super::*;
    use crate::proto::rate_limit_response::{Code, DescriptorStatus, RateLimit};

    fn decode(text: &str) -> Result<RateLimitRequest, String> {
        JsonCodec::new().unwrap().decode(text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_request_is_read_with_every_field() {
        let request = decode(
            r#"{"domain": "d", "hits_addend": 3, "descriptors": [{
                "entries": [{"key": "k", "value": "v"}, {"key": "l"}],
                "limit": {"requestsPerUnit": 5, "unit": "HOUR"},
                "hitsAddend": "18446744073709551615", "isNegativeHits": true}]}"#,
        )
        .unwrap();
        assert_eq!((request.domain.as_str(), request.hits_addend), ("d", 3));
        let descriptor = &request.descriptors[0];
        assert_eq!(descriptor.entries[1].key, "l");
        assert_eq!(descriptor.limit.unwrap().requests_per_unit, 5);
        assert_eq!(descriptor.hits_addend, Some(u64::MAX));
        assert!(descriptor.is_negative_hits);
    }

    #[test]
    fn every_unit_of_answers_is_one_of_requests() {
        for (name, number) in [("SECOND", 1), ("YEAR", 6), ("WEEK", 7)] {
            for unit in [format!("{name:?}"), number.to_string()] {
                let text = format!(r#"{{"descriptors": [{{"limit": {{"unit": {unit}}}}}]}}"#);
                assert_eq!(decode(&text).unwrap().descriptors[0].limit.unwrap().unit, number);
            }
        }
    }

    #[test]
    fn what_is_not_a_request_is_refused_with_the_reason() {
        for (text, told) in [
            ("", "EOF"),
            ("}", "line 1 column 1"),
            ("[]", "expected"),
            (r#"{"domain": "d"} {}"#, "trailing"),
            (r#"{"domian": "d"}"#, "domian"),
            (r#"{"hitsAddend": -1}"#, "out of range"),
            (r#"{"hitsAddend": 4294967296}"#, "out of range"),
            (r#"{"descriptors": [{"limit": {"unit": "FORTNIGHT"}}]}"#, "FORTNIGHT"),
        ] {
            let error = decode(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }

    #[test]
    fn deep_nesting_is_refused() {
        assert!(decode(&"[".repeat(100_000)).is_err());
        assert!(decode(&r#"{"descriptors":["#.repeat(100_000)).is_err());
    }

    #[test]
    fn a_response_is_written_as_the_reference_writes_it() {
        let response = RateLimitResponse {
            overall_code: Code::OverLimit.into(),
            statuses: vec![DescriptorStatus {
                code: Code::OverLimit.into(),
                current_limit: Some(RateLimit {
                    name: String::new(),
                    requests_per_unit: 5,
                    unit: Unit::Week.into(),
                }),
                duration_until_reset: Some(Duration { seconds: 58, nanos: 0 }),
                ..DescriptorStatus::default()
            }],
            ..RateLimitResponse::default()
        };
        let text = JsonCodec::new().unwrap().encode(&response).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            r#"{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT","currentLimit":{"requestsPerUnit":5,"unit":"WEEK"},"durationUntilReset":"58s"}]}"#
        );
    }
}
