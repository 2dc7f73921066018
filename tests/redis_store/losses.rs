//! Redis loses its data while hits are leased: what was counted in the old counter
//! is not given back to the fresh one.

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use tidegate::limit::fixed_window::Align;
use tidegate::limit::{Cost, FixedWindow, Limit};
use tidegate::store::redis::{RedisConfig, RedisStore};
use tidegate::store::{LeaseTerms, Plan, Role};
use tidegate::units::{Hits, Span};

use crate::plans::{PlanExt as _, YEAR, plan, take};
use crate::redis::RedisServer;
use crate::{allowed, connect, lanes, patient, recovered};

/// A tenth of the limit, for longer than any test.
const TERMS: LeaseTerms = LeaseTerms::new(100_000, Span::from_secs(60));

/// Windows that do not end while a test runs.
fn limit(hits: u64, align: Align) -> Limit {
    let window = FixedWindow::new(Hits::new(hits), YEAR).expect("a window");
    Limit::FixedWindow(window.with_align(align).with_count_refused(false))
}

/// A hit of a rule that leases.
fn hit(name: &str, limit: Limit) -> Plan {
    let mut plan = take(name, limit, 1);
    for charge in &mut plan.charges {
        charge.lease = Some(TERMS);
    }
    plan
}

fn reset(name: &str, limit: Limit) -> Plan {
    plan().with(name, limit, Cost::Reset, Role::Enforced)
}

async fn passes(store: &RedisStore, plan: &Plan) -> bool {
    allowed(store, plan).await.expect("an answer")
}

/// Hits until one is refused; gives how many passed.
async fn drain(store: &RedisStore, plan: &Plan) -> u64 {
    let mut admitted = 0;
    while passes(store, plan).await {
        admitted += 1;
    }
    admitted
}

/// Leases, loses all with `lose`, has another replica begin a fresh counter, and
/// gives back: of that counter there is exactly the limit.
async fn nothing_goes_back_after<F>(config: impl Fn(String) -> RedisConfig, mut lose: F)
where
    F: AsyncFnMut(&mut RedisServer, &RedisStore, &Plan),
{
    let Some(mut server) = RedisServer::redis() else { return };
    let config = config(server.url());
    for (name, align) in [("epoch", Align::Epoch), ("first", Align::FirstHit)] {
        let (here, there) = (connect(&config), connect(&config));
        let limit = limit(100, align);
        let hit = hit(name, limit);
        while here.lease_usage().taken < 5 {
            assert!(passes(&here, &hit).await);
        }
        lose(&mut server, &there, &reset(name, limit)).await;
        recovered(&here, &take("other", limit, 1)).await;
        recovered(&there, &take("other", limit, 1)).await;
        let mut admitted = 0;
        for _ in 0..50 {
            admitted += u64::from(passes(&there, &hit).await);
        }
        here.return_leases(None).await;
        assert!(here.lease_usage().returned > 0, "it was asked to take them");
        assert_eq!(admitted + drain(&there, &hit).await, 100, "{limit}");
    }
}

#[tokio::test]
async fn nothing_goes_back_after_a_restart_without_a_file() {
    nothing_goes_back_after(patient, async |server: &mut RedisServer, _: &_, _: &_| {
        server.kill();
        server.restart();
    })
    .await;
}

#[tokio::test]
async fn nothing_goes_back_after_a_flush() {
    nothing_goes_back_after(patient, async |server: &mut RedisServer, _: &_, _: &_| {
        let () = server.run(&["FLUSHALL"]);
    })
    .await;
}

/// Somebody deletes the key, or Redis evicts it.
#[tokio::test]
async fn nothing_goes_back_to_a_key_that_was_deleted() {
    nothing_goes_back_after(patient, async |server: &mut RedisServer, _: &_, _: &_| {
        for key in server.keys() {
            let () = server.run(&["DEL", &key]);
        }
    })
    .await;
}

#[tokio::test]
async fn nothing_goes_back_after_a_reset_by_another_replica() {
    nothing_goes_back_after(patient, async |_: &mut _, there: &RedisStore, reset: &Plan| {
        there.decide(reset).await.expect("an answer");
    })
    .await;
}

