//! `ShouldRateLimit` in bytes: a request is read where it lies, without a copy,
//! and an answer is written without being built first.
//!
//! Only ordinary messages are taken. Whatever is unusual (a message field that
//! comes twice, a wire type of another field, a request to be refused) is left to
//! the generated code and `wire`, so that there is one place that tells what is
//! wrong with it.

use std::str;

use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message as _;
use prost::encoding::{
    DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint,
    encoded_len_varint, skip_field,
};
use smallvec::SmallVec;

use super::grpc::MAX_MESSAGE;
use super::wire;
use crate::decide::{Applied, Decision, Descriptor, Request, Settings, Status};

/// What precedes a message: a byte that tells whether it is compressed, and its
/// length in four.
const PREFIX_LEN: usize = 5;

/// The message that `data` is, if it is exactly one in plain.
pub fn message(data: &[u8]) -> Option<&[u8]> {
    let (prefix, message) = data.split_first_chunk()?;
    (announced(*prefix)? == message.len()).then_some(message)
}

/// Whether `data` is the beginning of a plain message that may be read.
pub fn is_incomplete(data: &[u8]) -> bool {
    let Some((prefix, message)) = data.split_first_chunk() else { return true };
    announced(*prefix).is_some_and(|length| message.len() < length && length <= MAX_MESSAGE)
}

/// The length of a message after `prefix`, if it is plain.
fn announced(prefix: [u8; PREFIX_LEN]) -> Option<usize> {
    let [0, length @ ..] = prefix else { return None };
    usize::try_from(u32::from_be_bytes(length)).ok()
}

/// Reads a request that can be decided, if it is an ordinary one.
pub fn request<'a>(message: &'a [u8], settings: &Settings) -> Option<Request<'a>> {
    let mut request = Request { domain: "", hits_addend: 0, descriptors: SmallVec::new() };
    for field in Fields(message) {
        match field? {
            (1, Field::Bytes(domain)) => request.domain = str::from_utf8(domain).ok()?,
            // Counted before they are kept: two bytes on the wire are many here.
            (2, Field::Bytes(message)) if request.descriptors.len() < settings.max_descriptors => {
                request.descriptors.push(descriptor(message)?);
            }
            (3, Field::Number(hits)) => request.hits_addend = truncated(hits),
            (1..=3, _) => return None,
            _ => {}
        }
    }
    (!request.domain.is_empty() && !request.descriptors.is_empty()).then_some(request)
}

fn descriptor(message: &[u8]) -> Option<Descriptor<'_>> {
    let mut descriptor = Descriptor {
        entries: SmallVec::new(),
        limit: None,
        hits_addend: None,
        is_negative_hits: false,
    };
    for field in Fields(message) {
        match field? {
            (1, Field::Bytes(message)) if descriptor.entries.len() < wire::MAX_ENTRIES => {
                descriptor.entries.push(entry(message)?);
            }
            (2, Field::Bytes(message)) if descriptor.limit.is_none() => {
                let (requests_per_unit, unit) = pair(message)?;
                let unit = i32::from_ne_bytes(truncated(unit).to_ne_bytes());
                descriptor.limit = Some(wire::override_of(truncated(requests_per_unit), unit)?);
            }
            (3, Field::Bytes(message)) if descriptor.hits_addend.is_none() => {
                descriptor.hits_addend = Some(pair(message)?.0);
            }
            (4, Field::Number(flag)) => descriptor.is_negative_hits = flag != 0,
            (1..=4, _) => return None,
            _ => {}
        }
    }
    Some(descriptor)
}

fn entry(message: &[u8]) -> Option<(&str, &str)> {
    let (mut key, mut value) = ("", "");
    for field in Fields(message) {
        match field? {
            (1, Field::Bytes(text)) => key = str::from_utf8(text).ok()?,
            (2, Field::Bytes(text)) => value = str::from_utf8(text).ok()?,
            (1 | 2, _) => return None,
            _ => {}
        }
    }
    Some((key, value))
}

/// A message of up to two numbers.
fn pair(message: &[u8]) -> Option<(u64, u64)> {
    let (mut first, mut second) = (0, 0);
    for field in Fields(message) {
        match field? {
            (1, Field::Number(number)) => first = number,
            (2, Field::Number(number)) => second = number,
            (1 | 2, _) => return None,
            _ => {}
        }
    }
    Some((first, second))
}

/// A number of the wire in 32 bits, as protobuf has it.
#[allow(clippy::cast_possible_truncation, reason = "it is what the wire format says")]
const fn truncated(number: u64) -> u32 {
    number as u32
}

