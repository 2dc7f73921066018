//! Every recorded answer, by a process of its own for each case.

use std::time::SystemTime;

use serde_json::Value;
use tidegate::limit::Unit;

use crate::support::process::Running;
use crate::support::vectors::{normal, recorded, request, to_json, wanted};
use crate::{Site, ask};

#[tokio::test(flavor = "multi_thread")]
async fn every_recorded_answer_is_given() {
    let vectors = recorded();
    let cases = vectors["decisions"].as_array().expect("decisions");
    assert!(cases.len() >= 42, "only {} cases", cases.len());
    let mut faults = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let Some(site) = Site::new(&files(case)) else { return };
        // Where a window ends in between, the case is played again.
        for attempt in 0.. {
            let before = now();
            let service = start(&site, case, &format!("{number}.{attempt}:"));
            let found = play(&service, case).await;
            if found.is_empty() || (same_windows(before, now()) && attempt > 0) || attempt > 3 {
                faults.extend(found);
                break;
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn files(case: &Value) -> Vec<(&str, &str)> {
    let files = case["files"].as_object().expect("files").iter();
    files.map(|(name, text)| (name.as_str(), text.as_str().expect("text"))).collect()
}

fn start(site: &Site, case: &Value, prefix: &str) -> Running {
    let settings = case["settings"].as_object().expect("settings").iter();
    let launch = site.launch().env("CACHE_KEY_PREFIX", prefix);
    settings
        .fold(launch, |launch, (name, value)| launch.env(name, value.as_str().expect("text")))
        .start()
}

async fn play(service: &Running, case: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    for (number, step) in case["steps"].as_array().expect("steps").iter().enumerate() {
        let seen = match ask(service, &request(&step["request"])).await {
            Ok(response) => in_windows(normal(to_json(&response))),
            // The profile of the reference includes its code.
            Err(status) if status.code() == tonic::Code::Unknown => status.message().into(),
            Err(status) => format!("{status:?}").into(),
        };
        let wanted = wanted(&step["response"]);
        if seen != wanted {
            let name = &case["name"];
            faults.push(format!("{name}, step {number}:\n   wanted {wanted}\n      saw {seen}"));
        }
    }
    faults
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.expect("after 1970").as_secs()
}

/// Whether no window but those of seconds ended in between.
fn same_windows(before: u64, after: u64) -> bool {
    before / 60 == after / 60
}

/// Resets within their window written as `window_end`, as the recording has
/// them.
fn in_windows(mut response: Value) -> Value {
    let statuses = response.get_mut("statuses").and_then(Value::as_array_mut);
    let mut resets = Vec::new();
    for status in statuses.into_iter().flatten() {
        let unit = status["currentLimit"]["unit"].as_str().and_then(Unit::parse);
        let reset = status["durationUntilReset"].as_str().and_then(|it| it.strip_suffix('s'));
        let (Some(unit), Some(reset)) = (unit, reset) else { continue };
        let window = unit.span().as_micros() / 1_000_000;
        let left = window - now() % window;
        let reset: u64 = reset.parse().expect("seconds");
        // Asked a moment ago.
        if (left..=left + 5).contains(&reset) || (reset == 1 && left == window) {
            resets.push(reset.to_string());
            status["durationUntilReset"] = "window_end".into();
        }
    }
    let headers = response.get_mut("responseHeadersToAdd").and_then(Value::as_array_mut);
    if let Some([_, _, reset]) = headers.map(Vec::as_mut_slice)
        && resets.iter().any(|it| reset["value"] == **it)
    {
        reset["value"] = "window_end".into();
    }
    response
}
