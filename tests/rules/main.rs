//! What rules do once they are loaded: the example that comes with the service,
//! and every algorithm behind descriptors.

#[path = "../support/mod.rs"]
mod support;

mod clients;
mod example;
mod near;
mod rates;
