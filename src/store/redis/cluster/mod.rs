//! Redis Cluster: each slot of the keys is on one master, and may move.
//!
//! Every master has lanes and a breaker of its own, so that one that is away
//! costs only those whose counters it has. Which master has a slot is asked of
//! any node, again and again, and corrected by what nodes reply.

mod discovery;
mod health;
mod redirect;
mod slots;
mod topology;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout_at};

use super::config::RedisConfig;
use super::dial::Link;
use super::failure::Refused;
use super::part::Part;
use super::probe;
use super::request::{Manner, Said};
use super::upstream::Patience;
use super::url::Seeds;
use crate::store::{Cause, Known, Partial, StoreError, StoreHealth};
use crate::units::{Span, Timestamp};
use topology::{Node, Topology};

pub(super) use redirect::{NOT_HERE, Redirect};
pub(super) use slots::slot_of;

/// Redirections of one request in a row. A cluster at rest needs one.
const MOST_REDIRECTIONS: usize = 5;

/// How long to wait where a slot is between two nodes, at first and at most.
const SHORT_PAUSE: Duration = Duration::from_millis(1);
const LONG_PAUSE: Duration = Duration::from_millis(50);

/// The masters of a cluster.
#[derive(Debug)]
pub(super) struct Cluster {
    seeds: Seeds,
    link: Link,
    config: RedisConfig,
    /// Where the tasks of nodes run.
    runtime: Handle,
    topology: ArcSwap<Topology>,
    /// Held while the topology changes: states that masters of the past entered.
    changing: Mutex<[u64; 3]>,
    /// Which node is asked for the slots next.
    turn: AtomicUsize,
    /// Why nobody told of the slots at the last attempt.
    unknown: ArcSwapOption<StoreError>,
    /// Whether there was an attempt.
    looked: watch::Sender<bool>,
    news: Arc<News>,
    health: watch::Sender<StoreHealth>,
}

/// What nodes tell their cluster.
#[derive(Debug, Default)]
pub(super) struct News {
    /// Slots may have moved.
    pub(super) stale: Notify,
    /// A node came or went.
    pub(super) health: Notify,
}

/// The way of one request through the cluster.
struct Errand {
    /// Where to ask for this once, not where the slot belongs.
    detour: Option<Arc<Node>>,
    alone: bool,
    redirections: usize,
    pause: Duration,
}

impl Cluster {
    /// The cluster that `seeds` know, of which nothing is known yet.
    pub(super) fn new(seeds: Seeds, link: Link, config: &RedisConfig, runtime: &Handle) -> Self {
        Self {
            seeds,
            link,
            config: config.clone(),
            runtime: runtime.clone(),
            topology: ArcSwap::from_pointee(Topology::default()),
            changing: Mutex::default(),
            turn: AtomicUsize::new(0),
            unknown: ArcSwapOption::empty(),
            looked: watch::Sender::new(false),
            news: Arc::default(),
            health: watch::Sender::default(),
        }
    }

    /// The slot of the counter of this name.
    pub(super) fn slot(&self, key: &[u8]) -> u16 {
        slot_of(&self.config.key_prefix, key)
    }

    /// Has `part` decided, wherever its slot is.
    ///
    /// # Errors
    /// When it is not decided in time.
    pub(super) async fn decide(
        &self,
        part: &Part<'_>,
        patience: Patience,
    ) -> Result<Said, StoreError> {
        let mut errand = Errand::new();
        loop {
            let (node, refused) = match self.attempt(part, &errand, patience).await? {
                Ok(said) => return Ok(said),
                Err(refused) => refused,
            };
            let Some(redirect) = refused.redirect else { return Err(refused.error) };
            if matches!(redirect, Redirect::Unsettled)
                && let Some(groups) = part.apart()
            {
                return self.decide_apart(&groups, patience).await;
            }
            self.follow_redirect(&mut errand, &node, redirect, refused.error, patience).await?;
        }
    }

