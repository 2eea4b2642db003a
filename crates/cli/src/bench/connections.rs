//! Checks whether a server accepts as many connections as a workload opens.

use super::workload::Workload;
use crate::connect::Url;
use anyhow::Result;

/// Connections of an engine that one caller uses: one for queries and one for notifications.
const PER_ENGINE: u64 = 2;
/// Connections of the bench's own engine: four for queries, one for notifications, and one that creates the
/// tables.
const OTHERS: u64 = 6;

/// The reason why this workload cannot run on the server at `url`, if it accepts too few connections.
pub(super) async fn too_few(workload: Workload, url: &Url) -> Result<Option<String>> {
    let (Some(engines), Url::Postgres(at)) = (workload.engines(), url) else { return Ok(None) };
    let needed = engines as u64 * PER_ENGINE + OTHERS;
    let room = windlass_postgres::room(at.server()).await?.filter(|room| room.free < needed);
    Ok(room.map(|room| {
        format!("needs {needed} connections, the server allows {} ({})", room.free, room.limit)
    }))
}
