//! Waiting for work: woken by whoever makes something claimable, and by looking again now and then, which
//! is what counts.

use crate::engine::PostgresEngine;
use crate::error::Trouble;
use crate::hints::Ranges;
use std::time::Duration;
use windlass_core::Result;
use windlass_core::engine::{Stamped, Wait};

const IS_READY: &str = "SELECT EXISTS (SELECT FROM {s}.lane l
    WHERE l.queue = ANY($1) AND ($2::text[] IS NULL OR l.kind = ANY($2))
        AND NOT EXISTS (SELECT FROM {s}.queue q WHERE q.name = l.queue AND q.paused)
        AND NOT EXISTS (SELECT FROM {s}.kind k WHERE k.name = l.kind AND (k.paused OR k.permits = 0))
        AND CASE WHEN l.id = ANY ($3::integer[]) THEN EXISTS (
            SELECT FROM unnest($3::integer[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
                w (lane, from_rank, from_seq, upto_rank, upto_seq)
            CROSS JOIN LATERAL (SELECT FROM {s}.ready r WHERE r.lane = l.id
                AND (r.rank, r.seq) >= (w.from_rank, w.from_seq)
                AND (r.rank, r.seq) < (w.upto_rank, w.upto_seq) LIMIT 1) r
            WHERE w.lane = l.id)
        ELSE EXISTS (SELECT FROM {s}.ready r WHERE r.lane = l.id) END),
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// How soon a waiter looks again, at first.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// How soon it looks again after a long time of nothing.
const LOOK_AGAIN_MAX: Duration = Duration::from_millis(500);

impl PostgresEngine {
    pub(crate) async fn wait_ready(&self, request: Wait) -> Result<Stamped<bool>> {
        request.check()?;
        let mut readied = self.inner.wakeups.watch();
        let first = self.is_ready(&request).await?;
        if first.value || request.wait_ms == 0 {
            return Ok(first);
        }
        let ready = async {
            let mut pause = LOOK_AGAIN;
            loop {
                // Either way there is reason to look; the sender lives in `self`.
                let _ = tokio::time::timeout(pause, readied.changed()).await;
                let found = self.is_ready(&request).await?;
                if found.value {
                    return Ok(found);
                }
                pause = LOOK_AGAIN_MAX.min(pause * 2);
            }
        };
        match tokio::time::timeout(Duration::from_millis(request.wait_ms), ready).await {
            Ok(found) => found,
            Err(_) => Ok(first),
        }
    }

    async fn is_ready(&self, request: &Wait) -> Result<Stamped<bool>> {
        let conn = self.inner.shared.pool.lend().await.map_err(Trouble::told)?;
        let queues: Vec<&str> = request.queues.iter().map(|queue| &**queue).collect();
        let kinds = request.kinds.as_ref();
        let kinds: Option<Vec<&str>> =
            kinds.map(|kinds| kinds.iter().map(|kind| &**kind).collect());
        let hints = &self.inner.hints;
        let (ranges, _) = hints.for_claim(queues.first().copied().unwrap_or_default());
        let Ranges { lanes, from_ranks, from_seqs, upto_ranks, upto_seqs } = &ranges;
        let rows = conn
            .query(
                IS_READY,
                &[&queues, &kinds, lanes, from_ranks, from_seqs, upto_ranks, upto_seqs],
            )
            .await
            .map_err(Trouble::told)?;
        let (value, now) = rows.first().map_or((false, 0), |row| (row.get(0), row.get(1)));
        if value && ranges == Ranges::default() {
            // It may be below a hint, where a claim would not see it.
            hints.forget();
        }
        let now = self.inner.shared.now(crate::entries::at(now));
        let epoch = conn.epoch.clone();
        conn.give_back();
        Ok(Stamped { now, epoch, value })
    }
}
