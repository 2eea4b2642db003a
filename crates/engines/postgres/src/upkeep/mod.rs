//! Compaction: folds counts, deletes expired rows and idle lanes, adds partitions, and vacuums or rewrites small
//! tables.

pub(crate) mod check;
mod check_edges;
mod check_events;
mod check_groups;
pub(crate) mod server_stats;

use crate::conn::Lent;
use crate::conn::error::{Trouble, Try};
use crate::engine::PostgresEngine;
use crate::rows::lanes::IDLE_AFTER_MS;
use crate::slow::perform::{CLOCK, Needs, Run};
use metrics::counter;
use std::collections::HashMap;
use std::sync::MutexGuard;
use tokio::time::Instant;
use windlass_core::engine::{MaintainReply, MaintainRequest, Stamped};
use windlass_core::limits::LANE_IDLE_MS;
use windlass_core::sync::lock;
use windlass_core::{Error, Result, Timestamp};
use windlass_workset::Wants;

/// Folds rows of counts into one per lane. Skips rows that another compaction has locked.
const FOLD: &str = "WITH gone AS (DELETE FROM {s}.tally WHERE ctid = ANY(ARRAY(
            SELECT ctid FROM {s}.tally LIMIT $1 FOR UPDATE SKIP LOCKED)) RETURNING *),
        folded AS (SELECT lane, sum(scheduled)::bigint AS scheduled, sum(blocked)::bigint AS blocked,
            sum(available)::bigint AS available, sum(running)::bigint AS running,
            sum(paused)::bigint AS paused, sum(completed)::bigint AS completed, sum(dead)::bigint AS dead,
            sum(cancelled)::bigint AS cancelled, sum(expired)::bigint AS expired FROM gone GROUP BY lane),
        kept AS (INSERT INTO {s}.tally SELECT * FROM folded
            WHERE (scheduled, blocked, available, running, paused, completed, dead, cancelled, expired)
                <> (0, 0, 0, 0, 0, 0, 0, 0, 0))
    SELECT count(*) FROM gone";
const DELETE_EXPIRED_KEYS: &str = "DELETE FROM {s}.unique_key WHERE (queue, kind, key) IN
    (SELECT queue, kind, key FROM {s}.unique_key WHERE until <= $1 ORDER BY until LIMIT $2
        FOR UPDATE SKIP LOCKED)";
/// Keeps the last turn served of each queue.
const FOLD_SERVED: &str = "WITH gone AS (DELETE FROM {s}.served WHERE ctid = ANY(ARRAY(
            SELECT ctid FROM {s}.served LIMIT $1 FOR UPDATE SKIP LOCKED)) RETURNING *)
    INSERT INTO {s}.served SELECT queue, max(turn) FROM gone GROUP BY queue";
/// Deletes tenants whose latest turn is behind the turn being served: they are newcomers again.
const DELETE_TENANTS: &str = "DELETE FROM {s}.turn WHERE ctid = ANY(ARRAY(
    SELECT t.ctid FROM (SELECT queue, max(turn) AS turn FROM {s}.served GROUP BY queue) s
    CROSS JOIN LATERAL (SELECT ctid FROM {s}.turn WHERE queue = s.queue AND turn < s.turn
        LIMIT $1 FOR UPDATE SKIP LOCKED) t))";
/// Deletes meters that say nothing, of groups without waiting and ready jobs. A meter that a verb has locked stays.
const DELETE_METERS: &str = "DELETE FROM {s}.meter WHERE ctid = ANY(ARRAY(
    SELECT m.ctid FROM {s}.meter m WHERE m.idle_at <= $1::bigint
        AND NOT EXISTS (SELECT FROM {s}.group_lane g WHERE g.grp = m.grp)
    LIMIT $2::bigint FOR UPDATE SKIP LOCKED))";
/// Whether a queue was held until a time that is over.
const WAS_HELD: &str = "SELECT EXISTS (SELECT FROM {s}.queue
    WHERE metered AND (settings::json ->> 'held_until')::timestamptz <= to_timestamp($1::bigint / 1000.0))";
/// Marks lanes as idle that have no live jobs and were not used for minutes: claims skip them. A lane that is about to
/// get a job was marked as used. The tally is read once (`NOT IN` is a hash lookup), not once per lane.
const MARK_IDLE: &str = "UPDATE {s}.lane SET idle = true WHERE id IN (
    SELECT id FROM {s}.lane WHERE id = ANY(ARRAY(
        SELECT l.id FROM {s}.lane l WHERE NOT l.idle AND l.used_at < $1::bigint AND l.id NOT IN (
            SELECT lane FROM {s}.tally GROUP BY lane
            HAVING sum(scheduled + blocked + available + running + paused) <> 0) LIMIT $2::bigint))
        AND NOT idle AND used_at < $1::bigint
    ORDER BY id FOR UPDATE SKIP LOCKED)";
