//! Compaction: folding counts, forgetting what has no meaning any more, and vacuuming what moves.

pub(crate) mod check;
pub(crate) mod server_stats;

use crate::conn::Lent;
use crate::conn::error::{Trouble, Try};
use crate::engine::PostgresEngine;
use crate::rows::lanes::IDLE_AFTER_MS;
use crate::slow::perform::CLOCK;
use metrics::counter;
use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};
use tokio::time::Instant;
use windlass_core::engine::{MaintainReply, Stamped};
use windlass_core::limits::LANE_IDLE_MS;
use windlass_core::{Error, Result, Timestamp};

/// Rows of counts become one per lane. Whatever another compaction has in its hands is left to it.
const FOLD: &str = "WITH gone AS (DELETE FROM {s}.tally WHERE ctid = ANY(ARRAY(
            SELECT ctid FROM {s}.tally LIMIT $1 FOR UPDATE SKIP LOCKED)) RETURNING *),
        folded AS (SELECT lane, sum(scheduled)::bigint AS scheduled, sum(blocked)::bigint AS blocked,
            sum(available)::bigint AS available, sum(running)::bigint AS running,
            sum(paused)::bigint AS paused, sum(dead)::bigint AS dead FROM gone GROUP BY lane),
        kept AS (INSERT INTO {s}.tally SELECT * FROM folded
            WHERE (scheduled, blocked, available, running, paused, dead) <> (0, 0, 0, 0, 0, 0))
    SELECT count(*) FROM gone";
const FORGET_WINDOWS: &str = "DELETE FROM {s}.unique_key WHERE (queue, kind, key) IN
    (SELECT queue, kind, key FROM {s}.unique_key WHERE until <= $1 ORDER BY until LIMIT $2
        FOR UPDATE SKIP LOCKED)";
/// Of the turns that claims served, the last of each queue counts;
const FOLD_SERVED: &str = "WITH gone AS (DELETE FROM {s}.served WHERE ctid = ANY(ARRAY(
            SELECT ctid FROM {s}.served LIMIT $1 FOR UPDATE SKIP LOCKED)) RETURNING *)
    INSERT INTO {s}.served SELECT queue, max(turn) FROM gone GROUP BY queue";
/// and tenants behind it are as good as new.
const FORGET_TENANTS: &str = "DELETE FROM {s}.turn WHERE ctid = ANY(ARRAY(
    SELECT t.ctid FROM (SELECT queue, max(turn) AS turn FROM {s}.served GROUP BY queue) s
    CROSS JOIN LATERAL (SELECT ctid FROM {s}.turn WHERE queue = s.queue AND turn < s.turn
        LIMIT $1 FOR UPDATE SKIP LOCKED) t))";
/// Of how far claims have come in a lane, the furthest counts.
const FOLD_REACHED: &str = "DELETE FROM {s}.reached WHERE ctid = ANY(ARRAY(
    SELECT place FROM (SELECT place, row_number() OVER (PARTITION BY lane ORDER BY seq DESC) AS n
        FROM (SELECT ctid AS place, lane, seq FROM {s}.reached LIMIT $1) f) r
    WHERE n > 1))";
/// Lanes without live jobs that were not used for minutes are idle: claims pass them by. None that somebody is about to
/// use: those were noted as used.
const MARK_IDLE: &str = "UPDATE {s}.lane SET idle = true WHERE id IN (
    SELECT id FROM {s}.lane WHERE id = ANY(ARRAY(
        SELECT l.id FROM {s}.lane l LEFT JOIN {s}.tally t ON t.lane = l.id WHERE NOT l.idle AND l.used_at < $1::bigint
        GROUP BY l.id
        HAVING coalesce(sum(t.scheduled + t.blocked + t.available + t.running + t.paused), 0) = 0 LIMIT $2::bigint))
        AND NOT idle AND used_at < $1::bigint
    ORDER BY id FOR UPDATE SKIP LOCKED)";
