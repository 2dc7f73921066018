//! Threads that serve connections, each with a runtime of its own.
//!
//! A connection stays with the thread that was given it, and so does every call
//! on it: nothing is stolen, nobody is woken elsewhere, and a decision in memory
//! begins and ends on one core. A new connection goes to the thread with the
//! fewest, since clients such as Envoy keep a few connections for days and an
//! uneven share would last as long. (Letting the kernel spread them over several
//! listeners on one port would leave that to a hash: of four connections on two
//! threads, all go to one of them once in eight starts.)

use std::io;
use std::net::TcpStream as StdTcpStream;
use std::num::NonZeroUsize;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Timeout, timeout};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::either::Either;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::service::Routes;
use tonic::transport::server::{Connected, Router};

use super::listen::Listener;

/// How long to wait before accepting again when that fails, for example because
/// no file descriptors are left.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a client may take to say that it speaks HTTP/2. Clients do so at
/// once; one that does not would hold its connection for ever, since it is asked
/// for signs of life only after that.
const PREFACE_PATIENCE: Duration = Duration::from_secs(20);
/// The bytes with which HTTP/2 begins.
const PREFACE_LEN: usize = 24;
/// Connections that wait for a thread to take them.
const WAITING: usize = 1_024;

/// A connection on its way to a thread: a socket that no runtime knows yet.
enum Socket {
    Tcp(StdTcpStream),
    Unix(StdUnixStream),
}

/// One thread.
struct Worker {
    sockets: mpsc::Sender<(Socket, Share)>,
    /// How many connections it has.
    load: Arc<AtomicUsize>,
    ended: oneshot::Receiver<Result<(), tonic::transport::Error>>,
}

/// A connection's part of its thread's load.
struct Share(Arc<AtomicUsize>);

impl Drop for Share {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why the threads ended other than by order.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// A thread cannot be had.
    #[error("no thread for connections: {0}")]
    Thread(#[from] io::Error),
    /// A server broke down.
    #[error(transparent)]
    Server(#[from] tonic::transport::Error),
    /// A thread panicked.
    #[error("a thread that serves connections crashed")]
    Crashed,
}

/// Serves the connections of `listener` on so many threads, each with a server
/// that `server` makes of `routes`, until `closing`; then lets calls in flight
/// finish.
///
/// # Errors
/// If threads cannot be had or a server breaks down.
pub async fn serve(
    listener: Listener,
    threads: NonZeroUsize,
    routes: &Routes,
    server: fn(Routes) -> Router,
    closing: CancellationToken,
) -> Result<(), WorkerError> {
    let mut workers = Vec::with_capacity(threads.get());
    for number in 0..threads.get() {
        workers.push(start(number, server(routes.clone()), closing.clone())?);
    }
    tokio::select! {
        () = accept(&listener, &workers) => {}
        () = closing.cancelled() => {}
    }
    // Nobody can connect while the others finish.
    drop(listener);
    for worker in workers {
        drop(worker.sockets);
        worker.ended.await.map_err(|_| WorkerError::Crashed)??;
    }
    Ok(())
}

fn start(number: usize, server: Router, closing: CancellationToken) -> io::Result<Worker> {
    let (sockets, receiver) = mpsc::channel(WAITING);
    let (end, ended) = oneshot::channel();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let serve = async move {
        let connections = ReceiverStream::new(receiver)
            .map(|(socket, share)| adopt(socket, share, closing.clone()));
        let outcome = server.serve_with_incoming_shutdown(connections, closing.cancelled());
        let _ = end.send(outcome.await);
    };
    let name = format!("tidegate-{number}");
    thread::Builder::new().name(name).spawn(move || runtime.block_on(serve))?;
    Ok(Worker { sockets, load: Arc::default(), ended })
}

/// Gives every new connection to the thread with the fewest, for ever, or until
/// a thread has ended.
async fn accept(listener: &Listener, workers: &[Worker]) {
    loop {
        let socket = match accept_one(listener).await {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection; trying again");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let least = workers.iter().min_by_key(|worker| worker.load.load(Ordering::Relaxed));
        let Some(worker) = least else { return };
        worker.load.fetch_add(1, Ordering::Relaxed);
        let share = Share(Arc::clone(&worker.load));
        if worker.sockets.send((socket, share)).await.is_err() {
            return;
        }
    }
}

async fn accept_one(listener: &Listener) -> io::Result<Socket> {
    match listener {
        Listener::Tcp(listener) => {
            let (stream, _) = listener.accept().await?;
            // An answer is one small segment; waiting for more costs 40 ms.
            let _ = stream.set_nodelay(true);
            stream.into_std().map(Socket::Tcp)
        }
        Listener::Unix(listener) => listener.accept().await?.0.into_std().map(Socket::Unix),
    }
}

/// Makes a socket one of the runtime that this is called in.
fn adopt(socket: Socket, share: Share, closing: CancellationToken) -> io::Result<Connection> {
    let stream = match socket {
        Socket::Tcp(stream) => Either::Left(TcpStream::from_std(stream)?),
        Socket::Unix(stream) => Either::Right(UnixStream::from_std(stream)?),
    };
    let patience = Box::pin(timeout(PREFACE_PATIENCE, closing.cancelled_owned()));
    Ok(Connection { stream, opening: Some(Opening { heard: 0, patience }), _share: share })
}

/// A connection at its thread.
struct Connection {
    stream: Either<TcpStream, UnixStream>,
    /// Until the client has begun to speak HTTP/2.
    opening: Option<Opening>,
    _share: Share,
}

/// A client of which too little was heard to know that it is one. It is given
/// up after a time, and at once when the service stops: it has no call in flight.
struct Opening {
    /// Bytes so far.
    heard: usize,
    /// Ends with the patience, or when the service stops.
    patience: Pin<Box<Timeout<WaitForCancellationFutureOwned>>>,
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let Some(opening) = &mut self.opening else { return read };
        opening.heard += buffer.filled().len() - before;
        if opening.heard >= PREFACE_LEN {
            self.opening = None;
        } else if read.is_pending() && opening.patience.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
