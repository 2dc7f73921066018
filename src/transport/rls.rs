//! The gRPC face.

use std::sync::Arc;

use tonic::{Request, Response, Status};

use crate::decide::Decider;
use crate::proto::rate_limit_service_server::RateLimitService;
use crate::proto::{RateLimitRequest, RateLimitResponse};

/// `envoy.service.ratelimit.v3.RateLimitService`.
#[derive(Clone, Debug)]
pub struct Rls {
    decider: Arc<Decider>,
    reference_codes: bool,
}

impl Rls {
    /// The service over `decider`. With `reference_codes`, bad requests end with
    /// `UNKNOWN`, as in envoyproxy/ratelimit, instead of `INVALID_ARGUMENT`.
    pub fn new(decider: Arc<Decider>, reference_codes: bool) -> Self {
        Self { decider, reference_codes }
    }

    /// Answers one request; shared by the gRPC and the JSON face.
    ///
    /// # Errors
    /// The gRPC status that the call ends with.
    pub async fn answer(&self, _request: &RateLimitRequest) -> Result<RateLimitResponse, Status> {
        let _ = (&self.decider, self.reference_codes);
        Err(Status::unimplemented("not yet"))
    }
}

#[tonic::async_trait]
impl RateLimitService for Rls {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        self.answer(request.get_ref()).await.map(Response::new)
    }
}
