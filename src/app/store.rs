//! Opens the place where counters live.

use super::StartError;
use super::options::{PerSecondOptions, StoreArg, StoreOptions};
use crate::store::Store;
use crate::store::memory::MemoryStore;
use crate::store::redis::{self, Credentials, RedisConfig, RedisStore, Tls};
use crate::threads::Threads;

/// Opens the store.
///
/// # Errors
/// When it cannot be what was asked for.
pub(super) fn open(options: &StoreOptions, threads: &Threads) -> Result<Store, StartError> {
    let (place, others) = (&options.place, options.per_second.as_ref());
    let url = match (place, others.map(|others| &others.place)) {
        (StoreArg::Redis(url), None | Some(StoreArg::Redis(_))) => url,
        (StoreArg::Memory, None) => {
            return Ok(Store::Memory(MemoryStore::new(options.memory_limit.as_usize())));
        }
        _ => return Err(StartError::HalfInRedis),
    };
    let tls = [Some(place), others.map(|others| &others.place)];
    // Settings of TLS are for either; where neither is encrypted, the store says
    // that they are of no use.
    let shared = tls.into_iter().flatten().any(is_encrypted);
    let tls_of =
        |place| if shared && !is_encrypted(place) { Tls::default() } else { options.tls.clone() };
    let config = |url: &str, credentials: &Credentials, tls| {
        let own = RedisConfig::new(url);
        RedisConfig {
            key_prefix: format!("{}{}", options.key_prefix, own.key_prefix),
            credentials: credentials.clone(),
            sentinel_credentials: options.sentinel_credentials.clone(),
            tls,
            deadline: options.deadline,
            script: options.redis_script,
            lanes: options.lanes.count.unwrap_or_else(|| threads.count()),
            batch_max: options.lanes.batch,
            queue_max: options.lanes.queue,
            threads: threads.handles().to_vec(),
            near: options.near,
            ..own
        }
    };
    let per_second = others.and_then(|PerSecondOptions { place, credentials }| match place {
        StoreArg::Redis(url) => Some(Box::new(config(url, credentials, tls_of(place)))),
        StoreArg::Memory => None,
    });
    let config = RedisConfig { per_second, ..config(url, &options.credentials, tls_of(place)) };
    Ok(Store::Redis(RedisStore::connect(&config)?))
}

fn is_encrypted(place: &StoreArg) -> bool {
    matches!(place, StoreArg::Redis(url) if redis::is_encrypted(url))
}
