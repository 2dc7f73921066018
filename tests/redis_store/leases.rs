//! Leases: hot keys are served without asking, and never one too many.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use tidegate::limit::fixed_window::Align;
use tidegate::limit::{Cost, FixedWindow, Gcra, Limit, Rate, TokenBucket};
use tidegate::store::redis::{RedisConfig, RedisStore};
use tidegate::store::{LeaseTerms, Plan, Role};
use tidegate::units::{Hits, Span, Timestamp};

use crate::plans::{PlanExt as _, YEAR, fixed_window, plan, take};
use crate::redis::RedisServer;
use crate::{connect, lanes, patient, until};

const NOON: Timestamp = Timestamp::from_secs(1_796_040_000);
const MINUTE: Span = Span::from_secs(60);

/// A tenth of the limit, for a second.
const TENTH: LeaseTerms = LeaseTerms::new(100_000, Span::from_secs(1));

fn leased(mut plan: Plan, terms: LeaseTerms) -> Plan {
    for charge in &mut plan.charges {
        charge.lease = Some(terms);
    }
    plan
}

fn hit(name: &str, limit: Limit, hits: u64) -> Plan {
    leased(take(name, limit, hits), TENTH)
}

async fn passes(store: &RedisStore, plan: &Plan) -> bool {
    store.decide(plan).await.expect("an answer")[0].allowed
}

fn uncounted(limit: u64) -> Limit {
    let window = FixedWindow::new(Hits::new(limit), MINUTE).expect("a window");
    Limit::FixedWindow(window.with_count_refused(false))
}

fn limits() -> Vec<Limit> {
    let window = |hits| FixedWindow::new(Hits::new(hits), MINUTE).expect("a window");
    let rate = |hits, refill| Rate::new(Hits::new(hits), Hits::new(refill), MINUTE).expect("one");
    vec![
        Limit::FixedWindow(window(100)),
        Limit::FixedWindow(window(60).with_count_refused(false)),
        Limit::FixedWindow(window(80).with_align(Align::FirstHit)),
        Limit::TokenBucket(TokenBucket::new(rate(100, 1))),
        Limit::Gcra(Gcra::new(rate(70, 1))),
    ]
}

#[tokio::test]
async fn a_hot_key_hardly_asks_redis() {
    let Some(server) = RedisServer::redis() else { return };
    let store = connect(&patient(server.url()));
    let limit = fixed_window(20_000, YEAR);
    let () = server.run(&["CONFIG", "RESETSTAT"]);
    for call in 0..2_000 {
        let verdict = store.decide(&hit("hot", limit, 1).at(NOON)).await.expect("an answer")[0];
        assert!(verdict.allowed);
        assert_eq!(verdict.remaining, Hits::new(19_999 - call), "one replica knows all");
    }
    let asked = server.calls("evalsha") + server.calls("eval");
    assert!(asked < 150, "Redis was asked {asked} times");
    assert!(store.lease_usage().served > 1_900, "{:?}", store.lease_usage());
}

#[tokio::test]
async fn a_cold_key_is_not_leased() {
    let Some(server) = RedisServer::redis() else { return };
    let store = connect(&patient(server.url()));
    for call in 0..50 {
        // A request a second on each of three keys.
        let now = NOON.plus(Span::from_millis(334 * call));
        let plan = hit(&format!("cold-{}", call % 3), fixed_window(1_000, YEAR), 1);
        assert!(passes(&store, &plan.at(now)).await);
    }
    assert_eq!(store.lease_usage().taken, 0);
}

/// The end of the limit is reached to the unit, without a refusal too many.
#[tokio::test]
async fn one_replica_admits_exactly_the_limit() {
    let Some(server) = RedisServer::redis() else { return };
    for (nth, limit) in limits().into_iter().enumerate() {
        let store = connect(&patient(server.url()));
        let mut admitted = 0;
        for _ in 0..limit.ceiling().get() + 20 {
            let plan = hit(&format!("all-{nth}"), limit, 1).at(NOON);
            admitted += u64::from(passes(&store, &plan).await);
        }
        assert_eq!(admitted, limit.ceiling().get(), "{limit}");
        assert!(store.lease_usage().served > 10, "{limit}: {:?}", store.lease_usage());
    }
}

