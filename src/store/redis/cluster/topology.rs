//! Which nodes there are, and which slot each has.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::slots::{Range, SLOTS};
use super::{Cluster, News};
use crate::store::redis::dial::Target;
use crate::store::redis::upstream::Upstream;
use crate::store::redis::url::{Address, Server};
use crate::store::{Cause, StoreError};
use crate::units::Span;

/// More nodes than that have no place in a cluster.
const MOST_NODES: usize = 1000;

/// How long a node that has no slots is kept after somebody was sent to it: it
/// may be about to get some.
const KEPT_FOR: Span = Span::from_secs(30);

/// No node.
const NOBODY: u16 = u16::MAX;

/// A master.
#[derive(Debug)]
pub(super) struct Node {
    address: Address,
    pub(super) upstream: Arc<Upstream>,
    /// When somebody was last sent here, in microseconds since `started`; 0:
    /// never.
    named: AtomicU64,
    started: Instant,
    /// What serves the lanes; ended with the node.
    _tasks: JoinSet<()>,
}

/// The nodes and their slots.
#[derive(Debug)]
pub(super) struct Topology {
    nodes: Vec<Arc<Node>>,
    /// The place of each slot's master among them.
    owners: Box<[AtomicU16]>,
}

impl Default for Topology {
    fn default() -> Self {
        Self::of(Vec::new())
    }
}

impl Topology {
    fn of(nodes: Vec<Arc<Node>>) -> Self {
        Self { nodes, owners: (0..SLOTS).map(|_| AtomicU16::new(NOBODY)).collect() }
    }

    /// Whether nothing is known.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// All nodes.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes.iter()
    }

    /// The nodes that have slots.
    pub(super) fn masters(&self) -> impl Iterator<Item = &Arc<Node>> {
        let mut has_slots = vec![false; self.nodes.len()];
        for owner in &self.owners {
            if let Some(has) = has_slots.get_mut(usize::from(owner.load(Ordering::Relaxed))) {
                *has = true;
            }
        }
        self.nodes.iter().zip(has_slots).filter_map(|(node, has)| has.then_some(node))
    }

    /// The node that has `slot`.
    pub(super) fn owner(&self, slot: u16) -> Option<&Arc<Node>> {
        let owner = self.owners.get(usize::from(slot))?.load(Ordering::Relaxed);
        self.nodes.get(usize::from(owner))
    }

    fn place(&self, address: &Address) -> Option<usize> {
        self.nodes.iter().position(|node| node.address == *address)
    }

    fn assign(&self, slot: u16, place: usize) {
        if let (Some(owner), Ok(place)) = (self.owners.get(usize::from(slot)), place.try_into()) {
            owner.store(place, Ordering::Relaxed);
        }
    }

    /// Makes each node ask itself about a slot that it has.
    fn settle_questions(&self, prefix: &str) {
        for node in self.masters() {
            let owned = |slot| self.owner(slot).is_some_and(|owner| Arc::ptr_eq(owner, node));
            node.upstream.question().keep_within(prefix, owned);
        }
    }
}

impl Node {
    /// An address that it gave: without a host, it is its own.
    pub(super) fn resolve(&self, (host, port): Address) -> Address {
        if host.is_empty() { (self.address.0.clone(), port) } else { (host, port) }
    }

    /// Whether it answers and nothing speaks against it.
    pub(super) fn is_well(&self) -> bool {
        let breaker = self.upstream.breaker();
        breaker.is_calm() && breaker.health().borrow().is_up()
    }

    /// Where it is.
    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    fn was_named(&self) {
        let since = self.started.elapsed().as_micros();
        self.named.store(u64::try_from(since).unwrap_or(u64::MAX).max(1), Ordering::Relaxed);
    }

    fn is_kept(&self) -> bool {
        let named = self.named.load(Ordering::Relaxed);
        let now = Span::from(self.started.elapsed()).as_micros();
        named != 0 && now.saturating_sub(named) < KEPT_FOR.as_micros()
    }
}

impl Cluster {
    /// `slot` belongs to the node at `to` from now on.
    ///
    /// # Errors
    /// When there can be no such node.
    pub(super) fn moved(&self, slot: u16, to: &Address) -> Result<(), StoreError> {
        self.node_at(to)?;
        let topology = self.topology.load();
        if let Some(place) = topology.place(to) {
            topology.assign(slot, place);
        }
        Ok(())
    }

