//! Six nodes of Redis Cluster, or of Valkey's: three masters, each with a
//! replica, which takes its place about two seconds after it is gone.

#![allow(dead_code, reason = "each test binary that includes this uses a part of it")]

use std::ops::Range;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::redis::{Admin, PATIENCE, RedisServer, free_port};

/// How many slots there are.
pub const SLOTS: u16 = 16_384;

/// The cluster. Of its nodes, the first three are masters at first, and each of
/// the others is the replica of the one three before it.
pub struct Cluster {
    pub nodes: Vec<RedisServer>,
}

/// What the nodes run.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Redis,
    Valkey,
}

const MASTERS: usize = 3;

impl Cluster {
    /// Six nodes.
    pub fn start(kind: Kind) -> Option<Self> {
        Self::start_with(kind, 2 * MASTERS, &[])
    }

    /// So many nodes, three of them masters, with these options each.
    pub fn start_with(kind: Kind, count: usize, options: &[&str]) -> Option<Self> {
        let same: Vec<String> = options.iter().map(|&option| option.into()).collect();
        Self::start_each(kind, count, || same.clone())
    }

    /// The same, asking for the options of each node.
    pub fn start_each(
        kind: Kind,
        count: usize,
        mut options: impl FnMut() -> Vec<String>,
    ) -> Option<Self> {
        let mut nodes = Vec::new();
        let mut buses = Vec::new();
        for _ in 0..count {
            let options = options();
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            let (node, bus) = Self::node(kind, &options)?;
            nodes.push(node);
            buses.push(bus);
        }
        let cluster = Self { nodes };
        for (nth, slots) in (1..).zip(Self::first_slots()) {
            let (first, last) = (slots.start.to_string(), (slots.end - 1).to_string());
            let () = cluster.nodes[nth - 1].run(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
            let () = cluster.nodes[nth - 1].run(&["CLUSTER", "SET-CONFIG-EPOCH", &nth.to_string()]);
        }
        cluster.meet(&buses);
        Some(cluster)
    }

    fn node(kind: Kind, options: &[&str]) -> Option<(RedisServer, u16)> {
        // The default is a port so far above the other that it may be none.
        let bus = free_port();
        let port = bus.to_string();
        let own = ["--cluster-enabled", "yes", "--cluster-port", &port];
        let own = [&own[..], &["--cluster-node-timeout", "1000"]].concat();
        // The others go on when a master is gone.
        let own = [&own[..], &["--cluster-require-full-coverage", "no"]].concat();
        let own = [&own[..], &["--cluster-replica-validity-factor", "0"]].concat();
        let own = [&own[..], &["--repl-diskless-sync-delay", "0"]].concat();
        let options = [&own[..], options].concat();
        let node = match kind {
            Kind::Redis => RedisServer::redis_with(&options)?,
            Kind::Valkey => RedisServer::valkey_with(&options)?,
        };
        Some((node, bus))
    }

    fn meet(&self, buses: &[u16]) {
        // All meet all: waiting for gossip takes seconds.
        for (nth, one) in self.nodes.iter().enumerate() {
            for (other, bus) in self.nodes.iter().zip(buses).skip(nth + 1) {
                let (port, bus) = (other.port().to_string(), bus.to_string());
                let () = one.run(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
            }
        }
        wait_until("all nodes know each other", || {
            self.nodes.iter().all(|node| {
                let info: String = node.run(&["CLUSTER", "INFO"]);
                info.contains(&format!("cluster_known_nodes:{}", self.nodes.len()))
                    && info.contains("cluster_state:ok")
                    && info.contains("cluster_slots_ok:16384")
            })
        });
        for (replica, master) in self.nodes.iter().skip(MASTERS).zip(&self.nodes) {
            let () = replica.run(&["CLUSTER", "REPLICATE", &id(master)]);
        }
        wait_until("the replicas follow", || {
            self.nodes.iter().skip(MASTERS).all(|replica| {
                let info: String = replica.ask(&["INFO", "replication"]);
                info.contains("role:slave") && info.contains("master_link_status:up")
            }) && self.nodes.iter().all(|node| {
                let known: String = node.run(&["CLUSTER", "NODES"]);
                known.lines().filter(|line| line.contains("slave")).count()
                    == self.nodes.len() - MASTERS
            })
        });
    }

    /// The slots of each master at first.
    pub fn first_slots() -> [Range<u16>; MASTERS] {
        [0..5461, 5461..10_923, 10_923..SLOTS]
    }

    /// What to connect to: two of the nodes.
    pub fn url(&self) -> String {
        let hosts: Vec<String> =
            self.nodes.iter().take(2).map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// The slot of a key.
    pub fn slot(&self, key: &str) -> u16 {
        self.alive().run(&["CLUSTER", "KEYSLOT", key])
    }

    /// A node that answers.
    fn alive(&self) -> Admin {
        self.nodes.iter().find_map(RedisServer::try_admin).expect("a node that answers")
    }

    /// The place among the first masters of the one with `slot` at first.
    pub fn first_owner(slot: u16) -> usize {
        Self::first_slots().iter().position(|slots| slots.contains(&slot)).expect("a slot")
    }

    /// Begins to move `slot` between two masters.
    pub fn begin_move(&self, slot: u16, from: usize, to: usize) {
        let (from, to, slot) = (&self.nodes[from], &self.nodes[to], slot.to_string());
        let () = to.run(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(from)]);
        let () = from.run(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(to)]);
    }

    /// Moves at most so many keys of `slot`; gives how many there were.
    pub fn move_keys(&self, slot: u16, from: usize, to: usize, most: usize) -> usize {
        let (from, to) = (&self.nodes[from], &self.nodes[to]);
        let (slot, most) = (slot.to_string(), most.to_string());
        let keys: Vec<String> = from.run(&["CLUSTER", "GETKEYSINSLOT", &slot, &most]);
        if !keys.is_empty() {
            let port = to.port().to_string();
            let mut command = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            command.extend(keys.iter().map(String::as_str));
            let _: String = from.run(&command);
        }
        keys.len()
    }

    /// Ends the move, with every key.
    pub fn end_move(&self, slot: u16, from: usize, to: usize) {
        while self.move_keys(slot, from, to, 100) > 0 {}
        let (slot, new) = (slot.to_string(), id(&self.nodes[to]));
        let others = (0..MASTERS).filter(|nth| *nth != to);
        for node in std::iter::once(to).chain(others) {
            let () = self.nodes[node].run(&["CLUSTER", "SETSLOT", &slot, "NODE", &new]);
        }
        // The new owner takes a number above all that it has heard of. Two that
        // do so before they have heard of each other would both own slots.
        wait_until("all agree on the number of the last change", || {
            let epoch = |node: &RedisServer| {
                let info: String = node.run(&["CLUSTER", "INFO"]);
                let line = info.lines().find(|line| line.starts_with("cluster_current_epoch"));
                line.expect("an epoch").to_owned()
            };
            let mut epochs: Vec<String> = self.nodes.iter().take(MASTERS).map(epoch).collect();
            epochs.dedup();
            epochs.len() == 1
        });
    }

    /// All keys of all nodes that are masters.
    pub fn keys(&self) -> Vec<Vec<String>> {
        self.nodes.iter().take(MASTERS).map(RedisServer::keys).collect()
    }
}

fn id(node: &RedisServer) -> String {
    node.run(&["CLUSTER", "MYID"])
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        sleep(Duration::from_millis(20));
    }
}
