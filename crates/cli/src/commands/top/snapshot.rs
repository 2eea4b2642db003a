//! One snapshot of a store: its queues and its workers.

use crate::commands::queues::sum_value;
use crate::views;
use anyhow::Result;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use windlass::Client;
use windlass_core::Timestamp;
use windlass_core::engine::{LaneSums, SessionInfo, StatsRequest};

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
            let mut value = sum_value(&queue.sums);
            value["queue"] = name.as_str().into();
            value["paused"] = queue.paused.into();
            value
        };
        let worker = |it: &SessionInfo| json!({ "worker": it.worker, "running": it.running });
        json!({
            "now": views::instant(self.now),
            "queues": self.queues.iter().map(queue).collect::<Vec<_>>(),
            "workers": self.workers.iter().map(worker).collect::<Vec<_>>(),
        })
    }
}
