//! A thread of the client with its connections.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio::time::{Instant as TokioInstant, timeout_at};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

use super::message::{Answer, Question, Wire};
use super::tally::{Outcome, Shared};
use super::tickets::Tickets;
use super::{BenchError, Options};
use crate::proto::rate_limit_response::Code;

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// A thread's share of the load. The runtime does not leave its thread: calls
/// of one connection never cross threads on our side.
#[derive(Debug)]
pub struct Client {
    runtime: Runtime,
    channels: Vec<Channel>,
    workers: usize,
    patience: Duration,
}

impl Client {
    /// Opens all connections, spread evenly over the threads.
    ///
    /// # Errors
    /// If one of them cannot be opened.
    pub fn all(options: &Options) -> Result<Vec<Self>, BenchError> {
        let (connections, threads) = (options.connections(), options.threads());
        (0..threads)
            .map(|thread| {
                let connections = share(connections, threads, thread);
                let workers = share(options.in_flight.get(), threads, thread);
                Self::connect(options, connections, workers)
            })
            .collect()
    }

    fn connect(options: &Options, connections: usize, workers: usize) -> Result<Self, BenchError> {
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(BenchError::Runtime)?;
        let failed = |error: tonic::transport::Error| BenchError::Connect {
            target: options.target.clone(),
            reason: causes(&error),
        };
        let endpoint = Endpoint::from_shared(options.target.uri()).map_err(failed)?;
        let endpoint = endpoint.connect_timeout(CONNECT_TIMEOUT).tcp_nodelay(true);
        let channels = (0..connections)
            .map(|_| runtime.block_on(endpoint.connect()).map_err(failed))
            .collect::<Result<_, _>>()?;
        Ok(Self { runtime, channels, workers, patience: options.patience.into() })
    }

    /// How many calls this client has in flight.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Asks until the tickets are used up and the answers are there.
    pub fn round(&self, question: &Arc<Question>, tickets: &Arc<Tickets>, tally: &Arc<Shared>) {
        let last_word = TokioInstant::from_std(tickets.end() + self.patience);
        self.runtime.block_on(async {
            let mut workers = JoinSet::new();
            for channel in self.channels.iter().cycle().take(self.workers) {
                let (question, tickets, tally) = (question.clone(), tickets.clone(), tally.clone());
                workers.spawn(work(channel.clone(), question, tickets, tally));
            }
            // Those that have not ended then are cut off with the set.
            let all = async { while workers.join_next().await.is_some() {} };
            let _ = timeout_at(last_word, all).await;
        });
    }
}

/// The share of the part with this index when `total` is spread over `parts`.
fn share(total: usize, parts: usize, index: usize) -> usize {
    total / parts + usize::from(index < total % parts)
}

/// Makes one call after the other.
async fn work(
    channel: Channel,
    question: Arc<Question>,
    tickets: Arc<Tickets>,
    tally: Arc<Shared>,
) {
    let mut grpc = Grpc::new(channel);
    let method = PathAndQuery::from_static(METHOD);
    while let Some(ticket) = tickets.take().await {
        tally.sent();
        let request = Request::new(question.request(ticket.number));
        let answer = match grpc.ready().await {
            Ok(()) => grpc.unary(request, method.clone(), Wire).await,
            Err(error) => Err(Status::unavailable(error.to_string())),
        };
        tally.record(ticket.due, Instant::now(), outcome(answer));
    }
}

fn outcome(answer: Result<Response<Answer>, Status>) -> Outcome {
    match answer.map(|answer| answer.get_ref().overall_code()) {
        Ok(Code::Ok) => Outcome::Ok,
        Ok(Code::OverLimit) => Outcome::OverLimit,
        Ok(Code::Unknown) => Outcome::Failed("answer without a code".into()),
        Err(status) => Outcome::Failed(format!("{:?}", status.code())),
    }
}

/// An error with what caused it: tonic's own text is only "transport error".
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_even_and_complete() {
        for (total, parts) in [(64, 2), (7, 3), (1, 1), (5, 4)] {
            let shares: Vec<_> = (0..parts).map(|index| share(total, parts, index)).collect();
            assert_eq!(shares.iter().sum::<usize>(), total);
            assert!(shares.iter().all(|one| one.abs_diff(shares[0]) <= 1), "{shares:?}");
        }
    }
}
