//! How the service decides, beside its rules.

use std::num::NonZeroU32;

pub use crate::policy::FailureMode;
use crate::store::HashTag;
use crate::store::memory::DEFAULT_MEMORY_LIMIT;

/// Names of the response headers that tell about the limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderNames {
    /// The limit's `requests_per_unit`.
    pub limit: String,
    /// What is left of it.
    pub remaining: String,
    /// Seconds until it resets.
    pub reset: String,
}

impl Default for HeaderNames {
    fn default() -> Self {
        Self {
            limit: "RateLimit-Limit".into(),
            remaining: "RateLimit-Remaining".into(),
            reset: "RateLimit-Reset".into(),
        }
    }
}

/// How the service decides, beside its rules.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Refusals are counted but answered OK.
    pub shadow_mode: bool,
    /// Every descriptor is treated as one of a quota rule.
    pub quota_mode: bool,
    /// Headers that tell about the limit, if answers carry them.
    pub response_headers: Option<HeaderNames>,
    /// Answers carry the request and the rules' metadata as dynamic metadata.
    pub dynamic_metadata: bool,
    /// Share of a limit from which hits are "near" it.
    pub near_limit_ratio: f32,
    /// Most descriptors in one request.
    pub max_descriptors: usize,
    /// What to answer when the store cannot decide, where neither the rule nor its
    /// domain says.
    pub failure_mode: FailureMode,
    /// Which keys lie together in Redis Cluster, where the domain does not say.
    pub hash_tag: HashTag,
    /// How many replicas share a limit; in [`FailureMode::Local`], each has its
    /// part.
    pub replicas: NonZeroU32,
    /// What counters of [`FailureMode::Local`] may take, in bytes.
    pub local_memory: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            shadow_mode: false,
            quota_mode: false,
            response_headers: None,
            dynamic_metadata: false,
            near_limit_ratio: 0.8,
            max_descriptors: 1024,
            failure_mode: FailureMode::Open,
            hash_tag: HashTag::Entries,
            replicas: NonZeroU32::MIN,
            local_memory: DEFAULT_MEMORY_LIMIT,
        }
    }
}
