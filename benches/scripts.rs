//! Each Lua script in a real Redis, batch by batch: `cargo bench --bench scripts`.
//! `REDIS_SERVER` names another binary than `redis-server`.

#![allow(missing_docs, reason = "macros of criterion")]

use std::env;
use std::net::{Ipv4Addr, TcpListener};
use std::num::NonZeroUsize;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use futures_util::future::join_all;
use mimalloc::MiMalloc;
use tidegate::limit::{
    Cost, FixedWindow, Gcra, Limit, Lockout, Rate, SlidingCounter, SlidingLog, TokenBucket,
};
use tidegate::store::redis::{RedisConfig, RedisStore};
use tidegate::store::{Charge, Plan, Role};
use tidegate::units::{Hits, Span};
use tokio::runtime::{Builder, Runtime};

/// That of the service.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const KEYS: usize = 10_000;
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

/// Every algorithm, with limits that are hardly ever reached.
fn limits() -> [(&'static str, Limit); 6] {
    let (hits, second) = (Hits::new(1_000_000), Span::from_secs(1));
    let rate = Rate::new(hits, hits, second).expect("a rate");
    let window = FixedWindow::new(hits, Span::from_secs(3_600)).expect("a window");
    let log = SlidingLog::new(Hits::new(100), second, Span::ZERO, 100).expect("a log");
    let counter = SlidingCounter::new(hits, second).expect("a counter");
    let lockout = Lockout::new(Hits::new(10), Span::from_millis(15), second).expect("a lockout");
    [
        ("fixed_window", Limit::FixedWindow(window)),
        ("sliding_window_log", Limit::SlidingLog(log)),
        ("sliding_window_counter", Limit::SlidingCounter(counter)),
        ("token_bucket", Limit::TokenBucket(TokenBucket::new(rate))),
        ("gcra", Limit::Gcra(Gcra::new(rate))),
        ("lockout", Limit::Lockout(lockout)),
    ]
}

fn plan(limit: Limit, user: usize) -> Plan {
    let mut plan = Plan::default();
    let mut key = plan.keys.writer("bench");
    key.entry("user", &format!("{user:04}"));
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
    plan
}

fn scripts(criterion: &mut Criterion) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let Some((_server, store)) = start(&runtime) else {
        eprintln!("SKIPPED: there is no redis-server, nor what REDIS_SERVER names");
        return;
    };
    let mut group = criterion.benchmark_group("script");
    for (name, limit) in limits() {
        let plans: Vec<_> = (0..KEYS).map(|user| plan(limit, user)).collect();
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

criterion_group!(benches, scripts);
criterion_main!(benches);