/// Revives idle lanes that have a ready job. `ORDER BY` makes each lookup use the index instead of a scan of `ready`.
const REVIVE: &str = "UPDATE {s}.lane SET idle = false WHERE id IN (
    SELECT l.id FROM {s}.lane l CROSS JOIN LATERAL
        (SELECT FROM {s}.ready WHERE lane = l.id ORDER BY rank, seq LIMIT 1) r
    WHERE l.idle FOR UPDATE OF l SKIP LOCKED)";
/// Deletes lanes that were not used for a week and that no job refers to. Ordered like [`REVIVE`].
const DELETE_LANES: &str = "DELETE FROM {s}.lane WHERE id IN (
    SELECT l.id FROM {s}.lane l
        LEFT JOIN LATERAL (SELECT true AS there FROM {s}.finished WHERE lane = l.id AND NOT own
            ORDER BY state, at LIMIT 1) f ON true
        LEFT JOIN LATERAL (SELECT true AS there FROM {s}.finished WHERE lane = l.id AND own ORDER BY at LIMIT 1) o
            ON true
    WHERE l.idle AND l.used_at < $1::bigint AND f.there IS NULL AND o.there IS NULL
        AND l.id NOT IN (SELECT lane FROM {s}.tally GROUP BY lane
            HAVING sum(scheduled + blocked + available + running + paused) <> 0)
    LIMIT $2::bigint FOR UPDATE OF l SKIP LOCKED)
    RETURNING id";
/// How often lanes are marked as idle.
const MARK_EVERY_MS: u64 = 10_000;
/// How often lanes are deleted; less often, because that looks up ended jobs.
const DELETE_EVERY_MS: u64 = 600_000;
/// Maximum number of lanes marked as idle in one step.
const MARK_MAX: i64 = 10_000;
/// The tables with enough dead rows to be worth a vacuum, as `schema.table`; all if the server does not count them.
const WORTH_VACUUM: &str = "SELECT {'s.'} || w.name FROM unnest($1::text[]) w (name)
    WHERE pg_stat_get_dead_tuples(to_regclass({'s.'} || w.name)) >= $2
        OR NOT current_setting('track_counts')::boolean";

/// The tables that are too large for their number of live rows.
const SIZES: &str = "SELECT w.name FROM unnest($1::text[]) WITH ORDINALITY w (name, n)
    WHERE pg_relation_size(to_regclass({'s.'} || w.name)) > $2::bigint + $3::bigint * coalesce(CASE w.name
        WHEN 'ready' THEN (SELECT sum(available)::bigint FROM {s}.tally)
        WHEN 'lease' THEN (SELECT sum(running)::bigint FROM {s}.tally)
        WHEN 'scheduled' THEN (SELECT sum(scheduled)::bigint FROM {s}.tally)
        WHEN 'turn' THEN $4::bigint END, 0)
    ORDER BY w.n";
const REWRITE: &str = "SELECT {s}.rewrite($1, $2)";
const SMALL: [&str; 8] =
    ["tally", "ready", "lease", "session", "scheduled", "turn", "served", "event_inbox"];
/// Tables that are vacuumed early and not rewritten.
const LARGER: [&str; 3] = ["meter", "group_lane", "group_line"];
/// Allowed size of a small table: a base, and bytes per live row.
const SIZE_MAX: i64 = 1 << 20;
const SIZE_PER_ROW_MAX: i64 = 400;
/// Maximum rows copied under the exclusive lock of a rewrite.
const COPY_MAX: i64 = 20_000;
/// Pause after a refused lock.
const LOCK_PAUSE_MS: u64 = 10_000;

/// How long locks are refused before a warning, and how often it is repeated.
const WARN_AFTER_MS: u64 = 60_000;
const WARN_AGAIN_MS: u64 = 600_000;

/// Maximum rows of counts folded in one step.
const FOLD_MAX: i64 = 10_000;
/// Rows of counts above which the store is busy; every transaction adds at least one.
const BUSY: i64 = 100;
/// Time until the next step in a busy store, and in an idle one.
const AGAIN_BUSY_MS: u64 = 500;
const AGAIN_MS: u64 = 10_000;
/// Minimum dead rows for a vacuum, after which all connections plan again: in an idle queue that costs more.
const DEAD_MIN: i64 = 1_000;
/// Vacuuming takes at most one part in this number of the time: beside an old snapshot it removes nothing and takes
/// longer each time.
const VACUUM_SHARE: u32 = 20;

