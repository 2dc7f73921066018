//! A store with a near cache and one without answer alike.

use std::sync::atomic::{AtomicU64, Ordering};

use chrono_tz::Europe;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use tidegate::limit::calendar::Calendar;
use tidegate::limit::fixed_window::Align;
use tidegate::limit::{
    Cost, FixedWindow, Gcra, Limit, Lockout, Rate, SlidingCounter, SlidingLog, TokenBucket, Unit,
    Verdict,
};
use tidegate::store::near::NearConfig;
use tidegate::store::redis::{RedisConfig, RedisStore};
use tidegate::store::{Plan, Role};
use tidegate::units::{Hits, Span, Timestamp};

use super::{MINUTE, NOON};
use crate::plans::{PlanExt as _, plan};
use crate::redis::RedisServer;
use crate::{connect, lanes, patient};

/// Requests of one case, and which of two replicas each goes to.
type Requests = Vec<(usize, RequestSpec)>;

#[derive(Clone, Debug)]
struct RequestSpec {
    together: bool,
    jump: i64,
    charges: Vec<ChargeSpec>,
}

#[derive(Clone, Debug)]
struct ChargeSpec {
    name: u8,
    limit: Limit,
    cost: Cost,
    role: Role,
    joined: bool,
}

/// Every algorithm, with amounts that may change on a live key. Where refused
/// hits are counted they do not change, and nothing is given back (such limits
/// have keys of their own): what the cache refuses is not counted, which would
/// show then.
fn limits() -> Vec<Limit> {
    let window = |hits| FixedWindow::new(Hits::new(hits), MINUTE).expect("a window");
    let free = |hits| window(hits).with_count_refused(false);
    let day = Calendar::new(Unit::Day, Europe::Berlin).expect("a calendar");
    let log = |hits, window, block| {
        let (window, block) = (Span::from_secs(window), Span::from_secs(block));
        Limit::SlidingLog(SlidingLog::new(Hits::new(hits), window, block, 100).expect("a log"))
    };
    let counter = |hits| SlidingCounter::new(Hits::new(hits), MINUTE).expect("a counter");
    let rate = |capacity, refill, period: u64| {
        let period = Span::from_micros(period);
        Rate::new(Hits::new(capacity), Hits::new(refill), period).expect("a rate")
    };
    let lockout = |attempts, lock| {
        let lock = Span::from_secs(lock);
        Limit::Lockout(Lockout::new(Hits::new(attempts), MINUTE, lock).expect("a lockout"))
    };
    let rates = [
        rate(5, 7, 60_000_000),
        rate(9, 7, 60_000_000),
        rate(3, 1, 1_000_000),
        // Such a tick is a second.
        rate(1_000, 10_000_019, 31_536_000_000_000),
    ];
    let windows = [
        window(4),
        window(3).with_align(Align::FirstHit),
        window(5).with_align(Align::Calendar(day)),
        free(4),
        free(6),
        free(0).with_align(Align::FirstHit),
        free(5).with_align(Align::FirstHit),
        free(6).with_align(Align::Calendar(day)),
    ];
    let mut limits: Vec<_> = windows.into_iter().map(Limit::FixedWindow).collect();
    limits.extend(
        [(4, 60, 0), (6, 60, 0), (4, 7, 30), (5, 7, 30), (3, 90, 5)]
            .map(|(hits, window, block)| log(hits, window, block)),
    );
    limits.extend([counter(4), counter(7)].map(Limit::SlidingCounter));
    limits.extend(rates.map(|rate| Limit::TokenBucket(TokenBucket::new(rate))));
    limits.extend(rates.map(|rate| Limit::Gcra(Gcra::new(rate))));
    limits.extend([lockout(3, 20), lockout(5, 20)]);
    limits
}

/// Whether the cache leaves its mark on what is counted.
fn counts_refused(limit: &Limit) -> bool {
    matches!(limit, Limit::FixedWindow(window) if window.count_refused())
}

fn charges(limits: Vec<Limit>, giving_back: bool) -> impl Strategy<Value = ChargeSpec> {
    let amount = prop_oneof![4 => Just(1_u64), 3 => 2..4_u64, 1 => 4..12_u64, 1 => Just(2_000)];
    let back = if giving_back { 2 } else { 0 };
    let cost = prop_oneof![
        20 => amount.prop_map(|hits| Cost::Take(Hits::new(hits))),
        4 => Just(Cost::Check),
        back => (0..4_u64).prop_map(|hits| Cost::Refund(Hits::new(hits))),
        back => Just(Cost::Reset),
    ];
    let role =
        prop_oneof![4 => Just(Role::Enforced), 1 => Just(Role::Shadow), 1 => Just(Role::Quota)];
    let limit = prop::sample::select(limits);
    (0..2_u8, limit, cost, role, prop::bool::weighted(0.2)).prop_map(
        |(name, limit, cost, role, joined)| {
            let back = matches!(cost, Cost::Refund(_));
            let cost = if back && counts_refused(&limit) { Cost::Check } else { cost };
            ChargeSpec { name, limit, cost, role, joined }
        },
    )
}

