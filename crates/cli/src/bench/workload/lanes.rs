//! W3lanes: drains a queue that has many lanes without jobs.

use super::super::meter::Sample;
use super::super::subject::EngineSubject;
use super::Bench;
use super::drain::{Queues, rounds};
use anyhow::Result;
use std::time::Duration;

/// Drains a queue that has `lanes` idle lanes besides the drained ones.
pub(super) async fn beside_idle(bench: &Bench<EngineSubject>, lanes: u64) -> Result<Sample> {
    bench.progress.phase("leaving idle lanes", lanes);
    bench.subject.leave_lanes(lanes).await?;
    bench.progress.add(lanes);
    // The services detect idle lanes meanwhile.
    let services = bench.subject.services()?;
    tokio::time::sleep(Duration::from_millis(bench.profile.idle_lanes_ms)).await;
    services.stop().await;
    rounds(bench, &bench.callers(bench.calls.fetchers), Queues::One).await
}
