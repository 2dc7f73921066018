//! What a statsd server hears, by UDP and by TCP, from the real binary.

use std::collections::HashMap;
use std::io::Read as _;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::support::process::{Launch, eventually};
use crate::{Service, launch};

const RULES: &str = "  - {key: five, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: det, detailed_metric: true, rate_limit: {unit: year, requests_per_unit: 5}}";
const HITS: &str = "ratelimit.service.rate_limit.t.five.total_hits";

/// A server on a port of ours.
struct Udp(UdpSocket);

impl Udp {
    fn open() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.set_read_timeout(Some(Duration::from_millis(10))).expect("a time limit");
        Self(socket)
    }

    fn port(&self) -> String {
        self.0.local_addr().expect("an address").port().to_string()
    }

    /// The packets that are there.
    fn packets(&self) -> Vec<String> {
        let mut buffer = vec![0; 1 << 16];
        let mut packets = Vec::new();
        while let Ok(length) = self.0.recv(&mut buffer) {
            packets.push(String::from_utf8(buffer[..length].to_vec()).expect("text"));
        }
        packets
    }
}

/// What was heard.
#[derive(Default)]
struct Heard {
    counters: HashMap<String, u64>,
    lines: Vec<String>,
}

impl Heard {
    fn hear(&mut self, text: &str) {
        for line in text.lines() {
            let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("{line:?}"));
            if let Some(more) = value.split('|').next().filter(|_| value.contains("|c")) {
                *self.counters.entry(name.into()).or_default() += more.parse::<u64>().expect(line);
            }
            self.lines.push(line.into());
        }
    }

    fn count(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or_default()
    }
}

fn aimed(port: &str, protocol: &str) -> impl FnOnce(Launch) -> Launch {
    move |launch| {
        let launch = launch.env("USE_STATSD", "true").env("STATSD_HOST", "127.0.0.1");
        let launch = launch.env("STATSD_PORT", port).env("STATSD_PROTOCOL", protocol);
        launch.env("STATS_FLUSH_INTERVAL", "20ms")
    }
}

