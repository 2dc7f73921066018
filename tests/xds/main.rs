//! Rules by xDS: the real binary against real control planes.

#[path = "../support/certificates.rs"]
mod certificates;
mod connection;
#[path = "../envoy/envoy.rs"]
mod envoy;
mod gateway;
mod independent;
mod plane;
mod resources;
mod rules;
#[path = "../support/mod.rs"]
mod support;
mod tls;
mod updates;

use tidegate::proto::rate_limit_service_client::RateLimitServiceClient;

use plane::Plane;
use support::process::{Launch, Running, eventually};
use support::{ask, http, process};

/// A service on free ports that asks `plane` for rules, and never waits long.
fn launch(plane: &Plane) -> Launch {
    launch_at(&plane.address())
}

fn launch_at(address: &str) -> Launch {
    Launch::new(["serve", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"])
        // That variable alone would bring the other defaults of the reference along,
        // Redis among them.
        .env("TIDEGATE_PROFILE", "tidegate")
        .env("CONFIG_TYPE", "GRPC_XDS_SOTW")
        .env("CONFIG_GRPC_XDS_SERVER_URL", address)
        .env("CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", "50ms")
        .env("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "50ms")
        .env("XDS_CLIENT_BACKOFF_MAX_INTERVAL", "200ms")
}

/// Asks domain `t`, in the notation of [`ask`].
fn told(service: &Running, text: &str) -> String {
    told_in(service, "t", text)
}

/// Asks another domain.
fn told_in(service: &Running, domain: &str, text: &str) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let mut client = RateLimitServiceClient::new(service.channel().await);
        client.should_rate_limit(ask::request(domain, text)).await.map_or_else(
            |status| format!("error {:?}: {}", status.code(), status.message()),
            |response| ask::answer(response.get_ref()),
        )
    })
}

/// Waits until the service is ready.
fn ready(service: &Running) {
    eventually("the service is ready", || http::get(&service.http, "/readyz").status == 200);
}

/// How many lines of the log hold `part`.
fn lines(service: &Running, part: &str) -> usize {
    service.log().lines().filter(|line| line.contains(part)).count()
}
