//! From YAML to rules that can be looked up.

pub mod address;
pub mod load;
pub mod pattern;
pub mod rule;
pub mod tree;

pub use load::{LoadError, LoadOptions, load};
pub use rule::{Grant, Quota, Rule};
pub use tree::{Domain, Level, Node, Policies};
