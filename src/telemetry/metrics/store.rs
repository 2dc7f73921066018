//! What is known of a store, in metrics.

use prometheus::{IntCounterVec, IntGauge};

use crate::store::{Circuit, StoreHealth};
use crate::telemetry::maker::Maker;

/// The metrics of one store.
#[derive(Clone, Debug)]
pub struct StoreMetrics {
    up: IntGauge,
    breaker_state: IntGauge,
    breaker_transitions: IntCounterVec,
    masters: IntGauge,
    masters_up: IntGauge,
}

impl StoreMetrics {
    /// Those of a store, called `what` for people and with `part` in their names.
    pub(super) fn new(make: &Maker, part: &str, what: &str) -> Self {
        let gauge = |name: &str, help: &str| make.gauge(&format!("tidegate_{part}{name}"), help);
        Self {
            up: gauge("store_up", &format!("1 while {what} answers; of a cluster, any master")),
            breaker_state: gauge(
                "breaker_state",
                &format!(
                    "0 while {what} is asked (closed), 1 while one question is on its way to see \
                     whether it answers again (half open), 2 while it is not asked (open)"
                ),
            ),
            breaker_transitions: make.labelled(
                &format!("tidegate_{part}breaker_transitions"),
                "How often the circuit breaker came into each state",
                "to",
            ),
            masters: gauge(
                "cluster_masters",
                &format!("Masters with slots, if {what} is a cluster"),
            ),
            masters_up: gauge("cluster_masters_up", "Masters with slots that answer"),
        }
    }

    /// There is nothing that could be away.
    pub fn is_here(&self) {
        self.up.set(1);
    }

    /// Every series there will be, so that all can be alerted on from the start.
    pub fn begin(&self) {
        for circuit in Circuit::ALL {
            self.breaker_transitions.with_label_values(&[circuit.name()]);
        }
    }

    /// Tells `health`; `counted` are the transitions that were told already.
    pub fn tell(&self, health: &StoreHealth, counted: &mut [u64; 3]) {
        self.up.set(i64::from(health.is_up()));
        self.breaker_state.set(i64::from(health.circuit.number()));
        if let Some(masters) = health.masters {
            self.masters.set(gauge(masters.all));
            self.masters_up.set(gauge(masters.up));
        }
        let counts = Circuit::ALL.iter().zip(health.transitions.iter().zip(counted));
        for (circuit, (count, counted)) in counts {
            let more = count.saturating_sub(*counted);
            self.breaker_transitions.with_label_values(&[circuit.name()]).inc_by(more);
            *counted = (*counted).max(*count);
        }
    }
}

fn gauge(amount: usize) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}
