//! A running envoyproxy/ratelimit.

use std::ffi::OsStr;
use std::process::{Child, Command, Stdio};

use tidegate::proto::RateLimitRequest;
use tidegate::proto::rate_limit_service_client::RateLimitServiceClient;
use tonic::transport::{Channel, Endpoint};

use super::Answer;
use crate::Site;
use crate::support::process::eventually;
use crate::support::redis::free_port;

/// It, ended with the test.
pub(super) struct Reference {
    child: Child,
    channel: Channel,
}

impl Reference {
    /// On the rules and the Redis of `site`.
    pub(super) async fn start(
        binary: &OsStr,
        site: &Site,
        settings: &[(&'static str, &'static str)],
    ) -> Self {
        // Somebody else may take a free port before it does.
        for _ in 0..5 {
            let reference = Self::begin(binary, site, settings);
            let refused = reference.answer(&RateLimitRequest::default()).await;
            if refused == Answer::Error("rate limit domain must not be empty".into()) {
                return reference;
            }
        }
        panic!("the reference does not start");
    }

    fn begin(binary: &OsStr, site: &Site, settings: &[(&'static str, &'static str)]) -> Self {
        let [grpc, http, debug] = [(); 3].map(|()| free_port());
        let child = Command::new(binary)
            .env_clear()
            .envs([
                ("REDIS_SOCKET_TYPE", "tcp"),
                ("USE_STATSD", "false"),
                ("DISABLE_STATS", "true"),
                ("RUNTIME_SUBDIRECTORY", "app"),
                ("RUNTIME_WATCH_ROOT", "false"),
                ("CACHE_KEY_PREFIX", "theirs:"),
                ("HOST", "127.0.0.1"),
                ("GRPC_HOST", "127.0.0.1"),
                ("DEBUG_HOST", "127.0.0.1"),
            ])
            .env("RUNTIME_ROOT", site.root.path())
            .env("REDIS_URL", format!("127.0.0.1:{}", site.redis.port()))
            .env("GRPC_PORT", grpc.to_string())
            .env("PORT", http.to_string())
            .env("DEBUG_PORT", debug.to_string())
            .envs(settings.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the reference runs");
        let address = format!("127.0.0.1:{grpc}");
        eventually("the reference listens", || std::net::TcpStream::connect(&address).is_ok());
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
        Self { child, channel: endpoint.connect_lazy() }
    }

    pub(super) async fn answer(&self, request: &RateLimitRequest) -> Answer {
        let mut client = RateLimitServiceClient::new(self.channel.clone());
        let answer = client.should_rate_limit(request.clone()).await;
        Answer::of(answer.map(tonic::Response::into_inner))
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
