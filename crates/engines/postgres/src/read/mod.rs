//! Verbs that only read: jobs, pages, statistics, sessions, settings. One snapshot per verb, no row locks.

mod candidates;
mod limits;
mod list;
pub(crate) mod priorities;
mod removed;
mod why;

use crate::conn::Lent;
use crate::conn::error::{Trouble, Try};
use crate::engine::PostgresEngine;
use crate::rows::codec;
use crate::rows::entries::{self, at, session_columns};
use crate::slow::load::{Loaded, Loader, SettingRows, add_settings, inputs_of, session};
use crate::slow::perform::CLOCK;
use futures_util::future::try_join;
use std::collections::HashMap;
use uuid::Uuid;
use windlass_core::engine::{
    Get, LaneStats, SessionId, SessionInfo, SessionInfoFields, Settings, Stamped, StatsRequest,
    WorkerInfo,
};
use windlass_core::model::{Input, Job, Name, PartName, Running, State};
use windlass_core::{JobId, Result, Timestamp};

/// Table locks come before the snapshot: a table rewritten in between would seem empty.
pub(crate) const SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
    LOCK TABLE {s}.job, {s}.finished, {s}.ready, {s}.lease, {s}.scheduled, {s}.session, {s}.tally
        IN ACCESS SHARE MODE";
const LANES: &str =
    "SELECT l.id, l.queue, l.kind, sum(t.scheduled)::bigint, sum(t.blocked)::bigint,
        sum(t.available)::bigint, sum(t.running)::bigint, sum(t.paused)::bigint, sum(t.completed)::bigint,
        sum(t.dead)::bigint, sum(t.cancelled)::bigint, sum(t.expired)::bigint
    FROM {s}.tally t JOIN {s}.lane l ON l.id = t.lane
    WHERE $1::text IS NULL OR l.queue = $1 GROUP BY l.id";
const HEADS: &str = "SELECT w.lane, coalesce(f.ready_at, j.created_at)
    FROM unnest($1::integer[]) w (lane) CROSS JOIN LATERAL
        (SELECT id FROM {s}.ready WHERE lane = w.lane ORDER BY rank, seq LIMIT 1) r
    JOIN {s}.job j ON j.id = ANY(ARRAY[r.id]) LEFT JOIN {s}.life f ON f.id = ANY(ARRAY[r.id])";
/// When the first scheduled job of each lane is due.
const NEXT_DUE: &str =
    "SELECT w.lane, n.run_at FROM unnest($1::integer[]) w (lane) CROSS JOIN LATERAL
        (SELECT run_at FROM {s}.scheduled WHERE lane = w.lane ORDER BY run_at LIMIT 1) n";
const SESSIONS: &str = concat!(
    "SELECT ",
    session_columns!("expires_at"),
    ", (SELECT count(*) FROM {s}.lease e WHERE e.session = s.id), info FROM {s}.session s ORDER BY id"
);
const RUNNING: &str = "SELECT id, expires_at, info FROM {s}.session WHERE id = ANY($1)";

impl PostgresEngine {
    /// Ends the transaction, returns the connection, and stamps the result.
    pub(super) async fn end_look<T>(&self, conn: Lent, looked: Try<T>) -> Result<Stamped<T>> {
        let end = async {
            let value = looked?;
            conn.prepare(&[CLOCK]).await?;
            let (now, ()) = try_join(conn.query(CLOCK, &[]), conn.command("COMMIT")).await?;
            Ok::<_, Trouble>((value, self.inner.shared.now_in(&now)))
        };
        match end.await {
            Ok((value, now)) => {
                let epoch = conn.epoch.clone();
                conn.give_back();
                Ok(Stamped { now, epoch, value })
            }
            Err(trouble) => {
                if conn.command("ROLLBACK").await.is_ok() {
                    conn.give_back();
                }
                Err(trouble.into_error())
            }
        }
    }

