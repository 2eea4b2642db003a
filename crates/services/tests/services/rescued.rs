//! An engine that replays and completes every dead letter just before its discard arrives.

use windlass_core::engine::*;
use windlass_core::{JobId, Result};
use windlass_memory::MemoryEngine;

#[derive(Clone, Default)]
pub(crate) struct ReplayedFirst {
    pub(crate) inner: MemoryEngine,
}

impl ReplayedFirst {
    /// Replays a job and completes it.
    async fn rescue(&self, id: JobId) -> Result<()> {
        self.inner.change(vec![ChangeItem::new(id, Change::replay())]).await?;
        let queue = self.inner.get(Get::new([id])).await?.value.remove(0).expect("it is there");
        let claim_id = ClaimId::new(format!("rescue {id}"));
        let by = Claimant::Alone { claim_id, worker: "rescue".into(), lease_ms: 60_000 };
        let claimed = self.inner.claim(Claim::new(by, queue.header.queue, 1)).await?.value;
        let done = |job: ClaimedJob| SettleItem::new(job.header.id, job.lease, Outcome::DONE);
        self.inner.settle(Settle::new(claimed.jobs.into_iter().map(done))).await?;
        Ok(())
    }
}

impl Jobs for ReplayedFirst {
    windlass_core::pass_on!(inner: capabilities, enqueue, open_session, heartbeat, close_session, take, claim, wait, settle, update);
}

impl Admin for ReplayedFirst {
    fn change(&self, batch: Vec<ChangeItem>) -> Answer<'_, Vec<Item<Changed>>> {
        Box::pin(async move {
            for item in batch.iter().filter(|item| item.change == Change::Discard) {
                self.rescue(item.id).await?;
            }
            self.inner.change(batch).await
        })
    }

    windlass_core::pass_on!(inner: get, list, stats, limits, why, sessions, configure, settings, removed, events, records, import, health);
}

impl Maintain for ReplayedFirst {
    windlass_core::pass_on!(inner: maintain, check);
}
