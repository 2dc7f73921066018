//! What is known of a cluster as a whole.

use std::sync::Arc;

use super::Cluster;
use crate::store::{Circuit, Masters, StoreHealth};

impl Cluster {
    /// Tells what is known whenever it changes, for ever.
    pub(in crate::store::redis) async fn tell_health(self: Arc<Self>) {
        loop {
            self.news.health.notified().await;
            let health = self.whole_health();
            self.health.send_replace(health);
        }
    }

    /// It is asked as long as one of its masters is: those whose counters
    /// another one has get no answer, and everybody else does.
    fn whole_health(&self) -> StoreHealth {
        let mut whole =
            StoreHealth { transitions: *self.changing.lock(), ..StoreHealth::default() };
        let mut masters = Masters::default();
        let (mut asked, mut trying, mut away_since) = (false, false, None);
        for node in self.topology.load().masters() {
            let health = node.upstream.breaker().health().borrow().clone();
            masters.all += 1;
            masters.up += usize::from(health.is_up());
            whole.proven |= health.proven;
            asked |= health.circuit == Circuit::Closed;
            trying |= health.circuit == Circuit::HalfOpen;
            away_since = away_since.or(health.away_since);
            whole.error = whole.error.or(health.error);
            for (sum, count) in whole.transitions.iter_mut().zip(health.transitions) {
                *sum += count;
            }
        }
        let unknown = self.unknown.load_full();
        if !asked && (masters.all > 0 || unknown.is_some()) {
            whole.circuit = if trying { Circuit::HalfOpen } else { Circuit::Open };
            whole.away_since = away_since;
        }
        whole.error = whole.error.or(unknown.filter(|_| masters.up < masters.all.max(1)));
        whole.masters = Some(masters);
        whole
    }
}