    /// The node at `address`, known or not: somebody was sent there.
    ///
    /// # Errors
    /// When there can be no such node.
    pub(super) fn node_at(&self, address: &Address) -> Result<Arc<Node>, StoreError> {
        let known = |topology: &Topology| {
            topology.place(address).and_then(|place| topology.nodes.get(place)).cloned()
        };
        let node = match known(&self.topology.load()) {
            Some(node) => node,
            None => self.add(address.clone(), &known)?,
        };
        node.was_named();
        Ok(node)
    }

    fn add(
        &self,
        address: Address,
        known: &impl Fn(&Topology) -> Option<Arc<Node>>,
    ) -> Result<Arc<Node>, StoreError> {
        let _changing = self.changing.lock();
        let topology = self.topology.load();
        if let Some(node) = known(&topology) {
            return Ok(node);
        }
        let node = self.start(address)?;
        let more = Topology::of([&*topology.nodes, &[Arc::clone(&node)]].concat());
        if more.nodes.len() > MOST_NODES {
            return Err(self.too_many());
        }
        for (new, old) in more.owners.iter().zip(&topology.owners) {
            new.store(old.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.topology.store(Arc::new(more));
        Ok(node)
    }

    /// Takes over what a node tells of the slots.
    ///
    /// # Errors
    /// When that cannot be.
    pub(super) fn apply(&self, ranges: &[Range]) -> Result<(), StoreError> {
        let mut gone = self.changing.lock();
        let old = self.topology.load_full();
        let mut nodes = self.masters_of(ranges, &old)?;
        let masters = nodes.len();
        let kept = others(&old.nodes, &nodes).filter(|node| node.is_kept());
        let kept: Vec<_> = kept.take(MOST_NODES - masters).cloned().collect();
        nodes.extend(kept);
        let (came, left) = (names(others(&nodes, &old.nodes)), names(others(&old.nodes, &nodes)));
        for node in others(&old.nodes, &nodes) {
            let states = node.upstream.breaker().health().borrow().transitions;
            gone.iter_mut().zip(states).for_each(|(sum, count)| *sum += count);
        }
        let topology = Topology::of(nodes);
        for Range { first, last, master } in ranges {
            if let Some(place) = topology.place(master) {
                (*first..=*last).for_each(|slot| topology.assign(slot, place));
            }
        }
        topology.settle_questions(&self.config.key_prefix);
        self.topology.store(Arc::new(topology));
        drop(gone);
        if !came.is_empty() || !left.is_empty() {
            tracing::info!(masters, came, left, "masters of the cluster came or left");
        }
        self.news.health.notify_one();
        Ok(())
    }

    /// The masters in `ranges`: those of before, where they are the same.
    fn masters_of(&self, ranges: &[Range], old: &Topology) -> Result<Vec<Arc<Node>>, StoreError> {
        let mut nodes: Vec<Arc<Node>> = Vec::new();
        for Range { master, .. } in ranges {
            if nodes.iter().any(|node| node.address == *master) {
                continue;
            }
            if nodes.len() >= MOST_NODES {
                return Err(self.too_many());
            }
            let known = old.place(master).and_then(|place| old.nodes.get(place));
            nodes.push(match known {
                Some(node) => Arc::clone(node),
                None => self.start(master.clone())?,
            });
        }
        Ok(nodes)
    }

    /// The lanes to a node, and all that goes with them.
    fn start(&self, address: Address) -> Result<Arc<Node>, StoreError> {
        let server = Server::at(address.clone(), &self.seeds.any);
        let target = Target::Server(Arc::new(server));
        let news: Arc<News> = Arc::clone(&self.news);
        let mut tasks = JoinSet::new();
        let spawner = (&mut tasks, &self.runtime);
        let upstream = Upstream::start(&target, &self.link, &self.config, Some(news), spawner)
            .map_err(|error| StoreError::unavailable(Cause::Cluster, error.to_string()))?;
        let (named, started) = (AtomicU64::new(0), Instant::now());
        Ok(Arc::new(Node { address, upstream, named, started, _tasks: tasks }))
    }

    fn too_many(&self) -> StoreError {
        let text = format!("{}: it names more than {MOST_NODES} masters", self.seeds);
        StoreError::unavailable(Cause::Cluster, text)
    }
}

/// Those of `nodes` that are not among these.
fn others<'n>(
    nodes: &'n [Arc<Node>],
    these: &'n [Arc<Node>],
) -> impl Iterator<Item = &'n Arc<Node>> {
    nodes.iter().filter(|node| !these.iter().any(|other| Arc::ptr_eq(node, other)))
}

/// The addresses of nodes, for the log.
fn names<'n>(nodes: impl Iterator<Item = &'n Arc<Node>>) -> String {
    let names = nodes.map(|node| format!("{}:{}", node.address.0, node.address.1));
    names.collect::<Vec<_>>().join(", ")
}
