//! What it means when a call of Redis fails.

use deadpool_redis::PoolError;
use deadpool_redis::redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::store::StoreError;
use crate::units::Span;

/// A failed batch.
#[derive(Debug)]
pub(super) struct Failure {
    /// What the callers are told.
    pub(super) error: StoreError,
    /// Whether the connection is of no more use.
    pub(super) lost: bool,
}

impl Failure {
    /// What `error` means, from the server of this name.
    pub(super) fn of(error: &RedisError, server: &str) -> Self {
        let text = format!("Redis at {server}: {}", describe(error));
        // A server that became a replica stays one; the name may lead to the
        // new master by now.
        let demoted = error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly);
        let error_is_ours = matches!(
            error.kind(),
            ErrorKind::Server(ServerErrorKind::ResponseError | ServerErrorKind::CrossSlot)
                | ErrorKind::Parse
                | ErrorKind::UnexpectedReturnType
        );
        Self {
            lost: demoted || error.is_unrecoverable_error() || error.is_io_error(),
            error: if error_is_ours {
                StoreError::Protocol(text)
            } else {
                StoreError::Unavailable(text)
            },
        }
    }

    /// The server of this name has not answered for so long.
    pub(super) fn silent(server: &str, patience: Span) -> Self {
        let text = format!("Redis at {server}: no answer within {patience}");
        Self { error: StoreError::Unavailable(text), lost: true }
    }

    /// The server of this name closed the connection.
    pub(super) fn closed(server: &str) -> Self {
        let text = format!("Redis at {server}: the server closed the connection");
        Self { error: StoreError::Unavailable(text), lost: true }
    }

    /// There is no connection to the server of this name.
    pub(super) fn to_connect(error: &PoolError, server: &str, patience: Span) -> Self {
        let why = match error {
            PoolError::Backend(error) => describe(error),
            PoolError::Timeout(_) => format!("no connection within {patience}"),
            other => other.to_string(),
        };
        let text = format!("Redis at {server}: cannot connect: {why}");
        Self { error: StoreError::Unavailable(text), lost: true }
    }
}

/// The error in the words of the server, where they are its words.
fn describe(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        (Some(code), None) => code.to_owned(),
        (None, _) => error.to_string(),
    }
}
