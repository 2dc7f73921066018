//! Flags about the store.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

use super::lanes::Lanes;
use super::near::Near;
use super::reaching::Reaching;
use super::topology::Topology;
use crate::app::{ByteSize, StoreArg, StoreOptions};
use crate::cli::values::{Value, count, parsed, secret, span, truth};
use crate::decide::FailureMode;
use crate::store::HashTag;
use crate::store::redis::{Credentials, Password, ScriptRuntime};
use crate::units::Span;

/// How counters are kept.
#[derive(Debug, Args)]
#[command(next_help_heading = "Store")]
pub(super) struct Keeping {
    /// Where counters live: `memory`, or `redis://[user:password@]host[:port][/database]`,
    /// with `rediss` for TLS, `redis+sentinel://host,host/master` or
    /// `redis+cluster://host,host`.
    #[arg(
        long, env = "TIDEGATE_STORE", value_name = "STORE", default_value = "memory",
        hide_env_values = true, value_parser = Value(parsed::<StoreArg>)
    )]
    store: StoreArg,
    /// The user of Redis, instead of one in the URL.
    #[arg(long, env = "TIDEGATE_REDIS_USERNAME", value_name = "NAME")]
    redis_username: Option<String>,
    /// A file with the password of Redis, read again for every connection, so
    /// that it can be changed. Or put the password into the environment variable
    /// `TIDEGATE_REDIS_PASSWORD`.
    #[arg(long, env = "TIDEGATE_REDIS_PASSWORD_FILE", value_name = "PATH")]
    redis_password_file: Option<PathBuf>,
    /// Do not start while the store is away.
    #[arg(
        long, env = "TIDEGATE_REQUIRE_STORE", value_name = "BOOL", value_parser = Value(truth),
        num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", action = ArgAction::Set
    )]
    require_store: bool,
    /// What to answer when the store cannot decide, where neither the rule nor
    /// its domain says.
    #[arg(
        long,
        env = "TIDEGATE_FAILURE_MODE",
        value_name = "MODE",
        value_enum,
        default_value = "open"
    )]
    failure_mode: FailureArg,
    /// How many replicas share the limits: in failure mode local, each admits
    /// its part.
    #[arg(
        long, env = "TIDEGATE_REPLICAS", value_name = "COUNT", default_value = "1",
        value_parser = Value(count::<NonZeroU32>)
    )]
    replicas: NonZeroU32,
    /// How long a decision may wait for the store. Envoy waits 20ms for the answer.
    #[arg(
        long, env = "TIDEGATE_STORE_DEADLINE", value_name = "TIME", default_value = "10ms",
        value_parser = Value(span)
    )]
    store_deadline: Span,
    /// What keys in Redis begin with, before `tidegate:1:`.
    #[arg(
        long,
        env = "CACHE_KEY_PREFIX",
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    key_prefix: String,
    /// How Redis is asked to run the script that decides.
    #[arg(
        long,
        env = "TIDEGATE_REDIS_SCRIPT",
        value_name = "RUNTIME",
        value_enum,
        default_value = "eval"
    )]
    redis_script: ScriptArg,
    /// What counters in memory may take.
    #[arg(
        long, env = "TIDEGATE_MEMORY_LIMIT", value_name = "SIZE", default_value = "256MiB",
        value_parser = Value(parsed::<ByteSize>)
    )]
    memory_limit: ByteSize,
    #[command(flatten)]
    reaching: Reaching,
    #[command(flatten)]
    near: Near,
    #[command(flatten)]
    topology: Topology,
    #[command(flatten)]
    lanes: Lanes,
}

/// [`FailureMode`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum FailureArg {
    /// Let the request pass.
    Open,
    /// Refuse the request.
    Closed,
    /// Decide in memory, by this replica's share of the limit.
    Local,
    /// End the call with `UNAVAILABLE`, so that the proxy decides.
    Error,
}

