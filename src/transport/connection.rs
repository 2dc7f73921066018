//! One HTTP/2 connection: its settings, and its life from the first byte to the
//! last.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Timeout, timeout};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::age::{self, Age};
use super::call::Calls;

/// Calls at once on one connection. Envoy opens one connection for each of its
/// workers and queues what exceeds this: within 20 ms, 50,000 calls a second.
const MAX_STREAMS: u32 = 1_024;
/// Cancelled calls that may wait to be noticed before the connection is taken
/// for an attack. Envoy cancels whatever takes longer than its deadline, so a
/// stall of ours must not cost it the connection.
const MAX_PENDING_RESETS: usize = 4_096;
/// What a client may send ahead of us: requests are small, so one stream of
/// the largest message and some hundred of ordinary ones.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// A silent peer is asked for a sign of life after this time …
const KEEPALIVE_INTERVAL: Duration = Duration::from_mins(1);
/// … and given up after this.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a client may take to say that it speaks HTTP/2. Clients do so at
/// once; one that does not would hold its connection for ever, since it is asked
/// for signs of life only after that.
const PREFACE_PATIENCE: Duration = Duration::from_secs(20);
/// The bytes with which HTTP/2 begins.
const PREFACE_LEN: usize = 24;

/// Serves `stream` until the client leaves. When `closing`, or when the
/// connection has reached its `age`, the client is told to go elsewhere and the
/// calls in flight are finished.
pub async fn serve<S>(stream: S, calls: Arc<Calls>, age: Age, closing: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let patience = Box::pin(timeout(PREFACE_PATIENCE, closing.clone().cancelled_owned()));
    let stream = Opening { stream, heard: 0, patience: Some(patience) };
    let answer = service_fn(move |request| Calls::answer(Arc::clone(&calls), request));
    let mut connection = pin!(builder().serve_connection(TokioIo::new(stream), answer));
    tokio::select! {
        ended = &mut connection => return tell(ended),
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            return tell(connection.await);
        }
        () = age::over(age.one()) => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        ended = &mut connection => tell(ended),
        () = age.grace() => tracing::debug!("an old connection is cut off with calls in flight"),
    }
}

/// Tells of a connection that did not end in order.
pub(super) fn tell(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended badly");
    }
}

fn builder() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        // gRPC has no use for it, and it is written out for each answer.
        .auto_date_header(false);
    builder
}

/// A stream of which too little was heard to know that its client speaks
/// HTTP/2. It is given up after a time, and at once when the service stops: it
/// has no call in flight.
struct Opening<S> {
    stream: S,
    /// Bytes so far, as long as they matter.
    heard: usize,
    /// Until enough was heard. Ends with the patience, or when the service stops.
    patience: Option<Pin<Box<Timeout<WaitForCancellationFutureOwned>>>>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Opening<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let Some(patience) = &mut self.patience else { return read };
        if read.is_pending() {
            let over = patience.as_mut().poll(context);
            return over.map(|_| Err(io::ErrorKind::TimedOut.into()));
        }
        self.heard += buffer.filled().len() - before;
        if self.heard >= PREFACE_LEN {
            self.patience = None;
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Opening<S> {
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