/// Backoff for an exclusive lock that was refused.
#[derive(Debug, Default)]
pub(crate) struct LockBackoff {
    /// No attempt before this time.
    pause_until: Timestamp,
    /// When it was first refused, and when that was last logged.
    refused_since: Option<Timestamp>,
    warned_at: Option<Timestamp>,
}

/// The result of a step.
struct Compacted {
    now: Timestamp,
    /// The delay until the next step.
    again_ms: u64,
    /// Whether the next step has more to drop at once.
    more: bool,
}

impl PostgresEngine {
    pub(crate) async fn compact(&self, request: MaintainRequest) -> Result<Stamped<MaintainReply>> {
        let conn = self.inner.shared.pool.lend().await.map_err(Trouble::into_error)?;
        match self.compact_on(&conn, request).await {
            Ok(Compacted { now, again_ms, more }) => {
                let epoch = conn.epoch.clone();
                let was_held = conn.query(WAS_HELD, &[&now.as_millis()]).await;
                let was_held = was_held.map_err(Trouble::into_error)?;
                conn.give_back();
                if was_held.first().is_some_and(|row| row.get(0)) {
                    // Its claims are fast again.
                    let end = |run: &mut Run<'_>, now| run.end_holds(now);
                    self.perform(Needs::Written, Wants::of_settings(), Vec::new(), end).await?;
                }
                let mut value = MaintainReply::default();
                value.more = more;
                value.next_at = Some(now.plus(again_ms));
                Ok(Stamped { now, epoch, value })
            }
            Err(trouble) => Err(trouble.into_error()),
        }
    }

    /// Runs a step.
    async fn compact_on(&self, conn: &Lent, request: MaintainRequest) -> Try<Compacted> {
        let MaintainRequest { budget, removed_kept_ms, .. } = request;
        let now = self.inner.shared.now_in(&conn.query(CLOCK, &[]).await?);
        let folded = conn.query(FOLD, &[&FOLD_MAX]).await?;
        let is_busy = folded.first().is_some_and(|row| row.get::<_, i64>(0) >= BUSY);
        if !self.is_lock_paused(now, "job_default") {
            match self.add_partitions(conn).await {
                Ok(()) => self.lock_granted("job_default"),
                Err(trouble) => self.lock_refused(now, "job_default", &trouble.into_error()),
            }
        }
        conn.execute(DELETE_EXPIRED_KEYS, &[&now.as_millis(), &i64::from(budget)]).await?;
        self.forget_removed(conn, now.minus(removed_kept_ms), budget).await?;
        conn.execute(FOLD_SERVED, &[&FOLD_MAX]).await?;
        conn.execute(DELETE_TENANTS, &[&i64::from(budget)]).await?;
        self.maintain_lanes(conn, now, budget).await?;
        let more = self.drop_events(conn, now, budget).await?;
        self.vacuum(conn).await?;
        self.rewrite_small(conn, now).await?;
        let again_ms = if is_busy { AGAIN_BUSY_MS } else { AGAIN_MS };
        Ok(Compacted { now, again_ms, more })
    }

    /// Marks idle lanes, and deletes those that were idle for a week.
    async fn maintain_lanes(&self, conn: &Lent, now: Timestamp, budget: u32) -> Try<()> {
        let (marks, forgets) = self.lane_pace(now);
        let before = |ms| now.minus(ms).as_millis();
        if marks {
            conn.execute(DELETE_METERS, &[&now.as_millis(), &MARK_MAX]).await?;
            conn.execute(MARK_IDLE, &[&before(IDLE_AFTER_MS), &MARK_MAX]).await?;
            conn.execute(REVIVE, &[]).await?;
        }
        if !forgets {
            return Ok(());
        }
        let budget = i64::from(budget);
        let forgotten = conn.query(DELETE_LANES, &[&before(LANE_IDLE_MS), &budget]).await?;
        let forgotten: Vec<i32> = forgotten.iter().map(|row| row.get(0)).collect();
        if !forgotten.is_empty() {
            conn.lanes.forget(&forgotten);
        }
        Ok(())
    }

