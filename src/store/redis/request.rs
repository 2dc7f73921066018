//! One request on its way to the script and back. The layout of both is told in
//! `lua/decide.lua`.

use smallvec::SmallVec;
use tokio::sync::oneshot;

use super::failure::{Refused, unusable_counter};
use super::msgpack::{Item, Reader, put_negative, put_number};
use super::part::Part;
use crate::limit::{Cost, Verdict};
use crate::store::{Group, Role, StoreError, Verdicts};
use crate::units::{Hits, Span, Timestamp};

/// What a caller waits for.
pub(super) type Answer = Result<Said, Refused>;

/// What the script said.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    /// One verdict per charge.
    pub(super) verdicts: Verdicts,
    /// When it decided, by its own clock.
    pub(super) at: Timestamp,
}

/// By which clock a request is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// By that of Redis.
    Now,
    /// The same, but nothing is given back to a counter that is younger than this.
    Since(Timestamp),
    /// At this one.
    Pinned(Timestamp),
}

/// How a request is sent. Only in Redis Cluster is there more than one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Manner {
    /// The slot of all its keys.
    pub(super) slot: u16,
    /// Its server was named by another, for this once.
    pub(super) asking: bool,
    /// In a call of its own: the keys of a slot that is on its way to another
    /// server may be here and there.
    pub(super) alone: bool,
}

/// What stands for [`Cost::Reset`]: no refund is as large.
const RESET: u64 = 2 * Hits::MAX.get() - 1;

/// What stands for a refund of nothing, since 0 is a check.
const REFUND_OF_NOTHING: u64 = RESET - 1;

/// What stands for [`Span::FOREVER`].
const FOREVER: u64 = 1 << 53;

/// A request, written out by its caller so that a lane only has to join many.
#[derive(Debug)]
pub(super) struct Request {
    /// When it is decided.
    pub(super) moment: Moment,
    /// How to send it.
    pub(super) manner: Manner,
    /// How many charges it has, and so how many keys.
    pub(super) charges: usize,
    /// How many integers `bytes` begin with.
    pub(super) integers: u32,
    /// The integers, then the keys.
    bytes: Vec<u8>,
    /// Where in `bytes` the integers end, and after it each key.
    ends: SmallVec<[usize; 5]>,
    answer: oneshot::Sender<Answer>,
}

impl Request {
    /// Writes out `plan`, with `prefix` before its keys.
    pub(super) fn new(
        plan: &Part<'_>,
        manner: Manner,
        prefix: &str,
        answer: oneshot::Sender<Answer>,
    ) -> Self {
        let mut out = Integers { bytes: Vec::with_capacity(192), count: 0 };
        out.put(plan.groups().count() as u64);
        for group in plan.groups() {
            out.group(&group, plan.now);
        }
        let Integers { mut bytes, count } = out;
        let mut ends = SmallVec::with_capacity(plan.charges.len() + 1);
        ends.push(bytes.len());
        for charge in &*plan.charges {
            bytes.extend_from_slice(prefix.as_bytes());
            bytes.extend_from_slice(plan.keys.get(charge.key));
            ends.push(bytes.len());
        }
        let moment = match plan.since {
            _ if plan.pinned => Moment::Pinned(plan.now),
            Some(taken) => Moment::Since(taken),
            None => Moment::Now,
        };
        Self { moment, manner, charges: plan.charges.len(), integers: count, bytes, ends, answer }
    }

    /// The integers, as `MessagePack`.
    pub(super) fn body(&self) -> &[u8] {
        let end = self.ends.first().copied().unwrap_or_default();
        self.bytes.get(..end).unwrap_or_default()
    }

    /// The keys, in the order of the charges.
    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let bounds = self.ends.iter().zip(self.ends.iter().skip(1));
        bounds.map(|(&start, &end)| self.bytes.get(start..end).unwrap_or_default())
    }

    /// How many bytes it has.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nobody waits for the answer any more.
    pub(super) fn is_abandoned(&self) -> bool {
        self.answer.is_closed()
    }

    /// Answers the caller from its part of the reply, which was given `at`.
    pub(super) fn answer_from(self, reply: &mut Reader<'_>, at: Timestamp) {
        let verdicts = read_verdicts(reply, self.charges);
        self.answer(verdicts.map(|verdicts| Said { verdicts, at }));
    }

    /// Answers the caller, if it still waits.
    pub(super) fn answer(self, answer: Answer) {
        let _ = self.answer.send(answer);
    }
}

/// Integers for the script, in `MessagePack`.
pub(super) struct Integers {
    bytes: Vec<u8>,
    count: u32,
}

