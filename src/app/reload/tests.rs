use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::clock::Clock;
use crate::decide::{Decider, Settings};
use crate::policy::{Layout, Policies};
use crate::store::Store;
use crate::store::memory::MemoryStore;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::readiness::Readiness;

const GOOD: &str =
    "domain: t\ndescriptors: [{key: a, rate_limit: {unit: hour, requests_per_unit: 1}}]\n";
const BAD: &str = "domain: t\ndescriptors: [{key: a, rate_limit: {unit: fortnight}}]\n";

/// A reloader without rules yet of a file that holds `text`.
fn reloader(path: &Path, text: &str) -> Reloader {
    fs::write(path, text).unwrap();
    let metrics = Metrics::new();
    let store = Store::Memory(MemoryStore::default());
    let settings = Settings::default();
    let decider =
        Decider::new(Some(Policies::default()), store, Clock::default(), settings, metrics);
    let origin = path.display().to_string();
    let readiness = Arc::new(Readiness::new(origin.clone()));
    let adoption = Adoption { decider: Arc::new(decider), readiness, origin };
    let seen = Signature::of(path, Layout::Rules);
    Reloader::new(path.into(), LoadOptions::default(), adoption, seen)
}

/// Domains in force, configurations accepted and refused.
fn state(reloader: &Reloader) -> (usize, u64, u64) {
    let metrics = reloader.adoption.decider.metrics();
    let (accepted, refused) = (&metrics.config_load_success, &metrics.config_load_error);
    (reloader.adoption.decider.policies().unwrap().len(), accepted.get(), refused.get())
}

#[test]
fn what_has_not_changed_is_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let mut reloader = reloader(&directory.path().join("c.yaml"), BAD);
    reloader.look();
    reloader.look();
    assert_eq!(state(&reloader), (0, 0, 0));
}

#[test]
fn a_file_that_is_half_written_at_the_first_look_is_not_called_bad() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("c.yaml");
    let mut reloader = reloader(&path, "");
    fs::write(&path, &GOOD[..40]).unwrap();
    reloader.look();
    assert_eq!(state(&reloader), (0, 0, 0));
    fs::write(&path, GOOD).unwrap();
    reloader.look();
    assert_eq!(state(&reloader), (1, 1, 0));
}

#[test]
fn a_file_that_stays_bad_is_refused_once_and_the_last_good_one_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("c.yaml");
    let mut reloader = reloader(&path, "");
    fs::write(&path, GOOD).unwrap();
    reloader.look();
    fs::write(&path, BAD).unwrap();
    for _ in 0..5 {
        reloader.look();
    }
    assert_eq!(state(&reloader), (1, 1, 1));
    assert_eq!(reloader.adoption.decider.metrics().config_stale.get(), 1);
    let config = reloader.adoption.readiness.config();
    assert!(config.stale && config.error.is_some_and(|error| error.contains("fortnight")));

    fs::write(&path, GOOD).unwrap();
    reloader.look();
    assert_eq!(state(&reloader), (1, 2, 1));
    assert_eq!(reloader.adoption.decider.metrics().config_stale.get(), 0);
    let config = reloader.adoption.readiness.config();
    assert_eq!((config.stale, config.error), (false, None));
}
