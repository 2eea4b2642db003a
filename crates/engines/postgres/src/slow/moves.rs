//! Moves to other queues: the lanes that the jobs get there have to exist before a run.

use crate::conn::error::{Trouble, Try};
use crate::conn::{Conn, Row};
use crate::engine::PostgresEngine;
use crate::rows::entries::job_id;
use std::collections::HashMap;
use uuid::Uuid;
use windlass_core::engine::{ChangeItem, SettleItem};
use windlass_core::model::Name;
use windlass_core::{JobId, Result, check_name};
use windlass_executor::LaneKey;

const LANES: &str =
    "SELECT j.id, j.lane FROM unnest($1::uuid[]) w (id) JOIN {s}.job j ON j.id = ANY(ARRAY[w.id])";

/// The jobs that these changes move, each with its new queue.
pub(crate) fn of_changes(batch: &[ChangeItem]) -> Vec<(JobId, &Name)> {
    let moves = batch.iter().filter_map(|item| Some((item.id, item.change.queue()?)));
    moves.collect()
}

/// The jobs that these reports move, each with its new queue.
pub(crate) fn of_reports(items: &[SettleItem]) -> Vec<(JobId, &Name)> {
    items.iter().filter_map(|item| Some((item.id, item.queue.as_ref()?))).collect()
}

impl PostgresEngine {
    /// The lanes that these jobs get.
    pub(crate) async fn lanes_of_moves(&self, moves: &[(JobId, &Name)]) -> Result<Vec<LaneKey>> {
        if moves.is_empty() {
            return Ok(Vec::new());
        }
        let conn = self.inner.shared.pool.lend().await.map_err(Trouble::into_error)?;
        let lanes = lanes(&conn, moves).await.map_err(Trouble::into_error)?;
        conn.give_back();
        Ok(lanes)
    }
}

/// The lanes that these jobs get. The kind of a job never changes, so it can be read ahead of the run.
pub(crate) async fn lanes(conn: &Conn<'_>, moves: &[(JobId, &Name)]) -> Try<Vec<LaneKey>> {
    let valid = |queue: &Name| check_name("queue", queue).is_ok();
    let moves: Vec<_> = moves.iter().filter(|(_, queue)| valid(queue)).collect();
    if moves.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<Uuid> = moves.iter().map(|(id, _)| id.as_uuid()).collect();
    let rows = conn.query(LANES, &[&ids]).await?;
    let numbers: Vec<i32> = rows.iter().map(|row| row.get(1)).collect();
    let names = conn.lanes.names(conn, &numbers).await?;
    let kind = |row: &Row| {
        let (_, kind) = names.get(&row.get::<_, i32>(1))?;
        Some((job_id(row.get(0)), kind.clone()))
    };
    let kinds: HashMap<JobId, Name> = rows.iter().filter_map(kind).collect();
    let lane = |(id, queue): &&(JobId, &Name)| Some(((*queue).clone(), kinds.get(id)?.clone()));
    let mut lanes: Vec<LaneKey> = moves.iter().filter_map(lane).collect();
    lanes.sort_unstable();
    lanes.dedup();
    Ok(lanes)
}
