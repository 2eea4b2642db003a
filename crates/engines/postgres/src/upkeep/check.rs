//! Checks that every job is in exactly one place, that derived rows agree with the jobs, and that no row is a ghost,
//! that is, refers to a job that does not exist. A repair derives all rows again and deletes ghosts.

use super::check_edges::Edges;
use super::check_events;
use super::check_groups::Groups;
use crate::conn::Lent;
use crate::conn::Row;
use crate::conn::error::{Trouble, Try};
use crate::engine::PostgresEngine;
use crate::read::SNAPSHOT;
use crate::rows::entries::{self, Found, job_id, read_jobs};
use crate::slow::load::{Loaded, SettingRows, add_settings};
use crate::slow::save::{self, Place};
use std::collections::{BTreeMap, HashMap, HashSet};
use uuid::Uuid;
use windlass_core::Result;
use windlass_core::engine::{CheckReport, Finding, SessionId, Stamped};
use windlass_core::model::{Placement, State};
use windlass_executor::Entry;

/// Excludes all writers during a repair.
const LOCK: &str = "LOCK TABLE {s}.job, {s}.life, {s}.ready, {s}.lease, {s}.scheduled, {s}.aside,
    {s}.finished, {s}.key_holder, {s}.key_line, {s}.group_lane, {s}.group_line, {s}.unique_key, {s}.session,
    {s}.tally, {s}.edge, {s}.unresolved, {s}.event_stream IN EXCLUSIVE MODE";
const JOBS: &str = concat!(
    read_jobs!("{s}.job j"),
    " WHERE ($1::uuid IS NULL OR j.id > $1) ORDER BY j.id LIMIT $3"
);
const READY: &str = "SELECT id, rank, seq, lane FROM {s}.ready";
const SCHEDULED: &str = "SELECT id, run_at, seq, lane FROM {s}.scheduled";
const ASIDE: &str = "SELECT id, state, lane FROM {s}.aside";
const LEASED: &str = "SELECT id FROM {s}.lease";
const FINISHED: &str = "SELECT id, state, lane, at FROM {s}.finished";
const HOLDERS: &str = "SELECT id, queue, key FROM {s}.key_holder";
const LINES: &str = "SELECT id, queue, key, seq FROM {s}.key_line";
/// Ghosts in tables other than places. Rows of `aging`, and of `deadline` for an expiry, may be out of date and are not
/// ghosts.
const GHOSTS: &str = "SELECT t.id, t.name FROM (
        SELECT id, 'life' AS name FROM {s}.life
        UNION ALL SELECT DISTINCT id, 'part' FROM {s}.part
        UNION ALL SELECT DISTINCT id, 'deadline' FROM {s}.deadline WHERE work = 1
        UNION ALL SELECT id, 'unique_key' FROM {s}.unique_key WHERE until = {while_stored}) t
    WHERE NOT EXISTS (SELECT FROM {s}.job j WHERE j.id = ANY(ARRAY[t.id]))";
const UNIQUES: &str = "SELECT id, key FROM {s}.unique_key WHERE until IS NULL";
const SESSIONS: &str = "SELECT id FROM {s}.session";
const TALLY: &str =
    "SELECT lane, sum(scheduled)::bigint, sum(blocked)::bigint, sum(available)::bigint,
    sum(running)::bigint, sum(paused)::bigint, sum(completed)::bigint, sum(dead)::bigint,
    sum(cancelled)::bigint, sum(expired)::bigint FROM {s}.tally GROUP BY lane";

