//! Jobs with keys, which a transaction that stays open may hold: how long that is waited for, and that
//! nobody else waits as well. Knows nothing of what a key means.

use crate::conn::error::unavailable;
use crate::engine::PostgresEngine;
use crate::slow::perform::Needs;
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::engine::{Enqueue, Enqueued, Item, Mode, Stamped};
use windlass_core::{Error, Result};

/// How long a part of a batch waits for its keys, once the whole has waited as long as it may.
const PART_WAIT_MS: u64 = 50;
/// How long the parts are looked for that can be stored. Whatever is left then is answered `busy`, too.
const PARTS_WITHIN: Duration = Duration::from_secs(2);

/// How many of an engine's connections may wait for keys at a time: the others are for everybody else.
pub(crate) fn keyed_max(connections: usize) -> usize {
    (connections / 2).max(1)
}

impl PostgresEngine {
    /// Jobs of which some have keys. One whose key is held for too long is refused for itself.
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

    /// Stores what can be stored of a batch in which some key is held: by halves, from the front, so that
    /// jobs enter in their order.
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

/// Both halves of a batch, the first one last; a single job is whole.
fn halves<T>(mut jobs: Vec<T>) -> Vec<Vec<T>> {
    let second = jobs.split_off(jobs.len() / 2);
    [second, jobs].into_iter().filter(|half| !half.is_empty()).collect()
}
