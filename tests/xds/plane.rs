//! A real control plane: Envoy's aggregated discovery service over gRPC, as far
//! as one type of resources needs it. It can be stopped and started again.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prost::Message as _;
use prost_types::Any;
use tidegate::policy::TYPE_URL;
use tidegate::proto::envoy::service::discovery::v3::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use tidegate::proto::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use tidegate::proto::ratelimit::config::ratelimit::v3::RateLimitConfig;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::{Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};

use crate::process::eventually;

/// A control plane.
pub struct Plane {
    address: SocketAddr,
    state: Arc<State>,
    runtime: Option<Runtime>,
}

#[derive(Default)]
struct State {
    sent: watch::Sender<Snapshot>,
    seen: Mutex<Seen>,
    manners: Mutex<Manners>,
}

/// All resources, under a version; nothing before the first.
#[derive(Clone, Debug, Default)]
struct Snapshot(Option<(String, Vec<Any>)>);

/// What clients did.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// How many streams there were.
    pub streams: usize,
    /// All requests of all streams.
    pub requests: Vec<DiscoveryRequest>,
    /// The header `authorization` of the last stream.
    pub authorization: Option<String>,
    /// The header `user-agent` of the last stream.
    pub user_agent: Option<String>,
}

/// How it behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manners {
    /// As it should.
    #[default]
    Good,
    /// Whatever is refused is sent again at once.
    Insisting,
    /// Every stream ends as soon as it begins.
    Ending,
}

impl Plane {
    /// Starts one on a free port.
    pub fn start() -> Self {
        Self::start_with(None)
    }

    /// The same with TLS.
    pub fn start_with(tls: Option<ServerTlsConfig>) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut plane = Self { address, state: Arc::default(), runtime: None };
        plane.resume(tls);
        plane
    }

    /// Starts it again where it was.
    pub fn resume(&mut self, tls: Option<ServerTlsConfig>) {
        let runtime = Runtime::new().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind(self.address)).expect("a port");
        self.address = listener.local_addr().expect("an address");
        let state = Arc::clone(&self.state);
        runtime.spawn(async move {
            let mut server = Server::builder();
            if let Some(tls) = tls {
                server = server.tls_config(tls).expect("certificates");
            }
            let service = AggregatedDiscoveryServiceServer::new(Service(state));
            let incoming = TcpListenerStream::new(listener);
            server.add_service(service).serve_with_incoming(incoming).await.expect("it serves");
        });
        self.runtime = Some(runtime);
    }

    /// Stops it: all connections break.
    pub fn stop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        let address = self.address;
        eventually("the port is free", || std::net::TcpListener::bind(address).is_ok());
    }

    /// Where it listens: `127.0.0.1:1234`.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    pub fn behave(&self, manners: Manners) {
        *lock(&self.state.manners) = manners;
    }

    /// Sends these rules to all clients from now on.
    pub fn send(&self, version: &str, configs: &[RateLimitConfig]) {
        self.send_raw(version, configs.iter().map(packed).collect());
    }

    /// Sends resources as they are.
    pub fn send_raw(&self, version: &str, resources: Vec<Any>) {
        self.state.sent.send_replace(Snapshot(Some((version.into(), resources))));
    }

    /// What clients did so far.
    pub fn seen(&self) -> Seen {
        lock(&self.state.seen).clone()
    }

    /// Waits until a client accepts this version.
    pub fn accepted(&self, version: &str) -> DiscoveryRequest {
        self.answered(&format!("{version} is accepted"), |request| {
            request.error_detail.is_none() && request.version_info == version
        })
    }

    /// Waits until a client refuses something for a reason with `part`; gives
    /// the whole reason.
    pub fn refused(&self, part: &str) -> String {
        let reason = |request: &DiscoveryRequest| {
            request.error_detail.clone().map(|detail| detail.message).unwrap_or_default()
        };
        reason(&self.answered(part, |request| reason(request).contains(part)))
    }

    fn answered(&self, what: &str, holds: impl Fn(&DiscoveryRequest) -> bool) -> DiscoveryRequest {
        let mut found = None;
        eventually(what, || {
            found = self.seen().requests.into_iter().rev().find(&holds);
            found.is_some()
        });
        found.expect("found")
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A resource as it is sent.
pub fn packed(config: &RateLimitConfig) -> Any {
    Any { type_url: TYPE_URL.into(), value: config.encode_to_vec() }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Service(Arc<State>);

#[tonic::async_trait]
impl AggregatedDiscoveryService for Service {
    type StreamAggregatedResourcesStream = ReceiverStream<Result<DiscoveryResponse, Status>>;

    async fn stream_aggregated_resources(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        let state = Arc::clone(&self.0);
        let header = |name: &str| {
            request.metadata().get(name).and_then(|value| value.to_str().ok()).map(Into::into)
        };
        let stream = {
            let mut seen = lock(&state.seen);
            seen.streams += 1;
            seen.authorization = header("authorization");
            seen.user_agent = header("user-agent");
            seen.streams
        };
        if *lock(&state.manners) == Manners::Ending {
            return Err(Status::unavailable("not today"));
        }
        let (responses, outgoing) = mpsc::channel(8);
        tokio::spawn(converse(state, request.into_inner(), responses, stream));
        Ok(Response::new(ReceiverStream::new(outgoing)))
    }
}

/// One stream: sends the snapshot once asked, and again whenever it changes.
async fn converse(
    state: Arc<State>,
    mut requests: Streaming<DiscoveryRequest>,
    responses: mpsc::Sender<Result<DiscoveryResponse, Status>>,
    stream: usize,
) {
    let mut snapshots = state.sent.subscribe();
    let (mut asked, mut count) = (false, 0);
    loop {
        let insisting = *lock(&state.manners) == Manners::Insisting;
        tokio::select! {
            request = requests.message() => {
                let Ok(Some(request)) = request else { return };
                let again = insisting && request.error_detail.is_some();
                let first = !std::mem::replace(&mut asked, true);
                lock(&state.seen).requests.push(request);
                if !again && !first {
                    continue;
                }
            }
            changed = snapshots.changed(), if asked => {
                if changed.is_err() {
                    return;
                }
            }
        }
        let Snapshot(snapshot) = snapshots.borrow_and_update().clone();
        let Some((version_info, resources)) = snapshot else { continue };
        count += 1;
        let response = DiscoveryResponse {
            version_info,
            resources,
            type_url: TYPE_URL.into(),
            nonce: format!("{stream}.{count}"),
            control_plane: None,
        };
        if responses.send(Ok(response)).await.is_err() {
            return;
        }
    }
}
