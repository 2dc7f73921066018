//! The gRPC face.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tonic::{Code, Request, Response, Status};

use super::{direct, wire};
use crate::decide::{Decider, RequestError};
use crate::policy::Policies;
use crate::proto::admin_server::Admin;
use crate::proto::rate_limit_service_server::RateLimitService;
use crate::proto::{
    RateLimitRequest, RateLimitResponse, ResetRequest, ResetResponse, rate_limit_response,
};
use crate::store::StoreError;
use crate::telemetry::calls::Method;
use crate::telemetry::spans::{CallSpan, Outcome, Spans};

/// `envoy.service.ratelimit.v3.RateLimitService`, and `tidegate.v1.Admin`.
#[derive(Clone, Debug)]
pub struct Rls {
    decider: Arc<Decider>,
    reference_codes: bool,
    spans: Spans,
}

impl Rls {
    /// The service over `decider`. With `reference_codes`, bad requests end with
    /// `UNKNOWN`, as in envoyproxy/ratelimit, instead of `INVALID_ARGUMENT`.
    pub fn new(decider: Arc<Decider>, reference_codes: bool) -> Self {
        Self { decider, reference_codes, spans: Spans::default() }
    }

    /// The same, with spans of its calls.
    #[must_use]
    pub fn with_spans(self, spans: Spans) -> Self {
        Self { spans, ..self }
    }

    /// What makes spans of its calls.
    pub const fn spans(&self) -> &Spans {
        &self.spans
    }

    /// Answers one request; shared by the gRPC and the JSON face.
    ///
    /// # Errors
    /// The gRPC status that the call ends with: `INVALID_ARGUMENT` or
    /// `RESOURCE_EXHAUSTED` for a request that cannot be decided, `UNAVAILABLE`
    /// when the store could not decide and the failure mode says to tell, or no
    /// rules have come yet.
    pub async fn answer(&self, message: &RateLimitRequest) -> Result<RateLimitResponse, Status> {
        self.answer_as(Method::ShouldRateLimit, message).await
    }

    /// The same, for another method of asking.
    ///
    /// # Errors
    /// As [`Rls::answer`].
    pub async fn answer_as(
        &self,
        method: Method,
        message: &RateLimitRequest,
    ) -> Result<RateLimitResponse, Status> {
        let start = Instant::now();
        let answer = self.decide(message).await;
        self.decider.metrics().calls.answered(method, start.elapsed());
        answer
    }

    /// The same, as a span of the call that is one.
    ///
    /// # Errors
    /// As [`Rls::answer`].
    pub async fn answer_within(
        &self,
        span: Option<CallSpan>,
        method: Method,
        message: &RateLimitRequest,
    ) -> Result<RateLimitResponse, Status> {
        let answer = self.answer_as(method, message).await;
        if let Some(span) = span {
            let outcome = match &answer {
                Ok(response) => {
                    let over = i32::from(rate_limit_response::Code::OverLimit);
                    Outcome::Decided { over_limit: response.overall_code == over }
                }
                Err(status) => {
                    Outcome::Failed { code: status.code().into(), message: status.message() }
                }
            };
            span.answered(&message.domain, message.descriptors.len(), outcome);
        }
        answer
    }

    async fn decide(&self, message: &RateLimitRequest) -> Result<RateLimitResponse, Status> {
        let metrics = self.decider.metrics();
        let settings = self.decider.settings();
        let count = |_: &Status| metrics.errors.with_label_values(&["service_error"]).inc();
        let request = wire::request(message, settings).map_err(|error| self.refused(&error));
        let request = request.inspect_err(count)?;
        let policies = self.policies().inspect_err(count)?;
        let decision = self.decider.decide(&policies, &request).await;
        let decision = decision.map_err(|error| self.undecided(&error))?;
        Ok(wire::response(decision, settings))
    }

