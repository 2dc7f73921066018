//! One plan on its way through the near cache.

use std::ops::Range;

use smallvec::{SmallVec, smallvec};

use super::refusal::Refusal;
use super::{Name, NearCache, Place};
use crate::limit::{Cost, Limit, Verdict};
use crate::store::{Answer, Charge, Known, Partial, Plan, StoreError, Verdicts};
use crate::units::Timestamp;

/// A plan of which some is known. What it gives back is forgotten when the
/// question is asked and once more when it is over, however it ends: a refusal
/// that was decided in between may come from before.
#[derive(Debug)]
pub struct Question<'a> {
    near: &'a NearCache,
    plan: &'a Plan,
    now: Timestamp,
    gives_back: bool,
    places: SmallVec<[Place; 4]>,
    answer: Answer,
}

/// What the store must still be asked.
#[derive(Debug)]
pub enum Rest {
    /// Nothing.
    Nothing,
    /// The plan as it is.
    Everything,
    /// Its charges that are not known.
    Part(Box<Plan>),
}

impl NearCache {
    /// Looks up what is known of `plan`.
    pub fn question<'a>(&'a self, plan: &'a Plan) -> Question<'a> {
        let gives_back = plan.charges.iter().any(|charge| gives_back(charge.cost));
        let places = plan.charges.iter().map(|charge| self.place(plan, charge.key)).collect();
        let now = self.now(plan);
        let answer = Answer::default();
        let mut question = Question { near: self, plan, now, gives_back, places, answer };
        if gives_back {
            question.forget_given_back();
        } else {
            question.look_up();
            let known = &question.answer.near;
            if known.contains(&false) && question.has_pairs() {
                question.answer = Answer::default();
            }
        }
        question
    }
}

impl<'a> Question<'a> {
    /// What is left to ask.
    pub fn rest(&self) -> Rest {
        let known = &self.answer.near;
        if known.is_empty() {
            return Rest::Everything;
        }
        if known.iter().all(|known| *known) {
            return Rest::Nothing;
        }
        let plan = self.plan;
        let unknown = plan.charges.iter().zip(known).filter(|(_, known)| !**known);
        Rest::Part(Box::new(Plan {
            mode: plan.mode,
            quota_passes: plan.quota_passes,
            charges: unknown.map(|(charge, _)| *charge).collect(),
            keys: plan.keys.clone(),
            now: plan.now,
            pinned: plan.pinned,
        }))
    }

    /// Learns from what the store said to the rest, and answers the whole.
    pub fn complete(mut self, said: Verdicts) -> Answer {
        let mut answer = std::mem::take(&mut self.answer);
        if answer.near.is_empty() {
            answer.verdicts = said;
        } else {
            let places = answer.verdicts.iter_mut().zip(&answer.near);
            let unknown = places.filter(|(_, known)| !**known);
            unknown.zip(said).for_each(|((place, _), verdict)| *place = verdict);
        }
        let mut first = 0;
        for group in self.plan.groups() {
            let charges = first..first + group.charges.len();
            first = charges.end;
            if !answer.is_near(charges.start) {
                self.learn(charges, &answer.verdicts);
            }
        }
        answer
    }

    /// What it means that the store failed: what is known stays known.
    pub fn fail(mut self, error: StoreError) -> StoreError {
        let answer = std::mem::take(&mut self.answer);
        if answer.near.is_empty() {
            return error;
        }
        let (told, error) = match error {
            StoreError::Partial(partial) => (partial.verdicts, partial.error),
            error => (Known::new(), error),
        };
        let mut told = told.into_iter();
        let near = answer.verdicts.iter().zip(&answer.near);
        let verdicts = near
            .map(|(verdict, known)| if *known { Some(*verdict) } else { told.next().flatten() });
        StoreError::Partial(Box::new(Partial { verdicts: verdicts.collect(), error }))
    }

    /// Learns from what the store said to a group.
    fn learn(&self, charges: Range<usize>, verdicts: &[Verdict]) {
        let places = &self.places[charges.clone()];
        for at in charges {
            let (Some(charge), Some(place), Some(verdict)) =
                (self.plan.charges.get(at), self.places.get(at), verdicts.get(at))
            else {
                return;
            };
            // Of two charges on one key, the second may have been refused for the
            // sake of the first, which then was taken back.
            let same = places.iter().filter(|other| other.hash == place.hash).count();
            if verdict.allowed || same == 1 {
                self.learn_of(charge, place, verdict);
            }
        }
    }

    fn learn_of(&self, charge: &Charge, place: &Place, verdict: &Verdict) {
        let (near, now) = (self.near, self.now);
        let (set, name) = (near.set(place.hash), self.name(charge, place));
        if counts(charge, verdict) && !set.is_void(now) {
            // What was refused before still is, but what is left has changed.
            near.note(set.forget(name, false));
        }
        let refusal = Refusal::of(&charge.limit, charge.cost, verdict, now, near.longest);
        if let Some(refusal) = refusal {
            near.note(set.keep(name, refusal, place.generation, now));
        }
    }

    /// A group of several charges is known only if all of them are refused:
    /// what they would say otherwise depends on each other.
    fn look_up(&mut self) {
        let Self { near, plan, now, .. } = *self;
        let mut first = 0;
        for group in plan.groups() {
            let places = &self.places[first..first + group.charges.len()];
            let find = |(charge, place): (&Charge, &Place)| {
                let name = self.name(charge, place);
                near.set(place.hash).find(name, &charge.limit, charge.cost, now)
            };
            let verdicts: Option<Verdicts> = group.charges.iter().zip(places).map(find).collect();
            if let Some(verdicts) = verdicts {
                self.know(first, &verdicts);
            }
            first += group.charges.len();
        }
    }

    /// Whether two charges are on one key: what the first takes, the second finds.
    fn has_pairs(&self) -> bool {
        let mut hashes: SmallVec<[u64; 8]> = self.places.iter().map(|place| place.hash).collect();
        hashes.sort_unstable();
        hashes.windows(2).any(|pair| pair[0] == pair[1])
    }

    fn know(&mut self, first: usize, verdicts: &Verdicts) {
        if self.answer.near.is_empty() {
            let charges = self.plan.charges.len();
            self.answer.near = smallvec![false; charges];
            self.answer.verdicts = smallvec![Verdict::default(); charges];
        }
        let places = self.answer.verdicts.iter_mut().zip(&mut self.answer.near).skip(first);
        for ((place, known), verdict) in places.zip(verdicts) {
            (*place, *known) = (*verdict, true);
        }
    }

    fn forget_given_back(&self) {
        for (charge, place) in self.plan.charges.iter().zip(&self.places) {
            if gives_back(charge.cost) {
                let change = self.near.set(place.hash).forget(self.name(charge, place), true);
                self.near.note(change);
            }
        }
    }

    fn name(&self, charge: &Charge, place: &Place) -> Name<'a> {
        let key = self.plan.keys.get(charge.key);
        Name { hash: place.hash, key, pinned: self.plan.pinned }
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        if self.gives_back {
            self.forget_given_back();
        }
    }
}

/// Whether a verdict was counted.
fn counts(charge: &Charge, verdict: &Verdict) -> bool {
    let refused_too = matches!(&charge.limit, Limit::FixedWindow(window) if window.count_refused());
    matches!(charge.cost, Cost::Take(_)) && (verdict.allowed || refused_too)
}

fn gives_back(cost: Cost) -> bool {
    matches!(cost, Cost::Refund(_) | Cost::Reset)
}
