//! The binary in place of envoyproxy/ratelimit, told by its environment
//! variables only.

#[path = "../support/certificates.rs"]
mod certificates;
#[path = "../support/mod.rs"]
mod support;

mod age;
mod check;
mod differential;
mod documents;
mod environment;
mod frames;
mod layout;
mod relay;
mod texts;
mod tls;
mod traps;
mod vectors;

use std::fs;
use std::path::{Path, PathBuf};

use support::process::{Launch, Running};
use support::redis::RedisServer;
use tempfile::TempDir;
use tidegate::proto::rate_limit_service_client::RateLimitServiceClient;
use tidegate::proto::{RateLimitRequest, RateLimitResponse};
use tonic::Status;

/// A Redis and a runtime directory, as envoyproxy/ratelimit finds them.
struct Site {
    redis: RedisServer,
    root: TempDir,
}

impl Site {
    /// With these files in `config`; `None` where there is no Redis to run and
    /// none is required.
    fn new(files: &[(&str, &str)]) -> Option<Self> {
        let site = Self { redis: RedisServer::redis()?, root: tempfile::tempdir().expect("one") };
        fs::create_dir_all(site.rules()).expect("a directory");
        for (name, text) in files {
            site.write(name, text);
        }
        Some(site)
    }

    /// Where the files of rules are.
    fn rules(&self) -> PathBuf {
        self.root.path().join("app/config")
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.rules().join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.rules().join(name)).expect("removed");
    }

    /// `tidegate serve`, told where things are by the reference's variables
    /// alone, on free ports.
    fn launch(&self) -> Launch {
        serve(self.root.path())
            .env("REDIS_SOCKET_TYPE", "tcp")
            .env("REDIS_URL", &format!("127.0.0.1:{}", self.redis.port()))
    }

    fn start(&self) -> Running {
        self.launch().start()
    }
}

/// A start that is told where rules are, on free ports, with patience that a busy
/// machine needs.
fn serve(root: &Path) -> Launch {
    Launch::new(["serve"])
        .env("RUNTIME_ROOT", root.to_str().expect("text"))
        .env("RUNTIME_SUBDIRECTORY", "app")
        .env("HOST", "127.0.0.1")
        .env("PORT", "0")
        .env("GRPC_HOST", "127.0.0.1")
        .env("GRPC_PORT", "0")
        .env("DEBUG_HOST", "127.0.0.1")
        .env("DEBUG_PORT", "0")
        .env("USE_STATSD", "false")
        .env("TIDEGATE_RELOAD_INTERVAL", "20ms")
        .env("TIDEGATE_STORE_DEADLINE", "10s")
}

/// Asks once.
async fn ask(service: &Running, request: &RateLimitRequest) -> Result<RateLimitResponse, Status> {
    let mut client = RateLimitServiceClient::new(service.channel().await);
    client.should_rate_limit(request.clone()).await.map(tonic::Response::into_inner)
}

/// Asks in the notation of [`support::ask`]; errors read `error Code: message`.
async fn answer(service: &Running, domain: &str, text: &str) -> String {
    ask(service, &support::ask::request(domain, text)).await.map_or_else(
        |status| format!("error {:?}: {}", status.code(), status.message()),
        |response| support::ask::answer(&response),
    )
}

/// A rule in domain `t` that no test exhausts by accident.
const FIVE: &str =
    "domain: t\ndescriptors:\n  - key: five\n    rate_limit: {unit: year, requests_per_unit: 5}\n";
