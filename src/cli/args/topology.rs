//! Flags about where counters lie, where there is more than one place.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::keeping::TwoPasswords;
use crate::app::{PerSecondOptions, StoreArg};
use crate::cli::values::{Value, parsed};
use crate::store::HashTag;
use crate::store::redis::Credentials;

/// Several places.
#[derive(Debug, Args)]
#[command(next_help_heading = "Redis")]
pub(super) struct Topology {
    /// Which keys share a slot of Redis Cluster, where the domain does not say
    /// (`hash_tag`).
    #[arg(
        long = "redis-hash-tag",
        env = "TIDEGATE_REDIS_HASH_TAG",
        value_name = "KEYS",
        value_enum,
        default_value = "entries"
    )]
    hash_tag: HashTagArg,
    /// Another Redis, written like that of `--store`, for limits in fixed windows
    /// of one second.
    #[arg(
        long, env = "TIDEGATE_STORE_PER_SECOND", value_name = "STORE", hide_env_values = true,
        value_parser = Value(parsed::<StoreArg>)
    )]
    store_per_second: Option<StoreArg>,
    /// The user of that other Redis, instead of one in its URL.
    #[arg(
        long,
        env = "TIDEGATE_REDIS_PER_SECOND_USERNAME",
        value_name = "NAME",
        requires = "store_per_second"
    )]
    redis_per_second_username: Option<String>,
    /// A file with the password of that other Redis, read again for every
    /// connection. Or put it into `TIDEGATE_REDIS_PER_SECOND_PASSWORD`.
    #[arg(
        long,
        env = "TIDEGATE_REDIS_PER_SECOND_PASSWORD_FILE",
        value_name = "PATH",
        requires = "store_per_second"
    )]
    redis_per_second_password_file: Option<PathBuf>,
}

/// [`HashTag`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum HashTagArg {
    /// Those with the same entries: each counter by itself, the rates of a rule
    /// together. Load spreads over all masters.
    Entries,
    /// Those of a domain with the same first entry.
    FirstEntry,
    /// All of a domain: a request is always decided in one step, by one master.
    Domain,
}

impl Topology {
    /// Which keys lie together in Redis Cluster.
    pub(super) fn hash_tag(&self) -> HashTag {
        match self.hash_tag {
            HashTagArg::Entries => HashTag::Entries,
            HashTagArg::FirstEntry => HashTag::FirstEntry,
            HashTagArg::Domain => HashTag::Domain,
        }
    }

    /// The other Redis.
    ///
    /// # Errors
    /// If there are two passwords.
    pub(super) fn per_second(self) -> Result<Option<PerSecondOptions>, TwoPasswords> {
        let Some(place) = self.store_per_second else { return Ok(None) };
        let password = TwoPasswords::OF_PER_SECOND.one(self.redis_per_second_password_file)?;
        let credentials = Credentials { username: self.redis_per_second_username, password };
        Ok(Some(PerSecondOptions { place, credentials }))
    }
}
