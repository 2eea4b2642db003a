//! Cancels jobs that were replaced by jobs enqueued in SQL. The SQL function notes them, and the executor decides.

use crate::conn::error::Trouble;
use crate::engine::PostgresEngine;
use crate::rows::entries::job_id;
use crate::slow::perform::Needs;
use uuid::Uuid;
use windlass_core::{JobId, Result};
use windlass_workset::Wants;

const REPLACED: &str = "SELECT id, by FROM {s}.replaced ORDER BY id LIMIT $1";
const FORGET: &str = "DELETE FROM {s}.replaced WHERE id = ANY($1)";

impl PostgresEngine {
    /// Cancels up to `budget` replaced jobs that still wait.
    pub(crate) async fn cancel_replaced(&self, budget: u32) -> Result<()> {
        let pool = &self.inner.shared.pool;
        let conn = pool.lend().await.map_err(Trouble::into_error)?;
        let rows =
            conn.query(REPLACED, &[&i64::from(budget)]).await.map_err(Trouble::into_error)?;
        conn.give_back();
        let replaced: Vec<(JobId, JobId)> =
            rows.iter().map(|row| (job_id(row.get(0)), job_id(row.get(1)))).collect();
        if replaced.is_empty() {
            return Ok(());
        }
        let own = replaced.iter().map(|(id, _)| *id).collect();
        let wants = Wants { own, heirs: true, ..Wants::default() };
        self.perform(Needs::Durable, wants, Vec::new(), |run, now| {
            replaced.iter().try_for_each(|(id, by)| run.cancel_replaced(*id, *by, now).map(drop))
        })
        .await?;
        // In a transaction of its own: a repeated cancellation changes nothing.
        let ids: Vec<Uuid> = replaced.iter().map(|(id, _)| id.as_uuid()).collect();
        let conn = pool.lend().await.map_err(Trouble::into_error)?;
        conn.execute(FORGET, &[&ids]).await.map_err(Trouble::into_error)?;
        conn.give_back();
        Ok(())
    }
}
