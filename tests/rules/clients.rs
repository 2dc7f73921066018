//! F38 and F40: who the client is, and who is locked out.

use crate::support::service::{Kind, Setup};
use crate::{on_both_stores, start};
use tidegate::units::Span;

on_both_stores!(
    f38_forms_of_one_address_share_a_counter,
    f38_without_normalisation_texts_are_counted_as_they_are,
    f40_lockout_life_cycle,
    f40_checks_and_successes_count_nothing,
    exempt_clients_pass_with_the_full_limit_and_are_never_counted,
);

const FORMS: [&str; 4] = ["1.2.3.4", "::ffff:1.2.3.4", "::ffff:102:304", "::FFFF:1.2.3.4"];

fn remote_address(address: &str) -> Setup {
    let limit = "rate_limit: {unit: year, requests_per_unit: 5}";
    Setup::rules(&format!("  - {{key: remote_address, {address}{limit}}}"))
}

async fn f38_forms_of_one_address_share_a_counter(kind: Kind) {
    let service = start!(remote_address("address: true, "), kind);
    let hit = async |client: &str| service.ask(&format!("[remote_address={client}]")).await;
    for (form, answer) in FORMS.into_iter().zip(["OK r4", "OK r3", "OK r2", "OK r1"]) {
        assert_eq!(hit(form).await, answer, "{form}");
    }
    assert_eq!(hit("1.2.3.5").await, "OK r4");
    let network = ["2001:db8:1:2::a", "2001:db8:1:2:ffff::1", "2001:DB8:1:2:0:0:0:b"];
    for (form, answer) in network.into_iter().zip(["OK r4", "OK r3", "OK r2"]) {
        assert_eq!(hit(form).await, answer, "{form}");
    }
    for other in ["2001:db8:1:3::a", "2001:db8:1234:5678::1.2.3.4", "127.0.0.1"] {
        assert_eq!(hit(other).await, "OK r4", "{other}");
    }
    assert_eq!(hit("2001:db8:1234:5678::1").await, "OK r3");
    for text in ["fe80::1%eth0", "1.2.3.4:5678", "not-an-address", ""] {
        assert_eq!(hit(text).await, "OK r4", "{text}");
    }
}

async fn f38_without_normalisation_texts_are_counted_as_they_are(kind: Kind) {
    let service = start!(remote_address(""), kind);
    for form in FORMS {
        assert_eq!(service.ask(&format!("[remote_address={form}]")).await, "OK r4", "{form}");
    }
}

const LOCKOUT: &str = "
  - key: client
    rate_limit: {algorithm: lockout, max_attempts: 5, window: 15m, lockout: 60s}";

async fn f40_lockout_life_cycle(kind: Kind) {
    let service = start!(Setup::rules(LOCKOUT), kind);
    let told = async |option: &str| service.told("t", &format!("[client=a !{option}]")).await;
    let (check, failure, success) = ("h=0", "h=1", "h=1 !refund");
    let wait = |seconds| service.clock.advance(Span::from_secs(seconds));

    for left in ["OK r4", "OK r3", "OK r2", "OK r1"] {
        assert_eq!(told(failure).await, format!("{left}, 900s"));
    }
    assert_eq!(told(check).await, "OK r1, 900s", "open after four");
    assert_eq!(told(failure).await, "OVER, 60s", "the fifth locks");
    assert_eq!(told(check).await, "OVER, 60s");

    wait(30);
    for _ in 0..10 {
        assert_eq!(told(failure).await, "OVER, 30s", "failures do not move the end");
    }
    assert_eq!(told(success).await, "OK r0, 30s", "a success report is taken, and opens nothing");
    wait(29);
    assert_eq!(told(check).await, "OVER, 1s");
    wait(2);
    assert_eq!(told(check).await, "OK r5, 0s");

    for left in ["OK r4", "OK r3", "OK r2", "OK r1"] {
        assert_eq!(told(failure).await, format!("{left}, 900s"), "a fresh budget");
    }
    assert_eq!(told(failure).await, "OVER, 60s");
    wait(60);

    assert_eq!(told("h=4").await, "OK r1, 900s");
    assert_eq!(told(success).await, "OK r5, 0s", "a success clears");
    assert_eq!(told("h=4").await, "OK r1, 900s");
    wait(900);
    assert_eq!(told(failure).await, "OK r4, 900s", "old failures do not count");
}

async fn f40_checks_and_successes_count_nothing(kind: Kind) {
    let service = start!(Setup::rules(LOCKOUT), kind);
    for _ in 0..20 {
        assert_eq!(service.told("t", "[client=a !h=0]").await, "OK r5, 0s");
        assert_eq!(service.told("t", "[client=a !h=1 !refund]").await, "OK r5, 0s");
    }
    let status = service.status("[client=a !h=0]").await;
    let limit = status.current_limit.expect("a limit");
    assert_eq!((limit.requests_per_unit, limit.unit), (5, 2), "reported per minute");
}

async fn exempt_clients_pass_with_the_full_limit_and_are_never_counted(kind: Kind) {
    let rules = "
  - {key: office, address: {exempt: [10.0.0.0/8]}, rate_limit: {name: o, rate: 5/m}}
  - {key: bucket, address: {exempt: [10.0.0.0/8]},
     rate_limit: {algorithm: token_bucket, rate: 100/m, burst: 10}}
  - {key: several, address: {exempt: [10.0.0.0/8]}, rate_limit: {rates: [5/s, 9/m]}}
  - {key: client, rate_limit: {algorithm: lockout, exempt: [10.0.0.0/8]}}";
    let service = start!(Setup::rules(rules), kind);
    for (key, full) in [("office", 5), ("bucket", 10), ("several", 5), ("client", 10)] {
        for _ in 0..30 {
            let answer = service.told("t", &format!("[{key}=10.1.2.3]")).await;
            assert_eq!(answer, format!("OK r{full}, 0s"), "{key}");
        }
        let other = service.told("t", &format!("[{key}=11.1.2.3]")).await;
        assert!(other.starts_with(&format!("OK r{}, ", full - 1)), "{key}: {other}");
        let series = "ratelimit_service_rate_limit_total_hits";
        let series = format!("{series}{{domain=\"t\",key1=\"{key}\",key2=\"\"}}");
        assert_eq!(service.metric(&series), Some(1), "{key}");
    }
    let limit = service.status("[office=10.1.2.3]").await.current_limit.expect("a limit");
    assert_eq!((limit.requests_per_unit, limit.unit, &*limit.name), (5, 2, "o"));
}
