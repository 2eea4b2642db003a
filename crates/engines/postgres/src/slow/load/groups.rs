//! Loads the rows that limits need: groups, each under its lock, and the meters of limits over all jobs, which are locks,
//! too.

use super::{Loaded, Loader, NOW, SettingRows, add_settings, some};
use crate::conn::error::{Trouble, Try, unavailable};
use crate::conn::{Conn, Row};
use crate::rows::codec;
use crate::rows::entries::{at, job_id};
use futures_util::future::{try_join, try_join3, try_join4};
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::Timestamp;
use windlass_core::model::Name;
use windlass_core::policy::Ahead;
use windlass_executor::{LaneKey, LineHead, LinePlace, Opening};
use windlass_workset::{GroupRows, MeterKey, Wants};

/// The lock of a group is its meter without a name.
const GROUP_LOCK: &str = "";
/// Adds locks that do not exist yet.
const ADD_LOCKS: &str = "INSERT INTO {s}.meter (grp, name)
    SELECT * FROM unnest($1::text[], $2::text[]) w (grp, name) ORDER BY 1, 2 ON CONFLICT DO NOTHING";
const LOCK: &str = "SELECT m.grp, m.name, m.meter FROM unnest($1::text[], $2::text[]) w (grp, name)
    JOIN {s}.meter m ON m.grp = ANY(ARRAY[w.grp]) AND m.name = w.name
    ORDER BY w.grp, w.name FOR UPDATE OF m";
/// The same for a claim, which must not wait for a group while it has locked ready jobs.
const LOCK_FREE: &str =
    "SELECT m.grp, m.name, m.meter FROM unnest($1::text[], $2::text[]) w (grp, name)
    JOIN {s}.meter m ON m.grp = ANY(ARRAY[w.grp]) AND m.name = w.name
    ORDER BY w.grp, w.name FOR UPDATE OF m SKIP LOCKED";
/// The meters of groups, and with the group '' those of limits over all jobs.
const METERS: &str =
    "SELECT grp, name, meter FROM {s}.meter WHERE grp = ANY($1) AND meter IS NOT NULL";
/// Meters without a lock, for reads.
const PEEK_METERS: &str =
    "SELECT m.grp, m.name, m.meter FROM unnest($1::text[], $2::text[]) w (grp, name)
    JOIN {s}.meter m ON m.grp = ANY(ARRAY[w.grp]) AND m.name = w.name";
/// Selects the lines of groups in all lanes.
macro_rules! lanes {
    ($lock:literal) => {
        concat!(
            "SELECT g.grp, g.lane, g.waiting, g.ahead, g.ahead_cost, g.opens_at, g.by_time
            FROM unnest($1::text[]) w (grp) JOIN {s}.group_lane g ON g.grp = ANY(ARRAY[w.grp])
            ORDER BY w.grp, g.lane",
            $lock
        )
    };
}
/// Locked as well, because changed settings open lines without a lock on the group.
const LANES: &str = lanes!(" FOR UPDATE OF g");
/// Lines without a lock, for reads.
const PEEK_LANES: &str = lanes!("");
const LINES: &str = "SELECT g.grp, g.lane, l.priority, l.run_at, l.seq, l.id, l.cost, l.name
    FROM unnest($1::text[], $2::bigint[]) w (grp, most) JOIN {s}.group_lane g ON g.grp = ANY(ARRAY[w.grp])
    CROSS JOIN LATERAL (SELECT * FROM {s}.group_line WHERE grp = g.grp AND lane = g.lane
        ORDER BY priority, run_at, seq LIMIT w.most) l
    WHERE g.waiting > 0";
const RUNNING: &str =
    "SELECT w.grp, e.lane, e.jobs FROM unnest($1::text[]) w (grp) CROSS JOIN LATERAL
        (SELECT lane, count(*) AS jobs FROM {s}.lease WHERE grp = w.grp GROUP BY lane) e";
pub(super) const ALL_RUNNING: &str =
    "SELECT lane, sum(running)::bigint FROM {s}.tally GROUP BY lane HAVING sum(running) > 0";
/// Lines whose time has come, and the first one after them.
const OPENINGS: &str = "SELECT l.queue, l.kind, g.grp, g.opens_at, g.waiting, g.ahead, g.ahead_cost
    FROM (SELECT * FROM {s}.group_lane WHERE opens_at IS NOT NULL ORDER BY opens_at LIMIT $1) g
    JOIN {s}.lane l ON l.id = g.lane ORDER BY g.opens_at";
