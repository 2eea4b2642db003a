//! Whether a server takes as many connections as a workload opens.

use super::workload::Workload;
use crate::connect::Url;
use anyhow::Result;

/// Connections of an engine that one caller uses: one that works and one that listens.
const PER_ENGINE: u64 = 2;
/// Connections of the bench's own engine: four that work, one that listens, and one that makes the tables.
const OTHERS: u64 = 6;

/// Why this workload cannot run on the server at `url`, if it takes too few connections for it.
pub(super) async fn too_few(workload: Workload, url: &Url) -> Result<Option<String>> {
    let (Some(engines), Url::Postgres(at)) = (workload.engines(), url) else { return Ok(None) };
    let needed = engines as u64 * PER_ENGINE + OTHERS;
    let room = windlass_postgres::room(at.server()).await?.filter(|room| room.free < needed);
    Ok(room.map(|room| {
        format!("needs {needed} connections, the server allows {} ({})", room.free, room.limit)
    }))
}
