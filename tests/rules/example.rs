//! The rules in `config.yaml`, which people start from.

use tidegate::units::{Span, Timestamp};

use crate::support::ask::request;
use crate::support::service::{Kind, NOW, Service, Setup};
use crate::{on_both_stores, start};

on_both_stores!(
    five_logins_a_minute_then_a_block,
    logins_count_by_client,
    thirty_searches_in_any_minute,
    a_hundred_a_minute_with_a_burst_of_ten,
    several_rates_on_one_key,
    any_window_from_the_first_hit,
    a_month_in_berlin,
    ten_failures_lock_a_client,
    plans_displace_the_general_rule,
);

const EXAMPLE: &str = include_str!("../../config.yaml");

fn example() -> Setup {
    Setup::file("config.yaml", EXAMPLE)
}

/// Moves the clock to so many milliseconds after [`NOW`].
fn at(service: &Service, millis: u64) {
    service.clock.set(NOW.plus(Span::from_millis(millis)));
}

async fn shop(service: &Service, text: &str) -> String {
    service.told("shop", text).await
}

async fn five_logins_a_minute_then_a_block(kind: Kind) {
    let service = start!(example(), kind);
    let login = "[path=/login, remote_address=203.0.113.9]";
    for (second, answer) in
        [(0, "OK r4"), (15, "OK r3"), (30, "OK r2"), (45, "OK r1"), (55, "OK r0")]
    {
        at(&service, second * 1_000);
        assert_eq!(shop(&service, login).await, format!("{answer}, 60s"));
    }
    at(&service, 59_999);
    assert_eq!(shop(&service, login).await, "OVER, 300s");
    at(&service, 359_000);
    assert_eq!(shop(&service, login).await, "OVER, 1s", "asking does not prolong the block");
    at(&service, 359_999);
    assert_eq!(shop(&service, login).await, "OK r4, 60s");
}

async fn logins_count_by_client(kind: Kind) {
    let service = start!(example(), kind);
    let login = |client: &str| format!("[path=/login, remote_address={client}]");
    assert_eq!(shop(&service, &login("203.0.113.9")).await, "OK r4, 60s");
    assert_eq!(shop(&service, &login("::ffff:203.0.113.9")).await, "OK r3, 60s");
    assert_eq!(shop(&service, &login("203.0.113.10")).await, "OK r4, 60s");
    assert_eq!(shop(&service, &login("2001:db8:1:2::a")).await, "OK r4, 60s");
    assert_eq!(shop(&service, &login("2001:db8:1:2::b")).await, "OK r3, 60s");
    assert_eq!(shop(&service, &login("127.0.0.1")).await, "OK r4, 60s", "a limit, not a lockout");
}

async fn thirty_searches_in_any_minute(kind: Kind) {
    let service = start!(example(), kind);
    // The last second of a minute by the clock, and the first of the next.
    service.clock.set(Timestamp::from_secs(1_796_004_779));
    let search = "[path=/search, api_key=k]";
    for left in (0..30).rev() {
        assert_eq!(shop(&service, search).await, format!("OK r{left}, 60s"));
    }
    service.clock.advance(Span::from_secs(1));
    assert_eq!(shop(&service, search).await, "OVER, 59s", "no second burst at the boundary");
    service.clock.advance(Span::from_secs(59));
    assert_eq!(shop(&service, search).await, "OK r29, 60s");
    assert_eq!(shop(&service, "[path=/search, api_key=l]").await, "OK r29, 60s");
}

async fn a_hundred_a_minute_with_a_burst_of_ten(kind: Kind) {
    let service = start!(example(), kind);
    for left in (0..10).rev() {
        let path = format!("[path=/api/users/{left}]");
        assert!(shop(&service, &path).await.starts_with(&format!("OK r{left}, ")));
    }
    assert_eq!(shop(&service, "[path=/api/users]").await, "OVER, 1s");
    at(&service, 599);
    assert_eq!(shop(&service, "[path=/api/users]").await, "OVER, 1s");
    at(&service, 600);
    assert_eq!(shop(&service, "[path=/api/users]").await, "OK r0, 6s");
    let mut admitted = 0;
    for step in 1..=600 {
        at(&service, 600 + 100 * step);
        admitted += usize::from(shop(&service, "[path=/api/users]").await.starts_with("OK"));
    }
    assert_eq!(admitted, 100, "in one minute of asking all the time");
    let status = service.send(&request("shop", "[path=/api/users]")).await;
    let limit = status.expect("an answer").statuses[0].current_limit.clone().expect("a limit");
    assert_eq!((limit.requests_per_unit, limit.unit, &*limit.name), (100, 2, "users"));
}