fn requests(giving_back: bool) -> impl Strategy<Value = Requests> {
    // A few limits for each case, so that each is met often.
    let some = prop::sample::subsequence(limits(), 1..4);
    some.prop_flat_map(move |limits| {
        let charges = prop::collection::vec(charges(limits, giving_back), 1..4);
        let jump = prop_oneof![
            5 => Just(0_i64),
            5 => 0..2_000_000_i64,
            3 => 0..20_000_000_i64,
            1 => 0..100_000_000_i64,
        ];
        let request = (prop::bool::weighted(0.2), jump, charges)
            .prop_map(|(together, jump, charges)| RequestSpec { together, jump, charges });
        prop::collection::vec((0..2_usize, request), 1..40)
    })
}

fn plans(case: u64, requests: &Requests) -> Vec<Plan> {
    let mut now = NOON;
    let plan_of = |(_, spec): &(usize, RequestSpec)| {
        now = Timestamp::from_micros(now.as_micros().saturating_add_signed(spec.jump));
        let mut all = plan().at(now);
        for charge in &spec.charges {
            let free = spec.together || spec.charges.iter().any(|charge| charge.joined);
            let limit = if free { charge.limit.refusing_for_free() } else { charge.limit };
            let kind = match &charge.limit {
                limit if counts_refused(limit) => "counted".to_owned(),
                // While more is missing than a lowered burst, its wait stands still.
                Limit::Gcra(limit) => format!("burst-{}", limit.rate().capacity()),
                _ => "free".to_owned(),
            };
            let name = format!("{case}-{}-{kind}", charge.name);
            all = all.with(&name, limit, charge.cost, charge.role);
        }
        for (charge, spec) in all.charges.iter_mut().zip(&spec.charges).skip(1) {
            charge.joined = spec.joined;
        }
        if spec.together { all.all_or_nothing() } else { all }
    };
    requests.iter().map(plan_of).collect()
}

/// How much later a cached verdict may say that a larger cost fits.
fn tolerance(limit: &Limit) -> Span {
    match limit {
        Limit::TokenBucket(limit) => limit.rate().tick(),
        Limit::Gcra(limit) => limit.rate().tick(),
        _ => Span::ZERO,
    }
}

fn alike(near: &Verdict, far: &Verdict, limit: &Limit) -> bool {
    let fields = |verdict: &Verdict| (verdict.allowed, verdict.remaining, verdict.reset_after);
    let later = near.retry_after.as_micros().checked_sub(far.retry_after.as_micros());
    let before = match limit {
        Limit::FixedWindow(_) => near.remaining_before == far.remaining_before,
        // What comes back while it is refused is not seen, and shows in metrics only.
        _ => near.remaining_before <= far.remaining_before,
    };
    fields(near) == fields(far)
        && later.is_some_and(|later| later <= tolerance(limit).as_micros())
        && before
}

/// Answers of two stores that share one Redis, each asked where a request goes.
async fn answers(stores: &[RedisStore; 2], plans: &[Plan], replicas: &[usize]) -> Vec<Seen> {
    let mut seen = Vec::new();
    for (plan, &replica) in plans.iter().zip(replicas) {
        let answer = stores[replica].answer(plan).await.expect("an answer");
        let near = answer.near.iter().filter(|near| **near).count() as u64;
        seen.push(Seen { verdicts: answer.verdicts.to_vec(), near });
    }
    seen
}

struct Seen {
    verdicts: Vec<Verdict>,
    near: u64,
}

fn run(server: &RedisServer, replicas: usize, giving_back: bool, cases: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let near = NearConfig { longest: Span::FOREVER, ..NearConfig::default() };
    let stores = |near, prefix: &str| {
        let key_prefix = prefix.to_owned();
        let config = RedisConfig { near, key_prefix, lanes: lanes(1), ..patient(server.url()) };
        runtime.block_on(async { [connect(&config), connect(&config)] })
    };
    let (with, without) = (stores(Some(near), "with:"), stores(None, "without:"));
    let (case, hits) = (AtomicU64::new(0), AtomicU64::new(0));
    let test = |requests: Requests| {
        let plans = plans(case.fetch_add(1, Ordering::Relaxed), &requests);
        let to: Vec<_> = requests.iter().map(|(replica, _)| replica % replicas).collect();
        let here = runtime.block_on(answers(&with, &plans, &to));
        let there = runtime.block_on(answers(&without, &plans, &to));
        for (at, (here, there)) in here.iter().zip(&there).enumerate() {
            hits.fetch_add(here.near, Ordering::Relaxed);
            let verdicts = here.verdicts.iter().zip(&there.verdicts);
            for ((near, far), charge) in verdicts.zip(&plans[at].charges) {
                // What another replica takes while a refusal is believed shows in what
                // is told of the rest, not in who passes.
                let fine = near.allowed == far.allowed
                    && (replicas > 1 || alike(near, far, &charge.limit));
                if !fine {
                    let what = format!("request {at}, {charge:?}: {near:?}, not {far:?}");
                    return Err(TestCaseError::fail(what));
                }
            }
        }
        Ok(())
    };
    // To make a case smaller takes long, since Redis is asked for each attempt.
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 300, ..Config::default() };
    let outcome = TestRunner::new(config).run(&requests(giving_back), test);
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let hits = hits.into_inner();
    assert!(hits > u64::from(cases), "only {hits} were answered by the near cache");
}

#[test]
fn one_replica_answers_as_without_the_cache() {
    if let Some(server) = RedisServer::redis() {
        run(&server, 1, true, 2_000);
    }
}

/// What two replicas only take and check; a refund elsewhere is told in the docs.
#[test]
fn two_replicas_admit_as_without_the_cache() {
    if let Some(server) = RedisServer::valkey() {
        run(&server, 2, false, 1_000);
    }
}
