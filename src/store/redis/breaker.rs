//! A circuit breaker: where nobody answers, nobody waits.
//!
//! It opens when [`SILENCES`] decisions in a row went without an answer, or when
//! a question of our own fails; while it is open, decisions fail at once. In the
//! background one question at a time is asked, an ordinary decision on a key of
//! its own, and the first that is answered closes it again. No caller's request
//! is spent on trying. An error reply opens nothing by itself, because it costs
//! nobody any time and may concern one request only; it makes us ask.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use arc_swap::ArcSwapOption;
use tokio::sync::{Notify, watch};

use super::cluster::News;
use crate::store::{Circuit, StoreError, StoreHealth};
use crate::units::Span;

/// Decisions in a row without an answer that open the breaker. One or two may be
/// a stall of our own machine.
const SILENCES: u32 = 5;

/// See the module.
#[derive(Debug)]
pub(super) struct Breaker {
    server: String,
    /// The same as `health` says, for those in a hurry.
    closed: AtomicBool,
    silences: AtomicU32,
    /// Something was decided since this was last looked at.
    decided: AtomicBool,
    /// Why the breaker is open.
    error: ArcSwapOption<StoreError>,
    doubts: Notify,
    health: watch::Sender<StoreHealth>,
    /// What to tell the cluster that it is a node of.
    news: Option<Arc<News>>,
}

impl Breaker {
    /// A closed breaker for the server of this name.
    pub(super) fn new(server: &str, news: Option<Arc<News>>) -> Self {
        Self {
            server: server.to_owned(),
            closed: AtomicBool::new(true),
            silences: AtomicU32::new(0),
            decided: AtomicBool::new(false),
            error: ArcSwapOption::empty(),
            doubts: Notify::new(),
            health: watch::Sender::new(StoreHealth::default()),
            news,
        }
    }

    /// Whether to ask the server.
    pub(super) fn admit(&self) -> Result<(), StoreError> {
        if self.is_closed() {
            return Ok(());
        }
        match self.error.load_full() {
            Some(error) => Err(StoreError::Suspended(error)),
            // It closed between the two looks.
            None => Ok(()),
        }
    }

    /// Learns from what became of a decision.
    pub(super) fn learn<T>(&self, outcome: &Result<T, StoreError>) {
        let Err(error) = outcome else {
            // Looked at first: a write that changes nothing still makes every
            // core fetch the line again.
            if self.silences.load(Ordering::Relaxed) != 0 {
                self.silences.store(0, Ordering::Relaxed);
            }
            if !self.decided.load(Ordering::Relaxed) {
                self.decided.store(true, Ordering::Relaxed);
            }
            return;
        };
        if error.is_general() {
            self.doubt();
        }
        if error.is_silence() && self.silences.fetch_add(1, Ordering::Relaxed) + 1 >= SILENCES {
            self.open(error);
        }
    }

    /// Asks for a question soon.
    pub(super) fn doubt(&self) {
        self.doubts.notify_one();
    }

    /// Waits until somebody doubts.
    pub(super) async fn doubted(&self) {
        self.doubts.notified().await;
    }

    /// Whether something was decided since the last call of this.
    pub(super) fn decided(&self) -> bool {
        self.decided.swap(false, Ordering::Relaxed)
    }

    /// Whether the server is asked.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Whether the server is asked and nothing speaks against it.
    pub(super) fn is_calm(&self) -> bool {
        self.is_closed() && self.silences.load(Ordering::Relaxed) == 0
    }

    /// A question of our own is about to be asked.
    pub(super) fn half_open(&self) {
        self.change(|health| {
            let trying = health.circuit == Circuit::Open;
            if trying {
                enter(health, Circuit::HalfOpen);
            }
            trying
        });
    }

    /// Decisions fail at once from now on.
    pub(super) fn open(&self, error: &StoreError) {
        let error = Arc::new(error.clone());
        self.change(|health| {
            if health.circuit == Circuit::Closed {
                health.away_since = Some(Instant::now());
                tracing::warn!(
                    error = %error,
                    "the store is away: decisions follow the failure mode until it answers"
                );
            }
            self.error.store(Some(error.clone()));
            self.closed.store(false, Ordering::Relaxed);
            health.error = Some(error);
            if health.circuit != Circuit::Open {
                enter(health, Circuit::Open);
            }
            true
        });
    }

