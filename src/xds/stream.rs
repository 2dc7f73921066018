//! One stream: subscribes, has every response judged and answers it.

use std::sync::Arc;
use std::time::Duration;

use prost_types::Any;
use tokio::sync::mpsc;
use tokio::task::JoinError;
use tokio::time::{Instant, sleep_until};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};

use super::dial::{advised, with_causes};
use super::options::XdsOptions;
use crate::policy::{LoadError, TYPE_URL};
use crate::proto::envoy::config::core::v3::{Node, node::UserAgentVersionType};
use crate::proto::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use crate::proto::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use crate::proto::google::rpc;

/// Longest reason of a refusal that is sent.
const MAX_REASON: usize = 32 << 10;
/// Longest version that is shown.
const MAX_VERSION: usize = 128;
/// A server may answer a refusal by sending the same again at once. From the
/// second time on the refusal is held back, so that the two do not run in a
/// circle: this long, then twice as long …
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// … and at most this long, since some servers send nothing new before they
/// have it.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// All rules as a control plane sent them.
#[derive(Clone, Debug)]
pub struct Update {
    /// What the control plane calls this state of them.
    pub version: String,
    /// The rules, packed.
    pub resources: Vec<Any>,
}

/// Why a stream ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum StreamError {
    /// The server ended it, or the connection broke.
    #[error("{}", explained(.0))]
    Status(Box<Status>),
    /// The server ended it in order.
    #[error("the server ended the stream")]
    Ended,
    /// A bug of ours.
    #[error("judging the rules crashed: {0}")]
    Crashed(#[from] JoinError),
}

impl From<Status> for StreamError {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

fn explained(status: &Status) -> String {
    let (code, message) = (status.code(), status.message());
    match code {
        Code::OutOfRange | Code::ResourceExhausted if message.contains("too large") => format!(
            "the rules are too large: {message}; raise --xds-max-message-size \
             (XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES)"
        ),
        Code::Unimplemented => {
            format!("the server offers no aggregated discovery service (ADS): {message}")
        }
        // A server may find fault with our certificate only once we speak.
        _ => advised(with_causes(format!("{code:?}: {message}"), status)),
    }
}

/// The verdict on the last response, kept from stream to stream: a server that
/// restarts sends what is known already.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    digest: Option<blake3::Hash>,
    /// Why it was refused.
    refused: Option<Arc<str>>,
    /// How often in a row it came again after it had been refused.
    repeated: u32,
    /// The version in force.
    accepted: String,
}

impl Verdict {
    fn knows(&self, digest: &blake3::Hash) -> bool {
        self.digest.as_ref() == Some(digest)
    }

    /// How long to hold back the same refusal.
    fn pause(&self) -> Duration {
        match self.repeated {
            0 => Duration::ZERO,
            times => FIRST_PAUSE.saturating_mul(1 << (times - 1).min(8)).min(LONGEST_PAUSE),
        }
    }
}

/// A stream that is open.
struct Stream<'a, T> {
    requests: mpsc::Sender<DiscoveryRequest>,
    verdict: &'a mut Verdict,
    take: &'a Arc<T>,
    /// A refusal that is held back, and until when.
    held: Option<(Instant, DiscoveryRequest)>,
}

/// Subscribes on `channel` and answers until the stream ends. Every response
/// that is not known already is put to `take`; `received` is told of each.
pub(super) async fn follow<T>(
    channel: Channel,
    options: &XdsOptions,
    verdict: &mut Verdict,
    take: &Arc<T>,
    mut received: impl FnMut(),
) -> StreamError
where
    T: Fn(Update) -> Result<(), LoadError> + Send + Sync + 'static,
{
    // One answer for each response, and the subscription.
    let (requests, outgoing) = mpsc::channel(2);
    // There is room for it.
    let _ = requests.try_send(subscription(options));
    let mut client = AggregatedDiscoveryServiceClient::new(channel)
        .max_decoding_message_size(options.max_message);
    let mut call = Request::new(ReceiverStream::new(outgoing));
    *call.metadata_mut() = options.headers.map().clone();
    // This waits until the server has something to send.
    let mut incoming = match client.stream_aggregated_resources(call).await {
        Ok(answer) => answer.into_inner(),
        Err(status) => return status.into(),
    };
    let mut stream = Stream { requests, verdict, take, held: None };
    loop {
        match stream.step(&mut incoming).await {
            Ok(true) => received(),
            Ok(false) => {}
            Err(ended) => return ended,
        }
    }
}

/// The first request. It names no version, although one may be in force: a
/// server that was restarted may call other rules by the same name, and would
/// not send them.
fn subscription(options: &XdsOptions) -> DiscoveryRequest {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    DiscoveryRequest {
        node: Some(Node {
            id: options.node_id.clone(),
            cluster: options.node_id.clone(),
            metadata: options.node_metadata.to_struct(),
            user_agent_name: "tidegate".into(),
            user_agent_version_type: Some(UserAgentVersionType::UserAgentVersion(version)),
        }),
        type_url: TYPE_URL.into(),
        ..DiscoveryRequest::default()
    }
}

