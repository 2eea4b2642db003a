//! Maintenance while a load goes on: each kind of work by itself, as the services do it, so that one with much to
//! do holds up no other. More often than they, to see in a minute what takes them an hour.

use super::super::subject::EngineSubject;
use anyhow::Result;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_core::engine::Work;

/// How often each comes by.
const EVERY: Duration = Duration::from_millis(250);

/// Maintenance under way.
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

    /// Whether all of it goes on: what ended early has failed.
    pub(super) fn check(&mut self) -> Result<()> {
        while let Some(task) = self.tasks.try_join_next() {
            task??;
        }
        Ok(())
    }

    /// Ends it when the steps under way are done.
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
        // More, but it does not get on: the engine has its reasons, and asking at once would spin.
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
