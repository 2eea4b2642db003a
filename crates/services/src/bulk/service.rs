//! The service that continues bulk operations: those started over HTTP, and those whose process died.

use super::store::Bulks;
use crate::board::ServiceName;
use crate::service::{NextRun, Service, Step, StepContext};
use std::sync::Arc;
use windlass_core::Result;
use windlass_core::engine::Engine;

/// Runs the oldest operation that no other process runs, one step at a time.
pub(crate) struct BulkService {
    bulks: Bulks,
    /// The version of the change marker at which no operation was unfinished.
    idle_at: Option<u64>,
}

impl BulkService {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Self {
        Self { bulks: Bulks::new(engine), idle_at: None }
    }
}

impl Service for BulkService {
    fn name(&self) -> ServiceName {
        ServiceName::Bulk
    }

    async fn step(&mut self, _: StepContext<'_>) -> Result<Step> {
        let (revision, now) = self.bulks.revision().await?;
        let idle = Step { now, items: 0, again: NextRun::Idle };
        if self.idle_at == Some(revision) {
            return Ok(idle);
        }
        let unfinished = self.bulks.unfinished().await?;
        if unfinished.is_empty() {
            self.idle_at = Some(revision);
            return Ok(idle);
        }
        for bulk in unfinished {
            if let Some((_, items)) = self.bulks.advance(bulk, now).await? {
                return Ok(Step { now, items, again: NextRun::Rested });
            }
        }
        Ok(idle)
    }

    fn halt(&mut self) {
        self.idle_at = None;
    }
}
