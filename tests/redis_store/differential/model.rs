//! The pure limits over a map.

use std::collections::HashMap;

use tidegate::limit::{Cost, State, Verdict};
use tidegate::store::{Charge, Group, Plan, Verdicts};

/// What the store must equal: the pure limits over a map, and what a plan says
/// of groups that are refused.
#[derive(Default)]
pub struct Model {
    states: HashMap<Vec<u8>, State>,
}

impl Model {
    /// What every store must answer.
    pub fn decide(&mut self, plan: &Plan) -> Verdicts {
        let groups = plan.groups();
        groups.flat_map(|group| self.decide_group(plan, &group)).collect()
    }

    fn decide_group(&mut self, plan: &Plan, group: &Group<'_>) -> Verdicts {
        let before = self.states.clone();
        let charges = || group.charges.iter();
        let mut verdicts: Verdicts =
            charges().map(|charge| self.step(plan, charge, charge.cost)).collect();
        // What is alone has nobody to be refused with.
        if verdicts.len() > 1 && group.refused_by(&verdicts) {
            self.states = before;
            for (charge, verdict) in charges().zip(&mut verdicts) {
                match group.cost_after_refusal(charge, verdict.allowed) {
                    Some(cost) => *verdict = self.step(plan, charge, cost),
                    None => self.keep_penalty(plan, charge),
                }
            }
        }
        verdicts
    }

    /// What a refusal brings on itself stays, if it is refused alone as well.
    fn keep_penalty(&mut self, plan: &Plan, charge: &Charge) {
        let before = self.states.clone();
        if self.step(plan, charge, charge.cost).allowed {
            self.states = before;
        }
    }

    fn step(&mut self, plan: &Plan, charge: &Charge, cost: Cost) -> Verdict {
        let key = plan.keys.get(charge.key).to_vec();
        let state = self.states.entry(key).or_insert_with(|| charge.limit.fresh());
        charge.limit.step(state, plan.now, cost)
    }
}
