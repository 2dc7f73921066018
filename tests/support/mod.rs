//! What several test binaries share.

#![allow(dead_code, reason = "no binary uses everything")]

pub mod ask;
pub mod redis;
pub mod service;
