//! Passes on an object that is too large to be passed on whole.

use super::{Body, Job, Lane};
use crate::error::Result;
use crate::object::ObjectMeta;

/// Answers a job with the pieces that `write` writes.
pub async fn in_pieces(lane: &dyn Lane, job: Job, meta: &ObjectMeta, write: impl AsyncFnOnce(&mut Body) -> Result<()>) {
    match lane.begin(&job, meta).await {
        Ok(mut body) => {
            let result = write(&mut body).await;
            lane.finished(job, body, result);
        }
        Err(error) => lane.failed(job, error),
    }
}
