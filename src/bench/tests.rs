use std::time::Duration;

use prost::Message as _;

use super::tally::{Outcome, UNANSWERED};
use super::*;
use crate::proto::RateLimitRequest;

const INTERVAL: Duration = Duration::from_millis(10);

fn options() -> Options {
    Options {
        target: "http://127.0.0.1:1".parse().unwrap(),
        allow_remote: false,
        ask: Ask {
            domain: "<shop> & \"co\"".into(),
            descriptors: vec!["path=/login,user".parse().unwrap()],
            keys: 10,
            distribution: Distribution::Uniform,
            seed: 1,
        },
        connections: NonZeroUsize::MIN,
        threads: NonZeroUsize::MIN,
        in_flight: NonZeroUsize::MIN,
        rate: NonZeroU32::new(100),
        duration: Span::from_secs(1),
        warm_up: Span::ZERO,
        requests: None,
        patience: Span::ZERO,
        processes: vec![Process { label: "server".into(), pid: 7 }],
    }
}

/// A round of one second at 100 calls per second, of which the server held the
/// first one until the end; with one call in flight, the others could be sent
/// only then. They are answered at once.
async fn stalled(rate: Option<NonZeroU32>) -> Tally {
    let start = Instant::now();
    let tickets = Tickets::new(rate, Some(100), Span::from_secs(3_600), start);
    let mut tally = Tally::new().unwrap();
    let answered = start + 100 * INTERVAL;
    // All have fallen due when the worker gets to take them; the last leave
    // only tells it that the round is over.
    tickets.release(101);
    while let Some(ticket) = tickets.take().await {
        tally.sent += 1;
        // Without a rate, a call is due when it is sent: the first at the
        // start, the others after the stall.
        let due = if rate.is_some() || ticket.number == 0 { ticket.due } else { answered };
        tally.record(due, answered, Outcome::Ok);
    }
    tally.close(&tickets);
    tally
}

#[tokio::test]
async fn a_stall_is_charged_to_every_call_that_had_to_wait_for_it() {
    let open = stalled(NonZeroU32::new(100)).await;
    assert_eq!((open.ok, open.unsent), (100, 0));
    // Due every 10 ms, all answered at one second: 1000, 990, … 10 ms.
    assert!(open.latency.mean() > 500_000.0 && open.latency.mean() < 510_000.0);
    assert_eq!(open.latency.value_at_quantile(0.9) / 10_000, 90);
    assert_eq!(open.latency.count_between(0, 9_000), 0);

    let closed = stalled(None).await;
    assert_eq!(closed.ok, 100);
    assert_eq!(closed.latency.value_at_quantile(0.9), 0);
}

#[tokio::test]
async fn calls_are_due_at_even_distances_whenever_they_are_taken() {
    let start = Instant::now();
    let tickets = Tickets::new(NonZeroU32::new(300), Some(4), Span::from_secs(3_600), start);
    tickets.release(4);
    for (number, nanos) in (0..).zip([0, 3_333_333, 6_666_666, 10_000_000]) {
        let ticket = tickets.take().await.unwrap();
        assert_eq!(ticket.number, number);
        assert_eq!(ticket.due, start + Duration::from_nanos(nanos));
    }
    tickets.release(1);
    assert_eq!(tickets.take().await, None, "only four were to be sent");
}

#[tokio::test]
async fn what_fell_due_and_was_never_sent_is_told() {
    let past = Instant::now().checked_sub(Duration::from_secs(2)).unwrap();
    let tickets = Tickets::new(NonZeroU32::new(50), None, Span::from_secs(1), past);
    tickets.pace(1);
    assert_eq!(tickets.take().await, None, "the round is over");
    let mut tally = Tally::new().unwrap();
    tally.close(&tickets);
    assert_eq!((tally.sent, tally.unsent), (0, 50));
}

#[test]
fn requests_are_those_that_the_protocol_means() {
    let ask = |descriptors: &[&str], keys| Ask {
        domain: "shop".into(),
        descriptors: descriptors.iter().map(|text| text.parse().unwrap()).collect(),
        keys,
        ..options().ask
    };
    for (ask, width) in [
        (ask(&["user"], 10_000), 4),
        (ask(&["user"], 10_001), 5),
        (ask(&["user"], 1), 1),
        (ask(&["path=/login,user,device", "user", "a=1"], 100), 2),
        (ask(&["a=0,0=1", "11"], 11), 2),
    ] {
        let question = Question::new(&ask);
        for number in [0, 1, 2, 77] {
            let request = question.request(number);
            let mut encoded = Vec::new();
            request.encode(&mut encoded);
            let decoded = RateLimitRequest::decode(&*encoded).unwrap();
            assert_eq!(decoded.domain, ask.domain);
            let mut random = keys::random_of(ask.seed, number);
            let keys = Keys::new(ask.keys, ask.distribution);
            let shapes: Vec<String> = decoded.descriptors.iter().map(written).collect();
            let expected: Vec<String> = ask
                .descriptors
                .iter()
                .map(|shape| filled(shape, &format!("{:0width$}", keys.draw(&mut random))))
                .collect();
            assert_eq!(shapes, expected);
        }
    }
}

