//! The parts of a decision, each by itself: `cargo bench --bench micro`. For those
//! in Redis, `REDIS_SERVER` names another binary than `redis-server`.

#![allow(missing_docs, reason = "macros of criterion")]

use std::env;
use std::fmt::Write as _;
use std::future::Future;
use std::hint::black_box;
use std::net::{Ipv4Addr, TcpListener};
use std::num::NonZeroUsize;
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use futures_util::future::join_all;
use mimalloc::MiMalloc;
use prost::Message as _;
use tidegate::clock::Clock;
use tidegate::decide::{Decider, Settings};
use tidegate::limit::{
    Cost, FixedWindow, Gcra, Limit, Lockout, Rate, SlidingCounter, SlidingLog, TokenBucket,
};
use tidegate::policy::{LoadOptions, Policies, load_texts};
use tidegate::proto::rate_limit_descriptor::Entry;
use tidegate::proto::{RateLimitDescriptor, RateLimitRequest, RateLimitResponse};
use tidegate::store::memory::MemoryStore;
use tidegate::store::redis::{RedisConfig, RedisStore};
use tidegate::store::{Charge, ChargeMode, KeyBuf, Plan, Role, Store};
use tidegate::telemetry::metrics::Metrics;
use tidegate::transport::rls::Rls;
use tidegate::units::{Hits, Span, Timestamp};
use tokio::runtime::{Builder, Runtime};

/// That of the service.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const HOUR: Span = Span::from_secs(3_600);
const NOW: Timestamp = Timestamp::from_secs(1_796_004_769);
/// So many keys are asked in turn, so that none stays in the fastest cache.
const KEYS: usize = 10_000;

const RULES: &str = "
domain: bench
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 1000000000}
  - key: wild
    value: 'a*z'
    rate_limit: {unit: hour, requests_per_unit: 1000000000}
";

fn values() -> Vec<String> {
    (0..KEYS).map(|key| format!("{key:04}")).collect()
}

fn policies(rules: &str) -> Policies {
    load_texts(&[("bench", rules)], LoadOptions::default(), &Metrics::new()).expect("good rules")
}

/// The rules above and so many more, each for a value of its own.
fn with_rules(count: usize) -> Policies {
    let mut text = RULES.to_owned();
    for rule in 0..count {
        let limit = "rate_limit: {unit: hour, requests_per_unit: 1000000000}";
        let _ = writeln!(text, "  - {{key: tenant, value: '{rule:04}', {limit}}}");
    }
    policies(&text)
}

fn find(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("find");
    let values = values();
    for (rules, asked) in [(10, 10), (100_000, 10), (100_000, KEYS)] {
        let policies = with_rules(rules);
        let domain = policies.domain("bench").expect("it was loaded");
        let mut next = values[..asked].iter().cycle();
        group.bench_function(format!("{asked} of {rules} rules"), |bencher| {
            bencher.iter(|| {
                let mut keys = KeyBuf::default();
                let mut key = keys.writer("bench");
                let value = next.next().map(String::as_str).unwrap_or_default();
                let found = domain.find([(black_box("tenant"), value)], &mut key).is_some();
                key.discard();
                found
            });
        });
    }
}

fn fixed_window() -> Limit {
    Limit::FixedWindow(FixedWindow::new(Hits::new(1_000_000_000), HOUR).expect("a window"))
}

fn key(criterion: &mut Criterion) {
    let limit = fixed_window();
    let mut group = criterion.benchmark_group("key");
    for (name, value) in
        [("plain", "203.0.113.9"), ("escaped", "a|b=c"), ("long", &"x".repeat(300))]
    {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut keys = KeyBuf::default();
                let mut key = keys.writer(black_box("bench"));
                key.entry("path", black_box("/login"));
                key.entry("remote_address", black_box(value));
                let key = key.finish(&limit);
                keys.get(key).len()
            });
        });
    }
}

