//! The debug port and the one for Prometheus.

use crate::support::http::{call, get};
use crate::support::process::{Launch, eventually};
use crate::{launch, start};

const RULES: &str = "  - key: a
    value: b:c
    rate_limit: {unit: minute, requests_per_unit: 5}
    descriptors:
      - key: d
        shadow_mode: true
        quota_mode: true
        detailed_metric: true
        rate_limit: {unit: week, requests_per_unit: 7}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: w, value: 'x*', rate_limit: {rates: [10/s, 100/m]}}";

#[tokio::test(flavor = "multi_thread")]
async fn rlconfig_lists_the_limits_as_the_reference_writes_them() {
    let service = start(RULES, &["--debug-listen", "127.0.0.1:0"]).await;
    let answer = get(&service.running.port("debug"), "/rlconfig");
    assert_eq!(answer.status, 200);
    let expected = "\
t.a_b:c.d: unit=WEEK requests_per_unit=7, shadow_mode: true, quota_mode: true
t.a_b:c: unit=MINUTE requests_per_unit=5, shadow_mode: false, quota_mode: false
t.free: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false
t.w_x*: unit=MINUTE requests_per_unit=100, shadow_mode: false, quota_mode: false
t.w_x*: unit=SECOND requests_per_unit=10, shadow_mode: false, quota_mode: false
";
    assert_eq!(answer.body, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn stats_shows_every_metric_by_its_dotted_name() {
    let service = start(RULES, &["--debug-listen", "127.0.0.1:0"]).await;
    service.ask("[a=b:c] hits 3").await;
    service.ask("[a=b:c, d=e]").await;
    let body = get(&service.running.port("debug"), "/stats").body;
    for line in [
        "ratelimit.service.rate_limit.t.a_b_c.total_hits: 3",
        "ratelimit.service.rate_limit.t.a_b_c.d_e.within_limit: 1",
        "ratelimit.service.rate_limit.t.w_x*.total_hits: 0",
        "ratelimit.service.config_load_success: 1",
        "ratelimit_server.ShouldRateLimit.total_requests: 2",
        "ratelimit_server.ShouldRateLimit.response_time.count: 2",
        "tidegate.store_up: 1",
    ] {
        assert!(body.lines().any(|found| found == line), "{line} in {body}");
    }
    assert!(body.lines().is_sorted_by_key(|line| line.split(": ").next()), "{body}");
    // Nothing is shown on one side only.
    let exposition = service.exposition();
    let families = exposition.lines().filter(|line| line.starts_with("# TYPE"));
    assert!(families.count() > 15);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_debug_port_lists_its_paths_and_has_no_profiler() {
    let service = start(RULES, &["--debug-listen", "127.0.0.1:0"]).await;
    let debug = service.running.port("debug");
    for path in ["/", "/debug/pprof/", "/debug/pprof/profile", "/metrics"] {
        let answer = get(&debug, path);
        assert_eq!(answer.status, if path == "/" { 200 } else { 404 }, "{path}");
        for named in ["/rlconfig: ", "/stats: "] {
            assert!(answer.body.contains(named), "{path}: {}", answer.body);
        }
        assert!(!answer.body.contains("pprof"), "{path}");
    }
    assert_eq!(call(&debug, "POST", "/rlconfig", b"").status, 405);
}

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_may_have_a_port_of_its_own() {
    let service = launch(RULES, |launch| {
        let launch = launch.env("USE_PROMETHEUS", "true").env("PROMETHEUS_ADDR", "127.0.0.1:0");
        launch.env("PROMETHEUS_PATH", "/stats/prom").env("EXTRA_TAGS", "zone:b,env:prod")
    })
    .await;
    let port = service.running.port("metrics");
    let answer = get(&port, "/stats/prom");
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("text/plain; version=0.0.4"), "{}", answer.head);
    // Labels have no order.
    let labels = ["env=\"prod\"", "zone=\"b\""];
    let tagged = |text: &str| {
        let mut series = text.lines().filter(|line| !line.starts_with('#'));
        series.all(|line| labels.iter().all(|label| line.contains(label)))
    };
    assert!(answer.body.contains("ratelimit_service_config_load_success{"), "{}", answer.body);
    assert!(tagged(&answer.body), "{}", answer.body);
    let other = get(&port, "/metrics");
    assert_eq!(other.status, 404);
    assert!(other.body.contains("/stats/prom"), "{}", other.body);
    assert!(tagged(&service.exposition()), "the HTTP port has them as well");
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_port_is_open_unless_asked_for() {
    let service = start(RULES, &[]).await;
    for name in ["  debug  ", "  metrics  "] {
        assert!(!service.running.greeting.contains(name), "{}", service.running.greeting);
    }
    let disabled = launch(RULES, |launch| {
        let launch = launch.env("USE_PROMETHEUS", "1").env("PROMETHEUS_ADDR", "127.0.0.1:0");
        launch.env("DISABLE_STATS", "true")
    });
    assert!(!disabled.await.running.greeting.contains("  metrics  "));
}

#[test]
fn what_contradicts_itself_or_is_taken_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("config.yaml");
    std::fs::write(&config, format!("domain: t\ndescriptors:\n{RULES}\n")).expect("a file");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = listener.local_addr().expect("an address").to_string();
    for (variables, status, told) in [
        (&[("USE_STATSD", "true"), ("USE_DOG_STATSD", "true")][..], 1, "USE_STATSD=false"),
        (&[("EXTRA_TAGS", "domain:x")], 2, "EXTRA_TAGS"),
        (&[("STATS_FLUSH_INTERVAL", "0s")], 2, "STATS_FLUSH_INTERVAL"),
        (&[("PROMETHEUS_PATH", "metrics")], 2, "PROMETHEUS_PATH"),
        (
            &[("USE_DOG_STATSD", "true"), ("USE_DOG_STATSD_MOGRIFIERS", "HITS")],
            1,
            "DOG_STATSD_MOGRIFIER_HITS_PATTERN",
        ),
    ] {
        let mut launch = Launch::serve(&config);
        for (name, value) in variables {
            launch = launch.env(name, value);
        }
        let ended = launch.output();
        assert_eq!(ended.status.code(), Some(status), "{variables:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(told), "{variables:?}: {}", ended.stderr);
    }
    let launch = Launch::serve(&config).env("USE_PROMETHEUS", "true");
    let ended = launch.env("PROMETHEUS_ADDR", &taken).output();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains(&taken) && ended.stderr.contains("--prometheus-addr"));
    // Only the debug port can be done without.
    let running = Launch::serve(&config).args(["--debug-listen", &taken]).start();
    assert!(!running.greeting.contains("  debug  "));
    let told =
        || running.log().contains("there is no debug port") && running.log().contains(&taken);
    eventually("it is told", told);
}
