//! What several test binaries share.

#![allow(dead_code, reason = "no binary uses everything")]

pub mod ask;
pub mod crowd;
pub mod http;
pub mod process;
pub mod redis;
pub mod sentinel;
pub mod service;
pub mod tools;
pub mod vectors;
