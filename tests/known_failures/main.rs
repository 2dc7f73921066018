//! Behaviours that broke in the field elsewhere, each a test that names its
//! number (F01-F40).

#[path = "../support/mod.rs"]
mod support;

mod algorithms;
mod lockout;
mod matching;
mod modes;
mod requests;
mod time;
