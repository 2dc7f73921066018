//! Requests whose counters lie in several places: each part is decided where it
//! belongs, all at once, and what comes of it is put together.
//!
//! The parts of one request are not one step. With `all_or_nothing`, what some
//! parts took is given back when another refuses; whoever asks in between sees
//! it as taken, so nobody is admitted too much.

use std::sync::Arc;

use futures_util::future::join_all;
use smallvec::{SmallVec, smallvec};
use tokio::time::timeout_at;

use super::backend::Backends;
use super::part::{Part, Share, split};
use super::request::Said;
use super::upstream::Patience;
use crate::limit::{Cost, Limit, Verdict};
use crate::store::{Charge, ChargeMode, Known, Partial, Plan, Role, StoreError, Verdicts};
use crate::units::{Span, Timestamp};

/// How long giving back may take. Nobody waits for it so long.
const PATIENCE: Span = Span::from_secs(1);

/// Decides `plan`, part by part, if there is more than one. Nothing is given back
/// to a counter that is younger than the moment `since`.
///
/// # Errors
/// When a part could not be decided.
pub(super) async fn decide(
    backends: &Arc<Backends>,
    plan: &Plan,
    since: Option<Timestamp>,
    deadline: Span,
) -> Result<Said, StoreError> {
    let patience = Patience::new(deadline);
    if let Backends { main, per_second: None } = &**backends
        && !main.is_cluster()
    {
        let mut part = Part::whole(plan);
        part.since = since;
        return main.decide(&part, patience).await;
    }
    let mut shares = split(plan, |rule| backends.home(plan, rule));
    for share in &mut shares {
        share.part.since = since;
    }
    if let [share] = &*shares {
        return backends.ask(share, patience).await;
    }
    let asked = shares.iter().map(|share| backends.ask(share, patience));
    let outcomes = join_all(asked).await;
    let (known, error) = merge(plan, &shares, outcomes);
    if let Some(error) = error {
        let any = known.iter().any(Option::is_some);
        let partial = |error| StoreError::Partial(Box::new(Partial { verdicts: known, error }));
        return Err(if any { partial(error) } else { error });
    }
    let mut verdicts: Verdicts = known.iter().copied().flatten().collect();
    if plan.mode == ChargeMode::AllOrNothing && plan.refused_by(&verdicts) {
        let places = taken(&shares, &known, deadline);
        // Who asks next should find it as it was.
        let _ = timeout_at(patience.end, give_back(backends, plan, &places)).await;
        for place in places {
            if let Some(verdict) = verdicts.get_mut(place) {
                // As a check would have told it.
                verdict.remaining = verdict.remaining_before;
            }
        }
    }
    // There is no one moment of several servers.
    Ok(Said { verdicts, at: Timestamp::default() })
}

/// Puts the outcomes of the parts together, and tells why one has none.
fn merge(
    plan: &Plan,
    shares: &[Share<'_>],
    outcomes: Vec<Result<Said, StoreError>>,
) -> (Known, Option<StoreError>) {
    let mut known: Known = smallvec![None; plan.charges.len()];
    let mut failure = None;
    for (share, outcome) in shares.iter().zip(outcomes) {
        match outcome {
            Ok(said) => put(&mut known, &share.places, said.verdicts.into_iter().map(Some)),
            Err(StoreError::Partial(partial)) => {
                put(&mut known, &share.places, partial.verdicts.into_iter());
                failure = Some(partial.error);
            }
            Err(error) => failure = Some(error),
        }
    }
    (known, failure)
}

fn put(known: &mut Known, places: &[usize], verdicts: impl Iterator<Item = Option<Verdict>>) {
    for (&place, verdict) in places.iter().zip(verdicts) {
        if let Some(slot) = known.get_mut(place) {
            *slot = verdict;
        }
    }
}

/// Gives back what a refused request took where it was not refused, beside
/// those who wait: `known` is what is known of it.
pub(super) fn take_back(
    backends: &Arc<Backends>,
    plan: &Plan,
    known: &[Option<Verdict>],
    deadline: Span,
) {
    let shares = split(plan, |rule| backends.home(plan, rule));
    let places = taken(&shares, known, deadline);
    if !places.is_empty() {
        drop(give_back(backends, plan, &places));
    }
}

/// The charges of a refused request that took something. A part that refused
/// took nothing. Failures are not taken back from a lockout: it cannot forget
/// one without forgetting all; nor is anything from a window about to end, or it
/// would be given back in the next one.
fn taken(shares: &[Share<'_>], known: &[Option<Verdict>], deadline: Span) -> SmallVec<[usize; 4]> {
    // So long the decision took at most, and giving back may take.
    let soon = Span::from_micros(deadline.as_micros().saturating_mul(2));
    let mut taken = SmallVec::new();
    for Share { part, places, .. } in shares {
        let verdicts = places.iter().map(|&place| known.get(place).copied().flatten());
        let Some(verdicts) = verdicts.collect::<Option<Verdicts>>() else { continue };
        if part.groups().any(|group| group.refused_by(&verdicts)) {
            continue;
        }
        for ((place, charge), verdict) in places.iter().zip(&*part.charges).zip(&verdicts) {
            if verdict.allowed && takes(charge) && !ends_within(soon, charge, verdict) {
                taken.push(*place);
            }
        }
    }
    taken
}

fn ends_within(soon: Span, charge: &Charge, verdict: &Verdict) -> bool {
    matches!(charge.limit, Limit::FixedWindow(_)) && verdict.reset_after <= soon
}

fn takes(charge: &Charge) -> bool {
    let returnable = !matches!(charge.limit, Limit::Lockout(_));
    returnable && charge.role != Role::Shadow && matches!(charge.cost, Cost::Take(_))
}

/// Gives back what the charges at these places took; goes on when nobody waits
/// for it.
fn give_back(
    backends: &Arc<Backends>,
    plan: &Plan,
    places: &[usize],
) -> impl Future<Output = ()> + use<> {
    let charges = places.iter().filter_map(|&place| plan.charges.get(place));
    let returned = charges.map(|charge| match charge.cost {
        Cost::Take(hits) => Charge { cost: Cost::Refund(hits), joined: false, ..*charge },
        _ => *charge,
    });
    let refund = Plan {
        mode: ChargeMode::Independent,
        charges: returned.collect(),
        keys: plan.keys.clone(),
        now: plan.now,
        pinned: plan.pinned,
        ..Plan::default()
    };
    let backends = Arc::clone(backends);
    let given = tokio::spawn(async move {
        let patience = Patience::new(PATIENCE);
        let shares = split(&refund, |rule| backends.home(&refund, rule));
        // What cannot be given back stays taken.
        join_all(shares.iter().map(|share| backends.ask(share, patience))).await;
    });
    async move {
        let _ = given.await;
    }
}