impl Integers {
    /// One more.
    pub(super) fn put(&mut self, number: u64) {
        self.count += 1;
        put_number(&mut self.bytes, number);
    }

    fn group(&mut self, group: &Group<'_>, now: Timestamp) {
        self.put(u64::from(group.quota_passes));
        self.put(group.charges.len() as u64);
        for charge in group.charges {
            self.put(match group.role(charge) {
                Role::Enforced => 0,
                Role::Shadow => 1,
                Role::Quota => 2,
            });
            self.cost(charge.cost);
            self.limit(&charge.limit, charge.lease.is_some(), now);
        }
    }

    fn cost(&mut self, cost: Cost) {
        match cost {
            Cost::Check => self.put(0),
            Cost::Take(hits) => self.put(hits.get()),
            Cost::Refund(Hits::ZERO) => self.put_negative(REFUND_OF_NOTHING),
            Cost::Refund(hits) => self.put_negative(hits.get()),
            Cost::Reset => self.put_negative(RESET),
        }
    }

    fn put_negative(&mut self, number: u64) {
        self.count += 1;
        put_negative(&mut self.bytes, number);
    }
}

impl Moment {
    /// Writes it as the script reads it.
    pub(super) fn write_to(self, out: &mut Vec<u8>) {
        match self {
            Self::Now => put_number(out, 0),
            Self::Since(taken) => put_negative(out, taken.as_micros().max(1)),
            // A clock that stands at the epoch is a microsecond off.
            Self::Pinned(now) => put_number(out, now.as_micros().max(1)),
        }
    }
}

/// Reads the part of a reply that answers a request with so many `charges`.
fn read_verdicts(reply: &mut Reader<'_>, charges: usize) -> Result<Verdicts, Refused> {
    let mut verdicts = Verdicts::with_capacity(charges);
    for nth in 0..charges {
        let allowed = match reply.item() {
            Some(Item::Number(allowed)) => allowed == 1,
            Some(Item::Text(why)) if nth == 0 => return Err(unusable_counter(why)),
            Some(Item::Text(_)) | None => return Err(malformed().into()),
        };
        verdicts.push(read_verdict(reply, allowed).ok_or_else(malformed)?);
    }
    Ok(verdicts)
}

fn read_verdict(reply: &mut Reader<'_>, allowed: bool) -> Option<Verdict> {
    Some(Verdict {
        allowed,
        remaining: Hits::new(reply.next_number()?),
        remaining_before: Hits::new(reply.next_number()?),
        retry_after: match reply.next_number()? {
            FOREVER.. => Span::FOREVER,
            micros => Span::from_micros(micros),
        },
        reset_after: Span::from_micros(reply.next_number()?),
    })
}

/// The reply is not one that the script gives.
pub(super) fn malformed() -> StoreError {
    StoreError::Protocol(
        "the reply to the decision script cannot be read; is there a proxy in between that \
         changes replies?"
            .into(),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::store::Cause;
    use crate::store::redis::msgpack::put_array;

    fn answer(items: &[u8], charges: usize) -> Result<Verdicts, Refused> {
        let mut bytes = Vec::new();
        put_array(&mut bytes, 0);
        bytes.extend_from_slice(items);
        read_verdicts(&mut Reader::of_array(&bytes).unwrap(), charges)
    }

    #[test]
    fn five_numbers_are_a_verdict() {
        let verdicts = answer(&[1, 2, 3, 0, 5, 0, 0, 0, 6, 7], 2).unwrap();
        let fields = |verdict: &Verdict| {
            (verdict.allowed, verdict.remaining.get(), verdict.remaining_before.get())
        };
        assert_eq!(fields(&verdicts[0]), (true, 2, 3));
        assert_eq!(fields(&verdicts[1]), (false, 0, 0));
        assert_eq!(verdicts[0].reset_after, Span::from_micros(5));
        assert_eq!(verdicts[1].retry_after, Span::from_micros(6));
    }

    #[test]
    fn a_text_instead_is_the_failure_of_the_whole_request() {
        for (text, cause) in
            [(&b"\xa9WRONGTYPE"[..], Cause::WrongType), (b"\xa6NOPERM", Cause::Permission)]
        {
            match answer(text, 3) {
                Err(Refused { error: StoreError::Counter(outage), .. }) => {
                    assert_eq!(outage.cause, cause);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    proptest! {
        #[test]
        fn no_reply_makes_it_panic(items: Vec<u8>, charges in 0..6_usize) {
            if let Ok(verdicts) = answer(&items, charges) {
                prop_assert_eq!(verdicts.len(), charges);
            }
        }
    }
}
