//! Every fault under steady load, in the modes that answer: no call fails, none
//! hangs, and when Redis is back, limits are exact and nothing is left behind.

use std::time::{Duration, Instant};

use crate::load::{Call, Load, print};
use crate::process::eventually;
use crate::proxy::{Proxy, Wire};
use crate::redis::{Admin, RedisServer};
use crate::rig::{ANSWERING, Rig};

/// How long a fault lasts, and how long load goes on before and after it.
const FAULT: Duration = Duration::from_millis(1_200);
const AROUND: Duration = Duration::from_millis(600);

/// Whether the store is away during a fault.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Away {
    Yes,
    Perhaps,
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
async fn check(what: &str, calls: &[Call], healed: Instant, away: Away, rig: &mut Rig) {
    print(what, calls);
    for call in calls {
        let fine = match call.rule {
            "closed" => call.answer == "OK" || call.answer == "OVER",
            _ => call.answer == "OK",
        };
        assert!(fine, "{what}: {call:?}; log:\n{}", rig.gate.log());
    }
    let decided = "ratelimit_service_response_time_seconds_";
    let all = rig.metric(&format!("{decided}count"));
    let slow = all - rig.metric(&format!("{decided}bucket{{le=\"0.02\"}}"));
    println!("FIGURES {what}: {slow} of {all} calls took the service itself more than 20 ms");
    let degraded = calls.iter().filter(|call| call.answer == "OVER").map(|call| call.at);
    let after = degraded.max().map(|last| last.saturating_duration_since(healed));
    println!("FIGURES {what}: last answered without the store {after:?} after it was back");
    rig.until("error", "OK").await;
    rig.is_exact().await;
    eventually("the store is up", || rig.metric("tidegate_store_up") == 1);
    if away == Away::Yes {
        for mode in ANSWERING {
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

/// Nothing is left behind: connections, files, memory.
fn check_leftovers(what: &str, before: &Before, rig: &Rig, admin: &mut Admin) {
    eventually("connections are as many as before", || {
        admin.connections_of_the_store() == before.connections
    });
    eventually("no more files are open than before", || rig.gate.open_files() <= before.files);
    let (memory, now) = (before.memory, rig.gate.memory());
    assert!(now < memory + (64 << 20), "{what}: {memory} bytes before, {now} now");
}

/// A fault that Redis itself has.
async fn storm(
    what: &str,
    away: Away,
    fault: impl FnOnce(&mut RedisServer),
    heal: impl FnOnce(&mut RedisServer),
) {
    let Some(server) = RedisServer::redis() else { return };
    let rig = Rig::start(&server.url(), &[]).await;
    storm_in(server, rig, what, away, fault, heal).await;
}

async fn storm_in(
    mut server: RedisServer,
    mut rig: Rig,
    what: &str,
    away: Away,
    fault: impl FnOnce(&mut RedisServer),
    heal: impl FnOnce(&mut RedisServer),
) {
    let before = prepare(&mut rig, &mut server.admin()).await;
    let load = Load::start(rig.channel.clone(), ANSWERING);
    load.run(AROUND).await;
    fault(&mut server);
    load.run(FAULT).await;
    heal(&mut server);
    let healed = Instant::now();
    load.run(AROUND).await;
    let calls = load.stop().await;
    check(what, &calls, healed, away, &mut rig).await;
    check_leftovers(what, &before, &rig, &mut server.admin());
}

/// A fault of the wire.
async fn wire(what: &str, away: Away, fault: Wire) {
    let Some(server) = RedisServer::redis() else { return };
    let proxy = Proxy::to(server.port()).await;
    let mut rig = Rig::start(&proxy.url(), &[]).await;
    let before = prepare(&mut rig, &mut server.admin()).await;
    let load = Load::start(rig.channel.clone(), ANSWERING);
    load.run(AROUND).await;
    proxy.set(fault);
    load.run(FAULT).await;
    proxy.set(Wire::Good);
    let healed = Instant::now();
    load.run(AROUND).await;
    let calls = load.stop().await;
    check(what, &calls, healed, away, &mut rig).await;
    check_leftovers(what, &before, &rig, &mut server.admin());
}

/// For comparison.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_happens() {
    storm("nothing", Away::Perhaps, |_| {}, |_| {}).await;
}

/// F21, F25.4: it is empty afterwards, and knows no script.
#[tokio::test(flavor = "multi_thread")]
async fn redis_is_killed_and_restarted() {
    storm("SIGKILL", Away::Yes, RedisServer::kill, RedisServer::restart).await;
}

/// F23.
#[tokio::test(flavor = "multi_thread")]
async fn redis_hangs() {
    let (freeze, thaw) = (|server: &mut RedisServer| server.freeze(), RedisServer::thaw);
    storm("SIGSTOP", Away::Yes, freeze, |server| thaw(server)).await;
}

/// F23: every command waits.
#[tokio::test(flavor = "multi_thread")]
async fn redis_pauses_its_clients() {
    // It ends by itself, since nobody could connect to end it.
    let time = FAULT.as_millis().to_string();
    let pause = |server: &mut RedisServer| server.run::<()>(&["CLIENT", "PAUSE", &time]);
    storm("CLIENT PAUSE", Away::Yes, pause, |_| {}).await;
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
    storm("SCRIPT FLUSH", Away::Perhaps, flush, flush).await;
}

/// The same where the script is a function.
#[tokio::test(flavor = "multi_thread")]
async fn functions_are_flushed() {
    let Some(server) = RedisServer::redis() else { return };
    let rig = Rig::start(&server.url(), &["--redis-script", "function"]).await;
    let flush = |server: &mut RedisServer| server.run::<()>(&["FUNCTION", "FLUSH"]);
    storm_in(server, rig, "FUNCTION FLUSH", Away::Perhaps, flush, flush).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_keys_are_flushed() {
    let flush = |server: &mut RedisServer| server.run::<()>(&["FLUSHALL"]);
    storm("FLUSHALL", Away::Perhaps, flush, flush).await;
}

/// F26.1.
#[tokio::test(flavor = "multi_thread")]
async fn redis_has_no_memory_left() {
    let limit = |amount| {
        move |server: &mut RedisServer| server.run::<()>(&["CONFIG", "SET", "maxmemory", amount])
    };
    storm("maxmemory, noeviction", Away::Yes, limit("1"), limit("0")).await;
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
    storm("CONFIG SET requirepass", Away::Perhaps, set("hush"), set("hush")).await;
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
    let what = "CONFIG SET requirepass, CLIENT KILL";
    check(what, &calls, healed, Away::Yes, &mut rig).await;
    check_leftovers(what, &before, &rig, &mut admin);
    assert!(!rig.gate.log().contains("hush"));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_connections_are_closed() {
    let kill = |server: &mut RedisServer| {
        let _: usize = server.run(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    };
    storm("CLIENT KILL", Away::Perhaps, kill, kill).await;
}

/// Half-open sockets: bytes go nowhere and nobody says so.
#[tokio::test(flavor = "multi_thread")]
async fn the_wire_is_dead() {
    wire("black hole", Away::Yes, Wire::Dead).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wire_is_slow() {
    wire("25 ms each way", Away::Yes, Wire::Slow(Duration::from_millis(25))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wire_is_cut() {
    wire("cut", Away::Yes, Wire::Cut).await;
}

/// Redis lies.
#[tokio::test(flavor = "multi_thread")]
async fn the_wire_garbles_answers() {
    wire("garbled", Away::Yes, Wire::Garbled).await;
}