/// What is left of leases goes back, and can then be used elsewhere.
#[tokio::test]
async fn what_was_leased_and_not_used_can_be_used_elsewhere() {
    let Some(server) = RedisServer::redis() else { return };
    let (here, there) = (connect(&patient(server.url())), connect(&patient(server.url())));
    let limit = uncounted(100);
    let mut admitted = 0;
    while here.lease_usage().taken == 0 {
        admitted += u64::from(passes(&here, &hit("a", limit, 1).at(NOON)).await);
    }
    let drained = async || {
        let mut admitted = 0;
        while passes(&there, &take("a", limit, 1).at(NOON)).await {
            admitted += 1;
        }
        admitted
    };
    admitted += drained().await;
    assert_eq!(admitted, 100 - here.lease_usage().taken);
    here.return_leases(Some(NOON)).await;
    admitted += drained().await;
    assert_eq!(admitted, 100);
    assert_eq!(here.lease_usage().returned, here.lease_usage().taken);
}

/// By the clock of Redis: a lease that nobody uses goes back by itself.
#[tokio::test]
async fn a_lease_that_is_over_goes_back_by_itself() {
    let Some(server) = RedisServer::redis() else { return };
    let store = connect(&patient(server.url()));
    let short = LeaseTerms::new(100_000, Span::from_millis(200));
    let plan = leased(take("a", fixed_window(1_000, YEAR), 1), short);
    while store.lease_usage().taken == 0 {
        assert!(passes(&store, &plan).await);
    }
    let done = || store.lease_usage().returned + store.lease_usage().served;
    until("what was leased is used or given back", || done() >= store.lease_usage().taken).await;
}

/// Redis hangs while a lease and then its window end. What was left counted in that
/// window: to give it back to the next one would admit too much there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_given_back_to_the_next_window() {
    let Some(server) = RedisServer::redis() else { return };
    let window = FixedWindow::new(Hits::new(100), Span::from_secs(2)).expect("a window");
    let limit = Limit::FixedWindow(window.with_align(Align::FirstHit));
    let (store, other) = (connect(&patient(server.url())), connect(&patient(server.url())));
    assert!(passes(&other, &take("b", limit, 1)).await, "connected");
    let short = LeaseTerms::new(200_000, Span::from_millis(500));
    while store.lease_usage().taken == 0 {
        assert!(passes(&store, &leased(take("a", limit, 1), short)).await);
    }
    server.freeze();
    // It arrives before the refund, and is decided in the next window.
    let half = tokio::spawn(async move {
        let passed = passes(&other, &take("a", limit, 50)).await;
        (other, passed)
    });
    tokio::time::sleep(Span::from_millis(2_100).into()).await;
    server.thaw();
    let (other, passed) = half.await.expect("an answer");
    assert!(passed);
    until("the refund is decided", || store.lease_usage().returned > 0).await;
    assert!(passes(&other, &take("a", limit, 50)).await);
    assert!(!passes(&other, &take("a", limit, 1)).await, "more than the limit in one window");
}

#[tokio::test]
async fn a_reset_voids_leases() {
    let Some(server) = RedisServer::redis() else { return };
    let store = connect(&patient(server.url()));
    let limit = uncounted(100);
    while store.lease_usage().taken == 0 {
        assert!(passes(&store, &hit("a", limit, 1).at(NOON)).await);
    }
    let reset = plan().with("a", limit, Cost::Reset, Role::Enforced).at(NOON);
    store.decide(&reset).await.expect("an answer");
    let mut admitted = 0;
    while passes(&store, &take("a", limit, 1).at(NOON)).await {
        admitted += 1;
    }
    assert_eq!(admitted, 100);
    store.return_leases(Some(NOON)).await;
    assert!(!passes(&store, &take("a", limit, 1).at(NOON)).await, "nothing was given back");
}

/// What does not stand alone asks Redis.
#[tokio::test]
async fn requests_of_several_limits_are_not_served_from_leases() {
    let Some(server) = RedisServer::redis() else { return };
    let store = connect(&patient(server.url()));
    let limit = fixed_window(1_000, YEAR);
    for _ in 0..50 {
        let one = Cost::Take(Hits::new(1));
        let both = plan().with("a", limit, one, Role::Enforced);
        let both = leased(both.with("b", limit, one, Role::Enforced).at(NOON), TENTH);
        store.decide(&both).await.expect("an answer");
    }
    assert_eq!(store.lease_usage().taken, 0);
}

/// A request to one of the replicas.
#[derive(Clone, Debug)]
enum Step {
    Take { replica: usize, hits: u64, times: u64 },
    GiveBack { replica: usize },
    Wait(u64),
}

