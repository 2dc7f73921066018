//! Which Redis, and how it is used.

use std::fmt;
use std::num::NonZeroUsize;

use tokio::runtime::Handle;

use super::credentials::Credentials;
use super::runtime::ScriptRuntime;
use super::tls::Tls;
use super::url::{self, Place};
use crate::store::near::NearConfig;
use crate::units::Span;

/// Where Redis is and how decisions are sent to it.
#[derive(Clone)]
pub struct RedisConfig {
    /// `redis://[[user]:password@]host[:port][/db]`, the same with `rediss` for
    /// TLS, `redis+sentinel://[[user]:password@]host[:port],…/master[/db]`,
    /// `redis+cluster://[[user]:password@]host[:port],…`, or
    /// `redis+unix:///path/to/socket[?db=N]`.
    pub url: String,
    /// Who we are to it.
    pub credentials: Credentials,
    /// Who we are to sentinels, where there are any.
    pub sentinel_credentials: Credentials,
    /// How connections are encrypted, where the URL asks for that.
    pub tls: Tls,
    /// How many connections to each server, each with a queue in front of it.
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
    /// The threads that serve the connections, in turn; where there are none, the
    /// runtime that the store is made in does. A decision that is asked for on a
    /// thread of [`crate::threads`] takes the connection of that thread.
    pub threads: Vec<Handle>,
    /// Refusals that are remembered here; none if every question goes to Redis.
    pub near: Option<NearConfig>,
    /// Another Redis for limits of one second, in the same way; of this
    /// configuration, the deadline and what lies in yet another do not count.
    pub per_second: Option<Box<RedisConfig>>,
}

/// Why a store cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum RedisConfigError {
    /// The URL is not one of Redis.
    #[error(
        "the URL of the Redis store is not valid: {0}; write \
         redis://[[user]:password@]host[:port][/db] (rediss:// for TLS), \
         redis+sentinel://[[user]:password@]host[:port],host[:port]/master[/db], \
         redis+cluster://[[user]:password@]host[:port],host[:port] or \
         redis+unix:///path/to/socket[?db=N], with special characters in the password percent-encoded"
    )]
    Url(String),
    /// That of the Redis for limits of one second cannot work.
    #[error("the store for limits of one second: {0}")]
    PerSecond(Box<RedisConfigError>),
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
            sentinel_credentials: Credentials::default(),
            tls: Tls::default(),
            lanes: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            batch_max: at_least_one(64),
            queue_max: at_least_one(1024),
            deadline: Span::from_millis(10),
            key_prefix: "tidegate:1:".into(),
            script: ScriptRuntime::default(),
            threads: Vec::new(),
            near: Some(NearConfig::default()),
            per_second: None,
        }
    }

    /// Where the lane of this number is served; `runtime` where nothing is said.
    pub(super) fn thread<'a>(&'a self, lane: usize, runtime: &'a Handle) -> &'a Handle {
        self.threads.get(lane % self.threads.len().max(1)).unwrap_or(runtime)
    }

    /// Reads the URL.
    pub(super) fn place(&self) -> Result<Place, RedisConfigError> {
        let place = url::read(&self.url)?;
        self.tls.check(place.is_encrypted())?;
        Ok(place)
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
            .field("near", &self.near)
            .finish_non_exhaustive()
    }
}

const fn at_least_one(number: usize) -> NonZeroUsize {
    match NonZeroUsize::new(number) {
        Some(number) => number,
        None => NonZeroUsize::MIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_has_no_password() {
        let config = RedisConfig::new("redis://user:hush@x");
        assert!(!format!("{config:?} {:?}", config.place().unwrap()).contains("hush"));
    }
}