const OPENINGS_OF_QUEUES: &str =
    "SELECT l.queue, l.kind, g.grp, g.opens_at, g.waiting, g.ahead, g.ahead_cost
    FROM unnest($1::text[]) w (queue) CROSS JOIN LATERAL
        (SELECT * FROM {s}.group_lane WHERE queue = w.queue AND opens_at IS NOT NULL
            ORDER BY opens_at LIMIT $2) g
    JOIN {s}.lane l ON l.id = g.lane ORDER BY g.opens_at";

/// Due lines that one claim examines.
pub(super) const OPENINGS_MAX: i64 = 64;

impl Loader<'_, '_> {
    /// Locks and loads the wanted groups and limits over all jobs. The settings are loaded.
    pub(super) async fn groups(&self, wants: &Wants, loaded: &mut Loaded) -> Try<()> {
        if wants.groups.is_empty() && wants.meters.is_empty() {
            return Ok(());
        }
        let over_all: Vec<Name> = loaded.to_meter(wants).cloned().collect();
        let groups = Groups::of(&wants.groups, loaded);
        let locks = groups.names.iter().map(|group| (*group, GROUP_LOCK));
        let (grps, names): (Vec<&str>, Vec<&str>) =
            locks.chain(over_all.iter().map(|name| ("", &**name))).unzip();
        let conn = self.conn;
        conn.prepare(&[ADD_LOCKS, LOCK, ALL_RUNNING]).await?;
        Groups::prepare(conn).await?;
        // In this order: each statement reads what was committed when it begins, and all but the first two read under
        // the locks.
        let ((_, locked), (rows, running)) = try_join(
            try_join(conn.query(ADD_LOCKS, &[&grps, &names]), conn.query(LOCK, &[&grps, &names])),
            try_join(
                groups.read(conn, LANES),
                some(!over_all.is_empty(), conn.query(ALL_RUNNING, &[])),
            ),
        )
        .await?;
        if locked.len() < grps.len() {
            return Err(Trouble::Retryable(unavailable("a lock was deleted meanwhile")));
        }
        let of_limits = locked.iter().filter(|row| row.get::<_, &str>(1) != GROUP_LOCK);
        add_meters(loaded, of_limits)?;
        if !over_all.is_empty() {
            self.add_running(loaded, &running).await?;
        }
        self.add_groups(loaded, &groups, rows).await
    }

    /// Loads the settings, running jobs, and these meters of limits over all jobs, locked, in one round trip. Returns
    /// `false` if a meter is not stored: the slow path adds it.
    pub(crate) async fn gate(&self, limits: &BTreeSet<Name>, loaded: &mut Loaded) -> Try<bool> {
        let meters = limits.iter().map(|name| (name.clone(), String::new())).collect();
        let (grps, names) = columns(&meters);
        let conn = self.conn;
        let (settings, locked, running, now) = try_join4(
            SettingRows::read(conn),
            conn.query(LOCK, &[&grps, &names]),
            conn.query(ALL_RUNNING, &[]),
            conn.query(NOW, &[]),
        )
        .await?;
        self.tell_time(&now, loaded);
        add_settings(loaded, settings)?;
        add_meters(loaded, &locked)?;
        self.add_running(loaded, &running).await?;
        Ok(locked.len() == names.len())
    }

    /// Prepares the statements of [`gate`](Self::gate).
    pub(crate) async fn prepare_gate(conn: &Conn<'_>) -> Try<()> {
        SettingRows::prepare(conn).await?;
        conn.prepare(&[LOCK, ALL_RUNNING, NOW]).await
    }

    /// Locks and loads those of these groups that no other transaction has locked; notes whether it skipped any.
    pub(super) async fn try_groups(
        &self,
        groups: BTreeSet<String>,
        loaded: &mut Loaded,
    ) -> Try<()> {
        let new: Vec<&str> =
            groups.iter().map(String::as_str).filter(|group| !loaded.has_group(group)).collect();
        if new.is_empty() {
            return Ok(());
        }
        let (names, conn) = (vec![GROUP_LOCK; new.len()], self.conn);
        conn.prepare(&[ADD_LOCKS, LOCK_FREE]).await?;
        let mut locked = conn.query(LOCK_FREE, &[&new, &names]).await?;
        if locked.len() < new.len() {
            // Others hold the missing ones, or they do not exist yet.
            let (_, again) = try_join(
                conn.query(ADD_LOCKS, &[&new, &names]),
                conn.query(LOCK_FREE, &[&new, &names]),
            )
            .await?;
            locked = again;
        }
        let free: BTreeSet<String> = locked.iter().map(|row| row.get(0)).collect();
        loaded.skipped_groups |= free.len() < new.len();
        if free.is_empty() {
            return Ok(());
        }
        let groups = Groups::of(&free, loaded);
        Groups::prepare(conn).await?;
        let rows = groups.read(conn, LANES).await?;
        self.add_groups(loaded, &groups, rows).await
    }

