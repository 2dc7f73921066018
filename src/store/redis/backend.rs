//! Where counters lie: one server, or the masters of a cluster.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::cluster::Cluster;
use super::config::{RedisConfig, RedisConfigError};
use super::dial::{Link, Target};
use super::part::{Home, Part, Share, are_per_second};
use super::probe;
use super::request::{Manner, Said};
use super::sentinel::Sentinels;
use super::upstream::{Patience, Upstream};
use super::url::{Place, Watched};
use crate::store::{Charge, Plan, StoreError, StoreHealth};
use crate::units::Span;

/// One Redis, of whatever kind.
#[derive(Debug)]
pub(super) struct Backend {
    way: Way,
    /// What serves it; ended with it.
    _tasks: JoinSet<()>,
}

#[derive(Debug)]
enum Way {
    Server(Arc<Upstream>),
    Cluster(Arc<Cluster>),
}

/// The Redis for most limits, and that for limits of one second, if it is
/// another.
#[derive(Debug)]
pub(super) struct Backends {
    pub(super) main: Backend,
    pub(super) per_second: Option<Backend>,
}

impl Backend {
    /// The Redis that `config` names, and the tasks that it needs.
    ///
    /// # Errors
    /// When `config` cannot work.
    pub(super) fn connect(
        config: &RedisConfig,
        runtime: &Handle,
    ) -> Result<Self, RedisConfigError> {
        let mut tasks = JoinSet::new();
        let (tls, script) = (config.tls.clone(), config.script);
        let link = Link { credentials: config.credentials.clone(), tls, script };
        let target = match config.place()? {
            Place::Server(server) => Target::Server(Arc::new(server)),
            Place::Sentinel(watched) => follow(watched, &link, config, &mut tasks, runtime),
            Place::Cluster(seeds) => {
                let cluster = Arc::new(Cluster::new(seeds, link, config, runtime));
                tasks.spawn_on(Arc::clone(&cluster).follow(), runtime);
                tasks.spawn_on(Arc::clone(&cluster).tell_health(), runtime);
                return Ok(Self { way: Way::Cluster(cluster), _tasks: tasks });
            }
        };
        let upstream = Upstream::start(&target, &link, config, None, (&mut tasks, runtime))?;
        Ok(Self { way: Way::Server(upstream), _tasks: tasks })
    }

    /// Whether its keys lie in slots.
    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.way, Way::Cluster(_))
    }

    /// Has `part` decided in time.
    ///
    /// # Errors
    /// When it is not.
    pub(super) async fn decide(
        &self,
        part: &Part<'_>,
        patience: Patience,
    ) -> Result<Said, StoreError> {
        match &self.way {
            Way::Server(upstream) => {
                let outcome = upstream.decide(part, Manner::default(), patience).await;
                outcome.map_err(|refused| refused.error)
            }
            Way::Cluster(cluster) => cluster.decide(part, patience).await,
        }
    }

    /// The slot of a counter of this name; all are in one outside a cluster.
    fn slot(&self, key: &[u8]) -> u16 {
        match &self.way {
            Way::Server(_) => 0,
            Way::Cluster(cluster) => cluster.slot(key),
        }
    }

    /// Asks for a decision that nobody needs.
    ///
    /// # Errors
    /// When a decision would fail now.
    pub(super) async fn ping(&self, deadline: Span) -> Result<(), StoreError> {
        match &self.way {
            Way::Server(upstream) => probe::ask(upstream, deadline).await,
            Way::Cluster(cluster) => cluster.ping(deadline).await,
        }
    }

    /// What is known of it, and what will be.
    pub(super) fn health(&self) -> watch::Receiver<StoreHealth> {
        match &self.way {
            Way::Server(upstream) => upstream.breaker().health(),
            Way::Cluster(cluster) => cluster.health(),
        }
    }
}

/// The master of sentinels, which are asked for it from now on.
fn follow(
    watched: Watched,
    link: &Link,
    config: &RedisConfig,
    tasks: &mut JoinSet<()>,
    runtime: &Handle,
) -> Target {
    let link = Link { credentials: config.sentinel_credentials.clone(), ..link.clone() };
    let sentinels = Arc::new(Sentinels::new(watched, link));
    tasks.spawn_on(Arc::clone(&sentinels).follow(), runtime);
    Target::Master(sentinels)
}

impl Backends {
    /// Both.
    pub(super) fn all(&self) -> impl Iterator<Item = &Backend> {
        std::iter::once(&self.main).chain(&self.per_second)
    }

    /// Where the counters of a rule of `plan` lie: those of all its rates in one
    /// place.
    pub(super) fn home(&self, plan: &Plan, rule: &[Charge]) -> Home {
        let per_second = self.per_second.is_some() && are_per_second(rule);
        let key = rule.first().map(|charge| plan.keys.get(charge.key)).unwrap_or_default();
        Home { per_second, slot: self.at(per_second).slot(key) }
    }

    /// Has a part decided where it belongs.
    ///
    /// # Errors
    /// When it is not decided in time.
    pub(super) async fn ask(
        &self,
        share: &Share<'_>,
        patience: Patience,
    ) -> Result<Said, StoreError> {
        self.at(share.home.per_second).decide(&share.part, patience).await
    }

    fn at(&self, per_second: bool) -> &Backend {
        match &self.per_second {
            Some(other) if per_second => other,
            _ => &self.main,
        }
    }
}
