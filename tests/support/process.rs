//! The real binary, started on free ports and ended by its id.

#![allow(dead_code, reason = "each test binary that includes this uses a part of it")]

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long to wait for something that must come. Only a fault takes this long.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A start of the binary in the making.
pub struct Launch {
    command: Command,
}

/// What a process that has ended left behind.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// A running service.
pub struct Running {
    child: Child,
    /// Where gRPC listens: `127.0.0.1:1234` or `unix:/path`.
    pub grpc: String,
    /// Where HTTP listens.
    pub http: String,
    /// What it said at the start.
    pub greeting: String,
    stderr: Arc<Mutex<String>>,
    reading: Option<JoinHandle<()>>,
}

impl Launch {
    /// The binary with these arguments and an empty environment.
    pub fn new<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(args).env_clear().stdin(Stdio::null());
        Self { command }
    }

    /// `tidegate serve` for `config`, on free ports.
    pub fn serve(config: impl AsRef<OsStr>) -> Self {
        let ports = ["--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"];
        Self::new(["serve"]).args(ports).args(["--config".as_ref(), config.as_ref()])
    }

    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.command.args(args);
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// By another name, as through a symlink.
    pub fn called(mut self, name: &str) -> Self {
        self.command.arg0(name);
        self
    }

    pub fn in_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.command.current_dir(directory.into());
        self
    }

    /// Runs a command that ends by itself.
    pub fn output(mut self) -> Ended {
        let output = self.command.output().expect("the binary runs");
        Ended {
            status: output.status,
            stdout: String::from_utf8(output.stdout).expect("text"),
            stderr: String::from_utf8(output.stderr).expect("text"),
        }
    }

    /// Starts a service and waits until it says where it listens.
    ///
    /// # Errors
    /// What is left of it if it ends instead.
    pub fn try_start(mut self) -> Result<Running, Ended> {
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().expect("the binary runs");
        let lines = lines_of(child.stdout.take().expect("piped"));
        let (stderr, reading) = collect(child.stderr.take().expect("piped"));
        let mut running = Running {
            child,
            grpc: String::new(),
            http: String::new(),
            greeting: String::new(),
            stderr,
            reading: Some(reading),
        };
        loop {
            let Ok(line) = lines.recv_timeout(PATIENCE) else {
                return Err(running.wait());
            };
            running.greeting.push_str(&line);
            running.greeting.push('\n');
            if let Some(address) = line.strip_prefix("  gRPC  ") {
                address.clone_into(&mut running.grpc);
            } else if let Some(address) = line.strip_prefix("  HTTP  ") {
                address.clone_into(&mut running.http);
            } else if line.contains("grpcurl") {
                return Ok(running);
            }
        }
    }

    /// Starts a service that is expected to start.
    pub fn start(self) -> Running {
        self.try_start().unwrap_or_else(|ended| panic!("did not start: {ended:#?}"))
    }
}

impl Running {
    /// Sends a signal, by name: `TERM`, `INT`, `KILL`.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("sh").args(["-c", "kill -$1 $2", "sh", name, &id]).status();
        assert!(sent.expect("a shell").success(), "signal {name}");
    }

    /// Waits for the end.
    pub fn wait(&mut self) -> Ended {
        let start = Instant::now();
        let status = loop {
            match self.child.try_wait().expect("a child of ours") {
                Some(status) => break status,
                None if start.elapsed() > PATIENCE => panic!("still runs; log:\n{}", self.log()),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        // The pipe closes with the process, so this ends.
        if let Some(reading) = self.reading.take() {
            reading.join().expect("the log was read");
        }
        Ended { status, stdout: self.greeting.clone(), stderr: self.log() }
    }

    /// Ends the service in order.
    pub fn stop(&mut self) -> Ended {
        self.signal("TERM");
        self.wait()
    }

    /// What was logged so far.
    pub fn log(&self) -> String {
        self.stderr.lock().expect("not poisoned").clone()
    }

    /// Where another port listens, by its name in the greeting.
    pub fn port(&self, name: &str) -> String {
        let start = format!("  {name}  ");
        let address = self.greeting.lines().find_map(|line| line.strip_prefix(&start));
        address.unwrap_or_else(|| panic!("no {name} in {}", self.greeting)).into()
    }

    /// The id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How many files, sockets and pipes the process has open.
    pub fn open_files(&self) -> usize {
        let listed = std::fs::read_dir(format!("/proc/{}/fd", self.child.id()));
        listed.expect("a process of ours").count()
    }

    /// The memory that the process holds, in bytes.
    pub fn memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("a process of ours");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.expect("a number") << 10
    }

    /// How long its threads ran, and how long they waited for a core, if the
    /// system keeps count.
    pub fn time_on_cores(&self) -> Option<(Duration, Duration)> {
        let mut sum = (Duration::ZERO, Duration::ZERO);
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.child.id())).ok()? {
            let line = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
            let mut times = line.split_whitespace().map_while(|field| field.parse().ok());
            sum.0 += Duration::from_nanos(times.next()?);
            sum.1 += Duration::from_nanos(times.next()?);
        }
        Some(sum)
    }

    /// The value of a metric line that begins with `series`.
    pub fn metric(&self, series: &str) -> Option<u64> {
        let text = super::http::get(&self.http, "/metrics").body;
        let line = text.lines().find(|line| line.starts_with(series))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    /// A channel to the gRPC port.
    pub async fn channel(&self) -> tonic::transport::Channel {
        let uri = match self.grpc.strip_prefix("unix:") {
            Some(path) => format!("unix://{path}"),
            None => format!("http://{}", self.grpc),
        };
        let endpoint = tonic::transport::Endpoint::from_shared(uri).expect("an address");
        endpoint.connect().await.expect("a connection")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already; then both do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until `condition` holds.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn lines_of(source: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(source).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

fn collect(source: impl Read + Send + 'static) -> (Arc<Mutex<String>>, JoinHandle<()>) {
    let text = Arc::new(Mutex::new(String::new()));
    let collected = text.clone();
    let reading = std::thread::spawn(move || {
        let mut source = BufReader::new(source);
        let mut line = Vec::new();
        while source.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            collected.lock().expect("not poisoned").push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    });
    (text, reading)
}