async fn ask_five_times(service: &Service) {
    for _ in 0..5 {
        assert!(service.ask("[five=x]").await.starts_with("OK"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_come_as_differences_by_udp_in_packets_that_fit() {
    let server = Udp::open();
    let service = launch(RULES, aimed(&server.port(), "udp")).await;
    let mut heard = Heard::default();
    let mut largest = 0;
    for round in 1..=3 {
        service.ask("[five=x] hits 2").await;
        eventually("the hits are told", || {
            for packet in server.packets() {
                largest = largest.max(packet.len());
                heard.hear(&packet);
            }
            heard.count(HITS) == 2 * round
        });
    }
    assert!(largest <= 1432, "{largest}");
    assert_eq!(heard.count("ratelimit.service.rate_limit.t.five.over_limit"), 1);
    assert_eq!(heard.count("ratelimit.service.config_load_success"), 1);
    assert_eq!(heard.count("ratelimit_server.ShouldRateLimit.total_requests"), 3);
    let called = "ratelimit_server.ShouldRateLimit.response_time:";
    let times = heard.lines.iter().filter(|line| line.starts_with(called));
    assert_eq!(times.filter(|line| line.ends_with("|ms")).count(), 3, "one for each call");
    let zero = heard.lines.iter().find(|line| line.contains(":0|c"));
    assert_eq!(zero, None, "what did not change is not told");
}

#[tokio::test(flavor = "multi_thread")]
async fn text_of_clients_cannot_write_lines() {
    let server = Udp::open();
    let service = launch(RULES, aimed(&server.port(), "udp")).await;
    service.ask("[det=a\nforged:1|c|#x]").await;
    let mut heard = Heard::default();
    eventually("the hit is told", || {
        server.packets().iter().for_each(|packet| heard.hear(packet));
        heard.count("ratelimit.service.rate_limit.t.det_a_forged_1_c_#x.total_hits") == 1
    });
    assert!(heard.lines.iter().all(|line| !line.starts_with("forged")), "{:?}", heard.lines);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_process_tells_what_is_left() {
    let server = Udp::open();
    let mut service = launch(RULES, |launch| {
        aimed(&server.port(), "udp")(launch).env("STATS_FLUSH_INTERVAL", "1h")
    })
    .await;
    ask_five_times(&service).await;
    assert!(server.packets().is_empty(), "an hour has not passed");
    assert!(service.running.stop().status.success());
    let mut heard = Heard::default();
    server.packets().iter().for_each(|packet| heard.hear(packet));
    assert_eq!(heard.count(HITS), 5);
}

/// Everything that comes over connections to `listener` until there is nothing
/// more.
fn read(stream: &mut TcpStream, heard: &mut Heard, rest: &mut String) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        rest.push_str(str::from_utf8(&buffer[..length]).expect("ASCII"));
        let whole = rest.rfind('\n').map_or(0, |end| end + 1);
        heard.hear(&rest[..whole]);
        rest.drain(..whole);
    }
}

fn accept(listener: &TcpListener) -> TcpStream {
    let (stream, _) = listener.accept().expect("a connection");
    stream.set_read_timeout(Some(Duration::from_millis(10))).expect("a time limit");
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn tcp_is_the_default_and_what_a_dead_server_missed_comes_later() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (port, mut heard, mut rest) = (address.port().to_string(), Heard::default(), String::new());
    // Where STATSD_HOST is given, nothing else need be.
    let service = launch(RULES, |launch| {
        let launch = launch.env("STATSD_HOST", "localhost").env("STATSD_PORT", &port);
        launch.env("STATS_FLUSH_INTERVAL", "20ms")
    })
    .await;
    let mut stream = accept(&listener);
    ask_five_times(&service).await;
    eventually("the hits are told", || {
        read(&mut stream, &mut heard, &mut rest);
        heard.count(HITS) == 5
    });

    drop((stream, listener));
    let away = "statsd takes no metrics";
    eventually("it is noticed", || service.running.log().contains(away));
    assert_eq!(service.ask("[five=x] hits 7").await, "OVER", "decisions go on");
    service.ask("[five=y]").await;

    let listener = TcpListener::bind(address).expect("the port again");
    let mut stream = accept(&listener);
    rest.clear();
    eventually("what was missed is told", || {
        read(&mut stream, &mut heard, &mut rest);
        heard.count(HITS) == 13
    });
    eventually("it is noticed", || service.running.log().contains("takes metrics again"));
    assert_eq!(service.running.log().matches(away).count(), 1, "{}", service.running.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_reads_nothing_delays_neither_decisions_nor_the_end_for_long() {
    // Its queue is full, so that the kernel answers nobody any more.
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a port");
    listener.listen(0).expect("a listener");
    let address = listener.local_addr().expect("an address").as_socket().expect("TCP");
    let patience = Duration::from_millis(100);
    let queued: Vec<_> =
        (0..4).map_while(|_| TcpStream::connect_timeout(&address, patience).ok()).collect();
    assert!(queued.len() < 4, "the queue is full");
    let mut service = launch(RULES, aimed(&address.port().to_string(), "tcp")).await;
    eventually("it is noticed", || service.running.log().contains("statsd takes no metrics"));
    for n in 0..200 {
        assert!(service.ask(&format!("[five={n}]")).await.starts_with("OK"));
    }
    assert!(service.running.stop().status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_without_an_address_is_told_once() {
    let service = launch(RULES, |launch| {
        let launch = launch.env("STATSD_HOST", "no.such.host.invalid");
        launch.env("STATSD_PROTOCOL", "udp").env("STATS_FLUSH_INTERVAL", "10ms")
    })
    .await;
    eventually("it is told", || service.running.log().contains("no.such.host.invalid"));
    ask_five_times(&service).await;
    assert_eq!(service.running.log().matches("STATSD_HOST").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn datadog_gets_tags() {
    let server = Udp::open();
    let service = launch(RULES, |launch| {
        let launch = launch.env("USE_DOG_STATSD", "true").env("STATSD_PORT", &server.port());
        let launch = launch.env("STATSD_HOST", "127.0.0.1").env("STATS_FLUSH_INTERVAL", "20ms");
        let launch = launch.env("EXTRA_TAGS", "env:prod").env("USE_DOG_STATSD_MOGRIFIERS", "HITS");
        let pattern = r"^ratelimit\.service\.rate_limit\.(.*)\.(.*)\.(.*)$";
        let launch = launch.env("DOG_STATSD_MOGRIFIER_HITS_PATTERN", pattern);
        let launch = launch.env("DOG_STATSD_MOGRIFIER_HITS_NAME", "ratelimit.$3");
        launch.env("DOG_STATSD_MOGRIFIER_HITS_TAGS", "domain:$1,key:$2")
    })
    .await;
    ask_five_times(&service).await;
    let mut heard = Heard::default();
    eventually("the hits are told", || {
        server.packets().iter().for_each(|packet| heard.hear(packet));
        heard.count("ratelimit.total_hits") == 5
    });
    let tagged = "|c|#env:prod,domain:t,key:five";
    let line = heard.lines.iter().find(|line| line.starts_with("ratelimit.total_hits:"));
    assert!(line.is_some_and(|line| line.ends_with(tagged)), "{line:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_told_unless_asked() {
    let server = Udp::open();
    for off in [("USE_STATSD", "false"), ("DISABLE_STATS", "true")] {
        let mut service =
            launch(RULES, |launch| aimed(&server.port(), "udp")(launch).env(off.0, off.1)).await;
        ask_five_times(&service).await;
        service.running.stop();
    }
    assert!(server.packets().is_empty());
}
