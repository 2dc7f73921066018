//! As much of an HTTP client as the tests need.

#![allow(dead_code, reason = "each test binary that includes this uses a part of it")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::process::PATIENCE;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }
}

/// `GET path`.
pub fn get(address: &str, path: &str) -> Answer {
    call(address, "GET", path, b"")
}

/// `GET path`, with one more header line.
pub fn get_with(address: &str, path: &str, header: &str) -> Answer {
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    let mut call = Call(stream);
    let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    call.send(format!("{head}{header}\r\n\r\n").as_bytes());
    call.finish()
}

/// `POST path` with `body`.
pub fn post(address: &str, path: &str, body: &[u8]) -> Answer {
    call(address, "POST", path, body)
}

/// One call on a connection of its own.
pub fn call(address: &str, method: &str, path: &str, body: &[u8]) -> Answer {
    let mut call = Call::begin(address, method, path, body.len());
    call.send(body);
    call.finish()
}

/// A call whose body is sent bit by bit.
pub struct Call(TcpStream);

impl Call {
    /// Sends the head; `length` bytes of body are to follow.
    pub fn begin(address: &str, method: &str, path: &str, length: usize) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        let mut call = Self(stream);
        call.send(
            format!(
                "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
                 content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
            )
            .as_bytes(),
        );
        call
    }

    /// Sends more of the body. A server may refuse the rest of a large one.
    pub fn send(&mut self, part: &[u8]) {
        let _ = self.0.write_all(part);
    }

    /// Reads the answer.
    pub fn finish(mut self) -> Answer {
        let mut bytes = Vec::new();
        // After an answer to half a request the connection may be reset.
        let _ = self.0.read_to_end(&mut bytes);
        let text = String::from_utf8(bytes).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        Answer { status: status.expect("a status line"), head: head.into(), body: body.into() }
    }
}
