//! Reads, without locks, what decides whether jobs of lanes with limits may start.

use super::{Loaded, Loader};
use crate::conn::Row;
use crate::conn::error::Try;
use crate::rows::entries::{self, job_id};
use std::collections::BTreeSet;
use uuid::Uuid;
use windlass_core::JobId;
use windlass_core::model::Name;
use windlass_executor::{Head, LaneKey};
use windlass_workset::{Known, LineRows, MeterKey};

const FIRST: &str = "SELECT l.queue, l.kind, r.rank, r.seq, r.id
    FROM {s}.open_lane l CROSS JOIN LATERAL
        (SELECT rank, seq, id FROM {s}.ready WHERE lane = l.id ORDER BY rank, seq LIMIT 1) r
    WHERE ($1::text[] IS NULL OR l.queue = ANY($1)) AND ($2::text[] IS NULL OR l.kind = ANY($2))
        AND l.metered";
const HOLDER: &str = "SELECT id FROM {s}.key_holder WHERE queue = $1 AND key = $2";
const FIRST_IN_LINE: &str =
    "SELECT seq, id FROM {s}.key_line WHERE queue = $1 AND key = $2 ORDER BY seq LIMIT 1";

impl Loader<'_, '_> {
    /// Loads the first job of each lane with limits, the meters of its limits over all jobs, and running jobs. The
    /// settings are loaded. `None`: all queues, all kinds.
    pub(crate) async fn peek_gates(
        &self,
        queues: Option<&[String]>,
        kinds: Option<&[String]>,
        loaded: &mut Loaded,
    ) -> Try<()> {
        let rows = self.conn.query(FIRST, &[&queues, &kinds]).await?;
        let (mut meters, mut jobs) = (BTreeSet::<MeterKey>::new(), Vec::<Uuid>::new());
        for row in &rows {
            let lane: LaneKey = (row.get::<_, &str>(0).into(), row.get::<_, &str>(1).into());
            let over_all = loaded.limits_of(&lane).filter(|(_, limit)| !limit.by_group);
            meters.extend(over_all.map(|(name, _)| (name.clone(), String::new())));
            let (seq, id) = (row.get::<_, i64>(3).cast_unsigned(), job_id(row.get(4)));
            let head = Head { rank: row.get(2), seq, id, suspect: false };
            loaded.heads.insert(lane, vec![head]);
            jobs.push(row.get(4));
        }
        loaded.has_heads = true;
        self.peek_meters(&meters, loaded).await?;
        if let Some(queues) = queues {
            self.peek_openings(queues, loaded).await?;
        }
        self.peek_jobs(&jobs, loaded).await
    }

    /// Loads jobs without their parts.
    pub(crate) async fn peek_jobs(&self, ids: &[Uuid], loaded: &mut Loaded) -> Try<()> {
        let rows = self.conn.query(entries::BY_ID, &[&ids, &false]).await?;
        let mut found = entries::found(self.conn, &rows, &[]).await?;
        for id in ids.iter().map(|id| job_id(*id)) {
            loaded.jobs.insert(id, Known { found: found.remove(&id), locked: false });
        }
        Ok(())
    }

    /// Loads the holder of an ordering key and the first job in line for it.
    pub(crate) async fn peek_line(&self, queue: &Name, key: &str, loaded: &mut Loaded) -> Try<()> {
        let holder = self.conn.query(HOLDER, &[&&**queue, &key]).await?;
        let first = self.conn.query(FIRST_IN_LINE, &[&&**queue, &key]).await?;
        let mut line = LineRows::of_chunk(1);
        line.holder = holder.first().map(|row| job_id(row.get(0)));
        let place = |row: &Row| (row.get::<_, i64>(0).cast_unsigned(), job_id(row.get(1)));
        line.waiting.extend(first.iter().map(place));
        line.complete();
        let first = line.waiting.first().map(|(_, id)| *id);
        let jobs: Vec<JobId> = line.holder.into_iter().chain(first).collect();
        let jobs: Vec<Uuid> = jobs.into_iter().map(|id| id.as_uuid()).collect();
        loaded.lines.insert((queue.clone(), key.to_owned()), line);
        self.peek_jobs(&jobs, loaded).await
    }
}