    /// Loads a group without locking it. The settings and the time are loaded.
    pub(crate) async fn peek_group(&self, group: &str, loaded: &mut Loaded) -> Try<()> {
        let wanted = BTreeSet::from([group.to_owned()]);
        let groups = Groups::of(&wanted, loaded);
        let rows = groups.read(self.conn, PEEK_LANES).await?;
        self.add_groups(loaded, &groups, rows).await
    }

    /// Loads meters without locking them; those that are not stored are new.
    pub(crate) async fn peek_meters(
        &self,
        meters: &BTreeSet<MeterKey>,
        loaded: &mut Loaded,
    ) -> Try<()> {
        let (grps, names) = columns(meters);
        let rows = self.conn.query(PEEK_METERS, &[&grps, &names]).await?;
        for key in meters {
            loaded.meters.insert(key.clone(), Default::default());
        }
        add_meters(loaded, &rows)?;
        let running = self.conn.query(ALL_RUNNING, &[]).await?;
        self.add_running(loaded, &running).await
    }

    async fn add_running(&self, loaded: &mut Loaded, rows: &[Row]) -> Try<()> {
        let numbers: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
        let names = self.conn.lanes.names(self.conn, &numbers).await?;
        let count = |row: &Row| {
            let lane = names.get(&row.get(0))?.clone();
            Some((lane, row.get::<_, i64>(1).max(0).cast_unsigned()))
        };
        loaded.running = Some(rows.iter().filter_map(count).collect());
        Ok(())
    }

    async fn add_groups(
        &self,
        loaded: &mut Loaded,
        groups: &Groups<'_>,
        [meters, lanes, lines, running]: [Vec<Row>; 4],
    ) -> Try<()> {
        let numbers = lanes.iter().chain(&running).map(|row| row.get(1)).collect::<Vec<i32>>();
        let names = self.conn.lanes.names(self.conn, &numbers).await?;
        for group in &groups.names {
            loaded.groups.insert((*group).to_owned(), BTreeMap::new());
        }
        let is_by_group = |row: &&Row| {
            loaded.limits.get(row.get::<_, &str>(1)).is_some_and(|limit| limit.by_group)
        };
        let of_groups: Vec<&Row> = meters.iter().filter(is_by_group).collect();
        add_meters(loaded, of_groups)?;
        let now = loaded.now;
        for row in &lanes {
            let Some(lane) = names.get(&row.get(1)).cloned() else { continue };
            let rows = rows_of(loaded, row.get(0), lane);
            rows.waiting = row.get::<_, i64>(2).max(0).cast_unsigned();
            rows.ahead = Ahead {
                jobs: u32::try_from(row.get::<_, i64>(3)).unwrap_or_default(),
                cost: row.get::<_, i64>(4).max(0).cast_unsigned(),
            };
            rows.opens_at = opens_at(row.get(5), row.get(6), now);
        }
        let mut heads: BTreeMap<(String, i32), Vec<LineHead>> = BTreeMap::new();
        for row in &lines {
            heads.entry((row.get(0), row.get(1))).or_default().push(head(row));
        }
        for ((group, lane), heads) in heads {
            let Some(lane) = names.get(&lane).cloned() else { continue };
            let chunk = groups.chunk(&group);
            rows_of(loaded, &group, lane).complete(chunk, heads);
        }
        for row in &running {
            let Some(lane) = names.get(&row.get(1)).cloned() else { continue };
            rows_of(loaded, row.get(0), lane).running = row.get::<_, i64>(2).cast_unsigned();
        }
        Ok(())
    }

    /// The first `limit` lines to be examined, and those of them whose time has come as wanted groups.
    pub(super) async fn openings(
        &self,
        wants: &mut Wants,
        loaded: &mut Loaded,
        limit: i64,
    ) -> Try<()> {
        let rows = self.conn.query(OPENINGS, &[&limit]).await?;
        for (queue, opening) in rows.iter().map(opening) {
            if opening.at > loaded.now {
                loaded.next_opening = Some(opening.at);
                break;
            }
            wants.groups.insert(opening.group.clone());
            loaded.openings.push((queue, opening));
        }
        Ok(())
    }

