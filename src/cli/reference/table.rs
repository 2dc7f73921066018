//! Every environment variable of envoyproxy/ratelimit, and what becomes of it
//! here. The documentation shows this table; a test holds the two together.

use std::fmt::Write as _;

use super::values::Form::{self, Fraction, OneOf, Pairs, Port, Text, Time, Truth, Whole};

/// A variable of envoyproxy/ratelimit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variable {
    /// Its name.
    pub(super) name: &'static str,
    /// How its value is written.
    pub(super) form: Form,
    /// What it does here.
    pub(super) effect: Effect,
}

/// What a variable does here.
#[derive(Clone, Copy, Debug)]
pub(super) enum Effect {
    /// It is the variable of this flag, in every profile.
    Flag(&'static str),
    /// It takes part in the default of this flag.
    Default(&'static str),
    /// It is understood and changes nothing, for this reason.
    Idle(&'static str),
    /// It is refused, for this reason, unless it has one of these values.
    Refused(&'static [&'static str], &'static str),
    /// It is refused unless `BACKEND_TYPE=redis` says that it is not meant.
    Memcached,
}

use Effect::{Default, Flag, Idle, Memcached, Refused};

const fn is(name: &'static str, form: Form, effect: Effect) -> Variable {
    Variable { name, form, effect }
}

const SOCKET: Form = OneOf(&["unix", "tcp", "tcp4", "tcp6"]);
const TYPE: Form = OneOf(&["single", "sentinel", "cluster"]);
const OFF: &[&str] = &["0", "f", "F", "false", "FALSE", "False"];

const POOL: &str = "each core has one connection that carries all its calls";
const SENTINELS: &str = "the login at sentinels is the same for both places: REDIS_SENTINEL_AUTH";
const CONNECT: &str =
    "an attempt to connect takes 1s at most; for decisions there is --store-deadline";
const BATCHES: &str = "what waits is always sent together, and nothing waits for more";
const STARTUP: &str =
    "the service starts without Redis, is not ready until it answers, and tries again for ever";
/// Why nothing is kept in memcached.
pub(super) const MEMCACHE: &str =
    "there is no memcached store; set BACKEND_TYPE=redis and say where Redis is";

/// All of them, by area.
pub(super) const VARIABLES: &[Variable] = &[
    // Where it listens.
    is("HOST", Text, Default("http-listen")),
    is("PORT", Port, Default("http-listen")),
    is("GRPC_HOST", Text, Default("listen")),
    is("GRPC_PORT", Port, Default("listen")),
    is("GRPC_UDS", Text, Default("listen")),
    is("DEBUG_HOST", Text, Default("debug-listen")),
    is("DEBUG_PORT", Port, Default("debug-listen")),
    is("GRPC_MAX_CONNECTION_AGE", Time, Flag("max-connection-age")),
    is("GRPC_MAX_CONNECTION_AGE_GRACE", Time, Flag("max-connection-age-grace")),
    is("GRPC_SERVER_USE_TLS", Truth, Default("tls-cert")),
    is("GRPC_SERVER_TLS_CERT", Text, Default("tls-cert")),
    is("GRPC_SERVER_TLS_KEY", Text, Default("tls-key")),
    is("GRPC_CLIENT_TLS_CACERT", Text, Default("tls-client-ca")),
    is("GRPC_CLIENT_TLS_SAN", Text, Default("tls-client-san")),
    // Logs.
    is("LOG_LEVEL", Text, Flag("log-level")),
    is("LOG_FORMAT", Text, Flag("log-format")),
    // Rules.
    is("CONFIG_TYPE", OneOf(&["FILE", "GRPC_XDS_SOTW"]), Flag("config-type")),
    is("RUNTIME_ROOT", Text, Default("config")),
    is("RUNTIME_SUBDIRECTORY", Text, Default("config")),
    is("RUNTIME_APPDIRECTORY", Text, Default("config")),
    is("RUNTIME_IGNOREDOTFILES", Truth, Default("config")),
    is("RUNTIME_WATCH_ROOT", Truth, Default("config")),
    is("MERGE_DOMAIN_CONFIG", Truth, Flag("merge-domains")),
    is("FORCE_START_WITHOUT_INITIAL_CONFIG", Truth, Flag("start-without-config")),
    is("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", Truth, Flag("healthy-with-config")),
    // Rules by xDS.
    is("CONFIG_GRPC_XDS_NODE_ID", Text, Flag("xds-node-id")),
    is("CONFIG_GRPC_XDS_NODE_METADATA", Text, Flag("xds-node-metadata")),
    is("CONFIG_GRPC_XDS_SERVER_URL", Text, Flag("xds-server")),
    is("CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", Time, Flag("xds-connect-retry-interval")),
    is("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", Pairs, Flag("xds-headers")),
    is("CONFIG_GRPC_XDS_SERVER_USE_TLS", Truth, Flag("xds-tls")),
    is("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", Text, Flag("xds-tls-cert")),
    is("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", Text, Flag("xds-tls-key")),
    is("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", Text, Flag("xds-tls-ca")),
    is("CONFIG_GRPC_XDS_SERVER_TLS_SAN", Text, Flag("xds-tls-server-name")),
    is("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", Time, Flag("xds-backoff-initial-interval")),
    is("XDS_CLIENT_BACKOFF_MAX_INTERVAL", Time, Flag("xds-backoff-max-interval")),
    is("XDS_CLIENT_BACKOFF_RANDOM_FACTOR", Fraction, Flag("xds-backoff-random-factor")),
    is("XDS_CLIENT_BACKOFF_JITTER", Truth, Flag("xds-backoff-jitter")),
    is("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", Whole, Flag("xds-max-message-size")),
    // Answers.
    is("SHADOW_MODE", Truth, Flag("shadow-mode")),
    is("QUOTA_MODE", Truth, Flag("quota-mode")),
    is("RESPONSE_DYNAMIC_METADATA", Truth, Flag("dynamic-metadata")),
    is("LIMIT_RESPONSE_HEADERS_ENABLED", Truth, Flag("response-headers")),
    is("LIMIT_LIMIT_HEADER", Text, Flag("limit-header")),
    is("LIMIT_REMAINING_HEADER", Text, Flag("remaining-header")),
    is("LIMIT_RESET_HEADER", Text, Flag("reset-header")),
    is("NEAR_LIMIT_RATIO", Fraction, Flag("near-limit-ratio")),
    is("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", Truth, Flag("all-or-nothing")),
    // The store.
    is("BACKEND_TYPE", Text, Refused(&["redis", ""], MEMCACHE)),
    is("CACHE_KEY_PREFIX", Text, Flag("key-prefix")),
    is("LOCAL_CACHE_SIZE_IN_BYTES", Whole, Flag("near-cache-size")),
    is(
        "EXPIRATION_JITTER_MAX_SECONDS",
        Whole,
        Idle("keys end with their windows, and Redis removes them little by little"),
    ),
    is("REDIS_SOCKET_TYPE", SOCKET, Default("store")),
    is("REDIS_TYPE", TYPE, Default("store")),
    is("REDIS_URL", Text, Default("store")),
    is("REDIS_AUTH", Text, Default("store")),
    is("REDIS_TLS", Truth, Default("store")),
    is("REDIS_SENTINEL_AUTH", Text, Default("redis-sentinel-username")),
    is("REDIS_TLS_CLIENT_CERT", Text, Default("redis-tls-cert")),
    is("REDIS_TLS_CLIENT_KEY", Text, Default("redis-tls-key")),
    is("REDIS_TLS_CACERT", Text, Default("redis-tls-ca")),
    is(
        "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION",
        Truth,
        Refused(
            OFF,
            "a certificate is worth nothing without its name; tell the name in it by TIDEGATE_REDIS_TLS_SERVER_NAME",
        ),
    ),
    is("REDIS_POOL_SIZE", Whole, Idle(POOL)),
    is("REDIS_POOL_ON_EMPTY_BEHAVIOR", Text, Idle(POOL)),
    is("REDIS_PIPELINE_WINDOW", Time, Idle(BATCHES)),
    is("REDIS_PIPELINE_LIMIT", Whole, Idle(BATCHES)),
    is("REDIS_CLUSTER_PIPELINE_PARALLELISM", Whole, Idle(BATCHES)),
    is("REDIS_TIMEOUT", Time, Idle(CONNECT)),
    is(
        "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION",
        Truth,
        Idle("health always follows Redis where the failure mode is error"),
    ),
    is("REDIS_STARTUP_INITIAL_INTERVAL", Time, Idle(STARTUP)),
    is("REDIS_STARTUP_MAX_INTERVAL", Time, Idle(STARTUP)),
    is("REDIS_STARTUP_MAX_ELAPSED_TIME", Time, Idle(STARTUP)),
    is("REDIS_PERSECOND", Truth, Default("store-per-second")),
    is("REDIS_PERSECOND_SOCKET_TYPE", SOCKET, Default("store-per-second")),
    is("REDIS_PERSECOND_TYPE", TYPE, Default("store-per-second")),
    is("REDIS_PERSECOND_URL", Text, Default("store-per-second")),
    is("REDIS_PERSECOND_AUTH", Text, Default("store-per-second")),
    is("REDIS_PERSECOND_TLS", Truth, Default("store-per-second")),
    is("REDIS_PERSECOND_SENTINEL_AUTH", Text, Refused(&[""], SENTINELS)),
    is("REDIS_PERSECOND_POOL_SIZE", Whole, Idle(POOL)),
    is("REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR", Text, Idle(POOL)),
    is("REDIS_PERSECOND_PIPELINE_WINDOW", Time, Idle(BATCHES)),
    is("REDIS_PERSECOND_PIPELINE_LIMIT", Whole, Idle(BATCHES)),
    is("REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM", Whole, Idle(BATCHES)),
    is("REDIS_PERSECOND_TIMEOUT", Time, Idle(CONNECT)),
    // Metrics.
    is("USE_STATSD", Truth, Flag("statsd")),
    is("STATSD_HOST", Text, Flag("statsd-host")),
    is("STATSD_PORT", Port, Flag("statsd-port")),
    is("STATSD_PROTOCOL", OneOf(&["tcp", "udp"]), Flag("statsd-protocol")),
    is("USE_DOG_STATSD", Truth, Flag("dog-statsd")),
    is("USE_DOG_STATSD_MOGRIFIERS", Text, Flag("dog-statsd-mogrifiers")),
    is("EXTRA_TAGS", Pairs, Flag("extra-tags")),
    is("STATS_FLUSH_INTERVAL", Time, Flag("stats-flush-interval")),
    is("DISABLE_STATS", Truth, Flag("disable-stats")),
    is("USE_PROMETHEUS", Truth, Flag("prometheus")),
    is("PROMETHEUS_ADDR", Text, Flag("prometheus-addr")),
    is("PROMETHEUS_PATH", Text, Flag("prometheus-path")),
    is(
        "PROMETHEUS_MAPPER_YAML",
        Text,
        Idle("names and labels are always those of the default mapping"),
    ),
    is(
        "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS",
        Truth,
        Idle("times are in seconds, as the names say"),
    ),
    is("SANITIZE_DESCRIPTOR_METRIC_DOTS", Truth, Flag("sanitize-metric-dots")),
    // Traces.
    is("TRACING_ENABLED", Truth, Flag("tracing")),
    is("TRACING_EXPORTER_PROTOCOL", OneOf(&["http", "grpc"]), Flag("tracing-protocol")),
    is("TRACING_SAMPLING_RATE", Fraction, Flag("tracing-sampling-rate")),
    is("TRACING_SERVICE_NAME", Text, Flag("tracing-service-name")),
    is("TRACING_SERVICE_NAMESPACE", Text, Flag("tracing-service-namespace")),
    is("TRACING_SERVICE_INSTANCE_ID", Text, Flag("tracing-service-instance-id")),
    // Memcached.
    is("MEMCACHE_HOST_PORT", Text, Memcached),
    is("MEMCACHE_SRV", Text, Memcached),
    is("MEMCACHE_SRV_REFRESH", Time, Memcached),
    is("MEMCACHE_MAX_IDLE_CONNS", Whole, Memcached),
    is("MEMCACHE_TLS", Truth, Memcached),
    is("MEMCACHE_TLS_CLIENT_CERT", Text, Memcached),
    is("MEMCACHE_TLS_CLIENT_KEY", Text, Memcached),
    is("MEMCACHE_TLS_CACERT", Text, Memcached),
    is("MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION", Truth, Memcached),
];

/// The variables that only someone who runs envoyproxy/ratelimit sets: they say
/// where rules and counters are.
pub(super) const PLACING: [&str; 7] = [
    "CONFIG_TYPE",
    "RUNTIME_ROOT",
    "RUNTIME_SUBDIRECTORY",
    "BACKEND_TYPE",
    "REDIS_SOCKET_TYPE",
    "REDIS_TYPE",
    "REDIS_URL",
];

/// The table as the documentation has it, in Markdown.
pub fn markdown() -> String {
    let mut text = String::from("| variable | value | what becomes of it |\n| --- | --- | --- |\n");
    for Variable { name, form, effect } in VARIABLES {
        let effect = match effect {
            Flag(flag) => format!("honoured, in every profile: `--{flag}`"),
            Default(flag) => format!("honoured: `--{flag}`"),
            Idle(why) => format!("accepted without effect: {why}"),
            Refused(allowed, why) => format!("only {} is accepted: {why}", listed(allowed)),
            Memcached => format!("refused unless `BACKEND_TYPE=redis` is set: {MEMCACHE}"),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| `{name}` | {} | {effect} |", form.expected());
    }
    text
}

/// Values as the documentation shows them.
fn listed(values: &[&str]) -> String {
    let shown = values.iter().filter(|value| !value.is_empty()).map(|value| format!("`{value}`"));
    shown.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::args::Cli;

    #[test]
    fn every_flag_exists_and_has_the_variable_that_it_is_said_to_have() {
        let command = Cli::command();
        let serve = command.find_subcommand("serve").unwrap();
        for Variable { name, effect, .. } in VARIABLES {
            let (Flag(flag) | Default(flag)) = effect else { continue };
            let found = serve.get_arguments().find(|arg| arg.get_long() == Some(*flag));
            let Some(arg) = found else { panic!("{name}: no flag --{flag}") };
            let own = arg.get_env().is_some_and(|variable| variable == *name);
            assert_eq!(own, matches!(effect, Flag(_)), "{name} and --{flag}");
        }
    }

    #[test]
    fn names_are_told_once_and_places_are_among_them() {
        let mut names: Vec<_> = VARIABLES.iter().map(|variable| variable.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(PLACING.iter().all(|name| names.binary_search(name).is_ok()));
    }
}
