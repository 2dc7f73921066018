//! What a lane sends in one write: one call of the script, or in Redis Cluster
//! one for each slot.
//!
//! A call may only have keys of one slot. The calls go out in one write and
//! their replies are read together: one round trip, as for a single call.

use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{Pipeline, RedisResult, Value};
use smallvec::{SmallVec, smallvec};

use super::failure::Failure;
use super::request::Request;
use super::runtime::{self, ScriptRuntime};
use super::script::Batch;

/// Batches that go out together; at least one.
#[derive(Debug)]
pub(super) struct Load {
    batches: SmallVec<[Batch; 1]>,
    requests: usize,
}

/// What became of each batch of a load.
pub(super) type Outcomes = SmallVec<[RedisResult<Value>; 1]>;

impl Load {
    /// A load of one request.
    pub(super) fn new(first: Request) -> Self {
        Self { batches: smallvec![Batch::new(first)], requests: 1 }
    }

    /// How many requests it has.
    pub(super) fn len(&self) -> usize {
        self.requests
    }

    /// Adds a request, or gives it back if it belongs into the next load.
    pub(super) fn add(&mut self, request: Request) -> Option<Request> {
        let kin = self.batches.iter_mut().find(|batch| batch.is_kin(&request));
        let left = if let Some(batch) = kin {
            batch.add(request)
        } else {
            self.batches.push(Batch::new(request));
            None
        };
        self.requests += usize::from(left.is_none());
        left
    }

    /// Has all batches decided.
    ///
    /// # Errors
    /// When nothing is known of any of them.
    pub(super) async fn decide(
        &self,
        script: ScriptRuntime,
        connection: &mut impl ConnectionLike,
    ) -> RedisResult<Outcomes> {
        match &*self.batches {
            [only] if !only.is_asking() => Ok(smallvec![only.decide(script, connection).await]),
            batches => decide_all(batches, script, connection).await,
        }
    }

    /// Gives every caller its part of the outcome; gives the failure that ends
    /// the connection, if one does.
    pub(super) fn answer(self, outcomes: Outcomes, server: &str) -> Option<Failure> {
        let mut end = None;
        for (batch, outcome) in self.batches.into_iter().zip(outcomes) {
            match outcome {
                Ok(reply) => batch.answer(&reply),
                Err(error) => {
                    let failure = Failure::of(&error, server);
                    batch.fail(&failure);
                    if failure.lost {
                        end = Some(failure);
                    }
                }
            }
        }
        end
    }

    /// Gives every caller the same failure.
    pub(super) fn fail(self, failure: &Failure) {
        for batch in self.batches {
            batch.fail(failure);
        }
    }
}

/// Sends the batches, and those again for which the server lacked the script,
/// with the script.
async fn decide_all(
    batches: &[Batch],
    script: ScriptRuntime,
    connection: &mut impl ConnectionLike,
) -> RedisResult<Outcomes> {
    let all: Vec<&Batch> = batches.iter().collect();
    let mut outcomes = send(&all, script, false, connection).await?;
    let lacking = |outcome: &RedisResult<Value>| {
        outcome.as_ref().is_err_and(|error| script.is_lacking(error))
    };
    let again: Vec<usize> =
        (0..outcomes.len()).filter(|&nth| outcomes.get(nth).is_some_and(lacking)).collect();
    if again.is_empty() {
        return Ok(outcomes);
    }
    if script == ScriptRuntime::Function {
        runtime::load_library(connection).await?;
    }
    let batches: Vec<&Batch> = again.iter().filter_map(|&nth| batches.get(nth)).collect();
    let later = send(&batches, script, true, connection).await?;
    for (nth, outcome) in again.into_iter().zip(later) {
        if let Some(place) = outcomes.get_mut(nth) {
            *place = outcome;
        }
    }
    Ok(outcomes)
}

/// Sends `batches` in one write.
async fn send(
    batches: &[&Batch],
    script: ScriptRuntime,
    with_source: bool,
    connection: &mut impl ConnectionLike,
) -> RedisResult<Outcomes> {
    let mut pipeline = Pipeline::with_capacity(batches.len() + 1);
    pipeline.ignore_errors();
    for batch in batches {
        if batch.is_asking() {
            pipeline.cmd("ASKING").ignore();
        }
        pipeline.add_command(batch.call(script, with_source));
    }
    let replies: Vec<RedisResult<Value>> = pipeline.query_async(connection).await?;
    Ok(replies.into())
}
