//! A control plane that is not ours: a program on go-control-plane, which Envoy
//! Gateway is built on as well. Its source is in `go/`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::process::eventually;
use crate::{launch_at, lines, ready, told};

/// A running control plane.
struct Independent {
    program: PathBuf,
    child: Child,
    orders: ChildStdin,
    said: Arc<Mutex<Vec<String>>>,
    address: String,
}

/// Builds the program; `None` (with a printed reason) where that cannot be done.
fn program() -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/xds/go");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("independent-plane");
    let built = Command::new("go")
        .args(["build", "-mod=readonly", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(source)
        .output();
    let Ok(built) = built else {
        println!("SKIPPED: there is no go in PATH");
        return None;
    };
    let said = String::from_utf8_lossy(&built.stderr);
    if ["dial tcp", "module lookup disabled"].iter().any(|sign| said.contains(sign)) {
        println!("SKIPPED: the modules of tests/xds/go cannot be had: {said}");
        return None;
    }
    assert!(built.status.success(), "{said}");
    Some(program)
}

impl Independent {
    fn start(program: PathBuf, address: &str) -> Self {
        let mut child = Command::new(&program)
            .arg(address)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let orders = child.stdin.take().expect("piped");
        let said = Arc::new(Mutex::new(Vec::new()));
        let (output, heard) = (child.stdout.take().expect("piped"), Arc::clone(&said));
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                heard.lock().expect("not poisoned").push(line);
            }
        });
        let mut plane = Self { program, child, orders, said, address: String::new() };
        plane.address = plane.says("listening ").replace("listening ", "");
        plane
    }

    /// Starts it again where it was: what it knew is forgotten.
    fn again(mut self) -> Self {
        let (program, address) = (self.program.clone(), self.address.clone());
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
        Self::start(program, &address)
    }

    /// Has it send these resources to the node `edge`.
    fn send(&mut self, version: &str, resources: &str) {
        writeln!(self.orders, "edge {version} {resources}").expect("it reads");
    }

    fn lines(&self, start: &str) -> Vec<String> {
        let said = self.said.lock().expect("not poisoned");
        said.iter().filter(|line| line.starts_with(start)).cloned().collect()
    }

    /// Waits for a line that begins like this.
    fn says(&self, start: &str) -> String {
        eventually(start, || !self.lines(start).is_empty());
        self.lines(start).swap_remove(0)
    }
}

impl Drop for Independent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The domain `t` with so many a week for each value of `k`.
fn weekly(limit: u32) -> String {
    let limit = format!(r#"{{"unit":"WEEK","requests_per_unit":{limit}}}"#);
    format!(
        r#"[{{"name":"t","domain":"t","descriptors":[{{"key":"k","rate_limit":{limit},"metadata":{{"a":1}}}}]}}]"#
    )
}

#[test]
fn rules_come_from_go_control_plane() {
    let Some(program) = program() else { return };
    let mut plane = Independent::start(program, "127.0.0.1:0");
    let service = launch_at(&plane.address).env("CONFIG_GRPC_XDS_NODE_ID", "edge").start();
    plane.says("subscribed edge");
    plane.send("1", &weekly(5));
    plane.says("accepted 1");
    ready(&service);
    assert_eq!(told(&service, "[k=a]"), "OK r4");

    // It sends what was refused again at once; that must not become a circle.
    let start = Instant::now();
    plane.send("2", r#"[{"name":"bad","domain":"bad","descriptors":[{"key":""}]}]"#);
    assert!(plane.says("refused ").contains("bad: descriptor has empty key"));
    assert_eq!(told(&service, "[k=a]"), "OK r3");
    eventually("it is refused thrice", || plane.lines("refused ").len() >= 3);
    assert!(start.elapsed() >= Duration::from_secs(3), "{:?}", start.elapsed());
    plane.send("3", &weekly(7));
    plane.says("accepted 3");
    assert_eq!(lines(&service, "descriptor has empty key"), 1);
    assert_eq!(told(&service, "[k=a]"), "OK r4");

    let mut plane = plane.again();
    plane.send("1", &weekly(9));
    plane.says("accepted 1");
    assert_eq!(told(&service, "[k=a]"), "OK r5");
    plane.send("2", "[]");
    plane.says("accepted 2");
    assert_eq!(told(&service, "[k=a]"), "NONE");
}
