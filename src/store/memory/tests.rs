use super::*;
use crate::limit::{FixedWindow, Limit, SlidingLog};
use crate::store::{ChargeMode, Role};
use crate::units::{Hits, Span};

const NOON: Timestamp = Timestamp::from_secs(1_796_040_000);

fn per_minute(limit: u64) -> Limit {
    Limit::FixedWindow(FixedWindow::new(Hits::new(limit), Span::from_secs(60)).unwrap())
}

fn plan(mode: ChargeMode, now: Timestamp, charges: &[(&str, Limit, Cost, Role)]) -> Plan {
    let mut plan = Plan { mode, now, ..Plan::default() };
    for &(name, limit, cost, role) in charges {
        let mut writer = plan.keys.writer("d");
        writer.entry("k", name);
        let key = writer.finish(&limit);
        plan.charges.push(Charge { limit, key, cost, role, joined: false, lease: None });
    }
    plan
}

fn take(store: &MemoryStore, name: &str, limit: Limit, hits: u64, now: Timestamp) -> (bool, u64) {
    let cost = Cost::take(Hits::new(hits));
    let verdict =
        store.decide(&plan(ChargeMode::Independent, now, &[(name, limit, cost, Role::Enforced)]))
            [0];
    (verdict.allowed, verdict.remaining.get())
}

#[test]
fn sixty_four_threads_admit_exactly_the_limit() {
    let store = MemoryStore::default();
    let admitted: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..64)
            .map(|_| {
                scope.spawn(|| {
                    (0..100).filter(|_| take(&store, "hot", per_minute(1000), 1, NOON).0).count()
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert_eq!(admitted, 1000);
}

#[test]
fn a_refused_request_consumes_nothing_also_under_concurrency() {
    let store = MemoryStore::default();
    let one = per_minute(1).refusing_for_free();
    let five = per_minute(5).refusing_for_free();
    let cost = Cost::Take(Hits::new(1));
    std::thread::scope(|scope| {
        for worker in 0..64 {
            let store = &store;
            scope.spawn(move || {
                // Half of them name the keys in the other order: locks must not cross.
                let mut charges =
                    [("one", one, cost, Role::Enforced), ("five", five, cost, Role::Enforced)];
                if worker % 2 == 0 {
                    charges.reverse();
                }
                store.decide(&plan(ChargeMode::AllOrNothing, NOON, &charges));
            });
        }
    });
    assert_eq!(take(&store, "five", five, 0, NOON), (true, 4));
}

#[test]
fn a_refused_request_answers_what_it_found_and_keeps_shadow_counts() {
    let store = MemoryStore::default();
    let (zero, five) = (per_minute(0).refusing_for_free(), per_minute(5).refusing_for_free());
    let cost = Cost::Take(Hits::new(2));
    let charges = [
        ("zero", zero, cost, Role::Enforced),
        ("five", five, cost, Role::Enforced),
        ("five", five, cost, Role::Enforced),
        ("shadow", five, cost, Role::Shadow),
    ];
    let verdicts = store.decide(&plan(ChargeMode::AllOrNothing, NOON, &charges));
    let seen: Vec<_> = verdicts.iter().map(|v| (v.allowed, v.remaining.get())).collect();
    assert_eq!(seen, [(false, 0), (true, 5), (true, 5), (true, 3)]);
    assert_eq!(take(&store, "five", five, 0, NOON), (true, 5));
    assert_eq!(take(&store, "shadow", five, 0, NOON), (true, 3));
}

#[test]
fn checks_and_refunds_on_new_keys_leave_nothing_behind() {
    let store = MemoryStore::default();
    let limit = per_minute(5);
    for cost in [Cost::Check, Cost::Refund(Hits::new(3))] {
        store.decide(&plan(ChargeMode::Independent, NOON, &[("new", limit, cost, Role::Enforced)]));
    }
    assert_eq!(store.usage().keys, 0);
}

#[test]
fn ended_windows_are_swept_even_when_their_keys_never_come_back() {
    let store = MemoryStore::default();
    for key in 0..10_000 {
        take(&store, &format!("k{key}"), per_minute(5), 1, NOON);
    }
    assert_eq!(store.usage().keys, 10_000);
    let later = NOON.plus(Span::from_secs(60));
    for shard in 0..store.shards() {
        store.sweep(shard, later);
    }
    let usage = store.usage();
    assert_eq!((usage.keys, usage.evicted), (0, 0));
    assert!(usage.bytes < 8 << 20, "{usage:?}");
}

fn log(limit: u64) -> Limit {
    let limit = SlidingLog::new(Hits::new(limit), Span::from_secs(60), Span::ZERO, 100_000);
    Limit::SlidingLog(limit.unwrap())
}

/// Adds so many hits, each of its own moment, to the log of `name`.
fn fill(store: &MemoryStore, name: &str, limit: Limit, hits: u64) {
    for hit in 0..hits {
        take(store, name, limit, 1, NOON.plus(Span::from_micros(hit)));
    }
}

#[test]
fn what_logs_grow_by_is_accounted_for() {
    let store = MemoryStore::default();
    let empty = store.usage().bytes;
    for key in 0..100 {
        fill(&store, &format!("k{key}"), log(1000), 1000);
    }
    let usage = store.usage();
    assert!(usage.bytes - empty > 100 * 1000 * 16, "{usage:?}");
    for shard in 0..store.shards() {
        store.sweep(shard, NOON.plus(Span::from_secs(62)));
    }
    let usage = store.usage();
    assert!(usage.keys == 0 && usage.bytes < empty + (1 << 20), "{usage:?}");
}

#[test]
fn growing_logs_stay_within_the_bound() {
    let bound = 4 << 20;
    let store = MemoryStore::new(bound);
    let names: Vec<_> = (0..1_000).map(|key| format!("k{key}")).collect();
    for hit in 0..500 {
        for name in &names {
            take(&store, name, log(1000), 1, NOON.plus(Span::from_micros(hit)));
        }
    }
    let usage = store.usage();
    assert!(usage.bytes <= bound && usage.evicted > 100, "{usage:?}");
}

#[test]
fn one_log_too_large_for_its_share_is_kept() {
    let store = MemoryStore::new(1 << 20);
    fill(&store, "a", log(10_000), 10_000);
    assert_eq!(take(&store, "a", log(10_000), 1, NOON.plus(Span::from_secs(1))), (false, 0));
}

#[test]
fn a_flood_of_new_keys_stays_within_the_bound_and_spares_the_refused_one() {
    let bound = 4 << 20;
    let store = MemoryStore::new(bound);
    while take(&store, "victim", per_minute(50), 1, NOON).0 {}
    for key in 0..200_000 {
        take(&store, &format!("flood-{key}"), per_minute(50), 1, NOON);
    }
    let usage = store.usage();
    assert!(usage.bytes <= bound, "{usage:?}");
    assert!(usage.evicted > 100_000, "{usage:?}");
    assert_eq!(take(&store, "victim", per_minute(50), 1, NOON), (false, 0));
}

#[test]
fn a_million_counters_cost_less_than_a_hundred_bytes_each_beyond_their_keys() {
    let store = MemoryStore::new(1 << 30);
    let mut text = 0;
    for key in 0..1_000_000 {
        let name = format!("{key}");
        text += "d|k=|fw60s".len() + name.len();
        take(&store, &name, per_minute(50), 1, NOON);
    }
    let usage = store.usage();
    assert_eq!(usage.keys, 1_000_000);
    let beyond = (usage.bytes - text) / usage.keys;
    assert!(beyond <= 100, "{beyond} bytes beyond the key text");
}
