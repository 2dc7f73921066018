//! Which Redis, and how it is used.

use std::fmt;
use std::num::NonZeroUsize;

use deadpool_redis::redis::io::tcp::TcpSettings;
use deadpool_redis::redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion};

use super::credentials::Credentials;
use super::runtime::ScriptRuntime;
use super::tls::Tls;
use crate::units::Span;

/// Where Redis is and how decisions are sent to it.
#[derive(Clone)]
pub struct RedisConfig {
    /// `redis://[[user]:password@]host[:port][/db]`, the same with `rediss` for
    /// TLS, or `redis+unix:///path/to/socket[?db=N]`.
    pub url: String,
    /// Who we are to it.
    pub credentials: Credentials,
    /// How connections are encrypted, where the URL asks for that.
    pub tls: Tls,
    /// How many connections, each with a queue in front of it.
    pub lanes: NonZeroUsize,
    /// Most requests that one script call decides.
    pub batch_max: NonZeroUsize,
    /// Most requests that wait in front of one connection.
    pub queue_max: NonZeroUsize,
    /// How long a decision may take.
    pub deadline: Span,
    /// What every key begins with.
    pub key_prefix: String,
    /// How Redis is asked to run the script.
    pub script: ScriptRuntime,
}

/// Why a store cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum RedisConfigError {
    /// The URL is not one of Redis.
    #[error(
        "the URL of the Redis store is not valid: {0}; write \
         redis://[[user]:password@]host[:port][/db] (rediss:// for TLS) or \
         redis+unix:///path/to/socket[?db=N], with special characters in the password percent-encoded"
    )]
    Url(String),
    /// There are settings of TLS, and no TLS.
    #[error(
        "a CA, certificate or server name for TLS is given, but the URL of the Redis store does \
         not ask for TLS; begin it with rediss://"
    )]
    TlsUnused,
    /// No certificate can have that name.
    #[error("{0:?} cannot be the name in a certificate; expected a host name or an IP address")]
    ServerName(String),
    /// No decision could ever meet the deadline.
    #[error("the deadline of a decision must be longer than 0")]
    Deadline,
    /// Connections are served by tasks, and there is nothing to run them.
    #[error("the Redis store must be set up inside a Tokio runtime")]
    Runtime,
}

impl RedisConfig {
    /// The Redis at `url`, with defaults for everything else.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            credentials: Credentials::default(),
            tls: Tls::default(),
            lanes: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            batch_max: at_least_one(64),
            queue_max: at_least_one(1024),
            deadline: Span::from_millis(10),
            key_prefix: "tidegate:1:".into(),
            script: ScriptRuntime::default(),
        }
    }

    /// Reads the URL.
    pub(super) fn server(&self) -> Result<Server, RedisConfigError> {
        // Neither the URL nor what Redis' parser says of it goes into the
        // message whole: a password may stand anywhere in a mistyped one.
        let info = self.url.as_str().into_connection_info().map_err(|error| {
            RedisConfigError::Url(match error.detail() {
                Some(detail) => detail.to_owned(),
                None => error.to_string(),
            })
        })?;
        let server = Server::new(info);
        self.tls.check(server.is_encrypted())?;
        Ok(server)
    }
}

impl fmt::Debug for RedisConfig {
    /// Without the URL, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConfig")
            .field("lanes", &self.lanes)
            .field("batch_max", &self.batch_max)
            .field("queue_max", &self.queue_max)
            .field("deadline", &self.deadline)
            .field("key_prefix", &self.key_prefix)
            .field("script", &self.script)
            .finish_non_exhaustive()
    }
}

const fn at_least_one(number: usize) -> NonZeroUsize {
    match NonZeroUsize::new(number) {
        Some(number) => number,
        None => NonZeroUsize::MIN,
    }
}

/// A Redis server, as read from the configuration.
#[derive(Clone, Debug)]
pub(super) struct Server {
    /// How to connect to it.
    pub(super) info: ConnectionInfo,
    /// What to call it in messages: its address and database, no credentials.
    pub(super) name: String,
}

impl Server {
    fn new(info: ConnectionInfo) -> Self {
        let name = match info.redis_settings().db() {
            0 => info.addr().to_string(),
            db => format!("{} db {db}", info.addr()),
        };
        // With version 3 of the protocol the client library tells at once that
        // a connection was closed, and not only when it is next used.
        let settings = info
            .redis_settings()
            .clone()
            .set_protocol(ProtocolVersion::RESP3)
            .set_lib_name(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        let info = info
            .set_redis_settings(settings)
            .set_tcp_settings(TcpSettings::default().set_nodelay(true));
        Self { info, name }
    }

    /// Whether connections to it are encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        matches!(self.info.addr(), ConnectionAddr::TcpTls { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(url: &str) -> Result<Server, RedisConfigError> {
        RedisConfig::new(url).server()
    }

    #[test]
    fn servers_are_named_without_credentials() {
        for (url, name) in [
            ("redis://127.0.0.1", "127.0.0.1:6379"),
            ("redis://:hush@db.local:7000/3", "db.local:7000 db 3"),
            ("redis://user:hush@db.local", "db.local:6379"),
            ("rediss://user:hush@db.local:7000", "db.local:7000"),
            ("redis+unix:///run/redis.sock", "/run/redis.sock"),
            ("redis+unix:///run/redis.sock?db=2", "/run/redis.sock db 2"),
        ] {
            assert_eq!(server(url).unwrap().name, name);
        }
    }

    #[test]
    fn a_wrong_url_is_explained_without_its_password() {
        for url in [
            "",
            "127.0.0.1:6379",
            "http://:hush@x",
            "redis://:hush@x/three",
            "redis://:hush@x:port",
            "redis://:hush@",
        ] {
            let said = server(url).unwrap_err().to_string();
            assert!(said.contains("redis://[[user]:password@]host"), "{url}: {said}");
            assert!(!said.contains("hush"), "{url}: {said}");
        }
    }

    #[test]
    fn debug_output_has_no_password() {
        let config = RedisConfig::new("redis://user:hush@x");
        assert!(!format!("{config:?} {:?}", config.server().unwrap()).contains("hush"));
    }
}
