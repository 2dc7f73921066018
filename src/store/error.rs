//! Why a store could not decide.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::limit::Verdict;
use crate::units::Span;

/// Why a store could not decide.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// No answer within the deadline of a decision.
    #[error("the store did not answer within {0}")]
    Timeout(Span),
    /// No connection, or the server says that it cannot serve now.
    #[error("the store is unavailable: {0}")]
    Unavailable(Outage),
    /// Not asked: it failed so often that nobody waits for it any more.
    #[error("the store is not asked until it answers again; it failed last with: {0}")]
    Suspended(Arc<StoreError>),
    /// Too many decisions wait already.
    #[error("the queue in front of the store is full ({0} decisions wait)")]
    Overloaded(usize),
    /// A counter of this request cannot be used; others can.
    #[error("a counter of the request cannot be used: {0}")]
    Counter(Outage),
    /// The answer was not one that the script gives.
    #[error("the store answered something unexpected: {0}")]
    Protocol(String),
    /// The request counts on more counters than one request may: deciding it
    /// would hold up everybody else. No failure mode answers it.
    #[error(
        "the request counts on {sent} counters and at most {most} are allowed; send fewer \
         descriptors at once, or give their rules fewer rates"
    )]
    TooMuch {
        /// As many as it counts on.
        sent: usize,
        /// As many as are allowed.
        most: usize,
    },
    /// The request writes more hits into logs than one request may.
    #[error(
        "the request logs {sent} hits and at most {most} are allowed; send fewer hits or \
         descriptors at once, or give their rules another algorithm"
    )]
    TooManyLogged {
        /// As many as it logs.
        sent: u64,
        /// As many as are allowed.
        most: u64,
    },
    /// Some charges are decided and others could not be.
    #[error("a part of the store did not decide: {}", .0.error)]
    Partial(Box<Partial>),
}

/// A verdict for each charge that was decided, in the order of the plan.
pub type Known = SmallVec<[Option<Verdict>; 4]>;

/// What became of a request of which a part was decided.
#[derive(Debug, Clone)]
pub struct Partial {
    /// What was decided.
    pub verdicts: Known,
    /// Why the others were not.
    pub error: StoreError,
}

/// A cause, and what is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outage {
    /// What kind of thing it is.
    pub cause: Cause,
    /// Who said what, and what to do; no password and no key.
    pub text: String,
}

/// What keeps a store from deciding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// It cannot be connected to, or the connection broke.
    Connection,
    /// It takes no more connections.
    MaxClients,
    /// No encrypted connection can be agreed on.
    Tls,
    /// It does not accept the user or the password.
    Login,
    /// The user may not do what a decision needs.
    Permission,
    /// It reads its data after a start.
    Loading,
    /// A script of somebody else runs for too long.
    Busy,
    /// It is a replica.
    ReadOnly,
    /// It is a replica without its master.
    MasterDown,
    /// It has no memory left.
    OutOfMemory,
    /// It cannot write to its disk, or to enough replicas.
    Persistence,
    /// It is a node of a cluster that does not serve the key now.
    Cluster,
    /// A key holds something that is not a counter.
    WrongType,
    /// Something else.
    Other,
}

impl Cause {
    /// A short constant name, for metric labels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::MaxClients => "max_clients",
            Self::Tls => "tls",
            Self::Login => "login",
            Self::Permission => "permission",
            Self::Loading => "loading",
            Self::Busy => "busy",
            Self::ReadOnly => "read_only",
            Self::MasterDown => "master_down",
            Self::OutOfMemory => "out_of_memory",
            Self::Persistence => "persistence",
            Self::Cluster => "cluster",
            Self::WrongType => "wrong_type",
            Self::Other => "unavailable",
        }
    }
}

impl Outage {
    /// An outage for this cause.
    pub fn new(cause: Cause, text: impl Into<String>) -> Self {
        Self { cause, text: text.into() }
    }
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl StoreError {
    /// The store cannot be used, for this cause.
    pub fn unavailable(cause: Cause, text: impl Into<String>) -> Self {
        Self::Unavailable(Outage::new(cause, text))
    }

    /// A short constant name for the reason, for metric labels.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Timeout(_) => "timeout",
            Self::Unavailable(outage) | Self::Counter(outage) => outage.cause.name(),
            Self::Suspended(why) => why.kind(),
            Self::Overloaded(_) => "overloaded",
            Self::Protocol(_) => "protocol",
            Self::TooMuch { .. } | Self::TooManyLogged { .. } => "too_much",
            Self::Partial(partial) => partial.error.kind(),
        }
    }

    /// Whether the request is one that no store would be asked to decide.
    pub const fn is_excessive(&self) -> bool {
        matches!(self, Self::TooMuch { .. } | Self::TooManyLogged { .. })
    }

    /// Whether the store took the time of whoever asked, or would have: nobody
    /// answered.
    pub const fn is_silence(&self) -> bool {
        match self {
            Self::Timeout(_) => true,
            Self::Unavailable(outage) => matches!(outage.cause, Cause::Connection),
            _ => false,
        }
    }

    /// Whether it may concern every decision and not only this one.
    pub const fn is_general(&self) -> bool {
        matches!(self, Self::Timeout(_) | Self::Unavailable(_) | Self::Protocol(_))
    }
}
