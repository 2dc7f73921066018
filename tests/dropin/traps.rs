//! The traps in which a replacement of the reference may be caught, where no
//! other test is about them.

use crate::support::http;
use crate::support::process::eventually;
use crate::{FIVE, Site, answer, ask};

/// `/json` has the shapes of the reference.
#[tokio::test(flavor = "multi_thread")]
async fn json_over_http_is_the_same() {
    let Some(site) = Site::new(&[("a.yaml", &FIVE.replace('5', "1"))]) else { return };
    let service = site.start();
    let one = br#"{"domain":"t","descriptors":[{"entries":[{"key":"five","value":"a"}]}]}"#;
    let first = http::post(&service.http, "/json", one);
    assert_eq!((first.status, &first.json()["overallCode"]), (200, &"OK".into()));
    let second = http::post(&service.http, "/json", one);
    assert_eq!((second.status, &second.json()["overallCode"]), (429, &"OVER_LIMIT".into()));
    let reset = second.json()["statuses"][0]["durationUntilReset"].as_str().map(str::to_owned);
    assert!(reset.is_some_and(|reset| reset.ends_with('s')), "{second:?}");
    for bad in [&b""[..], b"}", br#"{"unknown":1}"#, br#"{"domain":""}"#] {
        assert_eq!(http::post(&service.http, "/json", bad).status, 400, "{bad:?}");
    }
}

/// Weeks come as number 7, which the message of overrides does not name; any
/// other unknown number is an error of its request and of nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn overrides_know_weeks_and_survive_other_numbers() {
    let Some(site) = Site::new(&[("a.yaml", FIVE)]) else { return };
    let service = site.start();
    assert_eq!(answer(&service, "t", "[o=w !limit=3/7]").await, "OK r2");
    for unit in ["0", "8", "99", "-1"] {
        let said = answer(&service, "t", &format!("[o=x !limit=3/{unit}]")).await;
        assert!(said.starts_with("error Unknown: "), "{unit}: {said}");
    }
    assert_eq!(answer(&service, "t", "[o=w !limit=3/7]").await, "OK r1");
}

/// Costs beyond what Redis can add are refused or clamped before it is asked.
#[tokio::test(flavor = "multi_thread")]
async fn costs_of_any_size_are_decided() {
    let Some(site) = Site::new(&[("a.yaml", FIVE)]) else { return };
    let service = site.start();
    for (number, hits) in
        ["4294967295", "9223372036854775808", "18446744073709551615"].iter().enumerate()
    {
        let text = format!("[five={number} !h={hits}]");
        assert_eq!(answer(&service, "t", &text).await, "OVER", "{hits}");
    }
    assert_eq!(answer(&service, "t", "[five=x] hits 4294967295").await, "OVER");
}

/// What no rule is about stays OK, and Redis does not hear of it.
#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_rule_is_ok_and_cheap() {
    let Some(site) = Site::new(&[("a.yaml", FIVE)]) else { return };
    let service = site.start();
    eventually("quiet", || site.redis.calls("evalsha") + site.redis.calls("eval") > 0);
    for (domain, text) in [("nope", "[five=a]"), ("t", "[other=a]"), ("t", "[five=a, more=b]")] {
        assert_eq!(answer(&service, domain, text).await, "NONE");
    }
    assert_eq!(site.redis.keys(), [""; 0]);
}

/// Flags in a place where the reference ignores them are ignored and told.
#[tokio::test(flavor = "multi_thread")]
async fn misplaced_flags_are_ignored_and_told() {
    let rules = "domain: t\nunit: x\ndescriptors:\n  - key: a\n    rate_limit:\n      unit: year\n      \
                 requests_per_unit: 0\n      shadow_mode: true\n---\ndomain: second\n";
    let Some(site) = Site::new(&[("a.yaml", rules)]) else { return };
    let service = site.start();
    assert_eq!(answer(&service, "t", "[a=x]").await, "OVER", "not in shadow mode");
    eventually("the log", || service.log().contains("only the first document"));
    let log = service.log();
    for told in ["unknown key 'unit'", "'shadow_mode' belongs beside rate_limit", "config.a.yaml"] {
        assert!(log.contains(told), "{told} in {log}");
    }
    assert_eq!(service.metric("ratelimit_service_config_load_success"), Some(1));
    // Who asks for it is told of them as errors.
    let strict = site.launch().env("TIDEGATE_LENIENT", "false").start();
    let said = answer(&strict, "t", "[a=x]").await;
    assert_eq!(said, "error Unknown: no rate limit configuration loaded");
}

/// Keys whose last entry of the same name counts, and octal numbers.
#[tokio::test(flavor = "multi_thread")]
async fn repeated_keys_and_leading_zeros_are_read_as_there() {
    let rules = "domain: t\ndescriptors:\n  - key: a\n    key: b\n    rate_limit: {unit: year, \
                 requests_per_unit: 1, requests_per_unit: 010}\n";
    let Some(site) = Site::new(&[("a.yaml", rules)]) else { return };
    let service = site.start();
    assert_eq!(answer(&service, "t", "[a=x]").await, "NONE");
    assert_eq!(answer(&service, "t", "[b=x]").await, "OK r7");
}

/// Names joined by `_` are kept apart: here, and not there, these are four.
#[tokio::test(flavor = "multi_thread")]
async fn joined_names_do_not_collide() {
    let Some(site) = Site::new(&[("a.yaml", &FIVE.replace("key: five", "key: a\n    value: b_c"))])
    else {
        return;
    };
    let service = site.start();
    assert_eq!(answer(&service, "t", "[a=b_c]").await, "OK r4");
    assert_eq!(answer(&service, "t", "[a_b=c]").await, "NONE");
}

/// `unlimited` and no rule differ in what remains, and neither has a limit.
#[tokio::test(flavor = "multi_thread")]
async fn unlimited_and_unmatched_have_no_limit() {
    let rules = "domain: t\ndescriptors:\n  - {key: u, rate_limit: {unlimited: true}}\n";
    let Some(site) = Site::new(&[("a.yaml", rules)]) else { return };
    let service = site.start();
    let request = crate::support::ask::request("t", "{[u=x], [v=x]}");
    let response = ask(&service, &request).await.expect("an answer");
    let seen: Vec<_> = response
        .statuses
        .iter()
        .map(|it| (it.limit_remaining, it.current_limit.is_some()))
        .collect();
    assert_eq!(seen, [(u32::MAX, false), (0, false)]);
}

/// The part near the limit is reckoned as there: in single precision, rounded
/// down.
#[tokio::test(flavor = "multi_thread")]
async fn the_near_limit_is_reckoned_in_single_precision() {
    let rules = "domain: t\ndescriptors:\n  - key: k\n    rate_limit: {unit: year, requests_per_unit: 10}\n";
    let Some(site) = Site::new(&[("a.yaml", rules)]) else { return };
    // 10 times 0.7 in single precision is 7 to the digit, in double 6.999...
    let service = site.launch().env("NEAR_LIMIT_RATIO", "0.7").start();
    answer(&service, "t", "[k=x !h=9]").await;
    let near = r#"ratelimit_service_rate_limit_near_limit{domain="t",key1="k""#;
    assert_eq!(service.metric(near), Some(2), "{}", http::get(&service.http, "/metrics").body);
}
