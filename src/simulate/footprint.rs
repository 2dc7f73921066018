//! What a counter takes, in memory and in Redis.

use std::process;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use deadpool_redis::redis;

use super::{Contender, Settings, SimulateError};
use crate::clock::ManualClock;
use crate::limiter::Limiter;
use crate::store::memory::MemoryStore;
use crate::store::redis::{RedisConfig, RedisStore};
use crate::store::{KeyBuf, Store};
use crate::units::{Span, Timestamp};

/// Hits that all counters of one algorithm may have together.
const MOST_HITS: u32 = 100_000;
/// Counters in memory: enough that tables weigh what they do in earnest.
const KEYS: std::ops::RangeInclusive<u32> = 256..=10_000;

const START: Timestamp = Timestamp::from_secs(1_796_040_000);

/// Bytes that a counter takes after as many hits as the limit, each of its own
/// moment; of a lockout, one fewer, before it locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// The algorithm.
    pub name: &'static str,
    /// In memory, with its share of the tables.
    pub memory: usize,
    /// In Redis, by its own account.
    pub redis: Option<u64>,
}

/// Measures every algorithm.
///
/// # Errors
/// If Redis does not answer.
pub async fn measure(
    contenders: &[Contender],
    settings: &Settings,
    redis: Option<&str>,
) -> Result<Vec<Footprint>, SimulateError> {
    let mut redis = match redis {
        Some(url) => Some(Server::connect(url).await?),
        None => None,
    };
    let mut footprints = Vec::new();
    for contender in contenders {
        let memory = in_memory(contender, settings).await?;
        let redis = match &mut redis {
            Some(server) => Some(server.measure(contender, settings).await?),
            None => None,
        };
        footprints.push(Footprint { name: contender.name, memory, redis });
    }
    Ok(footprints)
}

/// Hits evenly over a hundredth of a window.
async fn fill(
    contender: &Contender,
    limiter: &Limiter,
    clock: &ManualClock,
    settings: &Settings,
    key: &str,
) -> Result<(), SimulateError> {
    let hits = contender.fills_with();
    let apart = (settings.window.as_micros() / 100 / hits.max(1)).max(1);
    for hit in 0..hits {
        clock.set(START.plus(Span::from_micros(apart * hit)));
        limiter.check(key, 1).await?;
    }
    Ok(())
}

async fn in_memory(contender: &Contender, settings: &Settings) -> Result<usize, SimulateError> {
    let store = Arc::new(Store::Memory(MemoryStore::new(usize::MAX)));
    let clock = ManualClock::default();
    let limiter = Limiter::new(contender.name, contender.limit)
        .with_store(store.clone())
        .with_clock(clock.clone().into());
    let keys = (MOST_HITS / settings.limit.max(1)).clamp(*KEYS.start(), *KEYS.end());
    for key in 0..keys {
        fill(contender, &limiter, &clock, settings, &format!("{key:08}")).await?;
    }
    let Store::Memory(store) = &*store else { return Ok(0) };
    let usage = store.usage();
    Ok(usage.bytes / usage.keys.max(1))
}

/// A Redis, and what to ask it.
struct Server {
    store: Arc<Store>,
    connection: redis::aio::MultiplexedConnection,
    /// Keys of nobody else.
    name: String,
}

impl Server {
    async fn connect(url: &str) -> Result<Self, SimulateError> {
        // A key may be written hit by hit over a slow line.
        let config = RedisConfig { deadline: Span::from_secs(5), ..RedisConfig::new(url) };
        let store = RedisStore::connect(&config)?;
        store.ping().await?;
        let unusable = |error: redis::RedisError| SimulateError::MemoryUsage(error.to_string());
        let client = redis::Client::open(url).map_err(unusable)?;
        let connection = client.get_multiplexed_async_connection().await.map_err(unusable)?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("simulate {} {}", process::id(), since.as_micros());
        Ok(Self { store: Arc::new(Store::Redis(store)), connection, name })
    }

    async fn measure(
        &mut self,
        contender: &Contender,
        settings: &Settings,
    ) -> Result<u64, SimulateError> {
        let clock = ManualClock::default();
        let limiter = Limiter::new(&self.name, contender.limit)
            .with_store(self.store.clone())
            .with_clock(clock.clone().into());
        fill(contender, &limiter, &clock, settings, "key").await?;
        let usage = self.usage(contender).await;
        limiter.reset("key").await?;
        usage
    }

    async fn usage(&mut self, contender: &Contender) -> Result<u64, SimulateError> {
        let mut keys = KeyBuf::default();
        let mut key = keys.writer(&self.name);
        key.entry("", "key");
        let key = key.finish(&contender.limit);
        let prefix = RedisConfig::new("").key_prefix;
        let key = [prefix.as_bytes(), keys.get(key)].concat();
        let mut ask = redis::cmd("MEMORY");
        ask.arg("USAGE").arg(key).arg("SAMPLES").arg(0);
        let usage = ask.query_async(&mut self.connection).await;
        usage.map_err(|error| SimulateError::MemoryUsage(error.to_string()))
    }
}
