//! One snapshot of a store: its queues and its workers.

use anyhow::Result;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use windlass::Client;
use windlass_core::Timestamp;
use windlass_core::engine::{LaneSums, SessionInfo, StatsRequest};
use windlass_wire::{Counts, Workers};

/// A queue at the time of the snapshot.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    pub(super) sums: LaneSums,
    pub(super) paused: bool,
}

/// The queues and workers of a store at one time.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) now: Timestamp,
    pub(super) queues: BTreeMap<String, Queue>,
    pub(super) workers: Vec<SessionInfo>,
}

impl Snapshot {
    /// Reads the store.
    pub(super) async fn take(client: &Client) -> Result<Self> {
        let stats = client.engine().stats(StatsRequest::default()).await?;
        let mut queues: BTreeMap<String, Queue> = BTreeMap::new();
        for lane in &stats.value {
            queues.entry(lane.queue.to_string()).or_default().sums.add(lane);
        }
        for (name, settings) in client.settings().await?.queues {
            queues.entry(name.to_string()).or_default().paused = settings.paused;
        }
        Ok(Self { now: stats.now, queues, workers: client.sessions().await? })
    }

    /// The snapshot as JSON.
    pub(super) fn value(&self) -> Value {
        let queue = |(name, queue): (&String, &Queue)| {
            json!({
                "name": name, "settings": { "paused": queue.paused },
                "counts": Counts::from(queue.sums),
                "head_ready_at": queue.sums.oldest, "next_due_at": queue.sums.next_due,
            })
        };
        json!({
            "now": self.now,
            "queues": self.queues.iter().map(queue).collect::<Vec<_>>(),
            "workers": Workers::from(self.workers.clone()).workers,
        })
    }
}
