//! Random rules and requests, given to the reference and to us, and every field
//! of the answers compared. Runs where `RATELIMIT_REFERENCE` names a binary of
//! envoyproxy/ratelimit.

mod generate;
mod reference;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::time::SystemTime;

use fastrand::Rng;
use serde_json::Value;
use tidegate::proto::RateLimitResponse;

use crate::support::vectors::to_json;
use crate::{Site, ask};
use generate::Round;
use reference::Reference;

const ROUNDS: u64 = 40;
const REQUESTS: usize = 60;

#[tokio::test(flavor = "multi_thread")]
async fn the_reference_and_we_answer_alike() {
    let Some(binary) = std::env::var_os("RATELIMIT_REFERENCE") else {
        println!("SKIPPED: RATELIMIT_REFERENCE names no binary of envoyproxy/ratelimit");
        return;
    };
    let number = |name: &str| {
        std::env::var(name).ok().map(|number| number.parse::<u64>().expect("a number"))
    };
    let first = number("RATELIMIT_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let rounds = number("RATELIMIT_ROUNDS").unwrap_or(ROUNDS);
    let (mut compared, mut faults) = (0, Vec::new());
    for seed in first..first + rounds {
        let mut round = Round::new(Rng::with_seed(seed));
        match play(&mut round, &binary, &mut compared).await {
            None => return,
            Some(Ok(())) => {}
            Some(Err(fault)) => faults.push(format!("RATELIMIT_SEED={seed}, {fault}")),
        }
    }
    println!("{compared} answers compared in {rounds} rounds from RATELIMIT_SEED={first}");
    assert!(faults.is_empty(), "{} rounds differ:\n{}", faults.len(), faults.join("\n\n"));
}

/// Gives both the same requests; what is wrong with the first answer that
/// differs.
async fn play(round: &mut Round, binary: &OsStr, compared: &mut u64) -> Option<Result<(), String>> {
    let site = Site::new(&round.files())?;
    let launch = site.launch().env("CACHE_KEY_PREFIX", "ours:").env("RUNTIME_WATCH_ROOT", "false");
    let settings = round.settings.iter();
    let ours = settings.fold(launch, |launch, (name, value)| launch.env(name, value)).start();
    let theirs = Reference::start(binary, &site, &round.settings).await;
    let began = now();
    for number in 0..REQUESTS {
        let request = round.request();
        let (answer, wanted) =
            (Answer::of(ask(&ours, &request).await), theirs.answer(&request).await);
        *compared += 1;
        let Some(fault) = difference(&answer, &wanted) else { continue };
        if round.windows_ended(began, now()) {
            break;
        }
        let Round { rules, settings, .. } = round;
        return Some(Err(format!(
            "request {number}: {fault}\n{request:?}\n{settings:?}\n{rules}\n   theirs {wanted:?}\n   \
             ours   {answer:?}\n{}",
            ours.log()
        )));
    }
    Some(Ok(()))
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.expect("after 1970").as_secs()
}

/// What came back.
#[derive(Debug, PartialEq)]
enum Answer {
    Response(Box<RateLimitResponse>),
    /// Code 2 and this text.
    Error(String),
    Other(String),
}

impl Answer {
    fn of(answer: Result<RateLimitResponse, tonic::Status>) -> Self {
        match answer {
            Ok(response) => Self::Response(Box::new(response)),
            Err(status) if status.code() == tonic::Code::Unknown => {
                Self::Error(status.message().into())
            }
            Err(status) => Self::Other(format!("{status:?}")),
        }
    }
}

/// The first field that differs.
fn difference(seen: &Answer, wanted: &Answer) -> Option<String> {
    match (seen, wanted) {
        (Answer::Response(seen), Answer::Response(wanted)) => {
            let several_refuse = wanted.statuses.iter().filter(|it| it.code == 2).count() > 1;
            let (mut seen, mut wanted) = (to_json(seen), to_json(wanted));
            for json in [&mut seen, &mut wanted] {
                if several_refuse {
                    // Of several that refuse, the reference's headers tell of the
                    // last, ours of the one that lasts longest.
                    json.as_object_mut().expect("an object").remove("responseHeadersToAdd");
                }
            }
            different("", &seen, &wanted)
        }
        _ => (seen != wanted).then(|| "kind of answer".into()),
    }
}

fn different(path: &str, seen: &Value, wanted: &Value) -> Option<String> {
    match (seen, wanted) {
        (Value::Object(a), Value::Object(b)) => {
            let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            names
                .into_iter()
                .find_map(|name| different(&format!("{path}.{name}"), &seen[name], &wanted[name]))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => a
            .iter()
            .zip(b)
            .enumerate()
            .find_map(|(at, (a, b))| different(&format!("{path}[{at}]"), a, b)),
        // The text format of Go's protocol buffers has one blank or two.
        (Value::String(a), Value::String(b))
            if path.strip_suffix("limit").is_some_and(|path| path.ends_with("].")) =>
        {
            let same = a.split_whitespace().eq(b.split_whitespace());
            (!same).then(|| format!("{path}: theirs {wanted}, ours {seen}"))
        }
        _ if seen == wanted || (is_reset(path) && near(seen, wanted)) => None,
        _ => Some(format!("{path}: theirs {wanted}, ours {seen}")),
    }
}

/// Seconds until a window ends, which pass between the two answers.
fn is_reset(path: &str) -> bool {
    path.ends_with("durationUntilReset") || path == ".responseHeadersToAdd[2].value"
}

fn near(seen: &Value, wanted: &Value) -> bool {
    let seconds = |value: &Value| {
        value.as_str().and_then(|text| text.trim_end_matches('s').parse::<i64>().ok())
    };
    match (seconds(seen), seconds(wanted)) {
        (Some(a), Some(b)) => (a - b).abs() <= 2,
        _ => false,
    }
}