    /// Whether it is time to mark idle lanes, and to delete lanes.
    fn lane_pace(&self, now: Timestamp) -> (bool, bool) {
        let mut looked = lock(&self.inner.lanes_maintained_at);
        let is_due = |at: &mut Option<Timestamp>, every_ms: u64| {
            // After the clock went backwards, both are due.
            let is_due = at.is_none_or(|at| now < at || now.since(at) >= every_ms);
            if is_due {
                *at = Some(now);
            }
            is_due
        };
        let (marked, forgot) = &mut *looked;
        (is_due(marked, MARK_EVERY_MS), is_due(forgot, DELETE_EVERY_MS))
    }

    /// Vacuums the small tables, unless that took long recently. Autovacuum runs once a minute, and these tables change
    /// within seconds.
    async fn vacuum(&self, conn: &Lent) -> Try<()> {
        let begun = Instant::now();
        let vacuum_at = || lock(&self.inner.vacuum_at);
        if vacuum_at().is_some_and(|at| at > begun) {
            return Ok(());
        }
        let tables = [&SMALL[..], &LARGER[..]].concat();
        let worth = conn.query(WORTH_VACUUM, &[&tables, &DEAD_MIN]).await?;
        if worth.is_empty() {
            return Ok(());
        }
        let tables: Vec<&str> = worth.iter().map(|row| row.get(0)).collect();
        // Without the privilege, the server skips the tables and autovacuum does it.
        let vacuumed = conn.command(&format!("VACUUM (SKIP_LOCKED) {}", tables.join(", "))).await;
        *vacuum_at() = Some(Instant::now() + begun.elapsed() * VACUUM_SHARE);
        match vacuumed.map_err(Trouble::into_error) {
            // VACUUM runs outside of transactions and so with the role's timeouts: left to autovacuum.
            Err(reason) if !conn.has_session() => {
                tracing::debug!(%reason, "cannot vacuum through this pooler; left to autovacuum");
                Ok(())
            }
            vacuumed => Ok(vacuumed?),
        }
    }

    /// Whether a lock on this table was refused less than ten seconds ago. A longer pause began before the clock went
    /// backwards and does not count.
    pub(crate) fn is_lock_paused(&self, now: Timestamp, table: &str) -> bool {
        let is_paused = |backoff: &LockBackoff| {
            backoff.pause_until > now && backoff.pause_until <= now.plus(LOCK_PAUSE_MS)
        };
        self.lock_backoff().get(table).is_some_and(is_paused)
    }

    /// Notes a refused lock and pauses. Logs a warning if locks are refused for a minute.
    pub(crate) fn lock_refused(&self, now: Timestamp, table: &str, reason: &Error) {
        counter!("windlass_postgres_locks_refused_total", "table" => table.to_owned()).increment(1);
        let mut all = self.lock_backoff();
        let backoff = all.entry(table.to_owned()).or_default();
        backoff.pause_until = now.plus(LOCK_PAUSE_MS);
        let since = *backoff.refused_since.get_or_insert(now);
        let for_ms = now.since(since);
        let is_lock = matches!(reason, Error::Busy { .. });
        if is_lock && for_ms < WARN_AFTER_MS
            || backoff.warned_at.is_some_and(|at| now.since(at) < WARN_AGAIN_MS)
        {
            tracing::debug!(table, %reason, "cannot be truncated now and grows meanwhile");
            return;
        }
        backoff.warned_at = Some(now);
        let way_out = match is_lock {
            true => "another transaction holds a lock on it, see pg_locks and pg_stat_activity",
            false => "fix the reported error",
        };
        tracing::warn!(table, for_s = for_ms / 1_000, %reason, "cannot be truncated and grows: {way_out}");
    }

    /// Notes a granted lock.
    pub(crate) fn lock_granted(&self, table: &str) {
        self.lock_backoff().remove(table);
    }

    fn lock_backoff(&self) -> MutexGuard<'_, HashMap<String, LockBackoff>> {
        lock(&self.inner.lock_backoff)
    }

    /// Rewrites small tables that are still large after a vacuum.
    async fn rewrite_small(&self, conn: &Lent, now: Timestamp) -> Try<()> {
        for row in
            conn.query(SIZES, &[&&SMALL[..], &SIZE_MAX, &SIZE_PER_ROW_MAX, &COPY_MAX]).await?
        {
            let table: &str = row.get(0);
            if self.is_lock_paused(now, table) {
                continue;
            }
            if let Err(trouble) = conn.query(REWRITE, &[&table, &COPY_MAX]).await {
                self.lock_refused(now, table, &trouble.into_error());
                continue;
            }
            self.lock_granted(table);
            counter!("windlass_postgres_rewrites_total", "table" => table.to_owned()).increment(1);
        }
        Ok(())
    }
}