/// Idle lanes that got a job unnoticed. Ordered, so that each is looked up by the index and `ready` is not gone through.
const REVIVE: &str = "UPDATE {s}.lane SET idle = false WHERE id IN (
    SELECT l.id FROM {s}.lane l CROSS JOIN LATERAL
        (SELECT FROM {s}.ready WHERE lane = l.id ORDER BY rank, seq LIMIT 1) r
    WHERE l.idle FOR UPDATE OF l SKIP LOCKED)";
/// Lanes that were not used for long are forgotten, once no job refers to them. Ordered like [`REVIVE`].
const FORGET_LANES: &str = "DELETE FROM {s}.lane WHERE id IN (
    SELECT l.id FROM {s}.lane l
        LEFT JOIN LATERAL (SELECT true AS there FROM {s}.finished WHERE lane = l.id AND NOT own
            ORDER BY state, at LIMIT 1) f ON true
        LEFT JOIN LATERAL (SELECT true AS there FROM {s}.finished WHERE lane = l.id AND own ORDER BY at LIMIT 1) o
            ON true
    WHERE l.idle AND l.used_at < $1::bigint AND f.there IS NULL AND o.there IS NULL
        AND NOT EXISTS (SELECT FROM {s}.tally t WHERE t.lane = l.id)
    LIMIT $2::bigint FOR UPDATE OF l SKIP LOCKED)
    RETURNING id";
const FORGET_REACHED: &str = "DELETE FROM {s}.reached WHERE lane = ANY($1)";
/// How often idle lanes are looked for.
const MARK_EVERY_MS: u64 = 10_000;
/// How often lanes to forget are looked for; less often, as that looks for ended jobs that refer to them.
const FORGET_EVERY_MS: u64 = 600_000;
/// Lanes that become idle in one step.
const MARK_MAX: i64 = 10_000;
/// Which of these tables have so many dead rows that it is worth a vacuum, as `schema.table`; all where the server does
/// not count.
const WORTH_VACUUM: &str = "SELECT '{s}.' || w.name FROM unnest($1::text[]) w (name)
    WHERE pg_stat_get_dead_tuples(to_regclass('{s}.' || w.name)) >= $2
        OR NOT current_setting('track_counts')::boolean";

/// Which of these tables are larger by far than they should be: the more rows are alive, the larger they may be.
const SIZES: &str = "SELECT w.name FROM unnest($1::text[]) WITH ORDINALITY w (name, n)
    WHERE pg_relation_size(to_regclass('{s}.' || w.name)) > $2::bigint + $3::bigint * coalesce(CASE w.name
        WHEN 'ready' THEN (SELECT sum(available)::bigint FROM {s}.tally)
        WHEN 'lease' THEN (SELECT sum(running)::bigint FROM {s}.tally)
        WHEN 'scheduled' THEN (SELECT sum(scheduled)::bigint FROM {s}.tally)
        WHEN 'turn' THEN $4::bigint END, 0)
    ORDER BY w.n";
const REWRITE: &str = "SELECT {s}.rewrite($1, $2)";
const HOT: [&str; 7] = ["tally", "ready", "lease", "session", "scheduled", "turn", "served"];
/// A table that moves, too, but of which a claim looks at the highest row only, so that it does not matter how large it is.
const REACHED: &str = "reached";
/// A hot table may be so large whatever is alive in it, and so much larger for each row that is.
const SIZE_MAX: i64 = 1 << 20;
const SIZE_PER_ROW_MAX: i64 = 400;
/// Rows copied at most while everybody waits.
const COPY_MAX: i64 = 20_000;
/// How long after a lock that did not come it is asked for again.
const ASK_AGAIN_MS: u64 = 10_000;

/// For how long such locks may not come before it is worth a warning, and how often that is repeated.
const WARN_AFTER_MS: u64 = 60_000;
const WARN_AGAIN_MS: u64 = 600_000;

