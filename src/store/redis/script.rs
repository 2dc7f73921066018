//! The script, and how it is sent.

use std::sync::LazyLock;

use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{Cmd, ErrorKind, RedisResult, Script, ServerErrorKind, Value};

use super::msgpack::{Reader, put_array, put_number};
use super::request::{Request, malformed};
use crate::store::StoreError;

/// Assembled by `build.rs` out of `lua/`.
const SOURCE: &str = include_str!(concat!(env!("OUT_DIR"), "/decide.lua"));

static HASH: LazyLock<String> = LazyLock::new(|| Script::new(SOURCE).get_hash().to_owned());

/// Most charges in one call, unless one request alone has more. Redis serves
/// nobody else during a call, and a charge takes it about 4 us.
const MAX_CHARGES: usize = 512;

/// Requests that are decided by one call of the script.
#[derive(Debug)]
pub(super) struct Batch {
    now: u64,
    charges: usize,
    integers: u32,
    bytes: usize,
    requests: Vec<Request>,
}

impl Batch {
    /// A batch of one.
    pub(super) fn new(first: Request) -> Self {
        let now = first.now;
        let mut batch = Self { now, charges: 0, integers: 1, bytes: 0, requests: Vec::new() };
        batch.push(first);
        batch
    }

    /// How many requests it has.
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Adds a request, or gives it back if it belongs into the next batch.
    pub(super) fn add(&mut self, request: Request) -> Option<Request> {
        if request.now != self.now || self.charges + request.charges > MAX_CHARGES {
            return Some(request);
        }
        self.push(request);
        None
    }

    fn push(&mut self, request: Request) {
        self.charges += request.charges;
        self.integers = self.integers.saturating_add(request.integers);
        self.bytes += request.len();
        self.requests.push(request);
    }

    /// Has the batch decided. A server that does not know the script (it was
    /// restarted, or its scripts were flushed) has done nothing; it is sent the
    /// same batch again with the source, which it keeps. That needs no
    /// permission for `SCRIPT`.
    pub(super) async fn decide(&self, connection: &mut impl ConnectionLike) -> RedisResult<Value> {
        let known = self.command("EVALSHA", &HASH).query_async(connection).await;
        match known {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                self.command("EVAL", SOURCE).query_async(connection).await
            }
            outcome => outcome,
        }
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let mut argument = Vec::with_capacity(self.bytes + 16);
        put_array(&mut argument, self.integers);
        put_number(&mut argument, self.now);
        let mut command = Cmd::with_capacity(self.charges + 4, self.bytes + script.len() + 64);
        command.arg(name).arg(script).arg(self.charges);
        for request in &self.requests {
            argument.extend_from_slice(request.body());
            for key in request.keys() {
                command.arg(key);
            }
        }
        command.arg(argument);
        command
    }

    /// Gives every caller its part of the reply.
    pub(super) fn answer(self, reply: &Value) {
        let bytes = if let Value::BulkString(bytes) = reply { bytes.as_slice() } else { &[] };
        let Some(mut reader) = Reader::of_array(bytes) else {
            return self.fail(&malformed());
        };
        for request in self.requests {
            request.answer_from(&mut reader);
        }
    }

    /// Gives every caller the same failure.
    pub(super) fn fail(self, error: &StoreError) {
        for request in self.requests {
            request.answer(Err(error.clone()));
        }
    }
}
