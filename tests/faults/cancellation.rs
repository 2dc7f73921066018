//! F24: callers that leave.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate::proto::rate_limit_service_client::RateLimitServiceClient;
use tokio::task::JoinSet;
use tonic::Code;
use tonic::transport::Channel;

use crate::ask;
use crate::process::eventually;
use crate::redis::RedisServer;
use crate::rig::Rig;

const CALLS: usize = 10_000;
const AT_ONCE: usize = 200;

/// Calls until all have been made, each with a deadline of 1 ms; gives how many
/// were in time.
async fn leave_early(channel: Channel, made: Arc<AtomicUsize>) -> usize {
    let mut client = RateLimitServiceClient::new(channel);
    let mut in_time = 0;
    while made.fetch_add(1, Ordering::Relaxed) < CALLS {
        let mut request = tonic::Request::new(ask::request("t", "[error=storm]"));
        request.set_timeout(Duration::from_millis(1));
        match client.should_rate_limit(request).await {
            Ok(_) => in_time += 1,
            Err(status) => {
                let expected = matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled);
                assert!(expected, "{status}");
            }
        }
    }
    in_time
}

#[tokio::test(flavor = "multi_thread")]
async fn f24_a_storm_of_calls_that_expire_leaves_nothing_behind() {
    let Some(server) = RedisServer::redis() else { return };
    // Only the callers have no time.
    let mut rig = Rig::start(&server.url(), &["--store-deadline", "10s"]).await;
    rig.is_exact().await;
    let mut admin = server.admin();
    let lanes = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    eventually("all lanes are connected", || admin.connections_of_the_store() == lanes);
    let (files, memory) = (rig.gate.open_files(), rig.gate.memory());

    let made = Arc::new(AtomicUsize::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..AT_ONCE {
        callers.spawn(leave_early(rig.channel.clone(), Arc::clone(&made)));
    }
    let mut in_time = 0;
    while let Some(caller) = callers.join_next().await {
        in_time += caller.expect("the caller does not panic");
        assert!(admin.connections_of_the_store() <= lanes);
    }
    println!("FIGURES {in_time} of {CALLS} calls with a deadline of 1 ms were in time");

    for _ in 0..100 {
        assert_eq!(rig.ask("error", "after").await, "OK", "{}", rig.gate.log());
    }
    rig.is_exact().await;
    assert_eq!(admin.connections_of_the_store(), lanes);
    eventually("no more files are open than before", || rig.gate.open_files() <= files);
    let now = rig.gate.memory();
    assert!(now < memory + (64 << 20), "{memory} bytes before, {now} now");
}
