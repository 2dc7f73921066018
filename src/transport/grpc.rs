//! The gRPC server: decisions, health and reflection on one listener.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tonic::body::Body;
use tonic::codegen::http::{HeaderValue, Request, Response};
use tonic::codegen::{BoxFuture, Context, Poll, Service};
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic::{Code, Status};
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};

use super::rls::Rls;
use crate::proto::DESCRIPTORS;
use crate::proto::admin_server::AdminServer;
use crate::proto::rate_limit_service_server::{RateLimitServiceServer, SERVICE_NAME};

/// Largest message that is read, in bytes.
pub const MAX_MESSAGE: usize = 4 << 20;

/// The same of other calls than `ShouldRateLimit`. Memory for a message is taken
/// when its length is announced, so whoever announces much must not get it.
const MAX_OTHER_MESSAGE: usize = 64 << 10;

/// The names that health knows: the server as a whole, the name that
/// envoyproxy/ratelimit uses, and the service.
const HEALTH_NAMES: [&str; 3] = ["", "ratelimit", SERVICE_NAME];

/// The health of the server as gRPC tells it.
#[derive(Clone, Debug)]
pub struct Health {
    reporter: HealthReporter,
    /// What was told last: those who watch hear of changes only.
    serving: Arc<AtomicBool>,
}

impl Health {
    /// A server that is not ready yet.
    pub async fn starting() -> Self {
        let health = Self { reporter: HealthReporter::new(), serving: Arc::default() };
        health.tell(false).await;
        health
    }

    /// Tells everyone, also those who watch, that calls are welcome.
    pub async fn serving(&self) {
        self.set(true).await;
    }

    /// Tells everyone, also those who watch, to go elsewhere.
    pub async fn not_serving(&self) {
        self.set(false).await;
    }

    /// Ends the calls of those who watch: they have no end of their own and
    /// would hold up the shutdown.
    pub async fn end_watches(&mut self) {
        for name in HEALTH_NAMES {
            self.reporter.clear_service_status(name).await;
        }
    }

    async fn set(&self, serving: bool) {
        if self.serving.swap(serving, Ordering::Relaxed) != serving {
            self.tell(serving).await;
        }
    }

    async fn tell(&self, serving: bool) {
        let status = if serving { ServingStatus::Serving } else { ServingStatus::NotServing };
        for name in HEALTH_NAMES {
            self.reporter.set_service_status(name, status).await;
        }
    }
}

/// All services of the port. Clones share everything.
///
/// # Errors
/// If the descriptors built into the program cannot be read.
pub fn services(rls: Rls, health: &Health) -> Result<Routes, Box<tonic_reflection::server::Error>> {
    let admin = AdminServer::new(rls.clone()).max_decoding_message_size(MAX_OTHER_MESSAGE);
    let rls = RateLimitServiceServer::new(rls).max_decoding_message_size(MAX_MESSAGE);
    let health = HealthService::from_health_reporter(health.reporter.clone());
    Ok(Routes::new(TooLarge(rls))
        .add_service(TooLarge(admin))
        .add_service(HealthServer::new(health).max_decoding_message_size(MAX_OTHER_MESSAGE))
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?)
        .prepare())
}

/// Reflection that lists everything, whichever version is asked.
fn reflection() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .include_reflection_service(false)
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET)
}

/// Ends calls with a message above [`MAX_MESSAGE`] as `RESOURCE_EXHAUSTED`, as
/// other stacks do and clients expect. tonic says `OUT_OF_RANGE`, which the
/// service itself never does.
#[derive(Clone, Debug)]
struct TooLarge<S>(S);

impl<S: NamedService> NamedService for TooLarge<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for TooLarge<S>
where
    S: Service<
            Request<Body>,
            Response = Response<Body>,
            Error = Infallible,
            Future = BoxFuture<Response<Body>, Infallible>,
        >,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Mapped;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Mapped {
        Mapped(self.0.call(request))
    }
}

/// The answer of a [`TooLarge`] service.
struct Mapped(BoxFuture<Response<Body>, Infallible>);

impl Future for Mapped {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(mut self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context).map_ok(|mut response| {
            if let Some(status) = response.headers_mut().get_mut(Status::GRPC_STATUS)
                && Code::from_bytes(status.as_bytes()) == Code::OutOfRange
            {
                *status = HeaderValue::from(Code::ResourceExhausted as i32);
            }
            response
        })
    }
}