/// The counter is that of a rule that does not lease yet, as replicas have it
/// whose rules were not reloaded: nobody knows since when it counts.
#[tokio::test]
async fn nothing_goes_back_to_a_counter_of_unknown_age() {
    let Some(server) = RedisServer::redis() else { return };
    let (here, there) = (connect(&patient(server.url())), connect(&patient(server.url())));
    let limit = limit(100, Align::Epoch);
    while here.lease_usage().taken < 5 {
        assert!(passes(&here, &hit("a", limit)).await);
    }
    let () = server.run(&["FLUSHALL"]);
    for _ in 0..50 {
        assert!(passes(&there, &take("a", limit, 1)).await);
    }
    here.return_leases(None).await;
    assert_eq!(drain(&there, &take("a", limit, 1)).await, 50);
    // What leases take from now on is known, and goes back.
    let () = server.run(&["FLUSHALL"]);
    assert!(passes(&there, &take("a", limit, 1)).await);
    let taken = here.lease_usage().taken;
    let mut admitted = 1;
    while here.lease_usage().taken == taken {
        admitted += u64::from(passes(&here, &hit("a", limit)).await);
    }
    here.return_leases(None).await;
    assert_eq!(admitted + drain(&there, &take("a", limit, 1)).await, 100);
}

/// What happens to three replicas and their Redis.
#[derive(Clone, Debug)]
enum Step {
    Take {
        replica: usize,
        times: u64,
    },
    GiveBack {
        replica: usize,
    },
    /// By a flush or a reset; then so many hits, and all give back.
    Lose {
        flush: bool,
        hits: u64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let replica = || 0..3_usize;
    let step = prop_oneof![
        8 => (replica(), 1..30_u64).prop_map(|(replica, times)| Step::Take { replica, times }),
        2 => replica().prop_map(|replica| Step::GiveBack { replica }),
        2 => (any::<bool>(), 0..90_u64).prop_map(|(flush, hits)| Step::Lose { flush, hits }),
    ];
    prop::collection::vec(step, 2..25)
}

struct Replicas<'a> {
    server: &'a RedisServer,
    stores: &'a [RedisStore],
    outsider: &'a RedisStore,
    losses: &'a AtomicU64,
}

impl Replicas<'_> {
    /// Hits that passed since the last loss are at most the limit, and all of them
    /// in the end.
    async fn case(&self, name: &str, steps: &[Step]) -> Result<(), TestCaseError> {
        let limit = limit(80, Align::Epoch);
        let hit = hit(name, limit);
        let mut admitted = 0;
        for step in steps {
            match *step {
                Step::Take { replica, times } => {
                    for _ in 0..times {
                        admitted += u64::from(passes(&self.stores[replica], &hit).await);
                    }
                }
                Step::GiveBack { replica } => self.stores[replica].return_leases(None).await,
                Step::Lose { flush, hits } => {
                    admitted = self.lose(flush, hits, &hit, &reset(name, limit)).await;
                }
            }
            prop_assert!(admitted <= 80, "{admitted} of 80 passed");
        }
        self.return_all().await;
        prop_assert_eq!(admitted + drain(self.outsider, &take(name, limit, 1)).await, 80);
        Ok(())
    }

    async fn lose(&self, flush: bool, hits: u64, hit: &Plan, reset: &Plan) -> u64 {
        self.losses.fetch_add(1, Ordering::Relaxed);
        if flush {
            let () = self.server.run(&["FLUSHALL"]);
        } else {
            self.outsider.decide(reset).await.expect("an answer");
        }
        let mut admitted = 0;
        for _ in 0..hits {
            admitted += u64::from(passes(self.outsider, hit).await);
        }
        self.outsider.return_leases(None).await;
        self.return_all().await;
        admitted
    }

    async fn return_all(&self) {
        for store in self.stores {
            store.return_leases(None).await;
        }
    }
}

#[test]
fn losses_at_any_moment_admit_nothing_more() {
    let Some(server) = RedisServer::redis() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = RedisConfig { lanes: lanes(1), ..patient(server.url()) };
    let store = || runtime.block_on(async { connect(&config) });
    let stores = [(); 3].map(|()| store());
    let (outsider, losses, next) = (store(), AtomicU64::new(0), AtomicU64::new(0));
    let replicas =
        Replicas { server: &server, stores: &stores, outsider: &outsider, losses: &losses };
    let cases = Config { cases: 200, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(cases).run(&steps(), |steps| {
        let name = next.fetch_add(1, Ordering::Relaxed).to_string();
        runtime.block_on(replicas.case(&name, &steps))
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let returned: u64 = stores.iter().map(|store| store.lease_usage().returned).sum();
    assert!(returned > 1_000, "only {returned} were given back");
    assert!(losses.load(Ordering::Relaxed) > 100);
}
