//! The script and the memory store equal the pure limits, field by field.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chrono_tz::Europe;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};
use tidegate::limit::calendar::Calendar;
use tidegate::limit::fixed_window::Align;
use tidegate::limit::{
    Cost, FixedWindow, Gcra, Limit, Lockout, Rate, SlidingCounter, SlidingLog, State, TokenBucket,
    Unit, Verdict,
};
use tidegate::store::memory::MemoryStore;
use tidegate::store::redis::{RedisConfig, RedisStore, ScriptRuntime};
use tidegate::store::{Charge, Group, Plan, Role, StoreError, Verdicts};
use tidegate::units::{Hits, Span, Timestamp};
use tokio::task::JoinSet;

use crate::plans::{PlanExt as _, plan};
use crate::redis::RedisServer;
use crate::{connect, lanes, patient};

/// What the store must equal: the pure limits over a map, and what a plan says
/// of groups that are refused.
#[derive(Default)]
struct Model {
    states: HashMap<Vec<u8>, State>,
}

impl Model {
    fn decide(&mut self, plan: &Plan) -> Verdicts {
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

#[derive(Clone, Debug)]
struct ChargeSpec {
    name: u8,
    limit: Limit,
    cost: Cost,
    role: Role,
    joined: bool,
}

#[derive(Clone, Debug)]
struct RequestSpec {
    all_or_nothing: bool,
    quota_passes: bool,
    /// Sent before the answer to the request before it came.
    joins: bool,
    jump: Jump,
    charges: Vec<ChargeSpec>,
}

/// How the clock moves before a request.
#[derive(Clone, Copy, Debug)]
enum Jump {
    By(i64),
    /// To the next multiple of so many microseconds, and a little beside it.
    ToEdge(u64, i64),
}

const WINDOWS: [u64; 5] = [10_000, 1_000_000, 7_000_000, 60_000_000, 31_536_000_000_000];

fn costs() -> impl Strategy<Value = Cost> {
    let much = [u64::from(u32::MAX), u64::MAX];
    let take = prop_oneof![6 => 0..4_u64, 1 => 4..12_u64, 1 => prop::sample::select(much.to_vec())];
    let refund = prop_oneof![4 => 0..4_u64, 1 => prop::sample::select(much.to_vec())];
    prop_oneof![
        10 => take.prop_map(|hits| Cost::take(Hits::new(hits))),
        2 => refund.prop_map(|hits| Cost::Refund(Hits::new(hits))),
        1 => Just(Cost::Reset),
    ]
}

/// Limits of the algorithm with this number on the wire.
fn limits(algorithm: u8) -> BoxedStrategy<Limit> {
    let few = 1..8_u64;
    let window = prop_oneof![8 => Just(WINDOWS[3]), 2 => prop::sample::select(&WINDOWS[..])];
    let window = window.prop_map(Span::from_micros);
    let hits = prop_oneof![6 => 0..8_u64, 1 => Just(u64::from(u32::MAX)), 1 => Just(u64::MAX)];
    match algorithm {
        1 => (hits, window, any::<bool>(), any::<bool>(), 0..3_u8)
            .prop_map(|(hits, window, count_refused, first_hit, zone)| {
                let limit = FixedWindow::new(Hits::new(hits), window).unwrap();
                let align = match zone {
                    0 => Align::Calendar(Calendar::new(Unit::Day, Europe::Berlin).unwrap()),
                    _ if first_hit => Align::FirstHit,
                    _ => Align::Epoch,
                };
                Limit::FixedWindow(limit.with_align(align).with_count_refused(count_refused))
            })
            .boxed(),
        2 => (few, window, prop::sample::select(&[0, 3, 30, 300][..]))
            .prop_map(|(limit, window, block)| {
                let block = Span::from_secs(block);
                Limit::SlidingLog(SlidingLog::new(Hits::new(limit), window, block, 1000).unwrap())
            })
            .boxed(),
        3 => (few, window)
            .prop_map(|(limit, window)| {
                Limit::SlidingCounter(SlidingCounter::new(Hits::new(limit), window).unwrap())
            })
            .boxed(),
        4 => rates().prop_map(|rate| Limit::TokenBucket(TokenBucket::new(rate))).boxed(),
        5 => rates().prop_map(|rate| Limit::Gcra(Gcra::new(rate))).boxed(),
        _ => (few, window, 1..400_u64)
            .prop_map(|(attempts, window, lock)| {
                let lock = Span::from_secs(lock);
                Limit::Lockout(Lockout::new(Hits::new(attempts), window, lock).unwrap())
            })
            .boxed(),
    }
}

fn rates() -> impl Strategy<Value = Rate> {
    let window = prop_oneof![8 => Just(WINDOWS[3]), 2 => prop::sample::select(&WINDOWS[..])];
    (0..8_u64, 1..50_u64, window).prop_map(|(capacity, refill, window)| {
        Rate::new(Hits::new(capacity), Hits::new(refill), Span::from_micros(window)).unwrap()
    })
}

/// Mostly one algorithm per sequence would miss that they mix; so any.
fn any_limit() -> impl Strategy<Value = Limit> {
    (1..7_u8).prop_flat_map(limits)
}

fn charges() -> impl Strategy<Value = ChargeSpec> {
    let roles =
        prop_oneof![3 => Just(Role::Enforced), 1 => Just(Role::Shadow), 2 => Just(Role::Quota)];
    (0..3_u8, any_limit(), costs(), roles, prop::bool::weighted(0.3)).prop_map(
        |(name, limit, cost, role, joined)| ChargeSpec { name, limit, cost, role, joined },
    )
}

fn jumps() -> impl Strategy<Value = Jump> {
    let second = 1_000_000;
    prop_oneof![
        4 => Just(Jump::By(0)),
        2 => (0..3 * second).prop_map(Jump::By),
        1 => (0..200 * second).prop_map(Jump::By),
        1 => (-3 * second..0).prop_map(Jump::By),
        1 => (-200 * second..0).prop_map(Jump::By),
        1 => prop::sample::select(vec![-40_000_000 * second, 40_000_000 * second]).prop_map(Jump::By),
        3 => (prop::sample::select(&WINDOWS[..4]), -1..2_i64).prop_map(|(window, by)| Jump::ToEdge(window, by)),
    ]
}

fn requests() -> impl Strategy<Value = RequestSpec> {
    let charges = prop::collection::vec(charges(), 1..5);
    (any::<bool>(), prop::bool::weighted(0.2), any::<bool>(), jumps(), charges).prop_map(
        |(all_or_nothing, quota_passes, joins, jump, charges)| RequestSpec {
            all_or_nothing,
            quota_passes,
            joins,
            jump,
            charges,
        },
    )
}

/// The requests as plans, with names of counters that no other case uses.
fn plans(case: u64, specs: &[RequestSpec]) -> Vec<Plan> {
    let mut now = 1_764_463_953_123_456_u64;
    let plan_of = |spec: &RequestSpec| {
        now = match spec.jump {
            Jump::By(micros) => now.saturating_add_signed(micros),
            Jump::ToEdge(window, by) => now.next_multiple_of(window).saturating_add_signed(by),
        };
        let mut plan = plan().at(Timestamp::from_micros(now));
        plan.quota_passes = spec.quota_passes;
        if spec.all_or_nothing {
            plan = plan.all_or_nothing();
        }
        for charge in &spec.charges {
            let name = format!("{case}-{}", charge.name);
            plan = plan.with(&name, charge.limit, charge.cost, charge.role);
        }
        for (charge, spec) in plan.charges.iter_mut().zip(&spec.charges).skip(1) {
            charge.joined = spec.joined;
        }
        plan
    };
    specs.iter().map(plan_of).collect()
}

/// Decides all plans in order; those that join the one before are sent together
/// with it. The runtime has one thread and the store one lane, so they keep
/// their order.
async fn decide(store: &Arc<RedisStore>, specs: &[RequestSpec], plans: Vec<Plan>) -> Vec<Verdicts> {
    let mut answers = vec![Verdicts::new(); plans.len()];
    let mut sent = JoinSet::new();
    for (at, plan) in plans.into_iter().enumerate() {
        if !specs[at].joins {
            collect(&mut sent, &mut answers).await;
        }
        let store = Arc::clone(store);
        sent.spawn(async move { (at, store.decide(&plan).await) });
    }
    collect(&mut sent, &mut answers).await;
    answers
}

type Sent = JoinSet<(usize, Result<Verdicts, StoreError>)>;

async fn collect(sent: &mut Sent, answers: &mut [Verdicts]) {
    while let Some(answer) = sent.join_next().await {
        let (at, answer) = answer.unwrap();
        answers[at] = answer.unwrap();
    }
}

fn equals_the_model(server: &RedisServer, script: ScriptRuntime, sequences: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = RedisConfig { lanes: lanes(1), script, ..patient(server.url()) };
    let store = Arc::new(runtime.block_on(async { connect(&config) }));
    let case = AtomicU64::new(0);
    let run = |specs: Vec<RequestSpec>| -> TestCaseResult {
        let case = case.fetch_add(1, Ordering::Relaxed);
        let mut model = Model::default();
        let expected: Vec<_> = plans(case, &specs).iter().map(|plan| model.decide(plan)).collect();
        let memory = MemoryStore::default();
        for (at, (plan, expected)) in plans(case, &specs).iter().zip(&expected).enumerate() {
            prop_assert_eq!(&memory.decide(plan), expected, "request {} in memory", at);
        }
        let answers = runtime.block_on(decide(&store, &specs, plans(case, &specs)));
        for (at, (answer, expected)) in answers.iter().zip(&expected).enumerate() {
            prop_assert_eq!(answer, expected, "request {}", at);
        }
        Ok(())
    };
    let config = Config { cases: sequences, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&prop::collection::vec(requests(), 1..10), run);
    outcome.unwrap_or_else(|error| panic!("{error}"));
    no_key_is_without_expiry_or_in_exponents(server);
}

/// F19.1 and F27, over all the values that the cases left behind.
fn no_key_is_without_expiry_or_in_exponents(server: &RedisServer) {
    let contents = server.contents();
    assert!(contents.len() > 1_000, "only {} keys were written", contents.len());
    for (key, value, expiry) in contents {
        let exponent = value.contains("e+") || value.contains('.');
        assert!(!exponent, "{key}: {value}");
        assert!(expiry > 0, "{key} expires in {expiry} ms");
    }
}

// 10,000 sequences in all: Redis and Valkey, by script and by function.

#[test]
fn limits_in_redis_equal_the_pure_ones() {
    if let Some(server) = RedisServer::redis() {
        equals_the_model(&server, ScriptRuntime::Eval, 5_000);
    }
}

#[test]
fn limits_in_redis_functions_equal_the_pure_ones() {
    if let Some(server) = RedisServer::redis() {
        equals_the_model(&server, ScriptRuntime::Function, 2_500);
    }
}

#[test]
fn limits_in_valkey_equal_the_pure_ones() {
    if let Some(server) = RedisServer::valkey() {
        equals_the_model(&server, ScriptRuntime::Eval, 1_250);
    }
}

#[test]
fn limits_in_valkey_functions_equal_the_pure_ones() {
    if let Some(server) = RedisServer::valkey() {
        equals_the_model(&server, ScriptRuntime::Function, 1_250);
    }
}