/// A field's content.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Of a type that no message here has.
    Other,
}

/// The fields of a message with their numbers; `None` where it cannot be read.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn read(&mut self) -> Option<(u32, Field<'a>)> {
        let (number, kind) = decode_key(&mut self.0).ok()?;
        let field = match kind {
            WireType::Varint => Field::Number(decode_varint(&mut self.0).ok()?),
            WireType::LengthDelimited => {
                let length = usize::try_from(decode_varint(&mut self.0).ok()?).ok()?;
                let (content, rest) = self.0.split_at_checked(length)?;
                self.0 = rest;
                Field::Bytes(content)
            }
            _ => {
                skip_field(kind, number, &mut self.0, DecodeContext::default()).ok()?;
                Field::Other
            }
        };
        Some((number, field))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Option<(u32, Field<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.0.is_empty()).then(|| self.read())
    }
}

/// Writes an answer with what precedes it.
pub fn answer(decision: Decision<'_>, settings: &Settings) -> Bytes {
    if decision.headers.is_some() || decision.metadata.is_some() {
        let response = wire::response(decision, settings);
        let mut out = prefixed(response.encoded_len());
        // It has room.
        let _ = response.encode(&mut out);
        return out.freeze();
    }
    let overall = u64::from(wire::code(decision.overall).cast_unsigned());
    let statuses = decision.statuses.iter();
    let length =
        number_len(overall) + statuses.map(|one| nested_len(status_len(one))).sum::<usize>();
    let mut out = prefixed(length);
    put_number(&mut out, 1, overall);
    for status in &decision.statuses {
        put_status(&mut out, status);
    }
    out.freeze()
}

fn prefixed(length: usize) -> BytesMut {
    let mut out = BytesMut::with_capacity(PREFIX_LEN + length);
    out.put_u8(0);
    out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    out
}

fn put_status(out: &mut BytesMut, status: &Status<'_>) {
    put_head(out, 2, status_len(status));
    put_number(out, 1, wire::code(status.code).cast_unsigned().into());
    if let Some(limit) = &status.limit {
        put_head(out, 2, limit_len(limit));
        put_number(out, 1, limit.requests_per_unit.into());
        put_number(out, 2, wire::unit_number(limit.unit).cast_unsigned().into());
        if !limit.name.is_empty() {
            put_head(out, 3, limit.name.len());
            out.put_slice(limit.name.as_bytes());
        }
    }
    put_number(out, 3, status.remaining.to_u32().into());
    if let Some(limit) = &status.limit {
        let seconds = wire::seconds(limit.reset);
        put_head(out, 4, number_len(seconds));
        put_number(out, 1, seconds);
    }
}

fn status_len(status: &Status<'_>) -> usize {
    let limit = status.limit.as_ref().map_or(0, |limit| {
        nested_len(limit_len(limit)) + nested_len(number_len(wire::seconds(limit.reset)))
    });
    number_len(wire::code(status.code).cast_unsigned().into())
        + limit
        + number_len(status.remaining.to_u32().into())
}

fn limit_len(limit: &Applied<'_>) -> usize {
    let name = limit.name.len();
    number_len(limit.requests_per_unit.into())
        + number_len(wire::unit_number(limit.unit).cast_unsigned().into())
        + if name == 0 { 0 } else { nested_len(name) }
}

/// What a number takes as a field: every tag here is one byte, and 0 is not
/// written.
const fn number_len(number: u64) -> usize {
    if number == 0 { 0 } else { 1 + encoded_len_varint(number) }
}

const fn nested_len(length: usize) -> usize {
    1 + encoded_len_varint(length as u64) + length
}

fn put_number(out: &mut BytesMut, tag: u32, number: u64) {
    if number != 0 {
        encode_key(tag, WireType::Varint, out);
        encode_varint(number, out);
    }
}

