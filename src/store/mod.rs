//! Where counters live. One call decides a whole request.

mod error;
mod hash_tag;
mod health;
pub mod key;
pub mod lease;
pub mod memory;
pub mod near;
pub mod redis;

use smallvec::SmallVec;

use crate::limit::{Cost, Limit, Verdict};
use crate::units::{Hits, Timestamp};

pub use error::{Cause, Known, Outage, Partial, StoreError};
pub use hash_tag::HashTag;
pub use health::{Circuit, Masters, StoreHealth};
pub use key::{KeyBuf, KeyRef, KeyWriter, Tag};
pub use lease::LeaseTerms;

/// One verdict per charge of a [`Plan`], in its order.
pub type Verdicts = SmallVec<[Verdict; 4]>;

/// What a store says to a plan.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The verdicts.
    pub verdicts: Verdicts,
    /// Which of them came from the near cache; empty if none did.
    pub near: SmallVec<[bool; 4]>,
}

/// How the charges of one request hang together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ChargeMode {
    /// Each charge stands alone, as in envoyproxy/ratelimit.
    #[default]
    Independent,
    /// A request that is refused consumes nothing, shadow charges aside.
    AllOrNothing,
}

/// What the refusal of a charge means for its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The request is refused.
    Enforced,
    /// Nothing: it is only counted.
    Shadow,
    /// The request is refused if all quota charges are.
    Quota,
}

/// One limit to be charged.
#[derive(Clone, Copy, Debug)]
pub struct Charge {
    /// The limit, with the parameters in force for this request; in a group of
    /// several, one that refuses for free.
    pub limit: Limit,
    /// The counter, in the plan's keys.
    pub key: KeyRef,
    /// What to take, give back or look at.
    pub cost: Cost,
    /// What a refusal means.
    pub role: Role,
    /// It is one more rate of the rule that the charge before it belongs to.
    pub joined: bool,
    /// How it takes hits in advance while its key is hot, if it does.
    pub lease: Option<LeaseTerms>,
}

impl Charge {
    /// How many hits it writes one by one, if it passes: only a log does.
    pub fn logged(&self) -> u64 {
        match (&self.limit, self.cost) {
            (Limit::SlidingLog(log), Cost::Take(hits)) if hits <= log.limit() => hits.get(),
            _ => 0,
        }
    }
}

/// Charges that are decided together: they pass together, or none consumes
/// anything.
#[derive(Clone, Copy, Debug)]
pub struct Group<'p> {
    /// The charges, at least one.
    pub charges: &'p [Charge],
    /// The rates of one rule: any of them refuses, whatever its role in the
    /// request.
    pub one_rule: bool,
    /// See [`Plan::quota_passes`].
    pub quota_passes: bool,
}

/// Everything that one request charges; decided in one step.
#[derive(Debug, Default)]
pub struct Plan {
    /// How the charges hang together.
    pub mode: ChargeMode,
    /// A quota descriptor without a limit is in the request: quota charges can
    /// then never refuse it.
    pub quota_passes: bool,
    /// The charges, in request order.
    pub charges: SmallVec<[Charge; 4]>,
    /// The keys of the charges.
    pub keys: KeyBuf,
    /// The moment of the decision. Redis uses its own clock unless `pinned`.
    pub now: Timestamp,
    /// Whether `now` comes from a manual clock, which every store must follow.
    pub pinned: bool,
}

impl Plan {
    /// Whether these verdicts refuse the request.
    pub fn refused_by(&self, verdicts: &[Verdict]) -> bool {
        let whole =
            Group { charges: &self.charges, one_rule: false, quota_passes: self.quota_passes };
        whole.refused_by(verdicts)
    }

    /// The charges as they are decided: all together, or rule by rule.
    pub fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        Group::of(&self.charges, self.mode, self.quota_passes)
    }
}

impl<'p> Group<'p> {
    /// The groups of these charges.
    pub fn of(
        charges: &'p [Charge],
        mode: ChargeMode,
        quota_passes: bool,
    ) -> impl Iterator<Item = Self> {
        let together = mode == ChargeMode::AllOrNothing;
        let same = move |_: &Charge, next: &Charge| together || next.joined;
        let groups = charges.chunk_by(same);
        groups.map(move |charges| Self { charges, one_rule: !together, quota_passes })
    }
}

impl Group<'_> {
    /// What the refusal of `charge` means for the group.
    pub const fn role(&self, charge: &Charge) -> Role {
        if self.one_rule { Role::Enforced } else { charge.role }
    }

    /// Whether these verdicts refuse the group.
    pub fn refused_by(&self, verdicts: &[Verdict]) -> bool {
        let (mut quota_seen, mut quota_passed) = (self.quota_passes, self.quota_passes);
        for (charge, verdict) in self.charges.iter().zip(verdicts) {
            match self.role(charge) {
                Role::Enforced if !verdict.allowed => return true,
                Role::Quota => {
                    quota_seen = true;
                    quota_passed |= verdict.allowed;
                }
                Role::Enforced | Role::Shadow => {}
            }
        }
        quota_seen && !quota_passed
    }

    /// What to do about a charge once the group is refused and everything is
    /// back as it was: shadow charges go on as before, those that passed only
    /// look, those that were refused keep their verdict.
    pub fn cost_after_refusal(&self, charge: &Charge, passed: bool) -> Option<Cost> {
        match (self.role(charge), charge.cost) {
            (Role::Shadow, cost) => Some(cost),
            _ if !passed => None,
            (_, Cost::Refund(_) | Cost::Reset) => Some(Cost::Refund(Hits::ZERO)),
            _ => Some(Cost::Check),
        }
    }
}

/// The place where counters live.
#[derive(Debug)]
pub enum Store {
    /// In this process.
    Memory(memory::MemoryStore),
    /// In Redis or Valkey, shared with other replicas.
    Redis(redis::RedisStore),
}

impl Store {
    /// Decides all charges of `plan` atomically.
    ///
    /// # Errors
    /// When the store could not decide; nothing is known of the charges then,
    /// but for those that [`StoreError::Partial`] tells of.
    pub async fn decide(&self, plan: &Plan) -> Result<Verdicts, StoreError> {
        self.answer(plan).await.map(|answer| answer.verdicts)
    }

    /// The same, and where the verdicts come from.
    ///
    /// # Errors
    /// When the store could not decide; nothing is known of the charges then.
    pub async fn answer(&self, plan: &Plan) -> Result<Answer, StoreError> {
        match self {
            Self::Memory(store) => Ok(store.decide(plan).into()),
            Self::Redis(store) => store.answer(plan).await,
        }
    }
    /// Gives back what the parts of a refused request took that were decided,
    /// without waiting for it.
    pub fn take_back(&self, plan: &Plan, partial: &Partial) {
        match self {
            Self::Memory(_) => {}
            Self::Redis(store) => store.take_back(plan, partial),
        }
    }

    /// Whether keys need a hash tag, because they lie in a cluster.
    pub fn is_clustered(&self) -> bool {
        match self {
            Self::Memory(_) => false,
            Self::Redis(store) => store.is_clustered(),
        }
    }
}

impl From<Verdicts> for Answer {
    /// An answer of the store itself.
    fn from(verdicts: Verdicts) -> Self {
        Self { verdicts, near: SmallVec::new() }
    }
}

impl Answer {
    /// Whether the near cache decided a charge.
    pub fn is_near(&self, charge: usize) -> bool {
        self.near.get(charge).copied().unwrap_or_default()
    }
}
