//! Removal of ended jobs whose retention has passed: row by row while there are few (`removal`, which resumes at
//! `cursor`), and with whole partitions where there are many (`partitions`). `surplus` removes jobs beyond the number
//! that their queue keeps. `context` holds the input of a step. Jobs
//! with a retention of their own are removed by the executor.

pub(crate) mod context;
pub(crate) mod cursor;
pub(crate) mod partitions;
mod removal;
pub(crate) mod surplus;

use crate::conn::Lent;
use crate::conn::error::{Trouble, Try};
use crate::engine::PostgresEngine;
use crate::retention::context::Partition;
use windlass_core::Result;
use windlass_core::engine::MaintainReply;

impl PostgresEngine {
    /// Runs one step of retention, which removes at most `budget` jobs row by row.
    pub(crate) async fn retain(&self, budget: u32) -> Result<MaintainReply> {
        let conn = self.inner.shared.pool.lend().await.map_err(Trouble::into_error)?;
        match self.retain_on(&conn, budget).await {
            Ok(reply) => {
                conn.give_back();
                Ok(reply)
            }
            Err(trouble) => {
                let nothing = self.after_trouble(conn, trouble).await?;
                Ok(nothing.unwrap_or_default())
            }
        }
    }

    async fn retain_on(&self, conn: &Lent, budget: u32) -> Try<MaintainReply> {
        let context = self.retention_context(conn).await?;
        if self.retention_cursor().is_void(&conn.epoch, context.now) {
            self.inner.partitions.forget();
        }
        let shortest_ms = context.kept_ms.map_or(u64::MAX, |(shortest_ms, _)| shortest_ms);
        // A step looks up every lane and state in each of them, so that empty ones are worth skipping.
        let partitions = context.partitions.iter().filter(|partition| !partition.is_empty());
        let by_rows: Vec<&Partition> = partitions
            .filter(|partition| self.inner.partitions.is_removed_by_rows(partition, shortest_ms))
            .collect();
        let mut reply = MaintainReply::default();
        reply.more = self.remove_rows(conn, &context, &by_rows, budget, &mut reply).await?;
        reply.more |= self.remove_surplus(conn, &context, budget, &mut reply).await?;
        if !reply.more {
            reply.more = self.maintain_partitions(conn, &context, &mut reply).await?;
        }
        reply.more |= reply.done >= budget;
        // Emptying a partition may exceed the budget.
        reply.done = reply.done.min(budget);
        Ok(reply)
    }
}