/// Every algorithm, with limits that admit a hit every two milliseconds.
fn limits() -> [(&'static str, Limit); 6] {
    let hits = Hits::new(1_000);
    let rate = Rate::new(hits, hits, Span::from_secs(1)).expect("a rate");
    let second = Span::from_secs(1);
    [
        ("fixed_window", fixed_window()),
        (
            "sliding_log",
            Limit::SlidingLog(
                SlidingLog::new(hits, second, Span::ZERO, 1_000).expect("a sliding log"),
            ),
        ),
        (
            "sliding_counter",
            Limit::SlidingCounter(SlidingCounter::new(hits, second).expect("a sliding counter")),
        ),
        ("token_bucket", Limit::TokenBucket(TokenBucket::new(rate))),
        ("gcra", Limit::Gcra(Gcra::new(rate))),
        (
            "lockout",
            Limit::Lockout(
                Lockout::new(Hits::new(10), Span::from_millis(15), HOUR).expect("a lockout"),
            ),
        ),
    ]
}

fn step(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("step");
    for (name, limit) in limits() {
        let mut state = limit.fresh();
        let mut now = NOW;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                // A hit every two milliseconds: half of what is admitted.
                now = now.plus(Span::from_millis(2));
                limit.step(&mut state, now, black_box(Cost::Take(Hits::new(1))))
            });
        });
    }
}

fn plan(mode: ChargeMode, limit: Limit, values: &[&str]) -> Plan {
    let mut plan = Plan { mode, now: NOW, ..Plan::default() };
    for value in values {
        let mut key = plan.keys.writer("bench");
        key.entry("user", value);
        let key = key.finish(&limit);
        let cost = Cost::Take(Hits::new(1));
        plan.charges.push(Charge {
            limit,
            key,
            cost,
            role: Role::Enforced,
            joined: false,
            lease: None,
        });
    }
    plan
}

/// A million counters: how long a decision may have to wait for the sweep, which
/// holds one shard at a time, when nothing has expired and when all of it has.
fn sweep(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sweep of a shard");
    let store = MemoryStore::new(1 << 30);
    let fill = || {
        for user in 0..1_000_000 {
            store.decide(&plan(ChargeMode::Independent, fixed_window(), &[&format!("{user}")]));
        }
    };
    fill();
    let mut shards = (0..store.shards()).cycle();
    let mut next = || shards.next().unwrap_or_default();
    group.bench_function("all live", |bencher| bencher.iter(|| store.sweep(next(), NOW)));
    let later = NOW.plus(HOUR).plus(HOUR);
    let (warm_up, time) = (Duration::from_millis(100), Duration::from_millis(500));
    group.sample_size(10).warm_up_time(warm_up).measurement_time(time);
    group.bench_function("all expired", |bencher| {
        bencher.iter_custom(|times| {
            let mut took = Duration::ZERO;
            for time in 0..times {
                if time % store.shards() as u64 == 0 {
                    fill();
                }
                let shard = next();
                let start = Instant::now();
                black_box(store.sweep(shard, later));
                took += start.elapsed();
            }
            took
        });
    });
}

fn memory(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("memory");
    let values = values();
    let mut decide = |name: &str, mode, limit: Limit, charges: usize| {
        let store = MemoryStore::default();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let mut plans: Vec<Plan> =
            values.windows(charges).map(|values| plan(mode, limit, values)).collect();
        let (mut now, mut at) = (NOW, 0);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                now = now.plus(Span::from_micros(10));
                at = (at + 1) % plans.len();
                plans[at].now = now;
                store.decide(&plans[at])
            });
        });
    };
    for (name, limit) in limits() {
        decide(name, ChargeMode::Independent, limit, 1);
    }
    decide("3 charges", ChargeMode::Independent, fixed_window(), 3);
    decide("3 charges, all or nothing", ChargeMode::AllOrNothing, fixed_window(), 3);
}

fn request(values: &[String]) -> RateLimitRequest {
    let descriptor = |value: &String| RateLimitDescriptor {
        entries: vec![Entry { key: "user".into(), value: value.clone() }],
        ..RateLimitDescriptor::default()
    };
    RateLimitRequest {
        domain: "bench".into(),
        descriptors: values.iter().map(descriptor).collect(),
        hits_addend: 0,
    }
}