impl<T> Stream<'_, T>
where
    T: Fn(Update) -> Result<(), LoadError> + Send + Sync + 'static,
{
    /// Answers the next response, or sends a refusal that was held back. Whether
    /// there was a response.
    async fn step(
        &mut self,
        incoming: &mut Streaming<DiscoveryResponse>,
    ) -> Result<bool, StreamError> {
        let held = self.held.as_ref().map(|(until, _)| *until);
        let over = async {
            match held {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            message = incoming.message() => {
                let response = message?.ok_or(StreamError::Ended)?;
                self.held = None;
                self.answer(response).await?;
                Ok(true)
            }
            () = over => {
                if let Some((_, refusal)) = self.held.take() {
                    self.send(refusal).await?;
                }
                Ok(false)
            }
        }
    }

    async fn answer(&mut self, response: DiscoveryResponse) -> Result<(), StreamError> {
        let DiscoveryResponse { version_info, resources, type_url, nonce, .. } = response;
        if type_url != TYPE_URL {
            // An answer would subscribe to it.
            tracing::debug!(?type_url, "the control plane sent what nobody asked for");
            return Ok(());
        }
        let version = clipped(&version_info);
        self.judge(Update { version, resources }).await?;
        let mut answer = DiscoveryRequest {
            type_url,
            response_nonce: nonce,
            error_detail: self.verdict.refused.as_deref().map(refusal),
            ..DiscoveryRequest::default()
        };
        if answer.error_detail.is_none() {
            self.verdict.accepted = version_info;
        }
        answer.version_info.clone_from(&self.verdict.accepted);
        let pause = self.verdict.pause();
        if pause.is_zero() {
            return self.send(answer).await;
        }
        self.held = Some((Instant::now() + pause, answer));
        Ok(())
    }

    /// Has new rules judged.
    async fn judge(&mut self, update: Update) -> Result<(), StreamError> {
        let digest = digest(&update.resources);
        if self.verdict.knows(&digest) {
            let refused = self.verdict.refused.is_some();
            self.verdict.repeated = self.verdict.repeated.saturating_add(u32::from(refused));
            tracing::debug!(version = %update.version, refused, "the same rules came again");
            return Ok(());
        }
        let take = Arc::clone(self.take);
        // Large configurations take a while.
        let taken = tokio::task::spawn_blocking(move || take(update)).await?;
        self.verdict.digest = Some(digest);
        self.verdict.repeated = 0;
        self.verdict.refused = taken.err().map(|error| error.to_string().into());
        Ok(())
    }

    async fn send(&self, request: DiscoveryRequest) -> Result<(), StreamError> {
        self.requests.send(request).await.map_err(|_| StreamError::Ended)
    }
}

/// What the control plane is told of a refusal.
fn refusal(reason: &str) -> rpc::Status {
    let end = reason.floor_char_boundary(MAX_REASON);
    let cut = if end < reason.len() { "…" } else { "" };
    let message = format!("{}{cut}", &reason[..end]);
    rpc::Status { code: Code::InvalidArgument as i32, message, details: Vec::new() }
}

/// Tells sets of resources apart, in whatever order they come.
fn digest(resources: &[Any]) -> blake3::Hash {
    let mut hashes: Vec<_> =
        resources.iter().map(|it| *blake3::hash(&it.value).as_bytes()).collect();
    hashes.sort_unstable();
    blake3::hash(hashes.as_flattened())
}

fn clipped(version: &str) -> String {
    version.chars().take(MAX_VERSION).filter(|char| !char.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_that_comes_again_and_again_is_held_back_longer() {
        let mut verdict = Verdict::default();
        let pauses = (0..8).map(|repeated| {
            verdict.repeated = repeated;
            verdict.pause().as_secs()
        });
        assert_eq!(pauses.collect::<Vec<_>>(), [0, 1, 2, 4, 8, 10, 10, 10]);
    }

    #[test]
    fn the_order_of_resources_makes_no_difference() {
        let any = |value: &[u8]| Any { type_url: TYPE_URL.into(), value: value.to_vec() };
        let (a, b) = (any(b"a"), any(b"b"));
        assert_eq!(digest(&[a.clone(), b.clone()]), digest(&[b.clone(), a.clone()]));
        assert_ne!(digest(&[a.clone(), b]), digest(&[a.clone(), a]));
        assert_ne!(digest(&[]), digest(&[any(b"")]));
    }

    #[test]
    fn endless_reasons_are_cut() {
        let status = refusal(&"é".repeat(MAX_REASON));
        assert!(status.message.len() <= MAX_REASON + 3 && status.message.ends_with('…'));
        assert_eq!(refusal("short").message, "short");
    }
}
