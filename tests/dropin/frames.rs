//! HTTP/2 frame by frame, for what a client library decides by itself.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;

use prost::Message as _;
use tidegate::proto::RateLimitRequest;

use crate::support::process::PATIENCE;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;

pub const ACK: u8 = 1;
pub const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// The head of a call, in the form of HPACK that needs no table.
const HEAD: [(&str, &str); 6] = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"),
    (":authority", "here"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
];

#[derive(Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    /// The last stream that a `GOAWAY` promises to serve.
    pub fn last_stream(&self) -> u32 {
        u32::from_be_bytes(self.payload[..4].try_into().expect("four bytes"))
    }
}

/// A connection.
pub struct Wire(TcpStream);

impl Wire {
    pub fn to(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        let mut wire = Self(stream);
        wire.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").expect("sent");
        wire.send(SETTINGS, 0, 0, &[]);
        wire
    }

    pub fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
        let mut frame = length[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.0.write_all(&frame).expect("sent");
    }

    /// Makes a call on a stream.
    pub fn call(&mut self, stream: u32, request: &RateLimitRequest) {
        let mut head = Vec::new();
        for (name, value) in HEAD {
            head.push(0);
            for text in [name, value] {
                head.push(u8::try_from(text.len()).expect("a short text"));
                head.extend(text.as_bytes());
            }
        }
        self.send(HEADERS, END_HEADERS, stream, &head);
        let message = request.encode_to_vec();
        let mut data = vec![0];
        data.extend(u32::try_from(message.len()).expect("a short message").to_be_bytes());
        data.extend(message);
        self.send(DATA, END_STREAM, stream, &data);
    }

    /// The next frame, unless the connection has ended.
    pub fn receive(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        match self.0.read_exact(&mut head) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return None,
            read => read.expect("a frame"),
        }
        let [a, b, c, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.0.read_exact(&mut payload).expect("a whole frame");
        Some(Frame { kind, flags, stream: u32::from_be_bytes(stream), payload })
    }

    /// The next frame of a kind.
    pub fn until(&mut self, kind: u8) -> Frame {
        let mut frames = std::iter::from_fn(|| self.receive());
        frames.find(|frame| frame.kind == kind).expect("it comes before the end")
    }

    /// All frames until the connection ends.
    pub fn rest(&mut self) -> Vec<Frame> {
        std::iter::from_fn(|| self.receive()).collect()
    }
}
