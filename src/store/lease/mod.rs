//! Leases.

mod terms;

pub use terms::LeaseTerms;
