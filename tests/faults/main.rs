//! The whole service while its store fails: real processes, steady load.

#[path = "../support/ask.rs"]
mod ask;
#[path = "../support/http.rs"]
mod http;
#[path = "../support/process.rs"]
mod process;
#[path = "../support/redis.rs"]
mod redis;

#[path = "../support/service.rs"]
mod service;

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
