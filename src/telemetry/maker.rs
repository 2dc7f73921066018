//! Making metrics, and what there is to know of them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts, Registry};

/// All labels that metrics have by themselves.
pub const LABELS: &[&str] = &[
    "domain",
    "key1",
    "key2",
    "err_type",
    "grpc_method",
    "kind",
    "mode",
    "to",
    "version",
    "le",
    "quantile",
];

/// What there is to know of a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Its name.
    pub name: String,
    /// What it tells.
    pub help: String,
    /// The labels that tell its series apart.
    pub labels: Vec<String>,
}

/// Makes metrics and registers them. Unreachable failures (a malformed or
/// repeated constant name) show as a panic in every test that makes metrics.
pub(super) struct Maker {
    registry: Registry,
    described: RefCell<Vec<Description>>,
}

impl Maker {
    /// Made in a registry of their own, where every series carries `labels`.
    pub(super) fn new(labels: HashMap<String, String>) -> Self {
        let labels = (!labels.is_empty()).then_some(labels);
        let registry = Registry::new_custom(None, labels);
        let registry = registry.expect("without a prefix there is no bad one");
        Self { registry, described: RefCell::default() }
    }

    /// What was made.
    pub(super) fn descriptions(&self) -> Arc<[Description]> {
        self.described.take().into()
    }

    /// Where it is registered.
    pub(super) fn registry(&self) -> Registry {
        self.registry.clone()
    }

    pub(super) fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.registered(IntCounter::new(name, help))
    }

    pub(super) fn gauge(&self, name: &str, help: &str) -> IntGauge {
        self.registered(IntGauge::new(name, help))
    }

    pub(super) fn labelled(&self, name: &str, help: &str, label: &str) -> IntCounterVec {
        self.registered(IntCounterVec::new(Opts::new(name, help), &[label]))
    }

    pub(super) fn registered<M>(&self, metric: prometheus::Result<M>) -> M
    where
        M: prometheus::core::Collector + Clone + 'static,
    {
        let metric = metric.expect("metric names are constant and valid");
        for desc in metric.desc() {
            let (name, help) = (desc.fq_name.clone(), desc.help.clone());
            let description = Description { name, help, labels: desc.variable_labels.clone() };
            self.described.borrow_mut().push(description);
        }
        self.registry.register(Box::new(metric.clone())).expect("metric names are distinct");
        metric
    }
}
