//! The HTTP face: health for people and platforms, the RPC as JSON, metrics.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, FromRequestParts, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get, post};
use serde::Serialize;
use tonic::{Code, Status};

use super::grpc::MAX_MESSAGE;
use super::json::{JsonCodec, JsonError};
use super::rls::Rls;
use super::stats::exposition;
use super::web::refusal;
use crate::decide::{Decider, FailureMode};
use crate::proto::rate_limit_response;
use crate::store::{Masters, Store, StoreHealth};
use crate::telemetry::calls::Method;
use crate::telemetry::logs::Clipped;
use crate::telemetry::readiness::{ConfigState, Readiness};
use crate::telemetry::spans::CallSpan;

/// What each path is for; shown where a path is unknown.
const PATHS: &str = "\
not found; there are:
GET  /healthz      200 while the process is alive
GET  /readyz       200 while it should get traffic, else 503; the body says more
GET  /healthcheck  200 OK while it should get traffic, else 500
POST /json         ShouldRateLimit in JSON: 200 OK, 429 over limit, 400 bad request, 503 no store
GET  /metrics      Prometheus metrics
";

/// The HTTP face.
#[derive(Clone, Debug)]
pub struct Http {
    rls: Rls,
    decider: Arc<Decider>,
    readiness: Arc<Readiness>,
    json: JsonCodec,
}

impl Http {
    /// A face that answers `/json` by `rls` and tells of `decider` and
    /// `readiness`.
    ///
    /// # Errors
    /// If the descriptors built into the program cannot be used.
    pub fn new(
        rls: Rls,
        decider: Arc<Decider>,
        readiness: Arc<Readiness>,
    ) -> Result<Self, JsonError> {
        Ok(Self { rls, decider, readiness, json: JsonCodec::new()? })
    }

    /// The paths of this face. Bodies above [`MAX_MESSAGE`] are refused.
    pub fn router(self) -> Router {
        Router::new()
            .route("/healthz", get(async || "alive\n"))
            .route("/readyz", get(readyz))
            .route("/healthcheck", any(healthcheck))
            .route("/json", post(json))
            .route("/metrics", get(metrics))
            .fallback(async || (StatusCode::NOT_FOUND, PATHS))
            .layer(DefaultBodyLimit::max(MAX_MESSAGE))
            .with_state(self)
    }

    /// Answers the body of one `/json` call.
    async fn answer(
        &self,
        Begun(span): Begun,
        body: Result<Bytes, BytesRejection>,
    ) -> Result<Response, Fault> {
        let body = body.map_err(|rejected| Fault {
            status: refusal(&rejected),
            code: Code::InvalidArgument,
            message: rejected.body_text(),
        })?;
        let request = self.json.decode(&body)?;
        let response = self.rls.answer_within(span, Method::Json, &request).await?;
        let over = response.overall_code == i32::from(rate_limit_response::Code::OverLimit);
        let status = if over { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK };
        Ok(json_response(status, self.json.encode(&response)?))
    }
}

/// The span of a `/json` call, if it has one.
struct Begun(Option<CallSpan>);

impl FromRequestParts<Http> for Begun {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, Infallible> {
        Ok(Self(http.rls.spans().begin(Method::Json, &parts.headers)))
    }
}

async fn json(
    State(http): State<Http>,
    span: Begun,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    http.answer(span, body).await.unwrap_or_else(|fault| {
        tracing::debug!(
            status = fault.status.as_u16(),
            reason = %Clipped(&fault.message),
            "a /json call failed"
        );
        fault.into_response()
    })
}

async fn healthcheck(State(http): State<Http>) -> Response {
    if http.readiness.is_ready() {
        "OK".into_response()
    } else {
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

async fn metrics(State(http): State<Http>) -> Response {
    exposition(http.decider.metrics())
}

/// The body of `/readyz`.
#[derive(Debug, Serialize)]
struct Report {
    ready: bool,
    config: ConfigState,
    store: StoreState,
}

#[derive(Debug, Serialize)]
struct StoreState {
    kind: &'static str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    breaker: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_mode: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Of a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    masters: Option<MastersState>,
    /// The store for limits of one second, where it is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    per_second: Option<Box<StoreState>>,
}

#[derive(Debug, Serialize)]
struct MastersState {
    all: usize,
    up: usize,
}

impl StoreState {
    /// What is known of the store, without asking it.
    fn of(decider: &Decider) -> Self {
        match decider.store() {
            Store::Memory(_) => Self {
                kind: "memory",
                status: "ok",
                breaker: None,
                failure_mode: None,
                error: None,
                masters: None,
                per_second: None,
            },
            Store::Redis(redis) => {
                let mode = decider.settings().failure_mode;
                let others = redis.per_second_health();
                let per_second = others.map(|health| Self::of_redis(&health.borrow(), mode).into());
                Self { per_second, ..Self::of_redis(&redis.health().borrow(), mode) }
            }
        }
    }

    fn of_redis(health: &StoreHealth, mode: FailureMode) -> Self {
        Self {
            kind: "redis",
            status: if health.is_up() { "ok" } else { "unavailable" },
            breaker: Some(health.circuit.name()),
            failure_mode: Some(mode.name()),
            error: health.error.as_ref().map(ToString::to_string),
            masters: health.masters.map(|Masters { all, up }| MastersState { all, up }),
            per_second: None,
        }
    }
}

async fn readyz(State(http): State<Http>) -> Response {
    let report = Report {
        ready: http.readiness.is_ready(),
        config: http.readiness.config(),
        store: StoreState::of(&http.decider),
    };
    let status = if report.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    json_response(status, to_json(&report))
}

/// Why a `/json` call failed.
#[derive(Debug)]
struct Fault {
    status: StatusCode,
    code: Code,
    message: String,
}

/// The body of a failed `/json` call: `google.rpc.Status` in JSON, as gateways
/// from JSON to gRPC write it.
#[derive(Serialize)]
struct FaultBody<'a> {
    code: i32,
    message: &'a str,
}

impl Fault {
    fn into_response(self) -> Response {
        let body = FaultBody { code: self.code.into(), message: &self.message };
        json_response(self.status, to_json(&body))
    }
}

impl From<JsonError> for Fault {
    fn from(error: JsonError) -> Self {
        let (status, code) = match error {
            JsonError::Unreadable(_) => (StatusCode::BAD_REQUEST, Code::InvalidArgument),
            JsonError::Descriptors(_) | JsonError::Convert(_) | JsonError::Unwritable(_) => {
                (StatusCode::INTERNAL_SERVER_ERROR, Code::Internal)
            }
        };
        Self { status, code, message: error.to_string() }
    }
}

impl From<Status> for Fault {
    fn from(answer: Status) -> Self {
        let status = match answer.code() {
            // Unknown is what bad requests end with under reference codes.
            Code::InvalidArgument | Code::Unknown => StatusCode::BAD_REQUEST,
            Code::ResourceExhausted => StatusCode::PAYLOAD_TOO_LARGE,
            Code::Unavailable | Code::DeadlineExceeded => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self { status, code: answer.code(), message: answer.message().into() }
    }
}

/// Plain structs of ours: writing them cannot fail.
fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

fn json_response(status: StatusCode, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