/// Rows of counts folded in one step.
const FOLD_MAX: i64 = 10_000;
/// So many rows of counts, of which every transaction adds one at least, tell that much has moved since.
const BUSY: i64 = 100;
/// How soon to look again where much moves, and where little does.
const AGAIN_BUSY_MS: u64 = 500;
const AGAIN_MS: u64 = 10_000;
/// A vacuum makes everybody plan anew, which an idle queue feels; fewer dead rows than these, nobody does.
const DEAD_MIN: i64 = 1_000;
/// Vacuuming takes one part in so many of the time at most: beside an old snapshot it is of no use, and goes
/// through more and more.
const VACUUM_SHARE: u32 = 20;

/// With whoever stands in the way of a lock that would hold everybody up.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    /// Until then it is not asked for.
    rest_until: Timestamp,
    /// Since when it did not come, and when that was said.
    refused_since: Option<Timestamp>,
    warned_at: Option<Timestamp>,
}

impl PostgresEngine {
    pub(crate) async fn compact(&self, budget: u32) -> Result<Stamped<MaintainReply>> {
        let conn = self.inner.shared.pool.lend().await.map_err(Trouble::told)?;
        match self.compact_on(&conn, budget).await {
            Ok((now, again_ms)) => {
                let epoch = conn.epoch.clone();
                conn.give_back();
                let mut value = MaintainReply::default();
                value.next_at = Some(now.plus(again_ms));
                Ok(Stamped { now, epoch, value })
            }
            Err(trouble) => Err(trouble.told()),
        }
    }

    /// The time, and how soon to come again.
    async fn compact_on(&self, conn: &Lent, budget: u32) -> Try<(Timestamp, u64)> {
        let now = self.inner.shared.now_in(&conn.query(CLOCK, &[]).await?);
        let folded = conn.query(FOLD, &[&FOLD_MAX]).await?;
        let is_busy = folded.first().is_some_and(|row| row.get::<_, i64>(0) >= BUSY);
        if !self.is_resting(now, "job_rest") {
            match self.add_leaves(conn).await {
                Ok(()) => self.was_let("job_rest"),
                Err(trouble) => self.rest(now, "job_rest", &trouble.told()),
            }
        }
        conn.execute(FORGET_WINDOWS, &[&now.as_millis(), &i64::from(budget)]).await?;
        conn.execute(FOLD_SERVED, &[&FOLD_MAX]).await?;
        conn.execute(FORGET_TENANTS, &[&i64::from(budget)]).await?;
        conn.execute(FOLD_REACHED, &[&FOLD_MAX]).await?;
        self.tend_lanes(conn, now, budget).await?;
        self.vacuum(conn).await?;
        self.rewrite_hot(conn, now).await?;
        Ok((now, if is_busy { AGAIN_BUSY_MS } else { AGAIN_MS }))
    }

    /// Notes which lanes are idle, and forgets those that have been for long.
    async fn tend_lanes(&self, conn: &Lent, now: Timestamp, budget: u32) -> Try<()> {
        let (marks, forgets) = self.lane_pace(now);
        let before = |ms| now.minus(ms).as_millis();
        if marks {
            conn.execute(MARK_IDLE, &[&before(IDLE_AFTER_MS), &MARK_MAX]).await?;
            conn.execute(REVIVE, &[]).await?;
        }
        if !forgets {
            return Ok(());
        }
        let budget = i64::from(budget);
        let forgotten = conn.query(FORGET_LANES, &[&before(LANE_IDLE_MS), &budget]).await?;
        let forgotten: Vec<i32> = forgotten.iter().map(|row| row.get(0)).collect();
        if !forgotten.is_empty() {
            conn.lanes.forget(&forgotten);
            conn.execute(FORGET_REACHED, &[&forgotten]).await?;
        }
        Ok(())
    }

    /// Whether it is time to look for idle lanes, and for those to forget.
    fn lane_pace(&self, now: Timestamp) -> (bool, bool) {
        let mut looked = self.inner.lanes_looked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = |at: &mut Option<Timestamp>, every_ms: u64| {
            // A clock that went back is no reason to wait.
            let is_due = at.is_none_or(|at| now < at || now.since(at) >= every_ms);
            if is_due {
                *at = Some(now);
            }
            is_due
        };
        let (marked, forgot) = &mut *looked;
        (is_due(marked, MARK_EVERY_MS), is_due(forgot, FORGET_EVERY_MS))
    }

