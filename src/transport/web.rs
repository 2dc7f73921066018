//! HTTP/1, for people, platforms and Prometheus.
//!
//! Whoever can reach such a port may connect. A client that is silent or slow holds
//! its connection for a bounded time, and there are only so many at once.

use std::error::Error;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::rejection::BytesRejection;
use axum::http::{Request, StatusCode};
use axum::{BoxError, Router};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::codegen::Service as _;

use super::connection::tell;
use super::listen::{accept_tcp, accepted};

/// How long clients may take, and how many there may be.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// To send the head of a request, the first or the next one. No usual interval
    /// of probes or scrapes, or connections would be closed just when they are used.
    pub head: Duration,
    /// To send the body of a request, from its head on.
    pub body: Duration,
    /// To take any more of an answer.
    pub answer: Duration,
    /// Connections at once. More wait in the queue of the listener.
    pub connections: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(75),
            body: Duration::from_secs(20),
            answer: Duration::from_secs(20),
            connections: 1024,
        }
    }
}

/// The body of a request took too long.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the body of the request did not arrive within {} s", .0.as_secs_f32())]
struct Late(Duration);

/// What to answer where the body of a request cannot be had.
pub fn refusal(rejected: &BytesRejection) -> StatusCode {
    let mut cause: Option<&(dyn Error + 'static)> = Some(rejected);
    while let Some(error) = cause {
        if error.is::<Late>() {
            return StatusCode::REQUEST_TIMEOUT;
        }
        cause = error.source();
    }
    rejected.status()
}

/// Serves the connections of `listener` until `closing`; then lets requests in
/// flight finish.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    bounds: Bounds,
    closing: CancellationToken,
) {
    let (connections, room) = (TaskTracker::new(), Arc::new(Semaphore::new(bounds.connections)));
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &room) => accepted,
            () = closing.cancelled() => break,
        };
        let Some((stream, permit)) = accepted else { break };
        let served = serve_one(stream, router.clone(), bounds, closing.clone());
        connections.spawn(async move {
            served.await;
            drop(permit);
        });
    }
    // Nobody can connect while the others finish.
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// The next connection, once there is room for it.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(room).acquire_owned().await.ok()?;
    Some((accepted(|| accept_tcp(listener)).await, permit))
}

async fn serve_one(stream: TcpStream, router: Router, bounds: Bounds, closing: CancellationToken) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let request = request.map(|body| Body::new(Arriving::new(body, bounds.body)));
        // A router is always ready.
        router.clone().call(request)
    });
    let stream = Leaving { stream, patience: bounds.answer, stalled: None };
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(bounds.head);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), answer));
    tell(tokio::select! {
        ended = &mut connection => ended,
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    });
}

/// A body on its way to us.
struct Arriving {
    body: Incoming,
    patience: Duration,
    end: Instant,
    /// Set as soon as it is waited for.
    late: Option<Pin<Box<Sleep>>>,
}

impl Arriving {
    fn new(body: Incoming, patience: Duration) -> Self {
        Self { body, patience, end: Instant::now() + patience, late: None }
    }
}

impl http_body::Body for Arriving {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Self { body, patience, end, late } = &mut *self;
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)));
        }
        let late = late.get_or_insert_with(|| Box::pin(sleep_until(*end)));
        late.as_mut().poll(context).map(|()| Some(Err(Late(*patience).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream whose client must take what is written to it.
struct Leaving {
    stream: TcpStream,
    patience: Duration,
    /// Set while the client takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Leaving {
    fn write(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut TcpStream>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let written = write(Pin::new(&mut self.stream), context);
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(self.patience)));
        stalled.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Leaving {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Leaving {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(context, |stream, context| stream.poll_write_vectored(context, bytes))
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

#[cfg(test)]
mod tests {
    use axum::routing::{get, post};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::timeout;

    use super::*;

    const LONG: Duration = Duration::from_hours(1);
    const SHORT: Duration = Duration::from_millis(50);
    /// How long what must happen may take on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(20);
    const ENDLESS: Bounds = Bounds { head: LONG, body: LONG, answer: LONG, connections: 9 };

    async fn echo(body: Result<Bytes, BytesRejection>) -> Result<Bytes, (StatusCode, String)> {
        body.map_err(|rejected| (refusal(&rejected), rejected.body_text()))
    }

    /// A port with these bounds, and what closes it.
    async fn start(bounds: Bounds) -> (std::net::SocketAddr, CancellationToken) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let closing = CancellationToken::new();
        // More than all buffers between us take.
        let large = Bytes::from(vec![b'x'; 64 << 20]);
        let router = Router::new()
            .route("/", post(echo))
            .route("/large", get(async move || large.clone()))
            .route("/small", get(async || "small"));
        tokio::spawn(serve(listener, router, bounds, closing.clone()));
        (address, closing)
    }

    /// Sends `text` and reads until the server closes.
    async fn send(address: std::net::SocketAddr, text: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("it is closed");
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn who_does_not_finish_a_head_is_cut_off() {
        let (address, _) = start(Bounds { head: SHORT, ..ENDLESS }).await;
        for head in ["", "GET /small HT", "GET /small HTTP/1.1\r\nhost: a\r\n"] {
            assert_eq!(send(address, head).await, "", "{head:?}");
        }
        let answer = send(address, "GET /small HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert!(answer.ends_with("small"), "one answer, then silence: {answer}");
    }

    #[tokio::test]
    async fn who_does_not_finish_a_body_is_told_and_cut_off() {
        let (address, _) = start(Bounds { body: SHORT, ..ENDLESS }).await;
        let head = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n";
        let answer = send(address, &format!("{head}\r\nabc")).await;
        assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("0.05 s"), "{answer}");
        let answer = send(address, &format!("{head}connection: close\r\n\r\nabcde")).await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("abcde"), "{answer}");
    }

    /// There is room for one.
    #[tokio::test]
    async fn who_does_not_take_an_answer_makes_room_for_others() {
        let (address, _) = start(Bounds { answer: SHORT, connections: 1, ..ENDLESS }).await;
        let mut idle = TcpStream::connect(address).await.unwrap();
        idle.write_all(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let text = "GET /small HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        assert!(send(address, text).await.ends_with("small"));
        drop(idle);
    }

    #[tokio::test]
    async fn closing_ends_what_is_idle_and_waits_for_the_rest() {
        let (address, closing) = start(ENDLESS).await;
        let mut busy = TcpStream::connect(address).await.unwrap();
        busy.write_all(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nab").await.unwrap();
        let mut idle = TcpStream::connect(address).await.unwrap();
        idle.write_all(b"GET /small HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let mut answer = [0; 12];
        idle.read_exact(&mut answer).await.unwrap();
        closing.cancel();
        let mut rest = Vec::new();
        timeout(PATIENCE, idle.read_to_end(&mut rest)).await.expect("it is closed").unwrap();
        busy.write_all(b"cde").await.unwrap();
        let mut rest = String::new();
        timeout(PATIENCE, busy.read_to_string(&mut rest)).await.expect("it is closed").unwrap();
        assert!(rest.ends_with("abcde"), "{rest}");
    }
}