/// Deletes derived rows, and ghosts in other tables.
const CLEAR: &str = "DELETE FROM {s}.ready; DELETE FROM {s}.scheduled; DELETE FROM {s}.aside;
    DELETE FROM {s}.key_holder; DELETE FROM {s}.key_line; DELETE FROM {s}.deadline;
    DELETE FROM {s}.aging; DELETE FROM {s}.tally; DELETE FROM {s}.group_lane; DELETE FROM {s}.group_line;
    DELETE FROM {s}.unresolved;
    DELETE FROM {s}.edge e WHERE NOT EXISTS (SELECT FROM {s}.job j WHERE j.id = e.dependent);
    DELETE FROM {s}.lease e WHERE NOT EXISTS (SELECT FROM {s}.job j WHERE j.id = e.id);
    DELETE FROM {s}.finished f WHERE token IS NULL
        OR NOT EXISTS (SELECT FROM {s}.job j WHERE j.id = f.id);
    DELETE FROM {s}.unique_key u WHERE (until IS NULL OR until = {while_stored})
        AND NOT EXISTS (SELECT FROM {s}.job j WHERE j.id = u.id);
    DELETE FROM {s}.life l WHERE NOT EXISTS (SELECT FROM {s}.job j WHERE j.id = l.id);
    DELETE FROM {s}.part p WHERE NOT EXISTS (SELECT FROM {s}.job j WHERE j.id = p.id)";

/// What a check finds, one sentence each.
pub(super) type Finds = Vec<String>;

/// Jobs of a lane by state, in the order of the columns of `tally`.
type Counts = [i64; State::ALL.len()];

/// Jobs read at once.
const PAGE: i64 = 1_000;

/// A row of a place.
#[derive(Clone, Debug, PartialEq)]
enum Listed {
    Ready { lane: i32, rank: i64, seq: i64 },
    Scheduled { run_at: i64, seq: i64, lane: i32 },
    Aside { state: i16, lane: i32 },
    Leased,
    Finished { state: i16, lane: i32, at: i64 },
}

impl Listed {
    /// The row that a job should have.
    fn of(entry: &Entry, place: &Place, lane: i32) -> Self {
        let ended_at = entry.job.finished_at.unwrap_or_default().as_millis();
        match place.state.placement() {
            Placement::Ready => Self::Ready { lane, rank: place.rank, seq: place.seq },
            Placement::Scheduled => Self::Scheduled { run_at: place.run_at, seq: place.seq, lane },
            Placement::Aside => Self::Aside { state: place.state as i16, lane },
            Placement::Leased => Self::Leased,
            Placement::Ended => Self::Finished { state: place.state as i16, lane, at: ended_at },
        }
    }

    /// The table of the row.
    const fn table(&self) -> &'static str {
        match self {
            Self::Ready { .. } => "ready",
            Self::Scheduled { .. } => "scheduled",
            Self::Aside { .. } => "aside",
            Self::Leased => "lease",
            Self::Finished { .. } => "finished",
        }
    }
}

/// All derived rows.
struct Derived {
    places: HashMap<Uuid, Vec<Listed>>,
    holders: HashMap<(String, String), Uuid>,
    lines: HashSet<(String, String, i64, Uuid)>,
    uniques: Vec<(Uuid, String)>,
    /// Ghosts, each with a table other than a place.
    ghosts: Vec<(Uuid, String)>,
    sessions: HashSet<String>,
    tally: BTreeMap<i32, Counts>,
    groups: Groups,
    edges: Edges,
}

impl PostgresEngine {
    pub(crate) async fn check_all(&self, repair: bool) -> Result<Stamped<CheckReport>> {
        let conn = self.inner.shared.pool.lend().await.map_err(Trouble::into_error)?;
        match self.check_on(&conn, repair).await {
            Ok(report) => {
                conn.give_back();
                Ok(self.answers().await?.map(|()| report))
            }
            Err(trouble) => Err(trouble.into_error()),
        }
    }