    /// One attempt; the node that was asked goes with its refusal.
    async fn attempt(
        &self,
        part: &Part<'_>,
        errand: &Errand,
        patience: Patience,
    ) -> Result<Result<Said, (Arc<Node>, Refused)>, StoreError> {
        let node = match &errand.detour {
            Some(node) => Arc::clone(node),
            None => self.owner(part.slot, patience).await?,
        };
        let (asking, alone) = (errand.detour.is_some(), errand.alone);
        let manner = Manner { slot: part.slot, asking, alone };
        let outcome = node.upstream.decide(part, manner, patience).await;
        Ok(outcome.map_err(|refused| (node, refused)))
    }

    /// The keys of a slot on its way are partly here and partly there. One alone
    /// is in one place; so what may be decided apart is.
    async fn decide_apart(
        &self,
        groups: &[Part<'_>],
        patience: Patience,
    ) -> Result<Said, StoreError> {
        let (mut verdicts, mut at, mut failure) = (Known::new(), Timestamp::default(), None);
        for group in groups {
            match Box::pin(self.decide(group, patience)).await {
                Ok(said) => {
                    verdicts.extend(said.verdicts.into_iter().map(Some));
                    at = said.at;
                }
                Err(error) => {
                    verdicts.extend(group.charges.iter().map(|_| None));
                    failure = Some(error);
                }
            }
        }
        match failure {
            None => Ok(Said { verdicts: verdicts.into_iter().flatten().collect(), at }),
            Some(error) => Err(StoreError::Partial(Box::new(Partial { verdicts, error }))),
        }
    }

    /// Makes `errand` go where `node` sent it, within bounds.
    async fn follow_redirect(
        &self,
        errand: &mut Errand,
        node: &Node,
        redirect: Redirect,
        why: StoreError,
        patience: Patience,
    ) -> Result<(), StoreError> {
        errand.redirections += 1;
        if errand.redirections > MOST_REDIRECTIONS {
            return Err(why);
        }
        errand.detour = None;
        match redirect {
            Redirect::Moved { slot, to } => self.moved(slot, &node.resolve(to))?,
            Redirect::Ask { to } => errand.detour = Some(self.node_at(&node.resolve(to))?),
            Redirect::Unsettled => {
                errand.alone = true;
                errand.redirections = 0;
                let end = Instant::now() + errand.pause;
                if end >= patience.end {
                    return Err(why);
                }
                sleep(errand.pause).await;
                errand.pause = LONG_PAUSE.min(errand.pause * 2);
            }
        }
        Ok(())
    }

    /// The node that has `slot`.
    async fn owner(&self, slot: u16, patience: Patience) -> Result<Arc<Node>, StoreError> {
        if let Some(node) = self.topology.load().owner(slot) {
            return Ok(Arc::clone(node));
        }
        // The first requests wait for the first attempt to find it.
        let mut looked = self.looked.subscribe();
        let first = looked.wait_for(|looked| *looked);
        if timeout_at(patience.end, first).await.is_err() {
            return Err(patience.error());
        }
        self.topology.load().owner(slot).cloned().ok_or_else(|| {
            self.news.stale.notify_one();
            self.unowned(slot)
        })
    }

    fn unowned(&self, slot: u16) -> StoreError {
        match self.unknown.load_full() {
            Some(error) => StoreError::clone(&error),
            None => StoreError::unavailable(
                Cause::Cluster,
                format!("{}: no node has slot {slot}; assign all slots", self.seeds),
            ),
        }
    }

    /// Asks every master for a decision that nobody needs.
    ///
    /// # Errors
    /// When it would fail on all of them.
    pub(super) async fn ping(&self, deadline: Span) -> Result<(), StoreError> {
        if self.topology.load().is_empty() {
            self.discover().await?;
        }
        let topology = self.topology.load_full();
        let asked = topology.nodes().map(|node| probe::ask(&node.upstream, deadline));
        let answers = futures_util::future::join_all(asked).await;
        if answers.is_empty() || answers.iter().any(Result::is_ok) {
            return Ok(());
        }
        answers.into_iter().collect()
    }

    /// What is known of the cluster, and what will be.
    pub(super) fn health(&self) -> watch::Receiver<StoreHealth> {
        self.health.subscribe()
    }

    /// A number that is another one each time.
    fn next_turn(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }
}

impl Errand {
    fn new() -> Self {
        Self { detour: None, alone: false, redirections: 0, pause: SHORT_PAUSE }
    }
}
