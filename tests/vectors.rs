//! Answers recorded from envoyproxy/ratelimit, given to tidegate on both
//! stores (`tests/cases/vectors.json`).

mod support;

use serde_json::Value;
use tidegate::decide::HeaderNames;
use tidegate::limit::Unit;

use support::service::{Kind, NOW, Service, Setup};
use support::vectors::{self, normal, recorded, to_json, wanted};

on_both_stores!(every_recorded_answer_is_given);

async fn every_recorded_answer_is_given(kind: Kind) {
    let vectors = recorded();
    let cases = vectors["decisions"].as_array().expect("decisions");
    assert!(cases.len() >= 42, "only {} cases", cases.len());
    let mut faults = Vec::new();
    for case in cases {
        let Some(service) = setup(case).start(kind) else { return };
        for (number, step) in case["steps"].as_array().expect("steps").iter().enumerate() {
            let (seen, wanted) =
                (play(&service, &step["request"]).await, wanted(&step["response"]));
            if seen != wanted {
                let name = &case["name"];
                faults
                    .push(format!("{name}, step {number}:\n   wanted {wanted}\n      saw {seen}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn setup(case: &Value) -> Setup {
    let mut setup = Setup::default();
    for (name, text) in case["files"].as_object().expect("files") {
        setup.files.push((name.clone(), text.as_str().expect("text").to_owned()));
    }
    for (name, value) in case["settings"].as_object().expect("settings") {
        assert_eq!(value, "true");
        match name.as_str() {
            "SHADOW_MODE" => setup.settings.shadow_mode = true,
            "QUOTA_MODE" => setup.settings.quota_mode = true,
            "RESPONSE_DYNAMIC_METADATA" => setup.settings.dynamic_metadata = true,
            "MERGE_DOMAIN_CONFIG" => setup.merge_domains = true,
            "LIMIT_RESPONSE_HEADERS_ENABLED" => {
                setup.settings.response_headers = Some(HeaderNames::default());
            }
            other => panic!("a setting that the test does not know: {other}"),
        }
    }
    setup
}

/// The service's answer as JSON; an error as its message, since we choose
/// better codes.
async fn play(service: &Service, request: &Value) -> Value {
    match service.send(&vectors::request(request)).await {
        Ok(response) => in_windows(normal(to_json(&response))),
        Err(status) => Value::String(status.message().to_owned()),
    }
}

/// Resets that are right written as `window_end`, as the recording has them.
fn in_windows(mut response: Value) -> Value {
    let mut ends = Vec::new();
    let statuses = response.get_mut("statuses").and_then(Value::as_array_mut);
    for status in statuses.into_iter().flatten() {
        let Some(unit) = status["currentLimit"]["unit"].as_str().and_then(Unit::parse) else {
            continue;
        };
        let window = unit.span().as_micros();
        let end = (window - NOW.as_micros() % window).div_ceil(1_000_000);
        if status["durationUntilReset"] == format!("{end}s") {
            status["durationUntilReset"] = "window_end".into();
        }
        let requests = status["currentLimit"]["requestsPerUnit"].as_f64().unwrap_or(0.0);
        ends.push((requests.to_string(), end.to_string()));
    }
    let headers = response.get_mut("responseHeadersToAdd").and_then(Value::as_array_mut);
    if let Some([limit, _, reset]) = headers.map(Vec::as_mut_slice)
        && ends.iter().any(|(of, end)| limit["value"] == **of && reset["value"] == **end)
    {
        reset["value"] = "window_end".into();
    }
    response
}
