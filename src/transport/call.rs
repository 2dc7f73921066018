//! Calls as they come from a connection.
//!
//! `ShouldRateLimit` is answered here, without the layers that other calls pass:
//! for a decision in memory those would cost more than the decision. Whatever is
//! not an ordinary call of it (another method, compression, no message or more
//! than one, one that cannot be read or decided, or one that is traced) goes to
//! the routes as it came, so that it ends as any other.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tonic::codegen::Service as _;
use tonic::service::Routes;
use tonic::{Code, Status};

use super::direct;
use super::rls::Rls;

/// The call that is answered here.
const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// What says that the messages of a call are compressed.
const GRPC_ENCODING: &str = "grpc-encoding";

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const GRPC_PROTO: HeaderValue = HeaderValue::from_static("application/grpc+proto");

/// Answers calls. Shared by all connections.
#[derive(Debug)]
pub struct Calls {
    rls: Rls,
    routes: Routes,
}

impl Calls {
    /// `rls` answers what it can be asked directly, `routes` everything else.
    pub const fn new(rls: Rls, routes: Routes) -> Self {
        Self { rls, routes }
    }

    /// Answers one call.
    ///
    /// # Errors
    /// Never: failures are answers.
    pub async fn answer(
        self: Arc<Self>,
        mut request: Request<Incoming>,
    ) -> Result<Response<Reply>, Infallible> {
        if !is_direct(&request) {
            return self.route(request.map(|rest| Replayed { first: None, rest })).await;
        }
        let first = gather(request.body_mut()).await;
        // A call that is traced has a span around it, which the routes give it.
        let message = if self.rls.spans().is_on() { None } else { first.as_deref() };
        if let Some(message) = message.and_then(direct::message) {
            if !self.rls.waits() {
                if let Some(answer) = self.rls.answer_now(message) {
                    return Ok(Reply::message(answer));
                }
            // In a box, since it is large and would be moved with the call.
            } else if let Some(answer) = Box::pin(self.rls.answer_later(message)).await {
                return Ok(answer.map_or_else(Status::into_http, Reply::message));
            }
        }
        self.route(request.map(|rest| Replayed { first, rest })).await
    }

    async fn route(&self, request: Request<Replayed>) -> Result<Response<Reply>, Infallible> {
        let response = self.routes.clone().call(request).await?;
        Ok(response.map(Reply::Routed))
    }
}

/// Whether this is a plain call of `ShouldRateLimit`.
fn is_direct(request: &Request<Incoming>) -> bool {
    let headers = request.headers();
    request.uri().path() == SHOULD_RATE_LIMIT
        && request.method() == Method::POST
        && headers.get(CONTENT_TYPE).is_some_and(|kind| *kind == GRPC || *kind == GRPC_PROTO)
        && !headers.contains_key(GRPC_ENCODING)
}

/// The beginning of a body: until it is a whole message, or cannot become one.
/// No more memory is taken than there is data; the routes would take what the
/// prefix announces.
async fn gather(body: &mut Incoming) -> Option<Bytes> {
    let first = next_data(body).await?;
    if !direct::is_incomplete(&first) {
        return Some(first);
    }
    let mut gathered = BytesMut::from(first);
    while direct::is_incomplete(&gathered)
        && let Some(more) = next_data(body).await
    {
        gathered.extend_from_slice(&more);
    }
    Some(gathered.freeze())
}

/// The next piece of a body, if it is data.
async fn next_data(body: &mut Incoming) -> Option<Bytes> {
    let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await?;
    frame.ok()?.into_data().ok()
}

/// A body of which one piece was already looked at.
struct Replayed {
    first: Option<Bytes>,
    rest: Incoming,
}

impl Body for Replayed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(Ok(Frame::data(first)))),
            None => Pin::new(&mut self.rest).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.is_end_stream()
    }
}

/// The body of an answer.
#[derive(Debug)]
pub enum Reply {
    /// One message, then the trailers that say that all is well.
    Message(Bytes),
    /// Those trailers.
    Ok,
    /// Nothing any more.
    Done,
    /// What the routes answered.
    Routed(tonic::body::Body),
}

impl Reply {
    /// The answer with this message.
    fn message(message: Bytes) -> Response<Self> {
        let mut response = Response::new(Self::Message(message));
        response.headers_mut().insert(CONTENT_TYPE, GRPC);
        response
    }
}

impl Default for Reply {
    /// Nothing: the answer is in the headers.
    fn default() -> Self {
        Self::Done
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let reply = &mut *self;
        let frame = match std::mem::take(reply) {
            Self::Message(bytes) => {
                *reply = Self::Ok;
                Frame::data(bytes)
            }
            Self::Ok => Frame::trailers(HeaderMap::from_iter([(
                Status::GRPC_STATUS,
                HeaderValue::from(Code::Ok as i32),
            )])),
            Self::Done => return Poll::Ready(None),
            Self::Routed(mut body) => {
                let frame = Pin::new(&mut body).poll_frame(context);
                *reply = Self::Routed(body);
                return frame;
            }
        };
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Message(_) | Self::Ok => false,
            Self::Done => true,
            Self::Routed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Message(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Ok | Self::Done => SizeHint::with_exact(0),
            Self::Routed(body) => body.size_hint(),
        }
    }
}