/// [`ScriptRuntime`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ScriptArg {
    /// By EVALSHA: any Redis or Valkey.
    Eval,
    /// By FCALL, from a library of functions: Redis 7, Valkey or later. Each
    /// release has a library of its own, so that two can share a server. Old ones
    /// stay: `FUNCTION LIST LIBRARYNAME tidegate_*` shows them, and `FUNCTION
    /// DELETE` removes one; what is in use comes back by itself.
    Function,
}

/// Two passwords: which one is meant is anybody's guess.
#[derive(Debug, thiserror::Error)]
#[error(
    "both {flag} (or {variable}_FILE) and {variable} give a password of {whom}; remove one of them"
)]
pub struct TwoPasswords {
    flag: &'static str,
    variable: &'static str,
    whom: &'static str,
}

impl TwoPasswords {
    /// The password out of the file, or out of the variable, unless both are
    /// given. It has no flag of its own, because command lines can be read by
    /// everybody on the machine.
    pub(super) fn one(self, file: Option<PathBuf>) -> Result<Option<Password>, Self> {
        match (secret(self.variable), file) {
            (Some(_), Some(_)) => Err(self),
            (Some(password), None) => Ok(Some(Password::Given(password))),
            (None, path) => Ok(path.map(Password::File)),
        }
    }

    /// The variables with passwords for any Redis, where they are set.
    pub(super) fn variables_of_redis() -> impl Iterator<Item = &'static str> {
        let all = [Self::OF_REDIS, Self::OF_SENTINELS, Self::OF_PER_SECOND];
        all.into_iter().map(|one| one.variable).filter(|variable| secret(variable).is_some())
    }

    /// Those of sentinels.
    pub(super) const OF_SENTINELS: Self = Self {
        flag: "--redis-sentinel-password-file",
        variable: "TIDEGATE_REDIS_SENTINEL_PASSWORD",
        whom: "the sentinels",
    };

    /// Those of the Redis for limits of one second.
    pub(super) const OF_PER_SECOND: Self = Self {
        flag: "--redis-per-second-password-file",
        variable: "TIDEGATE_REDIS_PER_SECOND_PASSWORD",
        whom: "the Redis for limits of one second",
    };

    const OF_REDIS: Self =
        Self { flag: "--redis-password-file", variable: "TIDEGATE_REDIS_PASSWORD", whom: "Redis" };
}

impl Keeping {
    /// What to answer when the store cannot decide.
    pub(super) fn failure_mode(&self) -> FailureMode {
        match self.failure_mode {
            FailureArg::Open => FailureMode::Open,
            FailureArg::Closed => FailureMode::Closed,
            FailureArg::Local => FailureMode::Local,
            FailureArg::Error => FailureMode::Error,
        }
    }

    /// Which keys lie together in Redis Cluster.
    pub(super) fn hash_tag(&self) -> HashTag {
        self.topology.hash_tag()
    }

    /// How many replicas share the limits.
    pub(super) fn replicas(&self) -> NonZeroU32 {
        self.replicas
    }

    /// What counters in memory may take, in bytes.
    pub(super) fn memory_limit(&self) -> usize {
        self.memory_limit.as_usize()
    }

    /// The same for the service.
    ///
    /// # Errors
    /// If there are two passwords.
    pub(super) fn options(self) -> Result<StoreOptions, TwoPasswords> {
        let password = TwoPasswords::OF_REDIS.one(self.redis_password_file)?;
        Ok(StoreOptions {
            place: self.store,
            credentials: Credentials { username: self.redis_username, password },
            tls: self.reaching.tls(),
            sentinel_credentials: self.reaching.sentinel_credentials()?,
            lanes: self.lanes.options(),
            per_second: self.topology.per_second()?,
            required: self.require_store,
            redis_script: match self.redis_script {
                ScriptArg::Eval => ScriptRuntime::Eval,
                ScriptArg::Function => ScriptRuntime::Function,
            },
            key_prefix: self.key_prefix,
            deadline: self.store_deadline,
            memory_limit: self.memory_limit,
            near: self.near.config(),
        })
    }
}
