//! How decisions travel to Redis.

use std::num::NonZeroUsize;

use clap::Args;

use crate::app::LaneOptions;
use crate::cli::values::{Value, count, count_to};

/// Most connections to one server: a Redis has 10,000 for everybody together,
/// and more of ours than this only make batches smaller.
const MOST_LANES: usize = 1000;

/// How decisions travel to Redis.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Redis")]
#[allow(clippy::struct_field_names, reason = "they are the names of the flags")]
pub(super) struct Lanes {
    /// Connections to each Redis server; as many as threads serve (`--threads`)
    /// unless said otherwise, and 1000 at most. More make batches smaller.
    #[arg(
        long, env = "TIDEGATE_REDIS_LANES", value_name = "COUNT",
        value_parser = Value(count_to::<MOST_LANES>)
    )]
    redis_lanes: Option<NonZeroUsize>,
    /// Most requests that one call of the script decides.
    #[arg(
        long, env = "TIDEGATE_REDIS_BATCH", value_name = "COUNT", default_value = "64",
        value_parser = Value(count::<NonZeroUsize>)
    )]
    redis_batch: NonZeroUsize,
    /// Most requests that wait for one connection; those beyond it are answered
    /// by their failure mode at once.
    #[arg(
        long, env = "TIDEGATE_REDIS_QUEUE", value_name = "COUNT", default_value = "1024",
        value_parser = Value(count::<NonZeroUsize>)
    )]
    redis_queue: NonZeroUsize,
}

impl Lanes {
    /// The same for the service.
    pub(super) fn options(self) -> LaneOptions {
        LaneOptions { count: self.redis_lanes, batch: self.redis_batch, queue: self.redis_queue }
    }
}
