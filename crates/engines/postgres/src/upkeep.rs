//! Compaction: folding counts, forgetting what has no meaning any more, and vacuuming what moves.

use crate::conn::Lent;
use crate::engine::PostgresEngine;
use crate::error::{Trouble, Try};
use crate::perform::CLOCK;
use std::sync::PoisonError;
use windlass_core::engine::{MaintainReply, Stamped};
use windlass_core::{Result, Timestamp};

/// Rows of counts become one per lane. Whatever another compaction has in its hands is left to it.
const FOLD: &str = "WITH gone AS (DELETE FROM {s}.tally WHERE ctid = ANY(ARRAY(
            SELECT ctid FROM {s}.tally LIMIT $1 FOR UPDATE SKIP LOCKED)) RETURNING *),
        folded AS (SELECT lane, sum(scheduled)::bigint AS scheduled, sum(blocked)::bigint AS blocked,
            sum(available)::bigint AS available, sum(running)::bigint AS running,
            sum(paused)::bigint AS paused, sum(dead)::bigint AS dead FROM gone GROUP BY lane)
    INSERT INTO {s}.tally SELECT * FROM folded
        WHERE (scheduled, blocked, available, running, paused, dead) <> (0, 0, 0, 0, 0, 0)";
const FORGET_WINDOWS: &str = "DELETE FROM {s}.unique_key WHERE (queue, kind, key) IN
    (SELECT queue, kind, key FROM {s}.unique_key WHERE until <= $1 ORDER BY until LIMIT $2
        FOR UPDATE SKIP LOCKED)";
/// Autovacuum looks once a minute; these turn over within seconds.
const VACUUM: &str =
    "VACUUM (SKIP_LOCKED) {s}.ready, {s}.lease, {s}.scheduled, {s}.tally, {s}.session";

/// Which of these tables are larger by far than they should be: the more rows are alive, the larger they may be.
const SIZES: &str = "SELECT w.name FROM unnest($1::text[]) WITH ORDINALITY w (name, n)
    WHERE pg_relation_size(to_regclass('{s}.' || w.name)) > $2::bigint + $3::bigint * coalesce(CASE w.name
        WHEN 'ready' THEN (SELECT sum(available)::bigint FROM {s}.tally)
        WHEN 'lease' THEN (SELECT sum(running)::bigint FROM {s}.tally)
        WHEN 'scheduled' THEN (SELECT sum(scheduled)::bigint FROM {s}.tally) END, 0)
    ORDER BY w.n";
const REWRITE: &str = "SELECT {s}.rewrite($1, $2)";
const HOT: [&str; 5] = ["tally", "ready", "lease", "session", "scheduled"];
/// A hot table may be so large whatever is alive in it, and so much larger for each row that is.
const SIZE_MAX: i64 = 2 << 20;
const SIZE_PER_ROW_MAX: i64 = 400;
/// Rows copied at most while everybody waits.
const COPY_MAX: i64 = 20_000;
/// How long after a lock that did not come it is asked for again.
const ASK_AGAIN_MS: u64 = 10_000;

/// Rows of counts folded in one step.
const FOLD_MAX: i64 = 10_000;

impl PostgresEngine {
    pub(crate) async fn compact(&self, budget: u32) -> Result<Stamped<MaintainReply>> {
        let conn = self.inner.shared.pool.lend().await.map_err(Trouble::told)?;
        match self.compact_on(&conn, budget).await {
            Ok(now) => {
                let epoch = conn.epoch.clone();
                conn.give_back();
                Ok(Stamped { now, epoch, value: MaintainReply::default() })
            }
            Err(trouble) => Err(trouble.told()),
        }
    }

    async fn compact_on(&self, conn: &Lent, budget: u32) -> Try<Timestamp> {
        let now = self.inner.shared.now_in(&conn.query(CLOCK, &[]).await?);
        conn.execute(FOLD, &[&FOLD_MAX]).await?;
        if let Err(trouble) = self.add_leaves(conn).await {
            tracing::debug!(reason = %trouble.told(), "no leaf was added");
        }
        conn.execute(FORGET_WINDOWS, &[&now.as_millis(), &i64::from(budget)]).await?;
        // Without the right to do it, it is left to autovacuum; the server warns by itself.
        conn.plain(VACUUM).await?;
        self.rewrite_hot(conn, now).await?;
        Ok(now)
    }

    /// Whether locks that hold everybody up are not asked for: one did not come a short while ago.
    pub(crate) fn is_resting(&self, now: Timestamp) -> bool {
        *self.inner.rest_until.lock().unwrap_or_else(PoisonError::into_inner) > now
    }

    /// Such a lock did not come: it is left alone for a while.
    pub(crate) fn rest(&self, now: Timestamp) {
        let mut rest_until = self.inner.rest_until.lock().unwrap_or_else(PoisonError::into_inner);
        *rest_until = now.plus(ASK_AGAIN_MS);
    }

    /// Rewrites hot tables that the vacuum left large, one after the other.
    async fn rewrite_hot(&self, conn: &Lent, now: Timestamp) -> Try<()> {
        if self.is_resting(now) {
            return Ok(());
        }
        for row in conn.query(SIZES, &[&&HOT[..], &SIZE_MAX, &SIZE_PER_ROW_MAX]).await? {
            let table: &str = row.get(0);
            match conn.query(REWRITE, &[&table, &COPY_MAX]).await {
                Ok(_) => tracing::debug!(table, "rewritten"),
                Err(trouble) => {
                    let reason = trouble.told();
                    tracing::debug!(table, %reason, "cannot be rewritten now, and grows meanwhile");
                    self.rest(now);
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