async fn several_rates_on_one_key(kind: Kind) {
    let service = start!(example(), kind);
    service.clock.set(Timestamp::from_secs(1_796_004_780));
    let limit = async || {
        let status = service.send(&request("shop", "[api_key=k !h=0]")).await;
        let limit = status.expect("an answer").statuses[0].current_limit.clone();
        limit.map(|limit| (limit.requests_per_unit, limit.unit))
    };
    for burst in 0..10 {
        assert_eq!(service.ask_in("shop", "[api_key=k] hits 10").await, "OK r0", "burst {burst}");
        assert_eq!(service.ask_in("shop", "[api_key=k]").await, "OVER");
        let strictest = if burst < 9 { (10, 1) } else { (100, 2) };
        assert_eq!(limit().await, Some(strictest), "burst {burst}");
        service.clock.advance(Span::from_secs(2));
    }
    // Two seconds after the tenth: only the minute refuses, until the next has
    // left a hundredth of this one behind.
    assert_eq!(shop(&service, "[api_key=k]").await, "OVER, 41s");
    service.clock.advance(Span::from_secs(41));
    assert_eq!(service.ask_in("shop", "[api_key=k]").await, "OK r0");
}

async fn any_window_from_the_first_hit(kind: Kind) {
    let service = start!(example(), kind);
    assert_eq!(shop(&service, "[report=r] hits 20").await, "OK r0, 90s");
    at(&service, 89_999);
    assert_eq!(shop(&service, "[report=r]").await, "OVER, 1s");
    at(&service, 90_000);
    assert_eq!(shop(&service, "[report=r]").await, "OK r19, 90s");
}

async fn a_month_in_berlin(kind: Kind) {
    let service = start!(example(), kind);
    // 2026-11-30 02:12:49 UTC; December begins in Berlin at 23:00:00.
    assert_eq!(shop(&service, "[account=a] hits 9999").await, "OK r1, 74831s");
    at(&service, 74_830_999);
    assert_eq!(shop(&service, "[account=a]").await, "OK r0, 1s");
    assert_eq!(shop(&service, "[account=a]").await, "OVER, 1s");
    at(&service, 74_831_000);
    let december = 31 * 86_400;
    assert_eq!(shop(&service, "[account=a]").await, format!("OK r9999, {december}s"));
}

async fn ten_failures_lock_a_client(kind: Kind) {
    let service = start!(example(), kind);
    let told = async |text: &str| service.told("auth", text).await;
    let failure = "[scope=default, client=203.0.113.9 !h=1]";
    let check = "[scope=default, client=203.0.113.9 !h=0]";
    assert_eq!(told(check).await, "OK r10, 0s");
    for left in (1..10).rev() {
        assert_eq!(told(failure).await, format!("OK r{left}, 60s"));
    }
    assert_eq!(told(check).await, "OK r1, 60s");
    assert_eq!(told(failure).await, "OVER, 300s");
    at(&service, 299_000);
    assert_eq!(told(failure).await, "OVER, 1s", "failures while locked are ignored");
    assert_eq!(told(check).await, "OVER, 1s");
    for scope in ["shared-secret", "device-token", "hook-auth"] {
        let other = told(&format!("[scope={scope}, client=203.0.113.9 !h=0]")).await;
        assert_eq!(other, "OK r10, 0s", "{scope} is apart");
    }
    at(&service, 300_000);
    assert_eq!(told(check).await, "OK r10, 0s");

    for client in ["127.0.0.1", "::1", "10.1.2.3", "fd00::7"] {
        let failures = format!("[scope=default, client={client} !h=100]");
        assert_eq!(told(&failures).await, "OK r10, 0s", "{client} is exempt");
        assert_eq!(told(&failures).await, "OK r10, 0s", "{client} is not counted");
    }
}

async fn plans_displace_the_general_rule(kind: Kind) {
    let service = start!(example(), kind);
    let both = "{[user=ann], [plan=gold]}";
    assert_eq!(service.ask_in("shop", both).await, "OK {NONE, unlimited}");
    assert_eq!(service.ask_in("shop", "[user=ann]").await, "OK r999");
}
