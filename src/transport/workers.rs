//! Spreads connections over the threads that serve them.
//!
//! A connection stays with the thread that was given it, and so does every call
//! on it: a decision in memory begins and ends on one core. A new connection goes
//! to the thread with the fewest, since clients such as Envoy keep a few
//! connections for days and an uneven share would last as long. (Letting the
//! kernel spread them over several listeners on one port would leave that to a
//! hash: of four connections on two threads, all go to one of them once in eight
//! starts.)

use std::io;
use std::net::TcpStream as StdTcpStream;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Handle;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::age::Age;
use super::call::Calls;
use super::connection;
use super::listen::{Listener, accept_tcp, accepted};
use super::tls::Tls;
use crate::threads::Threads;

/// How connections are served.
#[derive(Clone, Debug)]
pub struct Terms {
    /// How they are encrypted, if they are.
    pub tls: Option<Tls>,
    /// How old they may become.
    pub age: Age,
}

/// A connection on its way to a thread: a socket that no runtime knows yet.
enum Socket {
    Tcp(StdTcpStream),
    Unix(StdUnixStream),
}

/// One thread.
struct Worker {
    thread: Handle,
    connections: TaskTracker,
    /// How many connections it has.
    load: Arc<AtomicUsize>,
}

/// A connection's part of its thread's load.
struct Share(Arc<AtomicUsize>);

impl Drop for Share {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves the connections of `listener` on `threads`, until `closing`; then lets
/// calls in flight finish.
pub async fn serve(
    listener: Listener,
    threads: &Threads,
    calls: &Arc<Calls>,
    terms: &Terms,
    closing: CancellationToken,
) {
    let worker = |thread: &Handle| Worker {
        thread: thread.clone(),
        connections: TaskTracker::new(),
        load: Arc::default(),
    };
    let workers: Vec<_> = threads.handles().iter().map(worker).collect();
    tokio::select! {
        () = accept(&listener, &workers, calls, terms, &closing) => {}
        () = closing.cancelled() => {}
    }
    // Nobody can connect while the others finish.
    drop(listener);
    for worker in &workers {
        worker.connections.close();
        worker.connections.wait().await;
    }
}

/// Gives every new connection to the thread with the fewest, for ever.
async fn accept(
    listener: &Listener,
    workers: &[Worker],
    calls: &Arc<Calls>,
    terms: &Terms,
    closing: &CancellationToken,
) {
    loop {
        let socket = accepted(|| accept_one(listener)).await;
        let least = workers.iter().min_by_key(|worker| worker.load.load(Ordering::Relaxed));
        let Some(worker) = least else { return };
        worker.load.fetch_add(1, Ordering::Relaxed);
        let share = Share(Arc::clone(&worker.load));
        let served = serve_socket(socket, Arc::clone(calls), terms.clone(), closing.clone());
        let served = async move {
            served.await;
            drop(share);
        };
        worker.connections.spawn_on(served, &worker.thread);
    }
}

async fn accept_one(listener: &Listener) -> io::Result<Socket> {
    match listener {
        Listener::Tcp(listener) => accept_tcp(listener).await?.into_std().map(Socket::Tcp),
        Listener::Unix(listener) => listener.accept().await?.0.into_std().map(Socket::Unix),
    }
}

/// Serves a socket in the runtime that this is called in.
async fn serve_socket(socket: Socket, calls: Arc<Calls>, terms: Terms, closing: CancellationToken) {
    let stream = match socket {
        Socket::Tcp(stream) => TcpStream::from_std(stream).map(Either::Left),
        Socket::Unix(stream) => UnixStream::from_std(stream).map(Either::Right),
    };
    let stream = match stream {
        Ok(stream) => stream,
        Err(error) => {
            tracing::warn!(%error, "a connection cannot be served");
            return;
        }
    };
    let Some(tls) = &terms.tls else {
        return connection::serve(stream, calls, terms.age, closing).await;
    };
    let agreed = tokio::select! {
        agreed = tls.accept(stream) => agreed,
        // It has no call in flight.
        () = closing.cancelled() => return,
    };
    match agreed {
        Ok(stream) => connection::serve(stream, calls, terms.age, closing).await,
        // Whoever may connect may cause this, so it is not told at each time.
        Err(error) => tracing::debug!(%error, "a client and we cannot agree on TLS"),
    }
}
