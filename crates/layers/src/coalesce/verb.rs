//! The mergeable verbs, reduced to what merging needs: a list of items in, one result per item out.

use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::model::{Job, Name, NewJob, Part, PartSet, Parts, Step};

/// A verb whose calls can be merged.
pub(super) trait Verb: Send + Sync + 'static {
    /// The items of a call. Cloned into merged calls, which is cheap because names and bytes are shared.
    type Item: Clone + Send + Sync + 'static;
    /// The result of one item.
    type Answer: Send + 'static;
    /// Calls can be merged only if their keys are equal.
    type Key: Clone + PartialEq + Send + Sync + 'static;

    /// The name in messages and metrics.
    const NAME: &'static str;

    /// Number of application bytes in an item.
    fn bytes(item: &Self::Item) -> usize;

    /// Makes the call.
    fn call(
        engine: &dyn Engine,
        key: Self::Key,
        items: Vec<Self::Item>,
    ) -> Answer<'_, Vec<Self::Answer>>;
}

/// Enqueues in mode `Each`.
pub(super) enum EnqueueEach {}

impl Verb for EnqueueEach {
    type Item = NewJob;
    type Answer = Item<Enqueued>;
    type Key = ();
    const NAME: &'static str = "enqueue";

    fn bytes(job: &NewJob) -> usize {
        let Parts { payload, checkpoint, blob, metadata } = &job.parts;
        [payload, checkpoint, blob, metadata].into_iter().flatten().map(part_bytes).sum()
    }

    fn call(engine: &dyn Engine, (): (), jobs: Vec<NewJob>) -> Answer<'_, Vec<Item<Enqueued>>> {
        engine.enqueue(Enqueue::each(jobs))
    }
}

/// Settles without a claim.
pub(super) enum SettleOnly {}

impl Verb for SettleOnly {
    type Item = SettleItem;
    type Answer = Item<Settled>;
    type Key = ();
    const NAME: &'static str = "settle";

    fn bytes(item: &SettleItem) -> usize {
        let result = match &item.outcome {
            Outcome::Complete { result: Some(result) } => part_bytes(result),
            Outcome::Complete { .. }
            | Outcome::Retry { .. }
            | Outcome::Snooze { .. }
            | Outcome::Fail { .. }
            | Outcome::Release
            | Outcome::Wait(_)
            | Outcome::WaitForJobs
            | Outcome::Cancel
            | _ => 0,
        };
        let follow_ups: usize = item.follow_ups.iter().map(EnqueueEach::bytes).sum();
        result + item.parts.bytes() + follow_ups + steps(&item.steps)
    }

    fn call(engine: &dyn Engine, (): (), items: Vec<SettleItem>) -> Answer<'_, Vec<Item<Settled>>> {
        let reply = engine.settle(Settle::new(items));
        Box::pin(async move { Ok(reply.await?.map(|reply| reply.items)) })
    }
}

/// Bytes of recorded steps.
fn steps(steps: &[Step]) -> usize {
    steps.iter().map(Step::bytes).sum()
}

/// Updates.
pub(super) enum Updates {}

impl Verb for Updates {
    type Item = UpdateItem;
    type Answer = Item<Updated>;
    type Key = ();
    const NAME: &'static str = "update";

    fn bytes(item: &UpdateItem) -> usize {
        item.parts.bytes() + item.log.iter().map(String::len).sum::<usize>() + steps(&item.steps)
    }

    fn call(engine: &dyn Engine, (): (), items: Vec<UpdateItem>) -> Answer<'_, Vec<Item<Updated>>> {
        engine.update(Update::new(items))
    }
}

/// Gets of the same parts, so that no caller reads blobs that only another one requested, and with the same hint.
pub(super) enum Gets {}

impl Verb for Gets {
    type Item = JobId;
    type Answer = Option<Job>;
    type Key = (PartSet, Option<Name>);
    const NAME: &'static str = "get";

    fn bytes(_: &JobId) -> usize {
        0
    }

    fn call(
        engine: &dyn Engine,
        (parts, queue_hint): Self::Key,
        ids: Vec<JobId>,
    ) -> Answer<'_, Vec<Option<Job>>> {
        let mut request = Get::new(ids).parts(parts);
        request.queue_hint = queue_hint;
        engine.get(request)
    }
}

fn part_bytes(part: &Part) -> usize {
    part.bytes.len()
}