    async fn check_on(&self, conn: &Lent, repair: bool) -> Try<CheckReport> {
        if repair {
            conn.command("BEGIN").await?;
            conn.plain(LOCK).await?;
        } else {
            conn.plain(SNAPSHOT).await?;
        }
        let mut derived = Derived::read(conn).await?;
        let mut report = CheckReport::default();
        let mut found = Vec::new();
        let mut alive = HashSet::new();
        let mut counts: BTreeMap<i32, Counts> = BTreeMap::new();
        let mut after = None;
        loop {
            let page = self.jobs_after(conn, after).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.entry.id().as_uuid());
            for job in &page {
                report.jobs += 1;
                derived.judge(job, &mut found);
                if !job.entry.job.state.is_terminal() {
                    alive.insert(job.entry.id().as_uuid());
                }
                counts.entry(job.row.lane).or_default()[job.entry.job.state as usize] += 1;
            }
        }
        derived.judge_rest(&alive, &counts, &mut found);
        check_events::judge(conn, repair, &mut found).await?;
        if repair && !found.is_empty() {
            self.rebuild(conn, &alive).await?;
        }
        conn.command("COMMIT").await?;
        let finding = |what| Finding::new(what, repair);
        report.findings = found.into_iter().map(finding).collect();
        Ok(report)
    }

    async fn jobs_after(&self, conn: &Lent, after: Option<Uuid>) -> Try<Vec<Found>> {
        let rows = conn.query(JOBS, &[&after, &false, &PAGE]).await?;
        let numbers: Vec<i32> = rows.iter().map(|row| row.get(1)).collect();
        let names = conn.lanes.names(conn, &numbers).await?;
        rows.iter().map(|row| Ok(entries::one(row, &names)?)).collect()
    }

    /// Derives all rows again from the jobs.
    async fn rebuild(&self, conn: &Lent, alive: &HashSet<Uuid>) -> Try<()> {
        conn.plain(CLEAR).await?;
        let held: Vec<Uuid> =
            Derived::read(conn).await?.uniques.into_iter().map(|(id, _)| id).collect();
        let ended: Vec<Uuid> = held.into_iter().filter(|id| !alive.contains(id)).collect();
        const FREE: &str = "DELETE FROM {s}.unique_key WHERE until IS NULL AND id = ANY($1)";
        conn.execute(FREE, &[&ended]).await?;
        let mut loaded = Loaded::default();
        add_settings(&mut loaded, SettingRows::read(conn).await?)?;
        let set = save::WorkingSet::over(&loaded, &*conn.lanes);
        let (mut after, mut groups) = (None, Groups::default());
        loop {
            let page = self.jobs_after(conn, after).await?;
            let Some(last) = page.last() else { return groups.save(conn).await };
            after = Some(last.entry.id().as_uuid());
            page.iter().for_each(|job| groups.count(job));
            for batch in save::places(&set, &conn.lanes, &page)? {
                batch.write(conn).await?;
            }
        }
    }
}

impl Derived {
    async fn read(conn: &Lent) -> Try<Self> {
        let mut places: HashMap<Uuid, Vec<Listed>> = HashMap::new();
        let mut add = |row: &Row, listed: Listed| {
            places.entry(row.get(0)).or_default().push(listed);
        };
        for row in &conn.query(READY, &[]).await? {
            add(row, Listed::Ready { rank: row.get(1), seq: row.get(2), lane: row.get(3) });
        }
        for row in &conn.query(SCHEDULED, &[]).await? {
            add(row, Listed::Scheduled { run_at: row.get(1), seq: row.get(2), lane: row.get(3) });
        }
        for row in &conn.query(ASIDE, &[]).await? {
            add(row, Listed::Aside { state: row.get(1), lane: row.get(2) });
        }
        for row in &conn.query(LEASED, &[]).await? {
            add(row, Listed::Leased);
        }
        for row in &conn.query(FINISHED, &[]).await? {
            add(row, Listed::Finished { state: row.get(1), lane: row.get(2), at: row.get(3) });
        }
        let holders = conn.query(HOLDERS, &[]).await?;
        let lines = conn.query(LINES, &[]).await?;
        let uniques = conn.query(UNIQUES, &[]).await?;
        let ghosts = conn.query(GHOSTS, &[]).await?;
        let sessions = conn.query(SESSIONS, &[]).await?;
        let tally = conn.query(TALLY, &[]).await?;
        let groups = Groups::read(conn).await?;
        let edges = Edges::read(conn).await?;
        Ok(Self {
            groups,
            edges,
            places,
            holders: holders.iter().map(|row| ((row.get(1), row.get(2)), row.get(0))).collect(),
            lines: lines
                .iter()
                .map(|row| (row.get(1), row.get(2), row.get(3), row.get(0)))
                .collect(),
            uniques: uniques.iter().map(|row| (row.get(0), row.get(1))).collect(),
            ghosts: ghosts.iter().map(|row| (row.get(0), row.get(1))).collect(),
            sessions: sessions.iter().map(|row| row.get(0)).collect(),
            tally: tally
                .iter()
                .map(|row| (row.get(0), std::array::from_fn(|column| row.get(column + 1))))
                .collect(),
        })
    }

