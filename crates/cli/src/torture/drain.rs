//! Waits after the faults until all jobs have ended, as long as their number decreases.

use super::client_processes::ClientProcesses;
use super::journal;
use super::progress::Progress;
use super::stage::left;
use anyhow::Result;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::engine::Engine;
use windlass_kit::history::Snapshot;

/// Gives up after this time without progress. It is longer than a session, the takeover of the services, a
/// backoff after a crash and a worker's pause after an outage together.
const STILL_MAX: Duration = Duration::from_secs(20);
/// Maximum total time.
const DRAIN_MAX: Duration = Duration::from_secs(180);
/// Polling interval.
const LOOK_EVERY: Duration = Duration::from_millis(150);
/// Number of consecutive polls that must find no unfinished job.
const LOOKS: u32 = 4;

/// Returns whether all jobs have ended.
pub(super) async fn drain(
    clients: &mut ClientProcesses,
    evidence: &Path,
    progress: &Progress,
) -> Result<bool> {
    let engine = match clients.target.participants.owner {
        true => None,
        false => Some(clients.target.open().await?),
    };
    let start = Instant::now();
    let (mut fewest, mut since, mut empty) = (u64::MAX, start, 0);
    while since.elapsed() < STILL_MAX && start.elapsed() < DRAIN_MAX {
        tokio::time::sleep(LOOK_EVERY).await;
        clients.notice()?;
        let left = match &engine {
            Some(engine) => left(&**engine, &clients.target.queue).await.ok(),
            None => clients.counts().left,
        };
        progress.left(left);
        let Some(left) = left else { continue };
        if left < fewest {
            (fewest, since) = (left, Instant::now());
        }
        empty = if left == 0 { empty + 1 } else { 0 };
        if empty >= LOOKS && all_ended(engine.as_ref(), evidence).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the jobs themselves have ended. Counts may lag behind, and those of a broken engine may be wrong.
/// (The jobs of an owner can only be read after it has ended.)
async fn all_ended(engine: Option<&Arc<dyn Engine>>, evidence: &Path) -> Result<bool> {
    let Some(engine) = engine else { return Ok(true) };
    let wanted = journal::read(evidence)?.wanted();
    let there = Snapshot::read(&**engine, wanted).await?;
    Ok(there.jobs.values().all(|state| state.is_terminal()))
}
