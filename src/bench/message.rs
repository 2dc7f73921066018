//! The requests, ready for the wire.
//!
//! All requests of a run differ only in the digits of their keys. They are
//! encoded once, and each call writes its digits between the parts, so that
//! the client spends as little as it can of the machine it shares with the
//! server.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use prost::Message as _;
use prost::bytes::BufMut;
use smallvec::SmallVec;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use super::Ask;
use super::keys::{Keys, random_of};
use crate::proto::rate_limit_descriptor::Entry;
use crate::proto::{RateLimitDescriptor, RateLimitRequest};

/// Bytes of the two buffers that tonic takes for each call: requests and
/// answers are small, and what is larger still fits after growing.
const BUFFER: usize = 512;
/// Bytes to collect before they are sent; one request never has so many.
const YIELD_AT: usize = 32 << 10;

/// The entries of a descriptor, written `path=/login,user`: those with a value
/// are always the same, those without get a key as their value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape(Vec<(String, Option<String>)>);

/// Text that is no descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected entries such as user or path=/login,user")]
pub struct ShapeError;

/// What all calls of a run ask.
#[derive(Debug)]
pub struct Question {
    keys: Keys,
    seed: u64,
    template: Arc<Template>,
}

/// One call: the key of each descriptor.
#[derive(Clone, Debug)]
pub struct Request {
    template: Arc<Template>,
    keys: SmallVec<[u32; 4]>,
}

/// A request with gaps.
#[derive(Debug)]
struct Template {
    descriptors: usize,
    /// How many digits every key has.
    width: usize,
    /// What stands before each gap, and the descriptor whose key fills it.
    gaps: Vec<(Vec<u8>, usize)>,
    end: Vec<u8>,
}

/// As much of an answer as is counted. Everything else is skipped unread.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Answer {
    /// The code of the whole request.
    #[prost(enumeration = "crate::proto::rate_limit_response::Code", tag = "1")]
    pub overall_code: i32,
}

/// Writes requests and reads answers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wire;

impl Question {
    /// What `ask` says.
    pub fn new(ask: &Ask) -> Self {
        let keys = Keys::new(ask.keys, ask.distribution);
        let template = Arc::new(Template::new(&ask.domain, &ask.descriptors, keys.count()));
        Self { keys, seed: ask.seed, template }
    }

    /// The request of the call with this number.
    pub fn request(&self, number: u64) -> Request {
        let mut random = random_of(self.seed, number);
        let keys = (0..self.template.descriptors).map(|_| self.keys.draw(&mut random)).collect();
        Request { template: Arc::clone(&self.template), keys }
    }
}

impl Request {
    /// Writes the message.
    pub fn encode(&self, buffer: &mut impl BufMut) {
        self.template.encode(&self.keys, buffer);
    }
}

impl Shape {
    fn descriptor(&self, key: &str) -> RateLimitDescriptor {
        let entry = |(name, value): &(String, Option<String>)| Entry {
            key: name.clone(),
            value: value.as_deref().unwrap_or(key).to_owned(),
        };
        RateLimitDescriptor {
            entries: self.0.iter().map(entry).collect(),
            ..RateLimitDescriptor::default()
        }
    }

    fn gaps(&self) -> usize {
        self.0.iter().filter(|(_, value)| value.is_none()).count()
    }
}

impl Template {
    /// Encodes the request twice, with different digits in every gap: gaps are
    /// where the two differ.
    fn new(domain: &str, shapes: &[Shape], keys: u32) -> Self {
        let width = keys.saturating_sub(1).max(1).ilog10() as usize + 1;
        let encoded = |digit: &str| {
            let key = digit.repeat(width);
            let descriptors = shapes.iter().map(|shape| shape.descriptor(&key)).collect();
            RateLimitRequest { domain: domain.to_owned(), descriptors, hits_addend: 0 }
                .encode_to_vec()
        };
        let (nulls, ones) = (encoded("0"), encoded("1"));
        let owners = shapes
            .iter()
            .enumerate()
            .flat_map(|(index, shape)| std::iter::repeat_n(index, shape.gaps()));
        let (mut gaps, mut from) = (Vec::new(), 0);
        for owner in owners {
            let differs = |(null, one): (&u8, &u8)| null != one;
            let (left, right) = (nulls.iter().skip(from), ones.iter().skip(from));
            let before = left.zip(right).position(differs).unwrap_or_default();
            gaps.push((nulls.iter().skip(from).take(before).copied().collect(), owner));
            from += before + width;
        }
        let end = nulls.into_iter().skip(from).collect();
        Self { descriptors: shapes.len(), width, gaps, end }
    }

    fn encode(&self, keys: &[u32], buffer: &mut impl BufMut) {
        for (before, owner) in &self.gaps {
            buffer.put_slice(before);
            let key = keys.get(*owner).copied().unwrap_or_default();
            let digits = digits(key);
            buffer.put_slice(digits.get(DIGITS - self.width..).unwrap_or_default());
        }
        buffer.put_slice(&self.end);
    }
}

/// Digits of the largest `u32`.
const DIGITS: usize = 10;

fn digits(mut number: u32) -> [u8; DIGITS] {
    let mut text = [b'0'; DIGITS];
    for digit in text.iter_mut().rev() {
        // Below ten, so nothing is lost.
        *digit += u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
    }
    text
}

impl FromStr for Shape {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let entry = |entry: &str| {
            let (name, value) = match entry.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (entry, None),
            };
            if name.is_empty() { Err(ShapeError) } else { Ok((name.to_owned(), value)) }
        };
        text.split(',').map(entry).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match value {
                Some(value) => write!(f, "{comma}{name}={value}")?,
                None => write!(f, "{comma}{name}")?,
            }
        }
        Ok(())
    }
}

impl Codec for Wire {
    type Encode = Request;
    type Decode = Answer;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Wire {
    type Item = Request;
    type Error = Status;

    fn encode(&mut self, request: Request, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        request.encode(buffer);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER, YIELD_AT)
    }
}

impl Decoder for Wire {
    type Item = Answer;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Answer>, Status> {
        Answer::decode(buffer).map(Some).map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER, YIELD_AT)
    }
}
