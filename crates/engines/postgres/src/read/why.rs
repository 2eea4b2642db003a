//! Explains why a job is not running: loads the rows that decide it, in one snapshot and without locks, and asks the
//! executor.

use crate::conn::error::Try;
use crate::conn::{Lent, Row};
use crate::engine::PostgresEngine;
use crate::rows::codec;
use crate::rows::entries::{job_id, session_columns};
use crate::slow::load::{Loaded, Loader, inputs_of, session};
use crate::slow::perform::CLOCK;
use std::collections::BTreeSet;
use windlass_core::engine::{Explanation, Stamped};
use windlass_core::limits::AHEAD_COUNTED_MAX;
use windlass_core::model::State;
use windlass_core::{JobId, Result};
use windlass_executor::{Entry, Head, LaneKey};
use windlass_workset::MeterKey;

/// The open sessions of workers, and that of a running job.
const SESSIONS: &str = concat!(
    "SELECT ",
    session_columns!("expires_at"),
    ", info FROM {s}.session WHERE (NOT alone AND expires_at > $1) OR id = $2::text"
);
/// The nearest jobs before a position: those far ahead need not be read.
const AHEAD: &str = "SELECT rank, seq, id FROM {s}.ready
    WHERE lane = $1 AND (rank, seq) < ($2::bigint, $3::bigint)
    ORDER BY rank DESC, seq DESC LIMIT $4";

impl PostgresEngine {
    pub(crate) async fn explain(&self, id: JobId) -> Result<Stamped<Explanation>> {
        let conn = self.begin_look().await?;
        let looked = self.read_why(&conn, id).await;
        self.end_look(conn, looked).await
    }

    async fn read_why(&self, conn: &Lent, id: JobId) -> Try<Explanation> {
        let mut loaded = self.load_settings(conn).await?;
        loaded.now = self.inner.shared.now_in(&conn.query(CLOCK, &[]).await?);
        let loader = Loader::new(conn, self.inner.shared.clock.as_ref());
        loader.peek_jobs(&[id.as_uuid()], &mut loaded).await?;
        if let Some(found) = loaded.found(id) {
            let (entry, lane) = (found.entry.clone(), found.row.lane);
            peek_sessions(conn, &entry, &mut loaded).await?;
            if !entry.job.state.is_terminal() {
                peek_causes(&loader, &entry, &mut loaded).await?;
            }
            if entry.job.state == State::Available {
                peek_ahead(conn, &entry, lane, &mut loaded).await?;
            }
        }
        Ok(self.run_over(&loaded, conn).why(id, loaded.now)?)
    }
}

fn lane_of(entry: &Entry) -> LaneKey {
    (entry.job.header.queue.clone(), entry.job.header.kind.clone())
}

async fn peek_sessions(conn: &Lent, entry: &Entry, loaded: &mut Loaded) -> Try<()> {
    let of_job = entry.leased.as_ref().map(|leased| leased.session.as_str());
    let rows = conn.query(SESSIONS, &[&loaded.now.as_millis(), &of_job]).await?;
    for row in &rows {
        let (id, mut open) = session(row);
        open.info = codec::from_text(row.get(7))?;
        loaded.sessions.insert(id, open);
    }
    Ok(())
}

/// Loads the ordering key, the meters and the group of a job, as far as it has them.
async fn peek_causes(loader: &Loader<'_, '_>, entry: &Entry, loaded: &mut Loaded) -> Try<()> {
    let (header, lane) = (&entry.job.header, lane_of(entry));
    if let Some(key) = header.key.as_ref().filter(|_| entry.in_line()) {
        loader.peek_line(&header.queue, key, loaded).await?;
    }
    if entry.job.dependencies.open > 0 {
        peek_inputs(loader, entry.id(), loaded).await?;
    }
    let over_all = loaded.limits_of(&lane).filter(|(_, limit)| !limit.by_group);
    let meters: BTreeSet<MeterKey> =
        over_all.map(|(name, _)| (name.clone(), String::new())).collect();
    if !meters.is_empty() {
        loader.peek_meters(&meters, loaded).await?;
    }
    if loaded.is_grouped(&lane) || entry.in_group_line() {
        loader.peek_group(header.limit_group(), loaded).await?;
    }
    Ok(())
}

/// Loads the dependencies of a job, and the first job that it waits for.
async fn peek_inputs(loader: &Loader<'_, '_>, id: JobId, loaded: &mut Loaded) -> Try<()> {
    let inputs = inputs_of(loader.conn, &[id.as_uuid()]).await?;
    let first = inputs.iter().find(|(_, input)| input.is_open()).map(|(_, input)| input.job);
    for (id, input) in inputs {
        loaded.edges.add_next(id, input);
    }
    let first: Vec<_> = first.into_iter().map(|id| id.as_uuid()).collect();
    loader.peek_jobs(&first, loaded).await
}

/// Loads the ready jobs before a job, as many as are counted.
async fn peek_ahead(conn: &Lent, entry: &Entry, lane: i32, loaded: &mut Loaded) -> Try<()> {
    let (seq, most) = (entry.seq.cast_signed(), AHEAD_COUNTED_MAX as i64);
    let rows = conn.query(AHEAD, &[&lane, &entry.rank, &seq, &most]).await?;
    let head = |row: &Row| Head {
        rank: row.get(0),
        seq: row.get::<_, i64>(1).cast_unsigned(),
        id: job_id(row.get(2)),
        suspect: false,
    };
    loaded.heads.insert(lane_of(entry), rows.iter().map(head).collect());
    loaded.has_heads = true;
    Ok(())
}
