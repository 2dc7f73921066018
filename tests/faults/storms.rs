//! Every fault under steady load, in the modes that answer: no call fails, none
//! hangs, and when Redis is back, limits are exact and nothing is left behind.

use std::time::{Duration, Instant};

use crate::load::{Call, Load, print};
use crate::process::eventually;
use crate::proxy::{Proxy, Wire};
use crate::redis::{Admin, RedisServer};
use crate::rig::{ANSWERING, CAP, Rig};

/// How long a fault lasts, and how long load goes on before and after it.
const FAULT: Duration = Duration::from_millis(1_200);
const AROUND: Duration = Duration::from_millis(600);

/// What a fault is called, and what it does.
#[derive(Clone, Copy)]
struct Fault {
    what: &'static str,
    /// The store is away for certain.
    away: bool,
    /// How often all counters are lost.
    losses: usize,
}

/// A fault during which the store is away.
const fn away(what: &'static str) -> Fault {
    Fault { what, away: true, losses: 0 }
}

/// A fault that perhaps nobody notices.
const fn brief(what: &'static str) -> Fault {
    Fault { what, away: false, losses: 0 }
}

impl Fault {
    const fn losing(self, losses: usize) -> Self {
        Self { losses, ..self }
    }
}

/// What there was before the load.
struct Before {
    connections: usize,
    files: usize,
    memory: u64,
}

async fn prepare(rig: &mut Rig, admin: &mut Admin) -> Before {
    rig.is_exact().await;
    eventually("all lanes are connected", || admin.connections_of_the_store() == lanes());
    Before {
        connections: admin.connections_of_the_store(),
        files: rig.gate.open_files(),
        memory: rig.gate.memory(),
    }
}

fn lanes() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
}

/// Checks what calls came to, and that everything is as before.
async fn check(fault: Fault, calls: &[Call], healed: Instant, rig: &mut Rig) {
    let Fault { what, away, losses } = fault;
    print(what, calls);
    print_service(what, rig);
    let is_fine = |call: &&Call| match call.rule {
        "closed" | "capped" => call.answer == "OK" || call.answer == "OVER",
        _ => call.answer == "OK",
    };
    let failed: Vec<&Call> = calls.iter().filter(|call| !is_fine(call)).collect();
    let (count, first, log) = (failed.len(), failed.first(), rig.gate.log());
    assert!(count == 0, "{what}: {count} of {} calls, as {first:?}; log:\n{log}", calls.len());
    let admitted = calls.iter().filter(|call| call.rule == "capped" && call.answer == "OK");
    let most = CAP * (1 + losses);
    assert!(admitted.count() <= most, "{what}: more than {most} of the rule capped passed");
    let degraded = calls.iter().filter(|call| call.rule == "closed" && call.answer == "OVER");
    let last = degraded.map(|call| call.at).max();
    let after = last.map(|last| last.saturating_duration_since(healed));
    println!("FIGURES {what}: last answered without the store {after:?} after it was back");
    rig.until("error", "OK").await;
    rig.is_exact().await;
    eventually("the store is up", || rig.metric("tidegate_store_up") == 1);
    if away {
        for mode in ["open", "closed", "local"] {
            let series = format!("tidegate_degraded_decisions{{mode=\"{mode}\"}}");
            assert!(rig.metric(&series) > 0, "{what}: {mode}");
        }
        // One line when it goes, one when it comes back, however many calls; on
        // a busy machine it may seem to go more than once.
        let lines = |text: &str| {
            let log = rig.gate.log();
            log.lines().filter(|line| line.contains(text)).count()
        };
        let (gone, back) = ("the store is away", "the store answers again");
        eventually("as many lines tell that it is back", || lines(gone) == lines(back));
        assert!((1..=calls.len() / 20).contains(&lines(gone)), "{what}: {}", rig.gate.log());
    }
}

