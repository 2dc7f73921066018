//! What each variable does, seen from outside.

use std::fs;

use crate::support::http;
use crate::support::process::{Launch, Running};
use crate::support::redis::RedisServer;
use crate::support::sentinel;
use crate::{FIVE, Site, answer, serve};

const FAST: &str = "[five=a]";

#[tokio::test(flavor = "multi_thread")]
async fn variables_alone_make_it_serve_as_the_reference_does() {
    let Some(site) = Site::new(&[("a.yaml", FIVE)]) else { return };
    let service = site.start();
    assert_eq!(answer(&service, "t", FAST).await, "OK r4");
    assert!(service.greeting.contains("profile reference, because RUNTIME_ROOT is set"));
    assert!(service.greeting.contains(&format!("redis://127.0.0.1:{}", site.redis.port())));
    // Its codes.
    let text = answer(&service, "", FAST).await;
    assert_eq!(text, "error Unknown: rate limit domain must not be empty");
    // Refused hits count: after 5 of 5 a sixth makes it 6, and none go back.
    for _ in 0..5 {
        answer(&service, "t", FAST).await;
    }
    assert_eq!(answer(&service, "t", FAST).await, "OVER");
    let refund = answer(&service, "t", "[five=a !h=2 !refund]").await;
    assert_eq!(refund, "OK r0", "7 were counted");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_calls_fail_and_health_says_so() {
    let Some(mut site) = Site::new(&[("a.yaml", FIVE)]) else { return };
    site.redis.kill();
    let service = site.launch().env("TIDEGATE_STORE_DEADLINE", "10ms").start();
    assert!(answer(&service, "t", FAST).await.starts_with("error Unavailable"));
    assert_eq!(answer(&service, "t", "[other=x]").await, "NONE", "nothing to count");
    assert_eq!(http::get(&service.http, "/healthcheck").status, 500);
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_win_over_own_variables_and_those_over_the_reference() {
    let Some(site) = Site::new(&[("a.yaml", FIVE)]) else { return };
    let other = tempfile::tempdir().expect("a directory");
    let file = other.path().join("other.yaml");
    fs::write(&file, FIVE.replace("domain: t", "domain: other")).expect("a file");
    let path = file.to_str().expect("text");

    let own = site.launch().env("TIDEGATE_CONFIG", path).env("TIDEGATE_STORE", "memory").start();
    assert_eq!(answer(&own, "other", FAST).await, "OK r4");
    assert!(own.greeting.contains("counters in memory"), "{}", own.greeting);

    let flagged = site.launch().env("TIDEGATE_CONFIG", "/no/such").args(["--config", path]).start();
    assert_eq!(answer(&flagged, "other", FAST).await, "OK r4");
}

#[test]
fn the_profile_follows_the_name_and_can_be_chosen() {
    let (directory, file) = rules();
    let port_0 = |launch: Launch| {
        let launch = launch
            .env("DEBUG_PORT", "0")
            .env("USE_STATSD", "false")
            .env("PORT", "0")
            .env("GRPC_PORT", "0")
            .env("TIDEGATE_CONFIG", &file);
        launch.env("TIDEGATE_STORE", "memory")
    };
    let named = port_0(Launch::new([] as [&str; 0]).called("/bin/ratelimit")).start();
    assert!(named.greeting.contains("because it was started as ratelimit"), "{}", named.greeting);
    assert!(named.grpc.starts_with("0.0.0.0:"), "{}", named.grpc);
    let commanded = port_0(Launch::new(["/bin/ratelimit"])).start();
    assert!(commanded.greeting.contains("started as ratelimit"), "{}", commanded.greeting);

    let own = Launch::serve(&file)
        .env("TIDEGATE_PROFILE", "tidegate")
        .env("REDIS_URL", "cache:6379")
        .start();
    assert!(own.greeting.contains("counters in memory"), "{}", own.greeting);
    let contained = Launch::serve(&file).env("TIDEGATE_CONTAINER", "true").start();
    assert!(contained.greeting.contains("profile container"), "{}", contained.greeting);
    drop(directory);
}

fn rules() -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("a.yaml");
    fs::write(&file, FIVE).expect("a file");
    (directory, file.to_str().expect("text").to_owned())
}

#[test]
fn a_wrong_value_keeps_it_from_starting() {
    for (name, value, told) in [
        ("PORT", "http", "a port"),
        ("GRPC_PORT", "65536", "a port"),
        ("GRPC_PORT", "", "a port"),
        ("REDIS_TLS", "yes", "true or false"),
        ("REDIS_TIMEOUT", "10", "a time"),
        ("REDIS_POOL_SIZE", "ten", "a whole number"),
        ("REDIS_TYPE", "ring", "single, sentinel, cluster"),
        ("REDIS_SOCKET_TYPE", "udp", "unix, tcp"),
        ("REDIS_URL", "cache:6379", "REDIS_SOCKET_TYPE"),
        ("BACKEND_TYPE", "memcache", "no memcached store"),
        ("MEMCACHE_HOST_PORT", "a:1", "no memcached store"),
        ("NEAR_LIMIT_RATIO", "80%", "from 0 to 1"),
        ("SHADOW_MODE", "on", "true or false"),
        ("LOG_LEVEL", "loud", "warn"),
        ("LOG_FORMAT", "xml", "json"),
        ("TIDEGATE_PROFILE", "other", "reference"),
    ] {
        let ended = Launch::new([] as [&str; 0]).called("ratelimit").env(name, value).output();
        assert_eq!(ended.status.code(), Some(2), "{name}: {ended:?}");
        for told in [name, told] {
            let told_it = ended.stderr.contains(told)
                || ended.stderr.contains(&format!("--{}", name.to_lowercase().replace('_', "-")));
            assert!(told_it, "{name}: {told} in {}", ended.stderr);
        }
    }
}

#[test]
fn passwords_are_never_shown() {
    let hush = |name: &str, value: &str| {
        let launch = Launch::new(["serve", "--help"]).env("REDIS_SOCKET_TYPE", "tcp");
        let ended = launch.env("REDIS_URL", "cache:1").env(name, value).output();
        assert!(!format!("{ended:?}").contains("hush"), "{ended:?}");
    };
    hush("REDIS_AUTH", "me:hush");
    hush("REDIS_URL", "redis://me:hush@cache:1");
    hush("REDIS_SENTINEL_AUTH", "hush");
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_is_reached_by_a_unix_socket_with_a_password() {
    let Some(redis) = RedisServer::redis() else { return };
    let () = redis.run(&["CONFIG", "SET", "requirepass", "p&s:s"]);
    let Some(site) = Site::new(&[("a.yaml", FIVE)]) else { return };
    let start = |auth: &str| -> Running {
        serve(site.root.path())
            .env("REDIS_URL", redis.directory().join("redis.sock").to_str().expect("text"))
            .env("REDIS_AUTH", auth)
            .start()
    };
    assert_eq!(answer(&start("default:p&s:s"), "t", FAST).await, "OK r4");
    assert!(answer(&start("wrong"), "t", FAST).await.starts_with("error Unavailable"));
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_is_reached_through_sentinels() {
    let login = ["user watcher on >hush +@all"];
    let Some(group) = sentinel::Group::start(&[], &login) else { return };
    let Some(site) = Site::new(&[("a.yaml", FIVE)]) else { return };
    let ports = group.sentinels.iter().map(|it| format!("127.0.0.1:{}", it.port));
    let url = std::iter::once(sentinel::NAME.to_owned()).chain(ports).collect::<Vec<_>>();
    let service = serve(site.root.path())
        .env("REDIS_TYPE", "SENTINEL")
        .env("REDIS_URL", &url.join(","))
        .env("REDIS_SENTINEL_AUTH", "watcher:hush")
        .start();
    assert_eq!(answer(&service, "t", FAST).await, "OK r4");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_answers_have_their_effect() {
    let rules = "domain: t\ndescriptors:\n  - key: one\n    rate_limit: {unit: year, requests_per_unit: 1}\n";
    let Some(site) = Site::new(&[("a.yaml", rules)]) else { return };
    let service = site
        .launch()
        .env("SHADOW_MODE", "T")
        .env("LIMIT_RESPONSE_HEADERS_ENABLED", "1")
        .env("LIMIT_LIMIT_HEADER", "X-Limit")
        .env("CACHE_KEY_PREFIX", "mine:")
        .env("GRPC_UDS", site.root.path().join("rl.sock").to_str().expect("text"))
        .start();
    assert!(service.grpc.starts_with("unix:"), "{}", service.grpc);
    for wanted in ["OK r0", "OK {OVER}"] {
        let request = crate::support::ask::request("t", "[one=a]");
        let response = crate::ask(&service, &request).await.expect("an answer");
        assert_eq!(crate::support::ask::answer(&response), wanted);
        assert_eq!(response.response_headers_to_add[0].key, "X-Limit");
    }
    let keys: Vec<String> = site.redis.run(&["KEYS", "*"]);
    assert!(keys.iter().any(|key| key.starts_with("mine:")), "{keys:?}");
    assert!(keys.iter().all(|key| key.starts_with("mine:")), "{keys:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_per_second_may_have_a_redis_of_their_own() {
    let rules = "domain: t\ndescriptors:\n  - key: s\n    rate_limit: {unit: second, requests_per_unit: 5}\n  \
                 - key: y\n    rate_limit: {unit: year, requests_per_unit: 5}\n";
    let Some(site) = Site::new(&[("a.yaml", rules)]) else { return };
    let Some(second) = RedisServer::redis() else { return };
    let service = site
        .launch()
        .env("REDIS_PERSECOND", "true")
        .env("REDIS_PERSECOND_SOCKET_TYPE", "tcp")
        .env("REDIS_PERSECOND_URL", &format!("127.0.0.1:{}", second.port()))
        .start();
    assert_eq!(answer(&service, "t", "[y=a]").await, "OK r4");
    assert_eq!(answer(&service, "t", "[s=a]").await, "OK r4");
    assert_eq!(site.redis.keys().len(), 1);
    assert!(second.calls("evalsha") + second.calls("eval") > 0);
}
