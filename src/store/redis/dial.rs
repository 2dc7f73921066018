//! How a lane gets its connection.

use std::sync::Arc;

use deadpool_redis::redis::{AsyncConnectionConfig, ConnectionInfo, PushInfo, PushKind};
use deadpool_redis::{Connection, Manager, Pool, Runtime};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::config::RedisConfigError;
use super::credentials::Credentials;
use super::failure::Failure;
use super::runtime::ScriptRuntime;
use super::sentinel::{Sentinels, check_role};
use super::tls::Tls;
use super::url::{Address, Server};
use crate::store::{Cause, StoreError};
use crate::units::Span;

/// How long an attempt to connect, or an answer, may take before the connection
/// is given up. Much longer than a decision may take: a server that is slow for
/// a moment is not helped by everybody connecting again.
pub(super) const PATIENCE: Span = Span::from_secs(1);

/// Where the connections of a store's lanes lead.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// To this server.
    Server(Arc<Server>),
    /// To whatever server is the master.
    Master(Arc<Sentinels>),
}

/// How to connect to a server, as it is configured now: its name is looked up
/// and the password and certificates are read each time.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) credentials: Credentials,
    pub(super) tls: Tls,
    /// How the script is run, where decisions are made.
    pub(super) script: ScriptRuntime,
}

/// What tells of connections that were closed.
type Pushes = mpsc::UnboundedSender<PushInfo>;

/// Connects again and again to a target.
#[derive(Debug)]
pub(super) struct Dialer {
    target: Target,
    link: Link,
    /// Where the last attempt led, for messages.
    name: String,
    /// Given to every connection.
    pushes: Pushes,
    /// What the server says unasked; here, that a connection was closed.
    news: mpsc::UnboundedReceiver<PushInfo>,
    /// Where the master is, if that may change.
    moves: Option<watch::Receiver<Option<Address>>>,
}

impl Target {
    /// What to call it in messages.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Server(server) => server.name.clone(),
            Self::Master(sentinels) => sentinels.name(),
        }
    }
}

impl Dialer {
    /// A dialer for `target`.
    ///
    /// # Errors
    /// When no connection could ever be made.
    pub(super) fn new(target: &Target, link: &Link) -> Result<Self, RedisConfigError> {
        let (pushes, news) = mpsc::unbounded_channel();
        let moves = match target {
            Target::Server(server) => {
                link.check(server)?;
                None
            }
            Target::Master(sentinels) => Some(sentinels.known()),
        };
        let (target, link, name) = (target.clone(), link.clone(), target.name());
        Ok(Self { target, link, name, pushes, news, moves })
    }

    /// What to call the server in messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// One attempt to connect.
    pub(super) async fn dial(&mut self) -> Result<Connection, Failure> {
        // What is still there is about connections of the past.
        while self.news.try_recv().is_ok() {}
        let pushes = Some(self.pushes.clone());
        let mut connection = match &self.target {
            Target::Server(server) => self.link.connect(server, pushes).await?,
            Target::Master(sentinels) => {
                let server = sentinels.master().await?;
                if let Some(moves) = &mut self.moves {
                    moves.mark_unchanged();
                }
                self.name.clone_from(&server.name);
                let mut connection = self.link.connect(&server, pushes).await?;
                check_role(&mut connection, &server.name).await?;
                connection
            }
        };
        self.link.prepare(&mut connection, &self.name).await?;
        Ok(connection)
    }

    /// Waits until the connection is of no more use, and says why: the server
    /// closed it, or is not the master any more.
    pub(super) async fn disconnection(&mut self) -> Failure {
        let Self { name, news, moves, .. } = self;
        tokio::select! {
            () = closed(news) => Failure::closed(name),
            () = moved(moves) => Failure::moved(name),
        }
    }
}

async fn closed(news: &mut mpsc::UnboundedReceiver<PushInfo>) {
    // Never ends by itself: the dialer has the other end, too.
    while let Some(push) = news.recv().await {
        if push.kind == PushKind::Disconnection {
            return;
        }
    }
}

async fn moved(moves: &mut Option<watch::Receiver<Option<Address>>>) {
    if let Some(moves) = moves
        && moves.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

impl Link {
    /// Whether connections to `server` could ever be made.
    fn check(&self, server: &Server) -> Result<(), RedisConfigError> {
        self.pool(server, server.info.clone(), None).map(drop).map_err(|error| match error {
            Unable::Manager(error) => RedisConfigError::Url(error),
            Unable::Runtime => RedisConfigError::Runtime,
        })
    }

    /// A new connection to `server`.
    pub(super) async fn connect(
        &self,
        server: &Server,
        pushes: Option<Pushes>,
    ) -> Result<Connection, Failure> {
        let failed = Failure::fatal;
        let info = self.credentials.apply(server.info.clone()).await.map_err(failed)?;
        let info = self.tls.apply(info).await.map_err(failed)?;
        let pool = self.pool(server, info, pushes).map_err(|error| failed(error.into()))?;
        let attempt = pool.get().await;
        let encrypted = server.is_encrypted();
        attempt.map_err(|error| Failure::to_connect(&error, &server.name, encrypted, PATIENCE))
    }

    /// Makes a connection ready for decisions.
    async fn prepare(&self, connection: &mut Connection, name: &str) -> Result<(), Failure> {
        match timeout(PATIENCE.into(), self.script.prepare(connection)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Failure::of(&error, name)),
            Err(_) => Err(Failure::silent(name, PATIENCE)),
        }
    }

    /// A pool for one connection. It is checked out when the lane connects and
    /// not for each decision, since a check-out costs a round trip.
    fn pool(
        &self,
        server: &Server,
        info: ConnectionInfo,
        pushes: Option<Pushes>,
    ) -> Result<Pool, Unable> {
        let mut connection = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE.into()))
            .set_response_timeout(None);
        if let Some(pushes) = pushes {
            connection = connection.set_push_sender(pushes);
        }
        if let Some(resolver) = self.tls.resolver(&server.info) {
            connection = connection.set_dns_resolver(resolver);
        }
        let manager = Manager::new_with_config(info, connection)
            .map_err(|error| Unable::Manager(error.to_string()))?;
        Pool::builder(manager)
            .max_size(1)
            .create_timeout(Some(PATIENCE.into()))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|_| Unable::Runtime)
    }
}

/// Why there is no pool.
enum Unable {
    Manager(String),
    Runtime,
}

impl From<Unable> for StoreError {
    fn from(unable: Unable) -> Self {
        let text = match unable {
            Unable::Manager(error) => error,
            Unable::Runtime => "there is no runtime for connections".into(),
        };
        Self::unavailable(Cause::Other, text)
    }
}