fn written(descriptor: &crate::proto::RateLimitDescriptor) -> String {
    let entry = |entry: &crate::proto::rate_limit_descriptor::Entry| {
        format!("{}={}", entry.key, entry.value)
    };
    descriptor.entries.iter().map(entry).collect::<Vec<_>>().join(",")
}

/// The descriptor of `shape`, with `key` where it has no value.
fn filled(shape: &Shape, key: &str) -> String {
    let entry = |entry: &str| {
        if entry.contains('=') { entry.to_owned() } else { format!("{entry}={key}") }
    };
    shape.to_string().split(',').map(entry).collect::<Vec<_>>().join(",")
}

/// A report with something of everything.
fn report() -> Report {
    let start = Instant::now();
    let tickets = Tickets::new(NonZeroU32::new(10), None, Span::from_secs(10), start);
    let mut tally = Tally::new().unwrap();
    tally.sent = 97;
    for (number, outcome) in (1..=96).zip(
        [Outcome::Ok, Outcome::OverLimit, Outcome::Failed("Unavailable".into()), Outcome::Ok]
            .into_iter()
            .cycle(),
    ) {
        tally.record(start, start + Duration::from_millis(number), outcome);
    }
    tally.close(&tickets);
    let second = Duration::from_secs(1);
    Report::new(&options(), &tally, &[second], Some((Process::current("client"), second)))
}

#[test]
fn calls_add_up() {
    let report = report();
    assert_eq!((report.calls.ok, report.calls.over_limit), (48, 24));
    assert_eq!(report.calls.errors.get("Unavailable"), Some(&24));
    assert_eq!(report.calls.errors.get(UNANSWERED), Some(&1));
    assert_eq!(report.decisions() + report.errors(), report.calls.sent);
    // A second of CPU time for 72 decisions.
    assert_eq!(report.cpu_of("server").map(f64::round), Some(13_889.0));
    assert_eq!(report.cpu_of("redis"), None);
}

#[test]
fn json_says_what_the_report_knows() {
    let json = serde_json::to_value(report()).unwrap();
    assert_eq!(json["calls"]["sent"], 97);
    assert_eq!(json["calls"]["errors"]["Unavailable"], 24);
    assert_eq!(json["load"]["rate"], 100);
    assert_eq!(json["load"]["descriptors"][0], "path=/login,user");
    assert_eq!(json["cpu"][0]["label"], "server");
    // Three digits are kept.
    assert_eq!(json["latency"]["max_us"].as_u64().map(|max| max / 100), Some(960));
    let curve = json["latency"]["curve"].as_array().unwrap();
    assert!(curve.len() > 10, "{curve:?}");
}

#[test]
fn the_table_has_every_count() {
    let table = report().to_string();
    for line in [
        "calls      97 in 0.096 s",
        "  OK       48",
        "  OVER     24",
        "  failed   24 Unavailable",
        "  failed   1 unanswered",
        "  unsent   100, since 1 were in flight",
        "CPU        server: 13888.9 us per decision",
        "           client: 13888.9 us per decision",
    ] {
        assert!(table.lines().any(|known| known.starts_with(line)), "no {line:?} in\n{table}");
    }
}

#[test]
fn the_picture_is_well_formed_and_inside_its_frame() {
    let source = report().svg();
    let document = roxmltree::Document::parse(&source).expect("well-formed");
    let curve = document
        .descendants()
        .filter(|node| node.tag_name().name() == "polyline")
        .filter_map(|node| node.attribute("points"))
        .max_by_key(|points| points.len())
        .expect("a curve");
    let points: Vec<f64> = curve.split([' ', ',']).map(|number| number.parse().unwrap()).collect();
    assert!(points.len() > 20, "{curve}");
    assert!(points.iter().all(|number| (0.0..=720.0).contains(number)), "{curve}");
}

#[test]
fn a_run_without_an_answer_is_still_a_picture() {
    let mut tally = Tally::new().unwrap();
    let tickets = Tickets::new(None, None, Span::from_secs(1), Instant::now());
    tally.close(&tickets);
    let report = Report::new(&options(), &tally, &[Duration::ZERO], None);
    assert_eq!(report.cpu_of("server"), None);
    roxmltree::Document::parse(&report.svg()).expect("well-formed");
    serde_json::to_string(&report).expect("no infinite number");
}

#[test]
fn no_connection_and_no_thread_is_idle() {
    let four = NonZeroUsize::new(4).unwrap();
    let three = NonZeroUsize::new(3).unwrap();
    let options = Options { connections: four, threads: four, in_flight: three, ..options() };
    assert_eq!((options.connections(), options.threads()), (3, 3));
}

#[test]
fn a_remote_target_is_refused_before_anything_is_sent() {
    let options = Options { target: "http://192.0.2.1:1".parse().unwrap(), ..options() };
    assert!(matches!(run(&options), Err(BenchError::Target(TargetError::Remote(_)))));
}

#[test]
fn a_server_that_is_not_there_is_told() {
    // The socket is bound, so nobody else takes the port, and does not listen.
    let held = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    held.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    let address = held.local_addr().unwrap().as_socket().unwrap();
    let target: Target = format!("http://{address}").parse().unwrap();
    let error = run(&Options { target: target.clone(), ..options() }).unwrap_err().to_string();
    assert!(error.contains(&target.to_string()) && error.contains("refused"), "{error}");
}
