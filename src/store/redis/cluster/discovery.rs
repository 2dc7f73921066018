//! Finds out which masters there are, and notices when others are.

use std::sync::Arc;
use std::time::Duration;

use deadpool_redis::Connection;
use deadpool_redis::redis::{self, RedisResult, Value};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Cluster;
use super::slots::{self, Range};
use crate::store::redis::dial::Link;
use crate::store::redis::failure::Failure;
use crate::store::redis::url::Server;
use crate::store::{Cause, StoreError};
use crate::units::Span;

/// How long a node may take to tell.
const PATIENCE: Span = Span::from_secs(1);

/// How many nodes are asked at once: one may be hung.
const AT_ONCE: usize = 2;

/// How many groups of so many nodes are asked in one attempt.
const GROUPS: usize = 4;

/// How often to ask while all masters answer: a redirection tells sooner.
const INTERVAL: Duration = Duration::from_secs(5);

/// How often to ask while one does not, and how often at most.
const HURRIED: Duration = Duration::from_millis(250);
const SHORTEST: Duration = Duration::from_millis(100);

impl Cluster {
    /// Asks for the slots again and again, for ever.
    pub(in crate::store::redis) async fn follow(self: Arc<Self>) {
        loop {
            // What comes of it is in the cluster.
            let _ = self.discover().await;
            sleep(SHORTEST).await;
            let pause = if self.is_calm() { INTERVAL } else { HURRIED };
            tokio::select! {
                () = sleep(pause) => {}
                () = self.news.stale.notified() => {}
                () = self.unrest() => sleep(HURRIED).await,
            }
        }
    }

    /// Whether all masters are known and answer.
    fn is_calm(&self) -> bool {
        let topology = self.topology.load();
        !topology.is_empty() && topology.masters().all(|node| node.is_well())
    }

    /// Waits until a master does not answer, if all do.
    async fn unrest(&self) {
        let mut health = self.health.subscribe();
        let all_up = |health: &crate::store::StoreHealth| {
            health.masters.is_some_and(|masters| masters.up == masters.all)
        };
        if !all_up(&health.borrow_and_update())
            || health.wait_for(|health| !all_up(health)).await.is_err()
        {
            std::future::pending::<()>().await;
        }
    }

    /// Asks for the slots, of any node that is known.
    ///
    /// # Errors
    /// When nobody tells.
    pub(super) async fn discover(&self) -> Result<(), StoreError> {
        let outcome = self.ask_around().await;
        let error = outcome.as_ref().err().map(|error| Arc::new(error.clone()));
        let before = self.unknown.swap(error.clone());
        self.tell_change(before.is_some(), error.as_deref());
        self.looked.send_if_modified(|looked| !std::mem::replace(looked, true));
        if outcome.is_err() {
            self.news.health.notify_one();
        }
        outcome
    }

    /// Tells when nobody tells of the slots any more, and when somebody does again:
    /// once, however often they are asked. Without any master, no breaker tells.
    fn tell_change(&self, was_unknown: bool, error: Option<&StoreError>) {
        let store = tracing::field::display(&self.seeds);
        match error {
            Some(error) if !was_unknown && self.topology.load().is_empty() => tracing::warn!(
                store,
                %error,
                "the cluster cannot be reached: decisions follow the failure mode until one of \
                 its nodes answers; start them, or correct the addresses"
            ),
            Some(error) if !was_unknown => tracing::warn!(
                store,
                %error,
                "no node tells which slots it has: what is known of them is used until one does"
            ),
            None if was_unknown => tracing::info!(store, "the cluster tells its slots"),
            _ => {}
        }
    }

    async fn ask_around(&self) -> Result<(), StoreError> {
        let candidates = self.candidates();
        let mut failure = None;
        for some in candidates.chunks(AT_ONCE).take(GROUPS) {
            let mut asked = JoinSet::new();
            for server in some {
                asked.spawn(ask(server.clone(), self.link.clone()));
            }
            while let Some(answer) = asked.join_next().await {
                match answer {
                    Ok(Ok(ranges)) => return self.apply(&ranges),
                    Ok(Err(why)) => failure = Some(why.error),
                    Err(_) => {}
                }
            }
        }
        Err(failure.unwrap_or_else(|| {
            let text = format!("{}: no node answers", self.seeds);
            StoreError::unavailable(Cause::Connection, text)
        }))
    }

    /// Who may know: masters that answer, then seeds, then other masters; not
    /// always the same first.
    fn candidates(&self) -> Vec<Server> {
        let turn = self.next_turn();
        let topology = self.topology.load();
        let (mut well, mut away): (Vec<_>, Vec<_>) =
            topology.nodes().partition(|node| node.is_well());
        let mut seeds: Vec<_> = self.seeds.nodes.iter().collect();
        for list in [&mut well, &mut away] {
            let middle = turn % list.len().max(1);
            list.rotate_left(middle);
        }
        let middle = turn % seeds.len().max(1);
        seeds.rotate_left(middle);
        let at = |node: &Arc<super::Node>| Server::at(node.address().clone(), &self.seeds.any);
        let mut servers: Vec<Server> = well.into_iter().map(at).collect();
        servers.extend(seeds.into_iter().cloned());
        servers.extend(away.into_iter().map(at));
        let mut names = std::collections::HashSet::new();
        servers.retain(|server| names.insert(server.name.clone()));
        servers
    }
}

/// Asks one node for all slots.
async fn ask(server: Server, link: Link) -> Result<Vec<Range>, Failure> {
    let asked = timeout(PATIENCE.into(), async {
        let mut connection = link.connect(&server, None).await?;
        let slots = redis::cmd("CLUSTER").arg("SLOTS").take();
        let answer: RedisResult<Value> = slots.query_async(&mut connection).await;
        // Or the pool would keep it.
        drop(Connection::take(connection));
        answer.map_err(|error| Failure::of(&error, &server.name))
    });
    let Ok(answer) = asked.await else { return Err(Failure::silent(&server.name, PATIENCE)) };
    let ranges = slots::read(&answer?, &server.host());
    if ranges.is_empty() {
        let text = format!("Redis at {}: the cluster has no slots yet; assign them", server.name);
        return Err(Failure::harmless(StoreError::unavailable(Cause::Cluster, text)));
    }
    Ok(ranges)
}