/// Prints what the service itself says of its calls, and how long its threads
/// waited for a core: where calls were slow, that tells a busy machine from a
/// service that waits for something.
fn print_service(what: &str, rig: &Rig) {
    let decided = "ratelimit_service_response_time_seconds_";
    let method = "grpc_method=\"ShouldRateLimit\"";
    let all = rig.metric(&format!("{decided}count{{{method}}}"));
    let slow = all - rig.metric(&format!("{decided}bucket{{{method},le=\"0.02\"}}"));
    println!("FIGURES {what}: {slow} of {all} calls took the service itself more than 20 ms");
    if let Some((ran, waited)) = rig.gate.time_on_cores() {
        println!("FIGURES {what}: its threads ran for {ran:?} and waited {waited:?} for a core");
    }
}

/// Nothing is left behind: connections, files, memory.
fn check_leftovers(fault: Fault, before: &Before, rig: &Rig, admin: &mut Admin) {
    eventually("connections are as many as before", || {
        admin.connections_of_the_store() == before.connections
    });
    eventually("no more files are open than before", || rig.gate.open_files() <= before.files);
    let (memory, now) = (before.memory, rig.gate.memory());
    assert!(now < memory + (64 << 20), "{}: {memory} bytes before, {now} now", fault.what);
}

/// A fault that Redis itself has.
async fn storm(
    fault: Fault,
    begin: impl FnOnce(&mut RedisServer),
    heal: impl FnOnce(&mut RedisServer),
) {
    let Some(server) = RedisServer::redis() else { return };
    let rig = Rig::start(&server.url(), &[]).await;
    storm_in(server, rig, fault, begin, heal).await;
}

async fn storm_in(
    mut server: RedisServer,
    mut rig: Rig,
    fault: Fault,
    begin: impl FnOnce(&mut RedisServer),
    heal: impl FnOnce(&mut RedisServer),
) {
    let before = prepare(&mut rig, &mut server.admin()).await;
    let load = Load::start(rig.channel.clone(), ANSWERING);
    load.run(AROUND).await;
    begin(&mut server);
    load.run(FAULT).await;
    heal(&mut server);
    let healed = Instant::now();
    load.run(AROUND).await;
    let calls = load.stop().await;
    check(fault, &calls, healed, &mut rig).await;
    check_leftovers(fault, &before, &rig, &mut server.admin());
}

/// A fault of the wire.
async fn wire(fault: Fault, bad: Wire) {
    let Some(server) = RedisServer::redis() else { return };
    let proxy = Proxy::to(server.port()).await;
    let mut rig = Rig::start(&proxy.url(), &[]).await;
    let before = prepare(&mut rig, &mut server.admin()).await;
    let load = Load::start(rig.channel.clone(), ANSWERING);
    load.run(AROUND).await;
    proxy.set(bad);
    load.run(FAULT).await;
    proxy.set(Wire::Good);
    let healed = Instant::now();
    load.run(AROUND).await;
    let calls = load.stop().await;
    check(fault, &calls, healed, &mut rig).await;
    check_leftovers(fault, &before, &rig, &mut server.admin());
}

/// For comparison.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_happens() {
    storm(brief("nothing"), |_| {}, |_| {}).await;
}

/// F21, F25.4: it is empty afterwards, and knows no script.
#[tokio::test(flavor = "multi_thread")]
async fn redis_is_killed_and_restarted() {
    storm(away("SIGKILL").losing(1), RedisServer::kill, RedisServer::restart).await;
}

/// F23.
#[tokio::test(flavor = "multi_thread")]
async fn redis_hangs() {
    let (freeze, thaw) = (|server: &mut RedisServer| server.freeze(), RedisServer::thaw);
    storm(away("SIGSTOP"), freeze, |server| thaw(server)).await;
}

