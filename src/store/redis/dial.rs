//! How a lane gets its connection.

use deadpool_redis::redis::{AsyncConnectionConfig, PushInfo, PushKind};
use deadpool_redis::{Connection, Manager, Pool, Runtime};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::config::{RedisConfig, RedisConfigError, Server};
use super::credentials::Credentials;
use super::failure::Failure;
use super::runtime::ScriptRuntime;
use super::tls::Tls;
use crate::store::{Cause, StoreError};
use crate::units::Span;

/// How long an attempt to connect, or an answer, may take before the connection
/// is given up. Much longer than a decision may take: a server that is slow for
/// a moment is not helped by everybody connecting again.
pub(super) const PATIENCE: Span = Span::from_secs(1);

/// Connects to a server as it is configured now: its name is looked up and its
/// password and certificates are read each time.
#[derive(Debug)]
pub(super) struct Dialer {
    server: Server,
    credentials: Credentials,
    script: ScriptRuntime,
    tls: Tls,
    /// Given to every connection.
    pushes: mpsc::UnboundedSender<PushInfo>,
    /// What the server says unasked; here, that a connection was closed.
    news: mpsc::UnboundedReceiver<PushInfo>,
}

impl Dialer {
    /// A dialer for `server`.
    ///
    /// # Errors
    /// When no connection could ever be made.
    pub(super) fn new(server: &Server, config: &RedisConfig) -> Result<Self, RedisConfigError> {
        let (pushes, news) = mpsc::unbounded_channel();
        let (credentials, tls) = (config.credentials.clone(), config.tls.clone());
        let (server, script) = (server.clone(), config.script);
        let dialer = Self { server, credentials, script, tls, pushes, news };
        let info = dialer.server.info.clone();
        dialer.pool(info).map_err(|error| match error {
            Unable::Manager(error) => RedisConfigError::Url(error),
            Unable::Runtime => RedisConfigError::Runtime,
        })?;
        Ok(dialer)
    }

    /// What to call the server in messages.
    pub(super) fn name(&self) -> &str {
        &self.server.name
    }

    /// One attempt to connect.
    pub(super) async fn dial(&mut self) -> Result<Connection, Failure> {
        // What is still there is about connections of the past.
        while self.news.try_recv().is_ok() {}
        let failed = |error| Failure { error, lost: true };
        let info = self.credentials.apply(self.server.info.clone()).await.map_err(failed)?;
        let info = self.tls.apply(info).await.map_err(failed)?;
        let pool = self.pool(info).map_err(|error| failed(error.into()))?;
        let attempt = pool.get().await;
        let encrypted = self.server.is_encrypted();
        let mut connection = attempt
            .map_err(|error| Failure::to_connect(&error, self.name(), encrypted, PATIENCE))?;
        match timeout(PATIENCE.into(), self.script.prepare(&mut connection)).await {
            Ok(Ok(())) => Ok(connection),
            Ok(Err(error)) => Err(Failure::of(&error, self.name())),
            Err(_) => Err(Failure::silent(self.name(), PATIENCE)),
        }
    }

    /// Waits until the server has closed the connection.
    pub(super) async fn disconnection(&mut self) {
        // Never ends by itself: the other end is here, too.
        while let Some(push) = self.news.recv().await {
            if push.kind == PushKind::Disconnection {
                return;
            }
        }
    }

    /// A pool for one connection. It is checked out when the lane connects and
    /// not for each decision, since a check-out costs a round trip.
    fn pool(&self, info: deadpool_redis::redis::ConnectionInfo) -> Result<Pool, Unable> {
        let mut connection = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE.into()))
            .set_response_timeout(None)
            .set_push_sender(self.pushes.clone());
        if let Some(resolver) = self.tls.resolver(&self.server.info) {
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
