//! F32: the Unix socket.

use std::fs;
use std::path::Path;

use crate::process::{Ended, Launch, Running};
use crate::{directory, remaining};

fn launch(config: &Path, socket: &Path) -> Launch {
    Launch::new(["serve", "--http-listen", "127.0.0.1:0"])
        .args(["--config".as_ref(), config.as_os_str()])
        .args(["--listen", &format!("unix:{}", socket.display())])
}

fn refused(launch: Launch) -> Ended {
    let ended = launch.try_start().err().expect("no start");
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    ended
}

async fn answers(running: &Running, value: &str) {
    assert_eq!(remaining(&running.channel().await, "five", value).await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn f32_calls_work_and_a_normal_stop_removes_the_file() {
    let (directory, config) = directory();
    let socket = directory.path().join("grpc.sock");
    let mut running = launch(&config, &socket).start();
    assert!(running.greeting.contains("grpcurl -plaintext -unix"), "{}", running.greeting);
    answers(&running, "a").await;
    assert_eq!(running.stop().status.code(), Some(0));
    assert!(!socket.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn f32_a_socket_left_by_a_crash_does_not_block_the_next_start() {
    let (directory, config) = directory();
    let socket = directory.path().join("grpc.sock");
    let mut crashed = launch(&config, &socket).start();
    crashed.signal("KILL");
    crashed.wait();
    assert!(socket.exists(), "nobody could remove it");
    let running = launch(&config, &socket).start();
    answers(&running, "a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f32_a_live_socket_is_not_taken_over() {
    let (directory, config) = directory();
    let socket = directory.path().join("grpc.sock");
    let first = launch(&config, &socket).start();
    let second = refused(launch(&config, &socket));
    assert!(second.stderr.contains("another process is listening"), "{second:?}");
    answers(&first, "a").await;
}

#[test]
fn f32_a_file_that_is_not_a_socket_is_left_untouched() {
    let (directory, config) = directory();
    let file = directory.path().join("precious");
    fs::write(&file, "data").expect("a file");
    let ended = refused(launch(&config, &file));
    assert!(ended.stderr.contains("not a socket"), "{ended:?}");
    assert_eq!(fs::read_to_string(&file).expect("still there"), "data");
    let ended = refused(launch(&config, &directory.path().join("no/such/grpc.sock")));
    assert!(ended.stderr.contains("no/such/grpc.sock"), "{ended:?}");
}