fn steps() -> impl Strategy<Value = (usize, Vec<Step>)> {
    let replica = || 0..3_usize;
    let step = prop_oneof![
        8 => (replica(), 1..4_u64, 1..30_u64)
            .prop_map(|(replica, hits, times)| Step::Take { replica, hits, times }),
        1 => replica().prop_map(|replica| Step::GiveBack { replica }),
        3 => (0..1_500_000_u64).prop_map(Step::Wait),
        1 => (0..70_000_000_u64).prop_map(Step::Wait),
    ];
    (0..limits().len(), prop::collection::vec(step, 1..25))
}

/// What may pass in all until `now`, for a bucket that was full at noon; for a
/// window, in that of `now`.
fn most(limit: &Limit, now: Timestamp) -> u64 {
    let since = now.since(NOON).as_micros();
    match limit {
        Limit::TokenBucket(_) | Limit::Gcra(_) => {
            limit.ceiling().get() + since / MINUTE.as_micros()
        }
        _ => limit.ceiling().get(),
    }
}

struct Replicas {
    stores: Vec<RedisStore>,
    /// Admitted hits by the window they count in, as a limit of its own tells it.
    admitted: HashMap<u64, u64>,
    window: Option<(Timestamp, u64)>,
}

impl Replicas {
    /// The window that a hit at `now` counts in.
    fn window(&mut self, limit: &Limit, now: Timestamp) -> u64 {
        let Limit::FixedWindow(fixed) = limit else { return 0 };
        if fixed.align() == Align::Epoch {
            return now.as_micros() / MINUTE.as_micros();
        }
        let (end, nth) = self.window.unwrap_or((now.plus(MINUTE), 0));
        let window = if now < end { (end, nth) } else { (now.plus(MINUTE), nth + 1) };
        self.window = Some(window);
        window.1
    }

    async fn take(&mut self, limit: &Limit, name: &str, step: &Step, now: Timestamp) -> u64 {
        let Step::Take { replica, hits, times } = *step else { return 0 };
        let window = self.window(limit, now);
        for _ in 0..times {
            if passes(&self.stores[replica], &hit(name, *limit, hits).at(now)).await {
                *self.admitted.entry(window).or_default() += hits;
            }
        }
        self.admitted.get(&window).copied().unwrap_or_default()
    }
}

async fn case(
    replicas: &mut Replicas,
    name: &str,
    limit: Limit,
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let mut now = NOON;
    for step in steps {
        match step {
            Step::Wait(micros) => now = now.plus(Span::from_micros(*micros)),
            Step::GiveBack { replica } => replicas.stores[*replica].return_leases(Some(now)).await,
            Step::Take { .. } => {
                let admitted = replicas.take(&limit, name, step, now).await;
                prop_assert!(admitted <= most(&limit, now), "{admitted} of {limit} at {now:?}");
            }
        }
    }
    for store in &replicas.stores {
        store.return_leases(Some(now)).await;
    }
    if let Limit::FixedWindow(fixed) = limit
        && !fixed.count_refused()
    {
        // Nothing is lost for good: all of the limit is used in the end.
        let one = Step::Take { replica: 0, hits: 1, times: limit.ceiling().get() + 1 };
        let admitted = replicas.take(&limit, name, &one, now).await;
        prop_assert_eq!(admitted, limit.ceiling().get());
    }
    Ok(())
}

/// Never more over all replicas than the limit, and all of it in the end.
#[test]
fn several_replicas_share_a_limit_exactly() {
    let Some(server) = RedisServer::redis() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = RedisConfig { lanes: lanes(1), ..patient(server.url()) };
    let stores = || runtime.block_on(async { (0..3).map(|_| connect(&config)).collect() });
    let (next, hits) = (AtomicU64::new(0), AtomicU64::new(0));
    let stores: Vec<RedisStore> = stores();
    let stores = std::sync::Mutex::new(stores);
    let test = |(limit, steps): (usize, Vec<Step>)| {
        let mut stores = stores.lock().expect("one at a time");
        let name = next.fetch_add(1, Ordering::Relaxed).to_string();
        let taken = std::mem::take(&mut *stores);
        let mut replicas = Replicas { stores: taken, admitted: HashMap::new(), window: None };
        let outcome = runtime.block_on(case(&mut replicas, &name, limits()[limit], &steps));
        *stores = replicas.stores;
        let usage = stores.iter().map(|store| store.lease_usage().served).sum();
        hits.store(usage, Ordering::Relaxed);
        outcome
    };
    let config = Config {
        cases: 300,
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&steps(), test);
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let hits = hits.into_inner();
    assert!(hits > 5_000, "only {hits} were served from leases");
}
