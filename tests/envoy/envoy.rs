//! A real Envoy, and an upstream for it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::http;
use crate::support::process::eventually;
use crate::support::redis::free_port;
use crate::support::tools::find;

/// A running Envoy.
pub struct Envoy {
    child: Child,
    /// Where it listens for requests.
    pub address: String,
}

impl Envoy {
    /// Starts Envoy with `config`, a file that uses the ports of
    /// `deploy/envoy/envoy.yaml`, which are replaced by free ones. `None` where
    /// there is no Envoy.
    pub fn start(config: &str, tidegate: &str, upstream: u16, directory: &Path) -> Option<Self> {
        let program = find("envoy", "ENVOY")?;
        let (listener, admin) = (free_port(), free_port());
        let port = tidegate.rsplit(':').next().expect("a port");
        let config = config
            .replace("port_value: 10000", &format!("port_value: {listener}"))
            .replace("port_value: 10001", &format!("port_value: {admin}"))
            .replace("port_value: 10002", &format!("port_value: {upstream}"))
            .replace("port_value: 8081", &format!("port_value: {port}"))
            // On a busy machine a test must not mistake slowness for an answer.
            .replace("timeout: 0.02s", "timeout: 5s");
        let file = directory.join(format!("envoy-{listener}.yaml"));
        std::fs::write(&file, config).expect("a file");
        let log = std::fs::File::create(directory.join(format!("envoy-{listener}.log")));
        let child = Command::new(program)
            .arg("-c")
            .arg(&file)
            .args(["--use-dynamic-base-id", "--concurrency", "2", "--log-level", "warning"])
            .stdout(Stdio::null())
            .stderr(log.expect("a log"))
            .spawn()
            .expect("Envoy runs");
        let mut envoy = Self { child, address: format!("127.0.0.1:{listener}") };
        let admin = format!("127.0.0.1:{admin}");
        eventually("Envoy is ready", || {
            let ended = envoy.child.try_wait().expect("a child of ours");
            assert!(
                ended.is_none(),
                "Envoy ended: {ended:?}, see the log in {}",
                directory.display()
            );
            // It says that it is ready a moment before its workers listen.
            TcpStream::connect(&admin).is_ok()
                && http::get(&admin, "/ready").status == 200
                && TcpStream::connect(&envoy.address).is_ok()
        });
        Some(envoy)
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts an upstream that answers 401 where `/bad` is in the path and 200
/// elsewhere; gives its port. It lives as long as the process.
pub fn upstream() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || serve(&stream));
        }
    });
    port
}

fn serve(mut stream: &TcpStream) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    while let Some(request) = lines.next() {
        // The requests of these tests have no body: a head ends at an empty line.
        if !lines.by_ref().any(|line| line.is_empty()) {
            return;
        }
        let bad = request.split(' ').nth(1).is_some_and(|path| path.contains("/bad"));
        let status = if bad { "401 Unauthorized" } else { "200 OK" };
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\nok");
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}
