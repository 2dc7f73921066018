//! Rules as a control plane writes them.

use tidegate::proto::ratelimit::config::ratelimit::v3::{
    RateLimitConfig, RateLimitDescriptor, RateLimitPolicy, RateLimitUnit,
};

/// The rules of `domain` in a resource of that name.
pub fn config(domain: &str, descriptors: Vec<RateLimitDescriptor>) -> RateLimitConfig {
    RateLimitConfig { name: domain.into(), domain: domain.into(), descriptors }
}

/// The domain `t` with the rule `k`: `limit` a year for each value.
pub fn yearly(limit: u32) -> RateLimitConfig {
    config("t", vec![key("k").limited(limit, RateLimitUnit::Year)])
}

/// A descriptor for any value of `key`.
pub fn key(key: &str) -> RateLimitDescriptor {
    RateLimitDescriptor { key: key.into(), ..RateLimitDescriptor::default() }
}

/// A descriptor for one value.
pub fn pair(name: &str, value: &str) -> RateLimitDescriptor {
    RateLimitDescriptor { value: value.into(), ..key(name) }
}

/// Adds to a descriptor.
pub trait DescriptorExt: Sized {
    /// With this limit.
    fn limited(self, limit: u32, unit: RateLimitUnit) -> Self;
    /// With this behind it.
    fn then(self, next: RateLimitDescriptor) -> Self;
    /// Decided and counted, but answered OK.
    fn shadow(self) -> Self;
    /// With something done to its limit.
    fn policy(self, change: impl FnOnce(&mut RateLimitPolicy)) -> Self;
}

impl DescriptorExt for RateLimitDescriptor {
    fn limited(self, limit: u32, unit: RateLimitUnit) -> Self {
        self.policy(|policy| {
            policy.requests_per_unit = limit;
            policy.unit = unit.into();
        })
    }

    fn then(mut self, next: RateLimitDescriptor) -> Self {
        self.descriptors.push(next);
        self
    }

    fn shadow(self) -> Self {
        Self { shadow_mode: true, ..self }
    }

    fn policy(mut self, change: impl FnOnce(&mut RateLimitPolicy)) -> Self {
        change(self.rate_limit.get_or_insert_default());
        self
    }
}