    pub(super) async fn begin_look(&self) -> Result<Lent> {
        let conn = self.inner.shared.pool.lend().await.map_err(Trouble::into_error)?;
        conn.plain(SNAPSHOT).await.map_err(Trouble::into_error)?;
        Ok(conn)
    }

    pub(crate) async fn answers(&self) -> Result<Stamped<()>> {
        let conn = self.begin_look().await?;
        self.end_look(conn, Ok(())).await
    }

    pub(crate) async fn get_jobs(&self, request: Get) -> Result<Stamped<Vec<Option<Job>>>> {
        request.check()?;
        let conn = self.begin_look().await?;
        let looked = self.read_by_id(&conn, &request).await;
        self.end_look(conn, looked).await
    }

    async fn read_by_id(&self, conn: &Lent, request: &Get) -> Try<Vec<Option<Job>>> {
        let mut ids: Vec<Uuid> = request.ids.iter().map(|id| id.as_uuid()).collect();
        ids.sort_unstable();
        ids.dedup();
        let payload = request.parts.has(PartName::Payload);
        let bits = entries::part_bits(request.parts);
        conn.prepare(&[entries::BY_ID, entries::PARTS]).await?;
        let (jobs, parts) = try_join(
            conn.query(entries::BY_ID, &[&ids, &payload]),
            conn.query(entries::PARTS, &[&ids, &bits]),
        )
        .await?;
        let found = entries::found(conn, &jobs, &parts).await?;
        let view = |id: &JobId| found.get(id).map(|found| found.entry.view(request.parts));
        let mut jobs: Vec<Option<Job>> = request.ids.iter().map(view).collect();
        let dependents = jobs.iter().flatten().filter(|job| job.dependencies.total > 0);
        let dependents: Vec<Uuid> = dependents.map(|job| job.header.id.as_uuid()).collect();
        if !dependents.is_empty() {
            let mut inputs: HashMap<JobId, Vec<Input>> = HashMap::new();
            for (id, input) in inputs_of(conn, &dependents).await? {
                inputs.entry(id).or_default().push(input);
            }
            for job in jobs.iter_mut().flatten() {
                job.inputs = inputs.get(&job.header.id).cloned().unwrap_or_default();
            }
        }
        show_running(conn, jobs.iter_mut().flatten()).await?;
        Ok(jobs)
    }

    pub(crate) async fn count_lanes(
        &self,
        request: StatsRequest,
    ) -> Result<Stamped<Vec<LaneStats>>> {
        let conn = self.begin_look().await?;
        let looked = self.count(&conn, &request).await;
        self.end_look(conn, looked).await
    }

    async fn count(&self, conn: &Lent, request: &StatsRequest) -> Try<Vec<LaneStats>> {
        let mut loaded = self.load_settings(conn).await?;
        if !loaded.limits.is_empty() {
            let loader = Loader::new(conn, self.inner.shared.clock.as_ref());
            let queues = request.queue.as_ref().map(|queue| vec![queue.to_string()]);
            loader.peek_gates(queues.as_deref(), None, &mut loaded).await?;
        }
        let mut counted = Vec::new();
        let rows = conn.query(LANES, &[&request.queue.as_deref()]).await?;
        let lanes: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
        let heads = by_lane(&conn.query(HEADS, &[&lanes]).await?);
        let next_due = by_lane(&conn.query(NEXT_DUE, &[&lanes]).await?);
        for row in &rows {
            let mut lane =
                LaneStats::empty(row.get::<_, &str>(1).into(), row.get::<_, &str>(2).into());
            for (column, state) in (3..).zip(State::ALL) {
                *lane.counter(state) = row.get::<_, i64>(column).max(0).cast_unsigned();
            }
            lane.head_ready_at = heads.get(&row.get(0)).copied();
            lane.next_due_at = next_due.get(&row.get(0)).copied();
            if lane.total() > 0 {
                counted.push(lane);
            }
        }
        // The executor decides which gates are closed.
        let run = self.run_over(&loaded, conn);
        let mut stats = run.lanes(request, counted, loaded.now)?;
        if request.by_priority {
            let numbers = rows.iter().map(|row| ((row.get(1), row.get(2)), row.get(0)));
            let numbers: HashMap<(&str, &str), i32> = numbers.collect();
            let lanes = stats.iter_mut().filter(|lane| run.is_by_priority(lane));
            let lanes = lanes.filter_map(|lane| {
                let number = numbers.get(&(&*lane.queue, &*lane.kind)).copied();
                number.map(|number| (number, lane))
            });
            priorities::add(conn, lanes.collect()).await?;
        }
        Ok(stats)
    }

