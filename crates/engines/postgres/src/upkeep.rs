//! Compaction: folding counts, forgetting what has no meaning any more, and vacuuming what moves.

use crate::conn::Lent;
use crate::engine::PostgresEngine;
use crate::error::{Trouble, Try};
use crate::perform::CLOCK;
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
        Ok(now)
    }
}
