//! Questions of our own: whether the server would decide if it were asked.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::sleep;

use super::cluster::slot_of;
use super::part::Part;
use super::request::Manner;
use super::upstream::{Patience, Upstream};
use crate::limit::{Cost, FixedWindow, Limit};
use crate::store::{Charge, HashTag, Plan, Role, StoreError};
use crate::units::{Hits, Span};

/// How often to ask while nobody else does.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// How often to ask while the breaker is open, or decisions go without answers.
const INTERVAL: Duration = Duration::from_millis(100);
/// The least time between two questions, however many doubts there are.
const SHORTEST: Duration = Duration::from_millis(20);

/// The window of the counter that questions count on. The key is gone as soon
/// as it was written.
const WINDOW: Span = Span::from_millis(1);

/// The only entry of its key.
const ENTRY: &str = "probe";

/// What to ask. In Redis Cluster it must be about a slot that the node has.
#[derive(Debug)]
pub(super) struct Question {
    /// What the entry of the key says; [`Self::ANY`]: nothing, outside a cluster.
    number: AtomicU32,
}

impl Default for Question {
    fn default() -> Self {
        Self { number: AtomicU32::new(Self::ANY) }
    }
}

impl Question {
    const ANY: u32 = u32::MAX;

    /// More numbers than it takes to meet any one slot.
    const NUMBERS: u32 = 1 << 18;

    /// Asks about a slot of those that are `owned` from now on.
    pub(super) fn keep_within(&self, prefix: &str, owned: impl Fn(u16) -> bool) {
        let mut tag = String::new();
        let mut fits = |number: &u32| {
            tag.clear();
            // The tag of the key alone decides. Writing to a text cannot fail.
            let _ = write!(tag, "{{|{ENTRY}={number}}}");
            owned(slot_of(prefix, tag.as_bytes()))
        };
        if !fits(&self.number.load(Ordering::Relaxed))
            && let Some(number) = (0..Self::NUMBERS).find(|number| fits(number))
        {
            self.number.store(number, Ordering::Relaxed);
        }
    }
}

/// Asks again and again, for ever, and works the breaker by the answers: one
/// question at a time, with the `deadline` of any decision, so that a server
/// that is too slow for callers stays away.
pub(super) async fn watch(upstream: Arc<Upstream>, deadline: Span) {
    loop {
        // The outcome is in the breaker.
        let _ = ask(&upstream, deadline).await;
        sleep(SHORTEST).await;
        let breaker = upstream.breaker();
        loop {
            let pause = if breaker.is_calm() { HEARTBEAT } else { INTERVAL };
            let doubted = tokio::select! {
                () = sleep(pause) => false,
                () = breaker.doubted() => true,
            };
            if doubted || !breaker.is_calm() || !breaker.decided() {
                break;
            }
        }
    }
}

/// Asks once and tells the breaker.
///
/// # Errors
/// When the server did not decide.
pub(super) async fn ask(upstream: &Upstream, deadline: Span) -> Result<(), StoreError> {
    let breaker = upstream.breaker();
    breaker.half_open();
    let number = upstream.question().number.load(Ordering::Relaxed);
    let plan = question(number);
    // Its slot is not worth finding out.
    let manner = Manner { alone: number != Question::ANY, ..Manner::default() };
    let part = Part::whole(&plan);
    let outcome = upstream.ask(&part, manner, Patience::new(deadline)).await;
    let outcome = match outcome {
        // The slot of the question has moved: the node is well.
        Err(refused) if upstream.is_redirect(&refused) => Ok(()),
        outcome => outcome.map(drop).map_err(|refused| refused.error),
    };
    match &outcome {
        Ok(()) => breaker.close(),
        // One stall is no outage, but an error is one for certain.
        Err(StoreError::Timeout(_) | StoreError::Overloaded(_)) if breaker.is_closed() => {
            breaker.learn(&outcome);
        }
        Err(error) => breaker.open(error),
    }
    outcome
}

/// A decision like any other: it reads, and it writes, because a server may be
/// able to do only the one.
fn question(number: u32) -> Plan {
    let mut plan = Plan::default();
    let Ok(window) = FixedWindow::new(Hits::MAX, WINDOW) else { return plan };
    let limit = Limit::FixedWindow(window);
    // No domain is empty, so no request counts here.
    let key = if number == Question::ANY {
        let mut key = plan.keys.writer("");
        key.entry(ENTRY, "");
        key.finish(&limit)
    } else {
        let mut key = plan.keys.tagged_writer("", Some(HashTag::Entries));
        key.entry(ENTRY, &number.to_string());
        key.finish(&limit)
    };
    let (cost, role) = (Cost::Take(Hits::new(1)), Role::Enforced);
    plan.charges.push(Charge { limit, key, cost, role, joined: false, lease: None });
    plan
}