fn service() -> Rls {
    let store = Store::Memory(MemoryStore::default());
    let (clock, settings, metrics) = (Clock::default(), Settings::default(), Metrics::new());
    let decider = Decider::new(Some(policies(RULES)), store, clock, settings, metrics);
    Rls::new(Arc::new(decider), false)
}

/// The output of a future that never waits.
fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

fn wire(criterion: &mut Criterion) {
    let values = values();
    let mut group = criterion.benchmark_group("wire");
    for descriptors in [1, 3] {
        let bytes = request(&values[..descriptors]).encode_to_vec();
        group.bench_with_input(
            BenchmarkId::new("decode", descriptors),
            &*bytes,
            |bencher, bytes| {
                bencher.iter(|| RateLimitRequest::decode(black_box(bytes)));
            },
        );
        let answer = at_once(service().answer(&request(&values[..descriptors])));
        let response: RateLimitResponse = answer.expect("memory never waits").expect("an answer");
        let mut buffer = Vec::with_capacity(1_024);
        group.bench_with_input(
            BenchmarkId::new("encode", descriptors),
            &response,
            |bencher, response| {
                bencher.iter(|| {
                    buffer.clear();
                    black_box(response).encode(&mut buffer)
                });
            },
        );
    }
}

/// From the decoded request to the response before it is encoded.
fn answer(criterion: &mut Criterion) {
    let values = values();
    let mut group = criterion.benchmark_group("answer");
    for descriptors in [1, 3] {
        let service = service();
        let requests: Vec<_> = values.windows(descriptors).map(request).collect();
        let mut next = requests.iter().cycle();
        group.bench_function(BenchmarkId::new("memory", descriptors), |bencher| {
            bencher.iter(|| next.next().map(|request| at_once(service.answer(request))));
        });
    }
}

/// Looked for before the server counts as one that does not start.
const ATTEMPTS: u32 = 100;

/// A server that ends with the benchmark.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; then both do nothing.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts Redis and connects; none if there is no Redis.
fn start(runtime: &Runtime) -> Option<(Server, RedisStore)> {
    let binary = env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".into());
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    let port = free.local_addr().ok()?.port();
    drop(free);
    let mut command = Command::new(binary);
    command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.args(["--port", &port.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
    let server = Server(command.spawn().ok()?);
    let config = RedisConfig {
        lanes: NonZeroUsize::MIN,
        deadline: Span::from_secs(5),
        near: None,
        ..RedisConfig::new(format!("redis://127.0.0.1:{port}"))
    };
    let store = runtime.block_on(async {
        let store = RedisStore::connect(&config).ok()?;
        for _ in 0..ATTEMPTS {
            if store.ping().await.is_ok() {
                return Some(store);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        None
    })?;
    Some((server, store))
}

/// Each Lua script in a real Redis, batch by batch.
fn scripts(criterion: &mut Criterion) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let Some((_server, store)) = start(&runtime) else {
        eprintln!("SKIPPED: there is no redis-server, nor what REDIS_SERVER names");
        return;
    };
    let mut group = criterion.benchmark_group("script");
    for (name, limit) in limits() {
        let values = values();
        let alone = |value: &String| plan(ChargeMode::Independent, limit, &[value]);
        let plans: Vec<_> = values.iter().map(alone).collect();
        for batch in [1, 16, 64] {
            let mut batches = plans.chunks_exact(batch).cycle();
            group.throughput(Throughput::Elements(batch as u64));
            group.bench_function(BenchmarkId::new(name, batch), |bencher| {
                bencher.iter(|| {
                    let plans = batches.next().unwrap_or_default();
                    runtime.block_on(join_all(plans.iter().map(|plan| store.decide(plan))))
                });
            });
        }
    }
}

criterion_group!(benches, find, key, step, sweep, memory, wire, answer, scripts);
criterion_main!(benches);
