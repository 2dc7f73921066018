//! Questions of our own: whether the server would decide if it were asked.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::upstream::Upstream;
use crate::limit::{Cost, FixedWindow, Limit};
use crate::store::{Charge, Plan, Role, StoreError};
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
    let outcome = upstream.ask(&question(), deadline).await;
    match &outcome {
        Ok(_) => breaker.close(),
        // One stall is no outage, but an error is one for certain.
        Err(StoreError::Timeout(_) | StoreError::Overloaded(_)) if breaker.is_closed() => {
            breaker.learn(&outcome);
        }
        Err(error) => breaker.open(error),
    }
    outcome.map(drop)
}

/// A decision like any other: it reads, and it writes, because a server may be
/// able to do only the one.
fn question() -> Plan {
    let mut plan = Plan::default();
    let Ok(window) = FixedWindow::new(Hits::MAX, WINDOW) else { return plan };
    let limit = Limit::FixedWindow(window);
    // No domain is empty, so no request counts here.
    let mut key = plan.keys.writer("");
    key.entry("probe", "");
    let key = key.finish(&limit);
    let (cost, role) = (Cost::Take(Hits::new(1)), Role::Enforced);
    plan.charges.push(Charge { limit, key, cost, role, joined: false, lease: None });
    plan
}
