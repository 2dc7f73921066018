//! What one call of the script decides.

use deadpool_redis::redis::{Cmd, Value};

use super::failure::{Failure, Refused};
use super::msgpack::{Reader, put_array, put_number};
use super::request::{Integers, Limits, Manner, Moment, Request, malformed};
use crate::units::Timestamp;

/// Most work in one call, in charges, unless one request alone has more. Redis
/// serves nobody else during a call, and a charge takes it 5 to 30 us.
const MAX_WORK: usize = 512;

/// Requests that are decided by one call of the script.
#[derive(Debug)]
pub(super) struct Batch {
    manner: Manner,
    moment: Moment,
    charges: usize,
    work: usize,
    bytes: usize,
    requests: Vec<Request>,
}

impl Batch {
    /// A batch of one.
    pub(super) fn new(first: Request) -> Self {
        let (manner, moment) = (first.manner, first.moment);
        let requests = Vec::new();
        let mut batch = Self { manner, moment, charges: 0, work: 0, bytes: 0, requests };
        batch.push(first);
        batch
    }

    /// Whether `request` is sent in the same way, to the same slot.
    pub(super) fn is_kin(&self, request: &Request) -> bool {
        self.manner == request.manner && !self.manner.alone
    }

    /// Whether the server must be told that it was named by another.
    pub(super) fn is_asking(&self) -> bool {
        self.manner.asking
    }

    /// Adds a request, or gives it back if it belongs into the next batch.
    pub(super) fn add(&mut self, request: Request) -> Option<Request> {
        if request.moment != self.moment || self.work.saturating_add(request.work) > MAX_WORK {
            return Some(request);
        }
        self.push(request);
        None
    }

    fn push(&mut self, request: Request) {
        self.charges += request.charges();
        self.work = self.work.saturating_add(request.work);
        self.bytes += request.len();
        self.requests.push(request);
    }

    /// How many charges it has, and so how many keys.
    pub(super) fn charges(&self) -> usize {
        self.charges
    }

    /// About how long its arguments are.
    pub(super) fn len_bytes(&self) -> usize {
        self.bytes + 64
    }

    /// Appends what the script is given: the number of keys, the keys and one
    /// argument.
    pub(super) fn write_to(&self, command: &mut Cmd) {
        let (mut limits, mut requests) = (Limits::default(), Integers::default());
        command.arg(self.charges);
        for request in &self.requests {
            request.write_to(&mut limits, &mut requests);
            for key in request.keys() {
                command.arg(key);
            }
        }
        let limits = limits.written;
        let mut argument = Vec::with_capacity(limits.bytes.len() + requests.bytes.len() + 24);
        let before = Limits::BEFORE + limits.count;
        put_array(&mut argument, before + requests.count);
        self.moment.write_to(&mut argument);
        put_number(&mut argument, u64::from(before) + 1);
        argument.extend_from_slice(&limits.bytes);
        argument.extend_from_slice(&requests.bytes);
        command.arg(argument);
    }

    /// Gives every caller its part of the reply.
    pub(super) fn answer(self, reply: &Value) {
        let bytes = if let Value::BulkString(bytes) = reply { bytes.as_slice() } else { &[] };
        let Some(mut reader) = Reader::of_array(bytes) else {
            return self.fail(&Failure::harmless(malformed()));
        };
        let Some(at) = reader.next_number().map(Timestamp::from_micros) else {
            return self.fail(&Failure::harmless(malformed()));
        };
        for request in self.requests {
            request.answer_from(&mut reader, at);
        }
    }

    /// Gives every caller the same failure.
    pub(super) fn fail(self, failure: &Failure) {
        for request in self.requests {
            request.answer(Err(Refused::from(failure)));
        }
    }
}