    /// Adds the findings of one job, and removes its rows from the set.
    fn judge(&mut self, job: &Found, found: &mut Finds) {
        let (entry, id) = (&job.entry, job.entry.id());
        let is_open = |session: &SessionId| self.sessions.contains(session.as_str());
        found.extend(entry.contradictions(&is_open));
        let place = Place::of(entry);
        let ought = Listed::of(entry, &place, job.row.lane);
        match self.places.remove(&id.as_uuid()).unwrap_or_default().as_slice() {
            [is] if *is == ought => {}
            [] => found.push(format!("job {id} is in no place; it ought to be in {ought:?}")),
            [is] => found.push(format!("job {id} is in {is:?}; it ought to be in {ought:?}")),
            _ => found.push(format!("job {id} is in several places")),
        }
        self.groups.judge(job, &place, found);
        self.edges.judge(job, found);
        let header = &entry.job.header;
        let Some(key) = &header.key else { return };
        let line = (header.queue.to_string(), key.clone());
        let holds = self.holders.get(&line) == Some(&id.as_uuid());
        if holds {
            self.holders.remove(&line);
        }
        if holds != entry.holds_key {
            found.push(format!("job {id}: whether it holds its key, it and the key do not agree"));
        }
        let spot = (line.0, line.1, place.seq, id.as_uuid());
        if self.lines.remove(&spot) != place.in_line.is_some() {
            found.push(format!("job {id}: whether it is in line, it and the line do not agree"));
        }
    }

    /// Ghosts and their tables, including the places that no job has removed.
    fn ghosts(&self) -> BTreeMap<Uuid, Vec<&str>> {
        let mut all: BTreeMap<Uuid, Vec<&str>> = BTreeMap::new();
        for (id, places) in &self.places {
            let tables = all.entry(*id).or_default();
            places.iter().for_each(|place| tables.push(place.table()));
        }
        for (id, table) in &self.ghosts {
            all.entry(*id).or_default().push(table);
        }
        all
    }

    /// Adds rows without a job, and wrong counts.
    fn judge_rest(&self, alive: &HashSet<Uuid>, counts: &BTreeMap<i32, Counts>, found: &mut Finds) {
        found.extend(self.ghosts().into_iter().map(|(id, tables)| {
            format!("job {} does not exist, but has rows in {}", job_id(id), tables.join(", "))
        }));
        let holder = |(line, id): (&(String, String), &Uuid)| {
            format!("ordering key {:?} is held by {}, which does not", line.1, job_id(*id))
        };
        found.extend(self.holders.iter().map(holder));
        let in_line = |(_, key, _, id): &(String, String, i64, Uuid)| {
            format!("job {} is in line for {key:?}, and should not", job_id(*id))
        };
        found.extend(self.lines.iter().map(in_line));
        self.groups.judge_rest(found);
        self.edges.judge_rest(found);
        let ended = self.uniques.iter().filter(|(id, _)| !alive.contains(id));
        let unique = |(id, key): &(Uuid, String)| {
            format!("unique key {key:?} is held by {}, which has ended", job_id(*id))
        };
        found.extend(ended.map(unique));
        let zeros = Counts::default();
        let lanes: HashSet<&i32> = self.tally.keys().chain(counts.keys()).collect();
        for lane in lanes {
            let (is, ought) = (self.tally.get(lane), counts.get(lane));
            if is.unwrap_or(&zeros) != ought.unwrap_or(&zeros) {
                found.push(format!("lane {lane} is counted as {is:?}; it ought to be {ought:?}"));
            }
        }
    }
}
