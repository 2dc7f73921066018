//! One request on its way to the script and back. The layout of both is told in
//! `lua/prelude.lua` and `lua/decide.lua`.

use smallvec::SmallVec;
use tokio::sync::oneshot;

use super::failure::{Refused, unusable_counter};
use super::msgpack::{Item, Reader, put_negative, put_number};
use super::part::Part;
use crate::limit::{Cost, Verdict};
use crate::store::{Charge, Role, StoreError, Verdicts};
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
    charges: SmallVec<[Written; 2]>,
    /// How many charges it is as much work as.
    pub(super) work: usize,
    /// Of each group: whether quota passes, and how many charges it has.
    groups: SmallVec<[(bool, usize); 2]>,
    /// The limit and the key of each charge in turn.
    bytes: Vec<u8>,
    answer: oneshot::Sender<Answer>,
}

/// Writing so many hits into a log takes Redis as long as a charge does.
const LOGGED_PER_CHARGE: u64 = 10;

/// A charge that is written out.
#[derive(Debug)]
struct Written {
    role: Role,
    cost: Cost,
    /// How many integers the limit is.
    integers: u32,
    /// Where the limit and the key end; both begin where that before them ends.
    limit_end: usize,
    key_end: usize,
}

impl Request {
    /// Writes out `plan`, with `prefix` before its keys.
    pub(super) fn new(
        plan: &Part<'_>,
        manner: Manner,
        prefix: &str,
        answer: oneshot::Sender<Answer>,
    ) -> Self {
        let mut out = Integers { bytes: Vec::with_capacity(160), count: 0 };
        let mut charges = SmallVec::with_capacity(plan.charges.len());
        let mut groups = SmallVec::new();
        for group in plan.groups() {
            groups.push((group.quota_passes, group.charges.len()));
            for charge in group.charges {
                let before = out.count;
                out.limit(&charge.limit, charge.lease.is_some(), plan.now);
                let (integers, limit_end) = (out.count - before, out.bytes.len());
                out.bytes.extend_from_slice(prefix.as_bytes());
                out.bytes.extend_from_slice(plan.keys.get(charge.key));
                let (role, cost, key_end) = (group.role(charge), charge.cost, out.bytes.len());
                charges.push(Written { role, cost, integers, limit_end, key_end });
            }
        }
        let moment = match plan.since {
            _ if plan.pinned => Moment::Pinned(plan.now),
            Some(taken) => Moment::Since(taken),
            None => Moment::Now,
        };
        let logged: u64 = plan.charges.iter().map(Charge::logged).sum();
        let logged = usize::try_from(logged / LOGGED_PER_CHARGE).unwrap_or(usize::MAX);
        let work = charges.len().saturating_add(logged);
        Self { moment, manner, charges, work, groups, bytes: out.bytes, answer }
    }

    /// How many charges it has, and so how many keys.
    pub(super) fn charges(&self) -> usize {
        self.charges.len()
    }

    /// How many bytes it has.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Each charge with its limit, as `MessagePack`, and its key.
    fn written(&self) -> impl Iterator<Item = (&Written, &[u8], &[u8])> {
        let mut start = 0;
        self.charges.iter().map(move |charge| {
            let limit = self.bytes.get(start..charge.limit_end).unwrap_or_default();
            let key = self.bytes.get(charge.limit_end..charge.key_end).unwrap_or_default();
            start = charge.key_end;
            (charge, limit, key)
        })
    }

    /// The keys, in the order of the charges.
    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.written().map(|(_, _, key)| key)
    }

    /// Appends it to those of its batch, and its limits to theirs.
    pub(super) fn write_to(&self, limits: &mut Limits, out: &mut Integers) {
        let mut charges = self.written().map(|(charge, limit, _)| {
            let at = limits.place(limit, charge.integers);
            (charge, at)
        });
        if let [only] = &*self.charges {
            out.put(charges.next().map_or(0, |(_, at)| at));
            return out.cost(only.cost);
        }
        out.put(0);
        out.put(self.groups.len() as u64);
        for &(quota_passes, len) in &self.groups {
            out.put(u64::from(quota_passes));
            out.put(len as u64);
            for (charge, limit) in charges.by_ref().take(len) {
                out.put(match charge.role {
                    Role::Enforced => 0,
                    Role::Shadow => 1,
                    Role::Quota => 2,
                });
                out.cost(charge.cost);
                out.put(limit);
            }
        }
    }

    /// Whether nobody waits for the answer any more.
    pub(super) fn is_abandoned(&self) -> bool {
        self.answer.is_closed()
    }

    /// Answers the caller from its part of the reply, which was given `at`.
    pub(super) fn answer_from(self, reply: &mut Reader<'_>, at: Timestamp) {
        let verdicts = read_verdicts(reply, self.charges.len());
        self.answer(verdicts.map(|verdicts| Said { verdicts, at }));
    }

    /// Answers the caller, if it still waits.
    pub(super) fn answer(self, answer: Answer) {
        let _ = self.answer.send(answer);
    }
}

/// Integers for the script, in `MessagePack`.
#[derive(Debug, Default)]
pub(super) struct Integers {
    /// The text of all.
    pub(super) bytes: Vec<u8>,
    /// How many they are.
    pub(super) count: u32,
}

impl Integers {
    /// One more.
    pub(super) fn put(&mut self, number: u64) {
        self.count += 1;
        put_number(&mut self.bytes, number);
    }

    /// All of these.
    pub(super) fn put_all<const N: usize>(&mut self, numbers: [u64; N]) {
        for number in numbers {
            self.put(number);
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

/// The limits of a batch. Those met last are written once only: most requests of
/// a batch are about few rules.
#[derive(Debug, Default)]
pub(super) struct Limits {
    /// Their text.
    pub(super) written: Integers,
    /// Where some begin and end in the text, and where they stand for the script.
    recent: SmallVec<[(usize, usize, u64); RECENT]>,
    /// Which of these is replaced next.
    oldest: usize,
}

/// How many limits are looked through for one that is there already.
const RECENT: usize = 8;

impl Limits {
    /// How many integers stand before them: the moment, and where the requests begin.
    pub(super) const BEFORE: u32 = 2;

    /// Where `limit` stands, counted from 1: the text of so many `integers`.
    fn place(&mut self, limit: &[u8], integers: u32) -> u64 {
        let bytes = &self.written.bytes;
        let is_it = |&&(start, end, _): &&_| bytes.get(start..end) == Some(limit);
        if let Some(&(_, _, at)) = self.recent.iter().find(is_it) {
            return at;
        }
        let at = u64::from(Self::BEFORE + self.written.count) + 1;
        let start = bytes.len();
        self.written.bytes.extend_from_slice(limit);
        self.written.count += integers;
        let place = (start, self.written.bytes.len(), at);
        if self.recent.len() < RECENT {
            self.recent.push(place);
        } else if let Some(oldest) = self.recent.get_mut(self.oldest) {
            *oldest = place;
            self.oldest = (self.oldest + 1) % RECENT;
        }
        at
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