/// F23: every command waits.
#[tokio::test(flavor = "multi_thread")]
async fn redis_pauses_its_clients() {
    // It ends by itself, since nobody could connect to end it.
    let time = FAULT.as_millis().to_string();
    let pause = |server: &mut RedisServer| server.run::<()>(&["CLIENT", "PAUSE", &time]);
    storm(away("CLIENT PAUSE"), pause, |_| {}).await;
}

/// F21.
#[tokio::test(flavor = "multi_thread")]
async fn scripts_are_flushed() {
    let flush = |server: &mut RedisServer| {
        let mut admin = server.admin();
        for _ in 0..3 {
            let () = admin.run(&["SCRIPT", "FLUSH"]);
        }
    };
    storm(brief("SCRIPT FLUSH"), flush, flush).await;
}

/// The same where the script is a function.
#[tokio::test(flavor = "multi_thread")]
async fn functions_are_flushed() {
    let Some(server) = RedisServer::redis().and_then(RedisServer::with_functions) else { return };
    let rig = Rig::start(&server.url(), &["--redis-script", "function"]).await;
    let flush = |server: &mut RedisServer| server.run::<()>(&["FUNCTION", "FLUSH"]);
    storm_in(server, rig, brief("FUNCTION FLUSH"), flush, flush).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_keys_are_flushed() {
    let flush = |server: &mut RedisServer| server.run::<()>(&["FLUSHALL"]);
    storm(brief("FLUSHALL").losing(2), flush, flush).await;
}

/// F26.1.
#[tokio::test(flavor = "multi_thread")]
async fn redis_has_no_memory_left() {
    let limit = |amount| {
        move |server: &mut RedisServer| server.run::<()>(&["CONFIG", "SET", "maxmemory", amount])
    };
    storm(away("maxmemory, noeviction"), limit("1"), limit("0")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_set_and_connections_go_on() {
    let set = |password| {
        move |server: &mut RedisServer| {
            let mut admin = server.admin();
            let () = admin.run(&["CONFIG", "SET", "requirepass", password]);
            // For connections that stay, nothing changes.
            let () = admin.run(&["CONFIG", "SET", "requirepass", ""]);
        }
    };
    storm(brief("CONFIG SET requirepass"), set("hush"), set("hush")).await;
}

/// The password changes and all connections are closed.
#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_set_and_connections_are_closed() {
    let Some(server) = RedisServer::redis() else { return };
    let mut admin = server.admin();
    let mut rig = Rig::start(&server.url(), &[]).await;
    let before = prepare(&mut rig, &mut admin).await;
    let load = Load::start(rig.channel.clone(), ANSWERING);
    load.run(AROUND).await;
    let () = admin.run(&["CONFIG", "SET", "requirepass", "hush"]);
    let _: usize = admin.run(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    load.run(FAULT).await;
    let () = admin.run(&["CONFIG", "SET", "requirepass", ""]);
    let healed = Instant::now();
    load.run(AROUND).await;
    let calls = load.stop().await;
    let fault = away("CONFIG SET requirepass, CLIENT KILL");
    check(fault, &calls, healed, &mut rig).await;
    check_leftovers(fault, &before, &rig, &mut admin);
    assert!(!rig.gate.log().contains("hush"));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_connections_are_closed() {
    let kill = |server: &mut RedisServer| {
        let _: usize = server.run(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    };
    storm(brief("CLIENT KILL"), kill, kill).await;
}

/// Half-open sockets: bytes go nowhere and nobody says so.
#[tokio::test(flavor = "multi_thread")]
async fn the_wire_is_dead() {
    wire(away("black hole"), Wire::Dead).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wire_is_slow() {
    wire(away("25 ms each way"), Wire::Slow(Duration::from_millis(25))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wire_is_cut() {
    wire(away("cut"), Wire::Cut).await;
}

/// Redis lies.
#[tokio::test(flavor = "multi_thread")]
async fn the_wire_garbles_answers() {
    wire(away("garbled"), Wire::Garbled).await;
}
