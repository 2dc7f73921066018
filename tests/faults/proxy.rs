//! A wire that can be bad: between the service and Redis, in this process.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What the wire does to bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Lets them through.
    Good,
    /// Lets them through after this time.
    Slow(Duration),
    /// Keeps them; connections stay open and can be made.
    Dead,
    /// Closes every connection, in the middle of an answer if one is due.
    Cut,
    /// Changes those of the server.
    Garbled,
}

/// A proxy in front of a server.
pub struct Proxy {
    address: SocketAddr,
    wire: watch::Sender<Wire>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    /// A good wire to `port` of this machine.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let (wire, state) = watch::channel(Wire::Good);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        let (client, _) = accepted.expect("a connection");
                        connections.spawn(carry(client, port, state.clone()));
                    }
                    Some(_) = connections.join_next() => {}
                }
            }
        });
        Self { address, wire, _tasks: tasks }
    }

    /// Where to connect instead of to the server.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Makes the wire good or bad.
    pub fn set(&self, wire: Wire) {
        self.wire.send_replace(wire);
    }
}

async fn carry(client: TcpStream, port: u16, state: watch::Receiver<Wire>) {
    let mut until = state.clone();
    let cut = until.wait_for(|wire| *wire == Wire::Cut);
    let carried = async {
        let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
        for stream in [&client, &server] {
            stream.set_nodelay(true).expect("a socket");
        }
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::select! {
            () = copy(from_client, to_server, state.clone(), false) => {}
            () = copy(from_server, to_client, state, true) => {}
        }
    };
    tokio::select! {
        biased;
        _ = cut => {}
        () = carried => {}
    }
}

async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut state: watch::Receiver<Wire>,
    of_server: bool,
) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(read) = from.read(&mut bytes).await {
        let part = &mut bytes[..read];
        let wire = *state.borrow();
        match wire {
            _ if part.is_empty() => return,
            Wire::Garbled if of_server => part.iter_mut().for_each(|byte| *byte ^= 0x15),
            Wire::Good | Wire::Cut | Wire::Garbled => {}
            Wire::Slow(time) => tokio::time::sleep(time).await,
            Wire::Dead => {
                if state.wait_for(|wire| *wire != Wire::Dead).await.is_err() {
                    return;
                }
            }
        }
        if to.write_all(part).await.is_err() {
            return;
        }
    }
}
