//! What limiters without a script do: look, count, set the expiry, each a
//! command of its own. Two requests that look at the same time both pass.

use std::error::Error;
use std::net::Ipv4Addr;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;
use std::time::{SystemTime, UNIX_EPOCH};

use deadpool_redis::redis::aio::MultiplexedConnection;
use deadpool_redis::redis::{Client, RedisError, cmd};
use tidegate::proto::rate_limit_response::rate_limit::Unit;
use tidegate::proto::rate_limit_response::{Code, DescriptorStatus, RateLimit};
use tidegate::proto::rate_limit_service_server::{RateLimitService, RateLimitServiceServer};
use tidegate::proto::{RateLimitDescriptor, RateLimitRequest, RateLimitResponse};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// Of every key, in each hour.
const LIMIT: u32 = 1_000_000_000;
const HOUR: u64 = 3_600;

/// One connection for each core, shared by all requests.
struct Naive {
    connections: Vec<MultiplexedConnection>,
    next: AtomicUsize,
}

/// Serves until it is killed.
pub fn run(redis: &str) -> Result<(), Box<dyn Error>> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = Client::open(redis)?;
        let mut connections = Vec::new();
        for _ in 0..available_parallelism().unwrap_or(NonZeroUsize::MIN).get() {
            connections.push(client.get_multiplexed_async_connection().await?);
        }
        let naive = Naive { connections, next: AtomicUsize::new(0) };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        super::announce(listener.local_addr()?);
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let service = RateLimitServiceServer::new(naive);
        Server::builder().add_service(service).serve_with_incoming(incoming).await?;
        Ok(())
    })
}

impl Naive {
    async fn decide(
        &self,
        domain: &str,
        descriptor: &RateLimitDescriptor,
    ) -> Result<DescriptorStatus, RedisError> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.connections.len();
        let mut redis = self.connections[turn].clone();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let key = key(domain, descriptor, now - now % HOUR);
        let before: Option<u32> = cmd("GET").arg(&key).query_async(&mut redis).await?;
        let count: u32 = cmd("INCR").arg(&key).query_async(&mut redis).await?;
        let () = cmd("EXPIRE").arg(&key).arg(HOUR).query_async(&mut redis).await?;
        let over = before.is_some_and(|before| before >= LIMIT);
        let reset = i64::try_from(HOUR - now % HOUR).unwrap_or_default();
        Ok(DescriptorStatus {
            code: if over { Code::OverLimit } else { Code::Ok }.into(),
            current_limit: Some(RateLimit {
                requests_per_unit: LIMIT,
                unit: Unit::Hour.into(),
                name: String::new(),
            }),
            limit_remaining: LIMIT.saturating_sub(count),
            duration_until_reset: Some(prost_types::Duration { seconds: reset, nanos: 0 }),
            ..DescriptorStatus::default()
        })
    }
}

/// As envoyproxy/ratelimit names its keys.
fn key(domain: &str, descriptor: &RateLimitDescriptor, window: u64) -> String {
    let mut key = domain.to_owned();
    for entry in &descriptor.entries {
        for part in [&entry.key, &entry.value] {
            key.push('_');
            key.push_str(part);
        }
    }
    format!("{key}_{window}")
}

#[tonic::async_trait]
impl RateLimitService for Naive {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let RateLimitRequest { domain, descriptors, .. } = request.into_inner();
        let mut statuses = Vec::with_capacity(descriptors.len());
        for descriptor in &descriptors {
            let status = self.decide(&domain, descriptor).await;
            statuses.push(status.map_err(|error| Status::unavailable(error.to_string()))?);
        }
        let over = statuses.iter().any(|status| status.code() == Code::OverLimit);
        Ok(Response::new(RateLimitResponse {
            overall_code: if over { Code::OverLimit } else { Code::Ok }.into(),
            statuses,
            ..RateLimitResponse::default()
        }))
    }
}
