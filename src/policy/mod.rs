//! From YAML, or the resources of a control plane, to rules that can be looked
//! up.
//!
//! ```text
//! source -> yaml -> read -> raw -> lower -> draft -> tree
//! bytes     nodes   what a file says   checked rules   rules in force
//!      resource ----------> raw
//! ```
//!
//! Every step collects [faults](fault) and goes on, so that one start reports
//! all of them.

pub mod address;
mod draft;
mod failure_mode;
pub mod fault;
pub mod load;
mod lower;
mod naming;
mod nearest;
pub mod pattern;
mod raw;
mod read;
mod resource;
pub mod rule;
mod source;
pub mod tree;
mod yaml;

pub use failure_mode::FailureMode;
pub use fault::{Fault, LoadError, Position};
pub use load::{LoadOptions, TYPE_URL, load, load_resources, load_texts, rates_from_yaml};
pub use rule::{Grant, Quota, Rule, RuleSpec};
pub use source::{Layout, Signature};
pub use tree::{Domain, Level, Node, Policies};
