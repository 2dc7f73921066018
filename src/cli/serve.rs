//! `tidegate serve`: starts the service, says where it is and waits for its end.

use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;

use clap::ArgMatches;
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use super::args::{Serve, UsageError, about_redis};
use super::check::counted;
use super::reference::{Chosen, Defaults, Profile};
use super::{FAILURE, complain, say};
use crate::app::{self, Addresses, App, Options, RunError, StartError, StoreArg};
use crate::policy::Policies;
use crate::proto::rate_limit_service_server::SERVICE_NAME;
use crate::shutdown::Signals;
use crate::telemetry::logs;
use crate::transport::listen::Address;

/// Why serving ended with a failure.
#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error("cannot start: no runtime: {0}")]
    Runtime(#[source] io::Error),
    #[error("cannot start: signals cannot be handled: {0}")]
    Signals(#[source] io::Error),
    #[error("cannot start: {0}")]
    Usage(#[from] UsageError),
    #[error("cannot start: {0}")]
    Start(#[from] StartError),
    #[error("stopped: {0}")]
    Run(#[from] RunError),
    #[error("ended at once by a second signal, calls in flight were cut off")]
    Interrupted,
}

/// Serves until a signal.
pub fn run(serve: Serve, defaults: &Defaults, matches: &ArgMatches) -> ExitCode {
    let (level, format) = serve.logging();
    logs::init(level, format);
    let chosen = &defaults.chosen;
    tracing::info!(profile = chosen.profile.name(), because = chosen.why, "defaults");
    let ended =
        Builder::new_multi_thread().enable_all().build().map_err(ServeError::Runtime).and_then(
            |runtime| {
                let options = defaults.complete(serve.options()?, matches);
                if options.store.place == StoreArg::Memory {
                    tell_idle(chosen.profile, matches);
                }
                run_on(runtime, options, chosen)
            },
        );
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("tidegate: {error}"));
            ExitCode::from(FAILURE)
        }
    }
}

/// Tells which settings are without effect because counters live in memory: a
/// `--store` that was forgotten would go unnoticed. Whoever comes from
/// envoyproxy/ratelimit has such variables anyway.
fn tell_idle(profile: Profile, matches: &ArgMatches) {
    let given = matches.subcommand_matches("serve").map(about_redis).unwrap_or_default();
    if profile != Profile::Reference && !given.is_empty() {
        tracing::warn!(
            settings = given.join(", "),
            "counters live in memory, so settings of Redis have no effect; give \
             --store redis://HOST:PORT, or leave them out"
        );
    }
}

fn run_on(runtime: Runtime, options: Options, defaults: &Chosen) -> Result<(), ServeError> {
    let ended = runtime.block_on(serve(options, defaults));
    // Connections that did not end within the grace time are not waited for.
    runtime.shutdown_background();
    ended
}

async fn serve(options: Options, defaults: &Chosen) -> Result<(), ServeError> {
    let signals = Signals::install().map_err(ServeError::Signals)?;
    let greeting = format!(
        "tidegate {} serves {}, counters in {}{}",
        env!("CARGO_PKG_VERSION"),
        options.config,
        options.store.place,
        profile(defaults)
    );
    let app = tokio::select! {
        app = app::build(options) => app?,
        // Asked to stop before it even began.
        () = signals.received(1) => return Ok(()),
    };
    say(&format!("{greeting}\n{}", introduction(&app)));
    tokio::select! {
        ended = app.run(signals.received(1)) => Ok(ended?),
        () = signals.received(2) => Err(ServeError::Interrupted),
    }
}

/// Which defaults are in force, where they are not those of the documentation.
fn profile(Chosen { profile, why }: &Chosen) -> String {
    match profile {
        Profile::Tidegate => String::new(),
        _ => format!("\n  defaults of profile {}, because {why}", profile.name()),
    }
}

/// What a newcomer needs: how much was loaded, where it listens and a call to
/// try.
fn introduction(app: &App) -> String {
    let policies = app.decider().policies();
    let Addresses { grpc, http, prometheus, debug } = app.addresses();
    let loaded = policies.as_ref().map_or_else(
        || "no rules yet".to_owned(),
        |policies| {
            let (domains, rules) = (policies.len(), policies.rule_count());
            format!("{} with {}", counted(domains, "domain"), counted(rules, "rule"))
        },
    );
    let mut text = format!("  {loaded}\n  gRPC  {grpc}\n  HTTP  {http}\n");
    // Writing to a string cannot fail.
    for (name, address) in [("metrics", prometheus), ("debug", debug)] {
        let _ = address.map(|address| writeln!(text, "  {name}  {address}"));
    }
    let policies = policies.unwrap_or_default();
    let _ = write!(text, "try:\n  {}", example_call(&policies, grpc, app.is_encrypted()));
    text
}

/// A grpcurl line that asks for the first rule there is.
fn example_call(policies: &Policies, grpc: &Address, encrypted: bool) -> String {
    let (domain, entries) =
        policies.example().unwrap_or_else(|| ("example", vec![("user", "1".to_owned())]));
    let entries: Vec<_> =
        entries.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
    let (domain, entries) = (json!(domain), json!(entries));
    let request = format!(r#"{{"domain":{domain},"descriptors":[{{"entries":{entries}}}]}}"#);
    let security = if encrypted { "-cacert CA.pem" } else { "-plaintext" };
    let (flag, address) = match grpc {
        Address::Tcp(address) => ("", reachable(*address).to_string()),
        Address::Unix(path) => (" -unix", quoted(&path.display().to_string())),
    };
    format!(
        "grpcurl {security}{flag} -d {} {address} {SERVICE_NAME}/ShouldRateLimit",
        quoted(&request)
    )
}

/// An address that this machine can call: not the one that stands for all.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// `text` as one word for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_one_shell_word_and_calls_a_reachable_address() {
        let address = Address::Tcp("0.0.0.0:8081".parse().unwrap());
        assert_eq!(
            example_call(&Policies::default(), &address, false),
            "grpcurl -plaintext -d '{\"domain\":\"example\",\"descriptors\":[{\"entries\":\
             [{\"key\":\"user\",\"value\":\"1\"}]}]}' 127.0.0.1:8081 \
             envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
        );
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