    /// The server has answered a question of our own.
    pub(super) fn close(&self) {
        self.silences.store(0, Ordering::Relaxed);
        self.change(|health| {
            if health.circuit != Circuit::Closed {
                let away = health.away_since.take().map(|since| since.elapsed());
                let (server, away) = (&*self.server, Span::from(away.unwrap_or_default()));
                tracing::info!(server, %away, "the store answers again");
                enter(health, Circuit::Closed);
            } else if health.proven {
                return false;
            } else {
                tracing::info!(server = &*self.server, "connected to the store");
            }
            self.closed.store(true, Ordering::Relaxed);
            self.error.store(None);
            health.proven = true;
            health.error = None;
            true
        });
    }

    /// What is known now, and what will be.
    pub(super) fn health(&self) -> watch::Receiver<StoreHealth> {
        self.health.subscribe()
    }

    /// Changes the state and tells who watches if something changed. One change
    /// at a time: the channel has a lock.
    fn change(&self, how: impl FnOnce(&mut StoreHealth) -> bool) {
        let changed = self.health.send_if_modified(how);
        if let Some(news) = self.news.as_ref().filter(|_| changed) {
            news.health.notify_one();
        }
    }
}

fn enter(health: &mut StoreHealth, circuit: Circuit) {
    health.circuit = circuit;
    let counts = Circuit::ALL.iter().zip(&mut health.transitions);
    for (_, count) in counts.filter(|(known, _)| **known == circuit) {
        *count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Cause;

    fn silence() -> Result<(), StoreError> {
        Err(StoreError::Timeout(Span::from_millis(10)))
    }

    fn breaker() -> Breaker {
        let breaker = Breaker::new("redis.example:6379", None);
        breaker.close();
        breaker
    }

    fn state(breaker: &Breaker) -> (Circuit, [u64; 3]) {
        let health = breaker.health().borrow().clone();
        (health.circuit, health.transitions)
    }

    #[test]
    fn silences_in_a_row_open_it_and_an_answer_between_them_does_not() {
        let breaker = breaker();
        for _ in 0..10 {
            for _ in 0..SILENCES - 1 {
                breaker.learn(&silence());
            }
            breaker.learn(&Ok(()));
        }
        assert!(breaker.admit().is_ok());
        for _ in 0..SILENCES {
            assert!(breaker.admit().is_ok());
            breaker.learn(&silence());
        }
        match breaker.admit() {
            Err(StoreError::Suspended(why)) => assert_eq!(why.kind(), "timeout"),
            other => panic!("{other:?}"),
        }
        assert_eq!(state(&breaker), (Circuit::Open, [0, 1, 0]));
    }

    #[test]
    fn only_a_question_of_our_own_closes_it() {
        let breaker = breaker();
        breaker.open(&StoreError::unavailable(Cause::Loading, "LOADING"));
        breaker.learn(&Ok(()));
        assert!(breaker.admit().is_err());
        breaker.half_open();
        assert!(breaker.admit().is_err(), "nobody else is let through meanwhile");
        breaker.open(&StoreError::unavailable(Cause::OutOfMemory, "OOM"));
        let why = breaker.admit().unwrap_err().to_string();
        assert!(why.contains("OOM"), "the latest reason is told: {why}");
        breaker.half_open();
        breaker.close();
        assert!(breaker.admit().is_ok());
        assert_eq!(state(&breaker), (Circuit::Closed, [1, 2, 2]));
        assert!(breaker.health().borrow().error.is_none());
    }

    #[test]
    fn replies_that_are_errors_open_nothing_by_themselves() {
        let breaker = breaker();
        for _ in 0..100 {
            breaker.learn(&Err::<(), _>(StoreError::unavailable(Cause::OutOfMemory, "OOM")));
            breaker.learn(&Err::<(), _>(StoreError::Overloaded(1)));
        }
        assert!(breaker.admit().is_ok());
    }

    #[test]
    fn a_store_that_never_answered_is_not_up() {
        let breaker = Breaker::new("redis.example:6379", None);
        assert!(breaker.admit().is_ok(), "but it is asked");
        assert!(!breaker.health().borrow().is_up());
        breaker.close();
        assert!(breaker.health().borrow().is_up());
    }
}
