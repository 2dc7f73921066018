//! Steady load, and what it felt.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate::proto::RateLimitResponse;
use tidegate::proto::rate_limit_response::Code;
use tidegate::proto::rate_limit_service_client::RateLimitServiceClient;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tonic::Status;
use tonic::transport::Channel;

use crate::ask;
use crate::process::PATIENCE;

/// Calls per second, spread evenly: whoever waits for an answer holds up nobody
/// else.
const RATE: u32 = 400;

/// Calls in flight at most: many more than a fault keeps waiting, at 10 ms each.
/// A machine too busy for the rate gets fewer calls, and not a pile of them, in
/// which each would wait for seconds for those before it.
const AT_ONCE: usize = 64;

/// One call: which rule it asked, what came of it, and how long it took.
#[derive(Clone, Debug)]
pub struct Call {
    pub rule: &'static str,
    pub answer: String,
    pub at: Instant,
    pub took: Duration,
}

/// Calls that go on until it is stopped.
pub struct Load {
    stop: mpsc::Sender<()>,
    calls: JoinHandle<Vec<Call>>,
}

impl Load {
    /// Starts to ask each of `rules` in turn.
    pub fn start(channel: Channel, rules: &'static [&'static str]) -> Self {
        let (stop, mut stopped) = mpsc::channel(1);
        let calls = tokio::spawn(async move {
            let mut calls = JoinSet::new();
            let room = Arc::new(Semaphore::new(AT_ONCE));
            let mut tick = interval(Duration::from_secs(1) / RATE);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            for rule in rules.iter().cycle() {
                let turn = async {
                    tick.tick().await;
                    Arc::clone(&room).acquire_owned().await.expect("never closed")
                };
                let turn = tokio::select! {
                    turn = turn => turn,
                    _ = stopped.recv() => break,
                };
                let call = call(channel.clone(), rule);
                calls.spawn(async move {
                    let call = call.await;
                    drop(turn);
                    call
                });
            }
            calls.join_all().await
        });
        Self { stop, calls }
    }

    /// Lets it go on for so long.
    pub async fn run(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Stops, waits for the last answers and gives all calls.
    pub async fn stop(self) -> Vec<Call> {
        drop(self.stop);
        self.calls.await.expect("the load does not panic")
    }
}

async fn call(channel: Channel, rule: &'static str) -> Call {
    let start = Instant::now();
    let answer = timeout(PATIENCE, ask_once(channel, rule, "load")).await;
    let answer = answer.unwrap_or_else(|_| "hangs".into());
    Call { rule, answer, at: start, took: start.elapsed() }
}

/// Asks one descriptor: `OK`, `OVER`, or the status of the call.
pub async fn ask_once(channel: Channel, rule: &str, value: &str) -> String {
    match send(channel, rule, value).await {
        Ok(response) => {
            let limit = response.statuses.first().and_then(|status| status.current_limit.as_ref());
            match response.overall_code() {
                _ if limit.is_none() => format!("{rule} has no limit: {response:?}"),
                Code::Ok => "OK".into(),
                _ => "OVER".into(),
            }
        }
        Err(status) => format!("{:?}", status.code()),
    }
}

/// Asks one descriptor.
pub async fn send(channel: Channel, rule: &str, value: &str) -> Result<RateLimitResponse, Status> {
    let request = ask::request("t", &format!("[{rule}={value}]"));
    let answer = RateLimitServiceClient::new(channel).should_rate_limit(request).await;
    answer.map(tonic::Response::into_inner)
}

/// Prints what the calls felt, by rule; figures are for people and prove
/// nothing on a busy machine.
pub fn print(what: &str, calls: &[Call]) {
    let mut took: Vec<Duration> = calls.iter().map(|call| call.took).collect();
    took.sort_unstable();
    let at = |per_mille: usize| {
        let place = (took.len() * per_mille / 1000).min(took.len().saturating_sub(1));
        took.get(place).map_or(0.0, |took| took.as_secs_f64() * 1000.0)
    };
    let mut answers: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for call in calls {
        *answers.entry((call.rule, &call.answer)).or_default() += 1;
    }
    let answers: Vec<String> =
        answers.iter().map(|((rule, answer), count)| format!("{rule} {answer} {count}")).collect();
    println!(
        "FIGURES {what}: {} calls, p50 {:.1} ms, p99 {:.1} ms, p99.9 {:.1} ms, max {:.1} ms; {}",
        calls.len(),
        at(500),
        at(990),
        at(999),
        at(1000),
        answers.join(", ")
    );
}