    /// The groups of these queues with lines whose time has come.
    pub(super) async fn due_groups(
        &self,
        queues: &[String],
        now: Timestamp,
    ) -> Try<Vec<QueueOpening>> {
        let rows = self.conn.query(OPENINGS_OF_QUEUES, &[&queues, &OPENINGS_MAX]).await?;
        let openings = rows.iter().map(opening);
        Ok(openings.filter(|(_, opening)| opening.at <= now).collect())
    }

    /// Loads the first line of each queue that opens, for reads: without a lock, and without its jobs.
    pub(super) async fn peek_openings(&self, queues: &[String], loaded: &mut Loaded) -> Try<()> {
        let rows = self.conn.query(OPENINGS_OF_QUEUES, &[&queues, &1_i64]).await?;
        for (row, (queue, opening)) in rows.iter().zip(rows.iter().map(opening)) {
            let lane = (queue, opening.kind);
            let lanes = loaded.groups.entry(opening.group).or_default();
            let rows = lanes.entry(lane).or_default();
            rows.waiting = row.get::<_, i64>(4).max(0).cast_unsigned();
            rows.opens_at = Some(opening.at);
        }
        Ok(())
    }
}

/// Groups to read, and the number of places to read of their lines.
struct Groups<'a> {
    names: Vec<&'a str>,
    chunks: Vec<i64>,
}

impl<'a> Groups<'a> {
    fn of(groups: &'a BTreeSet<String>, loaded: &Loaded) -> Self {
        let chunks = groups.iter().map(|group| loaded.group_chunk(group) as i64).collect();
        Self { names: groups.iter().map(String::as_str).collect(), chunks }
    }

    fn chunk(&self, group: &str) -> usize {
        let at = self.names.iter().position(|name| *name == group);
        at.map_or(0, |at| self.chunks[at] as usize)
    }

    async fn prepare(conn: &Conn<'_>) -> Try<()> {
        conn.prepare(&[METERS, LANES, LINES, RUNNING]).await
    }

    /// The rows of meters, lanes, lines and running jobs, in one round trip; in two if jobs are in line.
    async fn read(&self, conn: &Conn<'_>, of_lanes: &'static str) -> Try<[Vec<Row>; 4]> {
        let Self { names, chunks } = self;
        if names.is_empty() {
            return Ok(Default::default());
        }
        let (meters, lanes, running) = try_join3(
            conn.query(METERS, &[names]),
            conn.query(of_lanes, &[names]),
            conn.query(RUNNING, &[names]),
        )
        .await?;
        let wait = lanes.iter().any(|lane| lane.get::<_, i64>(2) > 0);
        let lines = some(wait, conn.query(LINES, &[names, chunks])).await?;
        Ok([meters, lanes, lines, running])
    }
}

/// A queue, and a line in it that opens.
pub(super) type QueueOpening = (Name, Opening);

fn opening(row: &Row) -> (Name, Opening) {
    let (kind, group) = (row.get::<_, &str>(1).into(), row.get(2));
    (row.get::<_, &str>(0).into(), Opening { at: at(row.get(3)), kind, group })
}

/// When the line opens: if time alone decides, or if it is time to look again.
fn opens_at(stored: Option<i64>, by_time: bool, now: Timestamp) -> Option<Timestamp> {
    stored.map(at).filter(|at| by_time || *at <= now)
}

fn head(row: &Row) -> LineHead {
    let seq = row.get::<_, i64>(4).cast_unsigned();
    let place = LinePlace { priority: row.get(2), run_at: at(row.get(3)), seq };
    let cost = u32::try_from(row.get::<_, i64>(6)).unwrap_or(u32::MAX);
    LineHead { place, id: job_id(row.get(5)), cost, limit: row.get::<_, &str>(7).into() }
}

fn rows_of<'a>(loaded: &'a mut Loaded, group: &str, lane: LaneKey) -> &'a mut GroupRows {
    loaded.groups.entry(group.to_owned()).or_default().entry(lane).or_default()
}

fn columns(meters: &BTreeSet<MeterKey>) -> (Vec<&str>, Vec<&str>) {
    meters.iter().map(|(name, group)| (group.as_str(), &**name)).unzip()
}

fn add_meters<'r>(loaded: &mut Loaded, rows: impl IntoIterator<Item = &'r Row>) -> Try<()> {
    for row in rows {
        let key = (row.get::<_, &str>(1).into(), row.get(0));
        loaded.meters.insert(key, codec::from_text(row.get(2))?);
    }
    Ok(())
}
