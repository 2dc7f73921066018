//! Everything that an operator may choose, read and checked.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use super::reports::ReportOptions;
use crate::decide;
use crate::policy::LoadOptions;
use crate::store::near::NearConfig;
use crate::store::redis::{Credentials, ScriptRuntime, Tls};
use crate::transport::age::Age;
use crate::transport::listen::{HostPort, Listen};
use crate::transport::tls::TlsFiles;
use crate::units::Span;
use crate::xds::XdsOptions;

/// How the service runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the policies come from.
    pub config: ConfigSource,
    /// How to read them.
    pub load: LoadOptions,
    /// Start with bad or missing files, too; calls fail until there are good ones.
    pub start_with_bad_config: bool,
    /// Be ready only while there are rules.
    pub healthy_with_config: bool,
    /// Where counters live.
    pub store: StoreOptions,
    /// Where gRPC listens.
    pub grpc: Listen,
    /// How gRPC connections are encrypted, if they are.
    pub tls: Option<TlsFiles>,
    /// How old gRPC connections may become.
    pub age: Age,
    /// Where HTTP listens.
    pub http: HostPort,
    /// How many threads serve gRPC connections.
    pub threads: NonZeroUsize,
    /// How to decide.
    pub decide: decide::Settings,
    /// Bad requests end with the code of envoyproxy/ratelimit.
    pub reference_codes: bool,
    /// How the service stops.
    pub stop: StopOptions,
    /// Whom it tells of itself.
    pub report: ReportOptions,
}

/// Where policies come from.
#[derive(Clone, Debug)]
pub enum ConfigSource {
    /// Files.
    Files {
        /// The file, or the directory of files.
        path: PathBuf,
        /// How often to look for changes; zero for never.
        reload_interval: Span,
    },
    /// A control plane.
    Xds(Box<XdsOptions>),
}

impl fmt::Display for ConfigSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files { path, .. } => path.display().fmt(f),
            Self::Xds(options) => write!(f, "xds://{}", options.server),
        }
    }
}

/// Where counters live, and within which bounds.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Memory or Redis.
    pub place: StoreArg,
    /// Who we are to Redis.
    pub credentials: Credentials,
    /// Who we are to the sentinels of Redis.
    pub sentinel_credentials: Credentials,
    /// How connections to Redis are encrypted.
    pub tls: Tls,
    /// Another Redis for limits of one second.
    pub per_second: Option<PerSecondOptions>,
    /// Do not start without it.
    pub required: bool,
    /// How Redis is asked to run the script.
    pub redis_script: ScriptRuntime,
    /// What keys in Redis begin with, before our own prefix.
    pub key_prefix: String,
    /// How decisions travel to Redis.
    pub lanes: LaneOptions,
    /// How long a decision may wait for the store.
    pub deadline: Span,
    /// What counters in memory may take.
    pub memory_limit: ByteSize,
    /// The near cache in front of Redis, if there is one.
    pub near: Option<NearConfig>,
}

/// Where counters of limits of one second live.
#[derive(Clone, Debug)]
pub struct PerSecondOptions {
    /// Another Redis.
    pub place: StoreArg,
    /// Who we are to it.
    pub credentials: Credentials,
}

/// How decisions travel to Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneOptions {
    /// How many connections to each server; one for each thread that serves,
    /// unless said otherwise.
    pub count: Option<NonZeroUsize>,
    /// Most requests in one call of the script.
    pub batch: NonZeroUsize,
    /// Most requests that wait for one connection.
    pub queue: NonZeroUsize,
}

/// How the service stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopOptions {
    /// How long calls are still answered after health has turned, so that
    /// clients can go elsewhere.
    pub drain_delay: Span,
    /// How long calls in flight may take after that.
    pub grace: Span,
}

/// A place for counters, as written.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreArg {
    /// In this process.
    Memory,
    /// In Redis at this URL. It may contain a password: not to be shown.
    Redis(String),
}

/// How URLs of Redis and Valkey begin.
const SCHEMES: [&str; 14] = [
    "redis",
    "rediss",
    "redis+unix",
    "redis+sentinel",
    "rediss+sentinel",
    "redis+cluster",
    "rediss+cluster",
    "valkey",
    "valkeys",
    "valkey+unix",
    "valkey+sentinel",
    "valkeys+sentinel",
    "valkey+cluster",
    "valkeys+cluster",
];

impl FromStr for StoreArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once("://") {
            None if text == "memory" => Ok(Self::Memory),
            // The store itself reads the rest, and says what is wrong with it.
            Some((scheme, rest)) if SCHEMES.contains(&scheme) && !rest.is_empty() => {
                Ok(Self::Redis(text.into()))
            }
            _ => Err("expected \"memory\" or a URL like redis://host:6379".into()),
        }
    }
}

impl fmt::Display for StoreArg {
    /// The place without credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::Redis(url) => {
                let (scheme, rest) = url.split_once("://").unwrap_or_default();
                let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
                // A parameter may carry a password as well.
                write!(f, "{scheme}://{}", host.split('?').next().unwrap_or_default())
            }
        }
    }
}

impl fmt::Debug for StoreArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An amount of memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(u64);

impl ByteSize {
    /// Less holds no counters worth the name.
    const LEAST: u64 = 1 << 20;
    const UNITS: [(&'static str, u64); 7] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("B", 1),
    ];

    /// An amount that may be too small for counters; `None` if it is none.
    pub fn any(text: &str) -> Option<Self> {
        let (number, factor) = Self::UNITS
            .iter()
            .find_map(|(name, factor)| text.strip_suffix(name).map(|number| (number, *factor)))
            .unwrap_or((text, 1));
        number.trim_end().parse::<u64>().ok()?.checked_mul(factor).map(Self)
    }

    /// The amount in bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The amount in bytes, at most what this machine can address.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::any(text)
            .filter(|size| size.0 >= Self::LEAST)
            .ok_or_else(|| "expected an amount like 256MiB or 1GB, at least 1MiB".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_shown_without_its_password() {
        for (url, shown) in [
            ("redis://:secret@cache:6379/1", "redis://cache:6379/1"),
            ("redis://user:sec@ret@cache", "redis://cache"),
            ("redis://cache?password=secret", "redis://cache"),
        ] {
            let store: StoreArg = url.parse().unwrap();
            assert_eq!(store.to_string(), shown);
            assert_eq!(format!("{store:?}"), shown);
        }
        assert_eq!("memory".parse(), Ok(StoreArg::Memory));
    }

    #[test]
    fn other_stores_are_refused() {
        for text in ["", "Memory", "redis", "redis://", "memcache://x", "localhost:6379"] {
            assert!(text.parse::<StoreArg>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_have_decimal_and_binary_units() {
        for (text, bytes) in
            [("256MiB", 268_435_456), ("1 GB", 1_000_000_000), ("2097152", 2_097_152)]
        {
            assert_eq!(text.parse::<ByteSize>().map(ByteSize::get), Ok(bytes));
        }
        for text in ["", "MiB", "-1B", "0", "1.5GiB", "1tb", "99999999999GiB"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }
}