    /// Vacuums what moves, unless that took long lately: autovacuum looks once a minute, and these tables turn over within
    /// seconds.
    async fn vacuum(&self, conn: &Lent) -> Try<()> {
        let begun = Instant::now();
        let vacuum_at = || self.inner.vacuum_at.lock().unwrap_or_else(PoisonError::into_inner);
        if vacuum_at().is_some_and(|at| at > begun) {
            return Ok(());
        }
        let moving: Vec<&str> = HOT.into_iter().chain([REACHED]).collect();
        let worth = conn.query(WORTH_VACUUM, &[&moving, &DEAD_MIN]).await?;
        if worth.is_empty() {
            return Ok(());
        }
        let tables: Vec<&str> = worth.iter().map(|row| row.get(0)).collect();
        // Without the right to do it, it is left to autovacuum; the server warns by itself.
        let vacuumed = conn.command(&format!("VACUUM (SKIP_LOCKED) {}", tables.join(", "))).await;
        *vacuum_at() = Some(Instant::now() + begun.elapsed() * VACUUM_SHARE);
        match vacuumed.map_err(Trouble::told) {
            // Not in a transaction, and so with the timeouts of the role: left to autovacuum, too.
            Err(reason) if !conn.has_session() => {
                tracing::debug!(%reason, "no vacuum through this pooler; autovacuum does it");
                Ok(())
            }
            vacuumed => Ok(vacuumed?),
        }
    }

    /// Whether a lock on this table was refused less than ten seconds ago. A rest that would last longer began before
    /// the clock went backwards, and is over.
    pub(crate) fn is_resting(&self, now: Timestamp, table: &str) -> bool {
        let rests = |patience: &Patience| {
            patience.rest_until > now && patience.rest_until <= now.plus(ASK_AGAIN_MS)
        };
        self.patience().get(table).is_some_and(rests)
    }

    /// Such a lock did not come: it is left alone for a while. Whoever stands in the way for long is worth a
    /// warning.
    pub(crate) fn rest(&self, now: Timestamp, table: &str, reason: &Error) {
        counter!("windlass_postgres_locks_refused_total", "table" => table.to_owned()).increment(1);
        let mut all = self.patience();
        let patience = all.entry(table.to_owned()).or_default();
        patience.rest_until = now.plus(ASK_AGAIN_MS);
        let since = *patience.refused_since.get_or_insert(now);
        let for_ms = now.since(since);
        let is_lock = matches!(reason, Error::Busy { .. });
        if is_lock && for_ms < WARN_AFTER_MS
            || patience.warned_at.is_some_and(|at| now.since(at) < WARN_AGAIN_MS)
        {
            tracing::debug!(table, %reason, "cannot be cleared now, and grows meanwhile");
            return;
        }
        patience.warned_at = Some(now);
        let way_out = match is_lock {
            true => "another transaction holds it open, which pg_locks and pg_stat_activity name",
            false => "mend the reason",
        };
        tracing::warn!(table, for_s = for_ms / 1_000, %reason, "cannot be cleared, and grows: {way_out}");
    }

    /// Such a lock came.
    pub(crate) fn was_let(&self, table: &str) {
        self.patience().remove(table);
    }

    fn patience(&self) -> MutexGuard<'_, HashMap<String, Patience>> {
        self.inner.patience.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rewrites hot tables that the vacuum left large, one after the other.
    async fn rewrite_hot(&self, conn: &Lent, now: Timestamp) -> Try<()> {
        for row in conn.query(SIZES, &[&&HOT[..], &SIZE_MAX, &SIZE_PER_ROW_MAX, &COPY_MAX]).await? {
            let table: &str = row.get(0);
            if self.is_resting(now, table) {
                continue;
            }
            if let Err(trouble) = conn.query(REWRITE, &[&table, &COPY_MAX]).await {
                self.rest(now, table, &trouble.told());
                continue;
            }
            self.was_let(table);
            counter!("windlass_postgres_rewrites_total", "table" => table.to_owned()).increment(1);
        }
        Ok(())
    }
}
