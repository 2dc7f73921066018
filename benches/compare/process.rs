//! Servers as processes: started on free ports, ended when they are dropped.

use std::error::Error;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tidegate::bench::{Process, Target};

use crate::args::{Options, RuntimeKind, Sharing};
use crate::lanes::Server;

/// How long a server may take to start; reading many rules takes a while.
const PATIENCE: Duration = Duration::from_mins(1);

/// A running process.
struct Guard(Child);

/// A server under measurement, with the Redis that it alone uses.
pub struct Running {
    /// Where to ask it.
    pub target: Target,
    /// What its CPU time is read from: `server` and, if it has one, `redis`.
    pub processes: Vec<Process>,
    _guards: Vec<Guard>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        // It may have ended already; then both do nothing.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Starts `server` with what it needs; `rules` is the file of its rules.
    pub fn start(server: &Server, options: &Options, rules: &Path) -> Result<Self, Box<dyn Error>> {
        match server {
            Server::Noop(kind) => {
                let kind = match kind {
                    RuntimeKind::Default => "default",
                    RuntimeKind::PerCore => "per-core",
                };
                Self::announced(&mut own(&["noop", kind])?, None)
            }
            Server::Naive(sharing) => {
                let redis = Redis::start(options)?;
                let sharing = match sharing {
                    Sharing::Multiplexed => "multiplexed",
                    Sharing::Pooled => "pooled",
                };
                Self::announced(&mut own(&["naive", sharing, &redis.url()])?, Some(redis))
            }
            Server::Tidegate { redis, .. } => {
                let redis = if *redis { Some(Redis::start(options)?) } else { None };
                let store = redis.as_ref().map_or("memory".into(), Redis::url);
                let mut command = Command::new(&options.tidegate);
                command.args(["serve", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"]);
                command.args(["--reload-interval", "0", "--log-level", "warn"]);
                command.args(["--store", &store, "--config"]).arg(rules);
                Self::announced(&mut command, redis)
            }
            Server::Peer { name, command } => Self::peer(name, command, options, rules),
        }
    }

    /// A server that prints where it listens.
    fn announced(command: &mut Command, redis: Option<Redis>) -> Result<Self, Box<dyn Error>> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut guard = Guard(child);
        let output = guard.0.stdout.take().ok_or("no standard output")?;
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let address = lines.find_map(|line| line.strip_prefix("  gRPC  ").map(str::to_owned));
        let address = address.ok_or_else(|| format!("{command:?} did not start"))?;
        // Whatever else it has to say must not fill the pipe.
        thread::spawn(move || lines.for_each(drop));
        Ok(Self::new(format!("http://{address}").parse()?, guard, redis))
    }

    fn peer(
        name: &str,
        command: &str,
        options: &Options,
        rules: &Path,
    ) -> Result<Self, Box<dyn Error>> {
        let port = free_port()?.to_string();
        let redis = if command.contains("{redis}") { Some(Redis::start(options)?) } else { None };
        let address = redis.as_ref().map(Redis::address).unwrap_or_default();
        let filled = |text: &str| {
            let text = text.replace("{port}", &port).replace("{redis}", &address);
            text.replace("{rules}", &rules.display().to_string())
        };
        // Replaced by the server, the shell leaves it its process id.
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec {}", filled(command))]);
        let guard = Guard(shell.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?);
        let given = options.peer_target.iter().find(|(peer, _)| peer == name);
        let target = given.map_or("http://127.0.0.1:{port}", |(_, target)| target);
        let running = Self::new(filled(target).parse()?, guard, redis);
        if let Target::Tcp(address) = &running.target {
            wait_for(address)?;
        }
        Ok(running)
    }

    fn new(target: Target, server: Guard, redis: Option<Redis>) -> Self {
        let mut guards = vec![server];
        guards.extend(redis.map(|redis| redis.guard));
        let processes = ["server", "redis"].iter().zip(&guards);
        let processes = processes
            .map(|(label, guard)| Process { label: (*label).into(), pid: guard.0.id() })
            .collect();
        Self { target, processes, _guards: guards }
    }
}

/// A Redis that keeps nothing on disk.
struct Redis {
    guard: Guard,
    port: u16,
}

impl Redis {
    fn start(options: &Options) -> Result<Self, Box<dyn Error>> {
        let port = free_port()?;
        let child = Command::new(&options.redis_server)
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--save", "", "--appendonly", "no", "--dir"])
            .arg(std::env::temp_dir())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        let redis = Self { guard: Guard(child), port };
        wait_for(&redis.address())?;
        Ok(redis)
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn url(&self) -> String {
        format!("redis://{}", self.address())
    }
}

/// Whether there is a Redis to measure with, and which.
pub fn redis_version(options: &Options) -> Option<String> {
    first_line(Command::new(&options.redis_server).arg("--version"))
}

/// The first line that a command prints, if it can be run.
pub fn first_line(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok().filter(|out| out.status.success())?;
    String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned)
}

/// This program with one of its hidden commands.
fn own(args: &[&str]) -> Result<Command, Box<dyn Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(args);
    Ok(command)
}

/// A port that is free now. Another process may take it first; then the server
/// does not start and says so.
fn free_port() -> Result<u16, Box<dyn Error>> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn wait_for(address: &str) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    while TcpStream::connect(address).is_err() {
        if start.elapsed() > PATIENCE {
            return Err(format!("nothing listens on {address}").into());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
