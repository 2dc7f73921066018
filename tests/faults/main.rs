//! The whole service while its store fails: real processes, steady load.

#[path = "../support/mod.rs"]
mod support;

mod load;
mod proxy;
mod rig;

mod cancellation;
mod cluster;
mod credentials;
mod exactness;
mod modes;
mod replies;
mod startup;
mod storms;

use support::{ask, crowd, http, process, redis, service};
