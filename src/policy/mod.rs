//! From YAML to rules that can be looked up.
//!
//! ```text
//! source -> yaml -> read -> raw -> lower -> draft -> tree
//! bytes     nodes   what a file says   checked rules   rules in force
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
pub mod rule;
mod source;
pub mod tree;
mod yaml;

pub use failure_mode::FailureMode;
pub use fault::{Fault, LoadError, Position};
pub use load::{LoadOptions, load, load_texts, rates_from_yaml};
pub use rule::{Grant, Quota, Rule, RuleSpec};
pub use source::Signature;
pub use tree::{Domain, Level, Node, Policies};
