//! Flags about the near cache.

use clap::{ArgAction, Args};

use crate::app::ByteSize;
use crate::cli::values::{Value, span, truth};
use crate::store::near::NearConfig;
use crate::units::Span;

/// A smaller cache is not worth having: envoyproxy/ratelimit takes this as well
/// where less is asked for.
const LEAST_BYTES: usize = 512 << 10;

/// What is refused without asking Redis.
#[derive(Debug, Args)]
#[command(next_help_heading = "Redis")]
pub(super) struct Near {
    /// Remember refusals: a key that Redis is known to refuse is refused without
    /// asking it.
    #[arg(
        long = "near-cache", env = "TIDEGATE_NEAR_CACHE", value_name = "BOOL",
        value_parser = Value(truth), num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "true", action = ArgAction::Set
    )]
    wanted: bool,
    /// What the near cache may take; 0 for no near cache, and at least 512KiB
    /// otherwise.
    #[arg(
        long = "near-cache-size", env = "LOCAL_CACHE_SIZE_IN_BYTES", value_name = "SIZE",
        default_value = "16MiB", value_parser = Value(size)
    )]
    size: usize,
    /// The longest that a refusal is believed: a refund, a reset or a changed
    /// clock that it does not see goes unnoticed for no longer.
    #[arg(
        long = "near-cache-ttl", env = "TIDEGATE_NEAR_CACHE_TTL", value_name = "TIME",
        default_value = "1s", value_parser = Value(span)
    )]
    longest: Span,
}

impl Near {
    /// The near cache, if there is one.
    pub(super) fn config(&self) -> Option<NearConfig> {
        let wanted = self.wanted && self.size > 0 && !self.longest.is_zero();
        if wanted && self.size < LEAST_BYTES {
            tracing::warn!(
                bytes = self.size,
                "--near-cache-size is too small: 512KiB, the smallest near cache, is taken; give \
                 as much, or 0 for none"
            );
        }
        wanted.then(|| NearConfig { bytes: self.size.max(LEAST_BYTES), longest: self.longest })
    }
}

/// A size that may be small, or nothing.
fn size(text: &str) -> Result<usize, String> {
    let size = ByteSize::any(text).map(ByteSize::as_usize);
    size.ok_or_else(|| "expected an amount like 16MiB, or 0 for no near cache".into())
}