fn put_head(out: &mut BytesMut, tag: u32, length: usize) {
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(length as u64, out);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decide::Code;
    use crate::limit::Unit;
    use crate::proto::envoy::r#type::v3::RateLimitUnit;
    use crate::proto::rate_limit_descriptor::{Entry, RateLimitOverride};
    use crate::proto::{RateLimitDescriptor, RateLimitRequest};
    use crate::units::{Hits, Span};

    fn entries() -> impl Strategy<Value = Vec<Entry>> {
        let entry = ("\\PC{0,12}", "\\PC{0,200}").prop_map(|(key, value)| Entry { key, value });
        prop::collection::vec(entry, 0..6)
    }

    fn requests() -> impl Strategy<Value = RateLimitRequest> {
        let limit = (any::<u32>(), -1..9_i32)
            .prop_map(|(requests_per_unit, unit)| RateLimitOverride { requests_per_unit, unit });
        let descriptor = (entries(), prop::option::of(limit), any::<Option<u64>>(), any::<bool>());
        let descriptor = descriptor.prop_map(|(entries, limit, hits_addend, is_negative_hits)| {
            RateLimitDescriptor { entries, limit, hits_addend, is_negative_hits }
        });
        ("[a-z]{0,3}", prop::collection::vec(descriptor, 0..4), any::<u32>()).prop_map(
            |(domain, descriptors, hits_addend)| RateLimitRequest {
                domain,
                descriptors,
                hits_addend,
            },
        )
    }

    fn statuses() -> impl Strategy<Value = Vec<Spec>> {
        let limit = ("[a-z]{0,200}", any::<u32>(), 0..Unit::ALL.len(), any::<u64>());
        prop::collection::vec((any::<bool>(), prop::option::of(limit), 0..1_u64 << 34), 0..6)
    }

    type Spec = (bool, Option<(String, u32, usize, u64)>, u64);

    fn code(over: bool) -> Code {
        if over { Code::OverLimit } else { Code::Ok }
    }

    fn status((over, limit, remaining): &Spec) -> Status<'_> {
        let limit = limit.as_ref().map(|(name, requests_per_unit, unit, reset)| Applied {
            name,
            requests_per_unit: *requests_per_unit,
            unit: Unit::ALL[*unit],
            reset: Span::from_micros(*reset),
        });
        Status { code: code(*over), limit, remaining: Hits::new(*remaining) }
    }

    proptest! {
        /// Whatever is read is what the generated code reads, and all that can be
        /// decided is read.
        #[test]
        fn requests_are_read_as_by_the_generated_code(message in requests()) {
            let settings = Settings::default();
            let bytes = message.encode_to_vec();
            let expected = wire::request(&message, &settings).ok();
            let read = request(&bytes, &settings);
            prop_assert_eq!(format!("{read:?}"), format!("{expected:?}"));
        }

        #[test]
        fn broken_requests_are_read_alike_or_not_at_all(
            message in requests(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            let settings = Settings::default();
            let mut bytes = message.encode_to_vec();
            for (at, byte) in changes {
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] = byte;
                }
            }
            if let Some(read) = request(&bytes, &settings) {
                let message = RateLimitRequest::decode(&*bytes).unwrap();
                let expected = wire::request(&message, &settings).unwrap();
                prop_assert_eq!(format!("{read:?}"), format!("{expected:?}"));
            }
        }

        #[test]
        fn answers_are_written_as_by_the_generated_code(over: bool, statuses in statuses()) {
            let settings = Settings::default();
            let decision = || Decision {
                overall: code(over),
                statuses: statuses.iter().map(status).collect(),
                headers: None,
                metadata: None,
            };
            let expected = wire::response(decision(), &settings).encode_to_vec();
            let written = answer(decision(), &settings);
            prop_assert_eq!(message(&written), Some(&*expected));
        }
    }

    #[test]
    fn a_message_is_waited_for_as_long_as_it_may_come() {
        for beginning in [&[][..], &[0, 0, 0], &[0, 0, 0, 0, 2], &[0, 0, 0, 0, 2, 8]] {
            assert!(is_incomplete(beginning), "{beginning:?}");
        }
        let others: [&[u8]; 4] =
            [&[0, 0, 0, 0, 0], &[0, 0, 0, 0, 1, 8, 9], &[1, 0, 0, 0, 9], &[0, 0, 64, 0, 1, 8]];
        for other in others {
            assert!(!is_incomplete(other), "{other:?}");
        }
    }

    #[test]
    fn only_one_whole_plain_message_is_taken() {
        assert_eq!(message(&[0, 0, 0, 0, 2, 8, 9]), Some(&[8, 9][..]));
        let others: [&[u8]; 5] =
            [&[], &[0, 0, 0, 0], &[1, 0, 0, 0, 1, 8], &[0, 0, 0, 0, 3, 8], &[0, 0, 0, 0, 0, 8]];
        for other in others {
            assert_eq!(message(other), None, "{other:?}");
        }
        assert_eq!(RateLimitUnit::Year as i32, wire::unit_number(Unit::Year));
    }
}
