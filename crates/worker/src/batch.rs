//! Batch handlers: functions that take several jobs of one kind at once.
//!
//! Every job of a batch is an attempt of its own, with its own lease, timeout, stop signal, context and
//! middleware. Where another attempt calls its handler, the attempt of a batched job joins its [`Group`] and
//! waits for its own result; the group calls the handler once for all jobs that have joined.

mod group;
mod handler;

pub(crate) use group::Group;
pub use handler::{BatchHandler, BatchReturn, Batched};

use crate::ctx::Ctx;
use crate::stop::{Ended, Stop};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// The future of a batch handler, which returns one result per job.
pub(crate) type BatchAttempt = Pin<Box<dyn Future<Output = Vec<Ended>> + Send>>;

/// A batch handler with its types erased.
pub(crate) type BatchCall = Arc<dyn Fn(Vec<Ctx>) -> BatchAttempt + Send + Sync>;

/// The worker's configuration of a batch handler.
pub(crate) struct Batching {
    pub(crate) call: BatchCall,
    /// Maximum number of jobs per call.
    pub(crate) jobs_max: u32,
    /// How long a batch that is not full waits for jobs of later claims.
    pub(crate) linger: Duration,
}

impl Batching {
    pub(crate) fn new<J, A, H>(handler: H, jobs_max: u32) -> Self
    where
        J: 'static,
        A: 'static,
        H: BatchHandler<J, A>,
    {
        let call: BatchCall = Arc::new(move |jobs| Box::pin(handler.clone().call(jobs)));
        Self { call, jobs_max, linger: Duration::ZERO }
    }
}

/// The attempt of one job of a batch: joins its group and waits for its own result. A job without a group,
/// such as a suspect, is a batch of its own.
pub(crate) async fn attend(ctx: Ctx) -> Ended {
    let running = ctx.running();
    let group = running.take_group().or_else(|| running.batching().map(Group::of_one));
    match group {
        Some(group) => group.join(ctx).await,
        None => Err(Stop::retry("the handler of this job takes no batches")),
    }
}
