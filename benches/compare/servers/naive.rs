//! What limiters without a script do: look, count, set the expiry, each a
//! command of its own. Two requests that look at the same time both pass.

use std::error::Error;
use std::net::Ipv4Addr;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;
use std::time::{SystemTime, UNIX_EPOCH};

use deadpool_redis::redis::aio::{ConnectionLike, MultiplexedConnection};
use deadpool_redis::redis::{Client, RedisError, cmd};
use deadpool_redis::{Config, Pool, Runtime};
use tidegate::proto::rate_limit_response::rate_limit::Unit;
use tidegate::proto::rate_limit_response::{Code, DescriptorStatus, RateLimit};
use tidegate::proto::rate_limit_service_server::{RateLimitService, RateLimitServiceServer};
use tidegate::proto::{RateLimitDescriptor, RateLimitRequest, RateLimitResponse};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use crate::args::Sharing;

/// Of every key, in each hour.
const LIMIT: u32 = 1_000_000_000;
const HOUR: u64 = 3_600;

/// How decisions come by a connection.
enum Naive {
    /// One for each core, shared by all requests.
    Multiplexed { connections: Vec<MultiplexedConnection>, next: AtomicUsize },
    /// One for each decision at a time.
    Pooled(Pool),
}

/// Serves until it is killed.
pub fn run(sharing: Sharing, redis: &str) -> Result<(), Box<dyn Error>> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let naive = match sharing {
            Sharing::Multiplexed => Naive::multiplexed(redis).await?,
            Sharing::Pooled => {
                Naive::Pooled(Config::from_url(redis).create_pool(Some(Runtime::Tokio1))?)
            }
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        super::announce(listener.local_addr()?);
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let service = RateLimitServiceServer::new(naive);
        Server::builder().add_service(service).serve_with_incoming(incoming).await?;
        Ok(())
    })
}

impl Naive {
    async fn multiplexed(redis: &str) -> Result<Self, RedisError> {
        let client = Client::open(redis)?;
        let mut connections = Vec::new();
        for _ in 0..available_parallelism().unwrap_or(NonZeroUsize::MIN).get() {
            connections.push(client.get_multiplexed_async_connection().await?);
        }
        Ok(Self::Multiplexed { connections, next: AtomicUsize::new(0) })
    }

    async fn decide(
        &self,
        domain: &str,
        descriptor: &RateLimitDescriptor,
    ) -> Result<DescriptorStatus, Box<dyn Error + Send + Sync>> {
        Ok(match self {
            Self::Multiplexed { connections, next } => {
                let turn = next.fetch_add(1, Ordering::Relaxed) % connections.len();
                decide(&mut connections[turn].clone(), domain, descriptor).await?
            }
            Self::Pooled(pool) => decide(&mut pool.get().await?, domain, descriptor).await?,
        })
    }
}

async fn decide(
    redis: &mut impl ConnectionLike,
    domain: &str,
    descriptor: &RateLimitDescriptor,
) -> Result<DescriptorStatus, RedisError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let key = key(domain, descriptor, now - now % HOUR);
    let before: Option<u32> = cmd("GET").arg(&key).query_async(redis).await?;
    let count: u32 = cmd("INCR").arg(&key).query_async(redis).await?;
    let () = cmd("EXPIRE").arg(&key).arg(HOUR).query_async(redis).await?;
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
