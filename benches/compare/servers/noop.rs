//! A server that decides nothing: the floor under every other.

use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::thread;

use tidegate::proto::rate_limit_response::{Code, DescriptorStatus};
use tidegate::proto::rate_limit_service_server::{RateLimitService, RateLimitServiceServer};
use tidegate::proto::{RateLimitRequest, RateLimitResponse};
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::Builder;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use crate::args::RuntimeKind;

/// Connections that the kernel keeps for us while we are busy.
const BACKLOG: u32 = 1024;

/// Answers OK for each descriptor: the smallest answer that is complete.
#[derive(Clone, Copy, Debug)]
struct Noop;

#[tonic::async_trait]
impl RateLimitService for Noop {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let ok = DescriptorStatus { code: Code::Ok.into(), ..DescriptorStatus::default() };
        Ok(Response::new(RateLimitResponse {
            overall_code: Code::Ok.into(),
            statuses: vec![ok; request.get_ref().descriptors.len()],
            ..RateLimitResponse::default()
        }))
    }
}

/// Serves until it is killed.
pub fn run(kind: RuntimeKind) -> Result<(), Box<dyn Error>> {
    match kind {
        RuntimeKind::Default => {
            let runtime = Builder::new_multi_thread().enable_all().build()?;
            runtime.block_on(async {
                let listener = listen(free(), false)?;
                super::announce(listener.local_addr()?);
                serve(listener).await
            })
        }
        RuntimeKind::PerCore => per_core(),
    }
}

fn per_core() -> Result<(), Box<dyn Error>> {
    let cores = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN).get();
    let runtimes = (0..cores)
        .map(|_| Builder::new_current_thread().enable_all().build())
        .collect::<io::Result<Vec<_>>>()?;
    // The kernel spreads connections over all listeners of one port.
    let mut address = free();
    let mut listeners = Vec::new();
    for runtime in &runtimes {
        let _inside = runtime.enter();
        let listener = listen(address, true)?;
        address = listener.local_addr()?;
        listeners.push(listener);
    }
    super::announce(address);
    thread::scope(|scope| {
        for (runtime, listener) in runtimes.iter().zip(listeners) {
            scope.spawn(move || {
                if let Err(error) = runtime.block_on(serve(listener)) {
                    eprintln!("noop: {error}");
                }
            });
        }
    });
    Ok(())
}

fn free() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

fn listen(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseport(shared)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn serve(listener: TcpListener) -> Result<(), Box<dyn Error>> {
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    Server::builder()
        .add_service(RateLimitServiceServer::new(Noop))
        .serve_with_incoming(incoming)
        .await?;
    Ok(())
}
