//! Enqueueing jobs with keys, which an open transaction may hold: limits the wait, and the connections that wait.

use crate::conn::error::unavailable;
use crate::engine::PostgresEngine;
use crate::slow::perform::Needs;
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::engine::{Enqueue, Enqueued, Item, Mode, Stamped};
use windlass_core::{Error, Result};

/// How long a part of a batch waits for its keys after the whole batch has timed out.
const PART_WAIT_MS: u64 = 50;
/// How long to look for parts that can be stored. The rest fails with `busy`.
const PARTS_WITHIN: Duration = Duration::from_secs(2);

/// How many of an engine's connections may wait for keys at a time.
pub(crate) fn keyed_max(connections: usize) -> usize {
    (connections / 2).max(1)
}

impl PostgresEngine {
    /// Stores jobs of which some have keys. A job whose key is held for too long fails alone.
    pub(crate) async fn enqueue_keyed(
        &self,
        request: Enqueue,
    ) -> Result<Stamped<Vec<Item<Enqueued>>>> {
        let turn = self.inner.keyed.acquire().await;
        let _turn = turn.map_err(|_| unavailable("the engine was closed"))?;
        let needs = Needs::Keys { wait_ms: self.inner.shared.lock_timeout_ms };
        match self.enqueue_run(request.clone(), needs).await {
            Err(busy @ Error::Busy { .. }) if request.mode == Mode::Each => {
                self.enqueue_parts(request, busy).await
            }
            reply => reply,
        }
    }

    /// Stores the possible part of a batch in which some key is held: by halves, from the front, so that jobs keep
    /// their order.
    async fn enqueue_parts(
        &self,
        request: Enqueue,
        mut busy: Error,
    ) -> Result<Stamped<Vec<Item<Enqueued>>>> {
        let deadline = Instant::now() + PARTS_WITHIN;
        let mut answers = Vec::with_capacity(request.jobs.len());
        let mut parts = halves(request.jobs);
        while let Some(jobs) = parts.pop() {
            let (count, late) = (jobs.len(), Instant::now() >= deadline);
            let part = Enqueue::each(jobs.clone());
            let needs = Needs::Keys { wait_ms: PART_WAIT_MS };
            let reply = if late { Err(busy.clone()) } else { self.enqueue_run(part, needs).await };
            match reply {
                Ok(stored) => answers.extend(stored.value),
                Err(error @ Error::Busy { .. }) if late || count == 1 => {
                    answers.extend((0..count).map(|_| Err(error.clone())));
                    busy = error;
                }
                Err(Error::Busy { .. }) => parts.extend(halves(jobs)),
                Err(other) => return Err(other),
            }
        }
        Ok(self.answers().await?.map(|()| answers))
    }
}

/// Both halves of a batch, the first one last; a single job is not split.
fn halves<T>(mut jobs: Vec<T>) -> Vec<Vec<T>> {
    let second = jobs.split_off(jobs.len() / 2);
    [second, jobs].into_iter().filter(|half| !half.is_empty()).collect()
}
