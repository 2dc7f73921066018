//! The script and the memory store equal the pure limits, field by field.

mod model;
mod sequences;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};
use tidegate::limit::{Cost, Limit, SlidingLog};
use tidegate::store::memory::MemoryStore;
use tidegate::store::redis::{RedisConfig, RedisStore, ScriptRuntime};
use tidegate::store::{Plan, Role, StoreError, Verdicts};
use tidegate::units::{Hits, Span, Timestamp};
use tokio::task::JoinSet;

use self::model::Model;
use self::sequences::{Sequence, any_sequence};
use crate::plans::{PlanExt as _, plan};
use crate::redis::RedisServer;
use crate::{connect, lanes, patient};

/// Decides all plans in order; those that join the one before are sent together
/// with it. The runtime has one thread and the store one lane, so they keep
/// their order.
async fn decide(store: &Arc<RedisStore>, sequence: &Sequence, plans: Vec<Plan>) -> Vec<Verdicts> {
    let mut answers = vec![Verdicts::new(); plans.len()];
    let mut sent = JoinSet::new();
    for (at, plan) in plans.into_iter().enumerate() {
        if !sequence.requests[at].joins {
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
    let run = |sequence: Sequence| -> TestCaseResult {
        let case = case.fetch_add(1, Ordering::Relaxed);
        let mut model = Model::default();
        let expected: Vec<_> = sequence.plans(case).iter().map(|plan| model.decide(plan)).collect();
        let memory = MemoryStore::default();
        for (at, (plan, expected)) in sequence.plans(case).iter().zip(&expected).enumerate() {
            prop_assert_eq!(&memory.decide(plan), expected, "request {} in memory", at);
        }
        let answers = runtime.block_on(decide(&store, &sequence, sequence.plans(case)));
        for (at, (answer, expected)) in answers.iter().zip(&expected).enumerate() {
            prop_assert_eq!(answer, expected, "request {}", at);
        }
        Ok(())
    };
    let config = Config { cases: sequences, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&any_sequence(), run);
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

/// Found by a sequence: the last hit left, and with it a block that was over, when a
/// refused hit had to note that none lies in the future any more. The clock then
/// steps back into the block.
#[tokio::test]
async fn a_block_that_is_over_is_forgotten_with_the_last_hit() {
    let Some(server) = RedisServer::redis() else { return };
    let store = connect(&patient(server.url()));
    let (memory, minute) = (MemoryStore::default(), Span::from_secs(60));
    let log = |hits, block| {
        let log = SlidingLog::new(Hits::new(hits), minute, Span::from_secs(block), 1000);
        Limit::SlidingLog(log.expect("a log"))
    };
    let (noon, later) = (Timestamp::from_secs(1_796_040_000), Span::from_secs(10_000_000));
    let earlier = noon.minus(Span::from_micros(2));
    let take = |hits| Cost::Take(Hits::new(hits));
    for (limit, cost, now) in [
        (log(3, 0), take(2), noon),
        (log(2, 3), take(2), earlier),
        (log(3, 0), take(4), earlier.plus(later)),
        (log(2, 3), Cost::Check, earlier),
    ] {
        let one = plan().with("a", limit, cost, Role::Enforced).at(now);
        let said = store.decide(&one).await.expect("an answer");
        assert_eq!(said, memory.decide(&one), "{cost:?} at {now:?}");
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
    if let Some(server) = RedisServer::redis().and_then(RedisServer::with_functions) {
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