    async fn load_settings(&self, conn: &Lent) -> Try<Loaded> {
        let mut loaded = Loaded::default();
        add_settings(&mut loaded, SettingRows::read(conn).await?)?;
        Ok(loaded)
    }

    pub(crate) async fn all_settings(&self) -> Result<Stamped<Settings>> {
        let conn = self.begin_look().await?;
        let looked = self.load_settings(&conn).await;
        let looked = looked.map(|loaded| {
            let queues: Vec<(Name, _)> = loaded.queues.into_iter().flatten().collect();
            let limits = loaded.limits.into_iter().collect();
            Settings::new(queues, loaded.kinds.into_iter().collect()).limits(limits)
        });
        self.end_look(conn, looked).await
    }

    pub(crate) async fn open_sessions(&self) -> Result<Stamped<Vec<SessionInfo>>> {
        let conn = self.begin_look().await?;
        let rows = conn.query(SESSIONS, &[]).await;
        let info = |row: &crate::conn::Row| {
            let (id, entry) = session(row);
            Ok(SessionInfo::from(SessionInfoFields {
                id,
                worker: entry.worker,
                opened_at: entry.opened_at,
                expires_at: entry.expires_at,
                running: row.get::<_, i64>(7).cast_unsigned(),
                info: codec::from_text(row.get(8))?,
            }))
        };
        let looked = rows
            .and_then(|rows| Ok(rows.iter().map(info).collect::<Result<Vec<SessionInfo>>>()?));
        self.end_look(conn, looked).await
    }
}

/// Adds their limits, the host and the expiry of the lease to running jobs.
pub(super) async fn show_running(conn: &Lent, jobs: impl Iterator<Item = &mut Job>) -> Try<()> {
    let jobs: Vec<&mut Job> = jobs.filter(|job| job.running.is_some()).collect();
    if jobs.is_empty() {
        return Ok(());
    }
    let mut settings = Loaded::default();
    add_settings(&mut settings, SettingRows::read(conn).await?)?;
    let show = |job: &mut Job| {
        let lane = (job.header.queue.clone(), job.header.kind.clone());
        job.limits = settings.names_of_limits(&lane);
    };
    let mut running: Vec<&mut Running> = jobs
        .into_iter()
        .filter_map(|job| {
            show(job);
            job.running.as_mut()
        })
        .collect();
    let mut sessions: Vec<String> = running.iter().map(|it| it.session.to_string()).collect();
    sessions.sort_unstable();
    sessions.dedup();
    let rows = conn.query(RUNNING, &[&sessions]).await?;
    let mut known: HashMap<SessionId, (Timestamp, Option<String>)> = HashMap::new();
    for row in &rows {
        let info: WorkerInfo = codec::from_text(row.get(2))?;
        known.insert(SessionId::new(row.get::<_, String>(0)), (at(row.get(1)), info.host));
    }
    for running in &mut running {
        if let Some((expires_at, host)) = known.get(&running.session) {
            running.expires_at = *expires_at;
            running.host.clone_from(host);
        }
    }
    Ok(())
}

/// Times by lane.
fn by_lane(rows: &[crate::conn::row::Row]) -> HashMap<i32, Timestamp> {
    rows.iter().map(|row| (row.get(0), at(row.get(1)))).collect()
}
