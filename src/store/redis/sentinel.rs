//! Finds the master that sentinels watch over, and notices when it is another.

use std::sync::Arc;
use std::time::Duration;

use deadpool_redis::redis::{self, Value};
use deadpool_redis::{Connection, redis::RedisResult};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::dial::Link;
use super::failure::Failure;
use super::url::{Address, Server, Watched};
use crate::store::{Cause, StoreError};
use crate::units::Span;

/// How long a sentinel may take to answer. Others are asked at the same time.
const PATIENCE: Span = Span::from_millis(500);

/// How often to ask whether the master is still the same. Connections that
/// break tell by themselves; this is for those to a master that was cut off from
/// its sentinels but not from us.
const INTERVAL: Duration = Duration::from_secs(1);

/// The sentinels of one master.
#[derive(Debug)]
pub(super) struct Sentinels {
    watched: Watched,
    /// How to connect to them.
    link: Link,
    /// Where the master is, as far as is known.
    known: watch::Sender<Option<Address>>,
}

impl Sentinels {
    /// The sentinels of `watched`, not asked yet.
    pub(super) fn new(watched: Watched, link: Link) -> Self {
        Self { watched, link, known: watch::Sender::new(None) }
    }

    /// What they call the master, and where they are.
    pub(super) fn name(&self) -> String {
        self.watched.to_string()
    }

    /// Where the master is, and will be.
    pub(super) fn known(&self) -> watch::Receiver<Option<Address>> {
        self.known.subscribe()
    }

    /// Asks all sentinels at once, and believes the most of them.
    ///
    /// # Errors
    /// When no sentinel knows.
    pub(super) async fn master(&self) -> Result<Server, Failure> {
        let mut asked = JoinSet::new();
        for sentinel in &self.watched.sentinels {
            asked.spawn(ask(sentinel.clone(), self.watched.name.clone(), self.link.clone()));
        }
        let (all, mut votes) = (asked.len(), Vec::<(Address, usize)>::new());
        let mut failure = None;
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Ok(address)) => {
                    if vote(&mut votes, address) > all / 2 {
                        break;
                    }
                }
                Ok(Err(why)) => failure = Some(why),
                Err(_) => {}
            }
        }
        match votes.into_iter().max_by_key(|(_, count)| *count) {
            Some((address, _)) => Ok(self.found(address)),
            None => Err(failure.unwrap_or_else(|| missing("none of them answers"))),
        }
    }

    fn found(&self, address: Address) -> Server {
        let server = Server::at(address.clone(), &self.watched.master);
        self.known.send_if_modified(|known| {
            let changed = known.as_ref() != Some(&address);
            if changed && known.is_some() {
                tracing::info!(master = server.name, "the sentinels name another master");
            }
            *known = Some(address);
            changed
        });
        server
    }

    /// Asks one sentinel after another, for ever. If one names another master,
    /// all are asked.
    pub(super) async fn follow(self: Arc<Self>) {
        for sentinel in self.watched.sentinels.iter().cycle() {
            sleep(INTERVAL).await;
            let answer = ask(sentinel.clone(), self.watched.name.clone(), self.link.clone()).await;
            let known = self.known.borrow().clone();
            if answer.is_ok_and(|address| known.is_some_and(|known| known != address)) {
                // What comes of it is in `known`.
                let _ = self.master().await;
            }
        }
    }
}

/// One more vote for `address`; gives how many it has.
fn vote(votes: &mut Vec<(Address, usize)>, address: Address) -> usize {
    if let Some((_, count)) = votes.iter_mut().find(|(known, _)| *known == address) {
        *count += 1;
        return *count;
    }
    votes.push((address, 1));
    1
}

/// Asks one sentinel for the master of this `name`.
async fn ask(sentinel: Server, name: String, link: Link) -> Result<Address, Failure> {
    let asked = timeout(PATIENCE.into(), async {
        let mut connection = link.connect(&sentinel, None).await?;
        let mut command = redis::cmd("SENTINEL");
        command.arg("GET-MASTER-ADDR-BY-NAME").arg(&name);
        let answer: RedisResult<Option<Address>> = command.query_async(&mut connection).await;
        // Or the pool would keep it.
        drop(Connection::take(connection));
        answer.map_err(|error| Failure::of(&error, &sentinel.name))
    });
    match asked.await {
        Ok(answer) => answer?.ok_or_else(|| {
            missing(&format!("the sentinel at {} knows no master {name:?}", sentinel.name))
        }),
        Err(_) => Err(Failure::silent(&sentinel.name, PATIENCE)),
    }
}

/// Checks that the server at the other end is a master, where we may ask.
///
/// # Errors
/// When it is not: sentinels are told of a failover one after another.
pub(super) async fn check_role(connection: &mut Connection, name: &str) -> Result<(), Failure> {
    let role: RedisResult<Value> = redis::cmd("ROLE").query_async(connection).await;
    match role {
        Ok(Value::Array(role)) if !is_master(&role) => {
            Err(Failure::fatal(StoreError::unavailable(
                Cause::ReadOnly,
                format!("Redis at {name} is a replica now; the sentinels do not know yet"),
            )))
        }
        // Without the permission to ask, the first write will tell.
        _ => Ok(()),
    }
}

fn is_master(role: &[Value]) -> bool {
    matches!(role.first(), Some(Value::BulkString(role)) if role == b"master")
}

fn missing(why: &str) -> Failure {
    let text = format!("no master is known: {why}");
    Failure::fatal(StoreError::unavailable(Cause::Connection, text))
}
