//! Maintenance during a load. Each kind of work runs in its own task, as in the services, so that a long one
//! delays no other. It runs more often than the services, to show in a minute what takes them an hour.

use super::super::subject::EngineSubject;
use anyhow::Result;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_core::engine::Work;

/// Interval of each kind of work.
const EVERY: Duration = Duration::from_millis(250);

/// Running maintenance.
pub(super) struct Upkeep {
    stop: CancellationToken,
    tasks: JoinSet<Result<()>>,
}

impl Upkeep {
    pub(super) fn start(subject: &EngineSubject) -> Self {
        let stop = CancellationToken::new();
        let keep = |work| keep(subject.clone(), work, stop.clone());
        let tasks = Work::ALL.into_iter().map(keep).collect();
        Self { stop, tasks }
    }

    /// Fails if a task has ended early.
    pub(super) fn check(&mut self) -> Result<()> {
        while let Some(task) = self.tasks.try_join_next() {
            task??;
        }
        Ok(())
    }

    /// Stops after the current steps.
    pub(super) async fn stop(mut self) -> Result<()> {
        self.stop.cancel();
        while let Some(task) = self.tasks.join_next().await {
            task??;
        }
        Ok(())
    }
}

async fn keep(subject: EngineSubject, work: Work, stop: CancellationToken) -> Result<()> {
    while !stop.is_cancelled() {
        let step = subject.maintain(work).await?;
        // More work but no progress: the engine cannot continue now, and calling again at once would spin.
        if step.more && step.done > 0 {
            continue;
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(EVERY) => {}
        }
    }
    Ok(())
}