    /// Answers a request in bytes at once, in bytes. None where that cannot be:
    /// if it has to wait for the store, see [`Rls::answer_later`]; and if it is
    /// unusual, or there are no rules yet.
    pub fn answer_now(&self, message: &[u8]) -> Option<Bytes> {
        let start = Instant::now();
        let settings = self.decider.settings();
        let request = direct::request(message, settings)?;
        let policies = self.decider.policies_now();
        let decision = self.decider.decide_now(policies.as_deref()?, &request)?;
        let answer = direct::answer(decision, settings);
        self.answered(start);
        Some(answer)
    }

    /// Whether decisions have to wait for the store.
    pub fn waits(&self) -> bool {
        self.decider.waits()
    }

    /// The same as [`Rls::answer_now`] with a store that has to be waited for.
    pub async fn answer_later(&self, message: &[u8]) -> Option<Result<Bytes, Status>> {
        let start = Instant::now();
        let settings = self.decider.settings();
        let request = direct::request(message, settings)?;
        let policies = self.decider.policies()?;
        let decision = self.decider.decide(&policies, &request).await;
        let answer = decision.map(|decision| direct::answer(decision, settings));
        self.answered(start);
        Some(answer.map_err(|error| self.undecided(&error)))
    }

    fn answered(&self, start: Instant) {
        self.decider.metrics().calls.answered(Method::ShouldRateLimit, start.elapsed());
    }

    fn undecided(&self, error: &StoreError) -> Status {
        let kind = if error.is_excessive() { "service_error" } else { "redis_error" };
        self.decider.metrics().errors.with_label_values(&[kind]).inc();
        self.failed(error)
    }

    fn failed(&self, error: &StoreError) -> Status {
        let code = if error.is_excessive() {
            self.code(Code::ResourceExhausted)
        } else {
            Code::Unavailable
        };
        Status::new(code, error.to_string())
    }

    /// The code of a call that was not even put to the store: `ours`, or that of
    /// the reference for everything.
    const fn code(&self, ours: Code) -> Code {
        if self.reference_codes { Code::Unknown } else { ours }
    }

    /// Forgets counters.
    ///
    /// # Errors
    /// As [`Rls::answer`].
    pub async fn forget(&self, message: &ResetRequest) -> Result<ResetResponse, Status> {
        let request = wire::reset_request(message, self.decider.settings());
        let request = request.map_err(|error| self.refused(&error))?;
        let policies = self.policies()?;
        let forgotten = self.decider.reset(&policies, &request).await;
        let counters = forgotten.map_err(|error| self.failed(&error))?;
        Ok(ResetResponse { counters: u32::try_from(counters).unwrap_or(u32::MAX) })
    }

    /// The rules in force.
    fn policies(&self) -> Result<Arc<Policies>, Status> {
        // The reference's text, which its users look for.
        let none = "no rate limit configuration loaded";
        self.decider.policies().ok_or_else(|| Status::new(self.code(Code::Unavailable), none))
    }

    fn refused(&self, error: &RequestError) -> Status {
        let code = match error {
            RequestError::TooManyDescriptors { .. } | RequestError::TooManyEntries { .. } => {
                Code::ResourceExhausted
            }
            RequestError::EmptyDomain
            | RequestError::NoDescriptors
            | RequestError::UnknownUnit { .. } => Code::InvalidArgument,
        };
        Status::new(self.code(code), error.to_string())
    }
}

#[tonic::async_trait]
impl RateLimitService for Rls {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let method = Method::ShouldRateLimit;
        let span = self.spans.begin(method, request.metadata().as_ref());
        self.answer_within(span, method, request.get_ref()).await.map(Response::new)
    }
}

#[tonic::async_trait]
impl Admin for Rls {
    async fn reset(
        &self,
        request: Request<ResetRequest>,
    ) -> Result<Response<ResetResponse>, Status> {
        self.forget(request.get_ref()).await.map(Response::new)
    }
}
