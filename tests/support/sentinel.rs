//! A master, a replica and three sentinels that fail over within a second.

#![allow(dead_code, reason = "each test binary that includes this uses a part of it")]

use std::fmt::Write as _;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use deadpool_redis::redis::{self, RedisResult};
use tempfile::TempDir;

use super::redis::{PATIENCE, RedisServer, free_port};

/// What the sentinels call the master.
pub const NAME: &str = "main";

/// The group.
pub struct Group {
    pub master: RedisServer,
    pub replica: RedisServer,
    pub sentinels: Vec<Sentinel>,
}

/// One sentinel.
pub struct Sentinel {
    child: Child,
    pub port: u16,
    directory: TempDir,
}

impl Group {
    /// A group whose servers have these options, and sentinels these lines of
    /// configuration.
    pub fn start(options: &[&str], lines: &[&str]) -> Option<Self> {
        let master = RedisServer::redis_with(options)?;
        let port = master.port().to_string();
        let replica =
            RedisServer::redis_with(&[options, &["--replicaof", "127.0.0.1", &port]].concat())?;
        let sentinels = (0..3).map(|_| Sentinel::start(master.port(), lines)).collect();
        let group = Self { master, replica, sentinels };
        Self::wait_until("the sentinels know each other and the replica", || {
            group.sentinels.iter().all(|sentinel| sentinel.sees("num-other-sentinels", "2"))
                && group.sentinels.iter().all(|sentinel| sentinel.sees("num-slaves", "1"))
        });
        Self::wait_until("the replica follows", || {
            let info: String = group.replica.ask(&["INFO", "replication"]);
            info.contains("master_link_status:up")
        });
        Some(group)
    }

    /// What to connect to.
    pub fn url(&self) -> String {
        let hosts: Vec<String> =
            self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port)).collect();
        format!("redis+sentinel://{}/{NAME}", hosts.join(","))
    }

    fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
        let start = Instant::now();
        while !holds() {
            assert!(start.elapsed() < PATIENCE, "never: {what}");
            sleep(Duration::from_millis(20));
        }
    }
}

impl Sentinel {
    fn start(master: u16, lines: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let port = free_port();
        let mut config = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nprotected-mode no\n\
             sentinel monitor {NAME} 127.0.0.1 {master} 2\n\
             sentinel down-after-milliseconds {NAME} 500\n\
             sentinel failover-timeout {NAME} 3000\n",
            directory.path().display()
        );
        for line in lines {
            writeln!(config, "{line}").expect("text");
        }
        std::fs::write(directory.path().join("sentinel.conf"), config).expect("a file");
        Self { child: Self::spawn(&directory), port, directory }
    }

    fn spawn(directory: &TempDir) -> Child {
        let server = std::env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".into());
        Command::new(server)
            .arg(directory.path().join("sentinel.conf"))
            .arg("--sentinel")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a sentinel")
    }

    /// Starts it again after [`Self::kill`], with what it knew.
    pub fn restart(&mut self) {
        self.child = Self::spawn(&self.directory);
    }

    /// Whether it says this of the master. It says nothing before it listens.
    fn sees(&self, field: &str, value: &str) -> bool {
        let told = self.master();
        told.is_ok_and(|told| {
            told.chunks(2).any(|pair| {
                pair.first().is_some_and(|it| it == field)
                    && pair.get(1).is_some_and(|it| it == value)
            })
        })
    }

    fn master(&self) -> RedisResult<Vec<String>> {
        self.run(&["SENTINEL", "MASTER", NAME])
    }

    /// Runs a command.
    pub fn run<T: redis::FromRedisValue>(&self, command: &[&str]) -> RedisResult<T> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port))?;
        let (name, args) = command.split_first().expect("a command");
        redis::cmd(name).arg(args).query(&mut client.get_connection()?)
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
