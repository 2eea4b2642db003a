//! Waiting for claimable jobs: by notifications, and by polling, which does not depend on them.

use crate::conn::error::Trouble;
use crate::engine::PostgresEngine;
use crate::fast::scan_cursor::Ranges;
use std::sync::LazyLock;
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::Result;
use windlass_core::engine::{Stamped, Wait};

/// Whether a job is claimable, in all lanes, idle ones included.
const IS_READY: &str = "SELECT EXISTS (SELECT FROM {s}.open_lane l
    WHERE l.queue = ANY($1) AND ($2::text[] IS NULL OR l.kind = ANY($2)) /* busy */
        AND CASE WHEN l.id = ANY ($3::integer[]) THEN EXISTS (
            SELECT FROM unnest($3::integer[], $4::bigint[], $5::bigint[], $6::bigint[])
                w (lane, from_rank, from_seq, upto_rank)
            CROSS JOIN LATERAL (SELECT FROM {s}.ready r WHERE r.lane = l.id
                AND (r.rank, r.seq) >= (w.from_rank, w.from_seq) AND r.rank <= w.upto_rank LIMIT 1) r
            WHERE w.lane = l.id)
        ELSE EXISTS (SELECT FROM {s}.ready r WHERE r.lane = l.id) END),
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// Whether a job is claimable in lanes that are not idle.
static IS_READY_BUSY: LazyLock<String> =
    LazyLock::new(|| IS_READY.replace("/* busy */", "AND NOT l.idle"));

/// First polling interval; doubles up to the maximum.
const POLL_MIN: Duration = Duration::from_millis(10);
/// Maximum polling interval.
const POLL_MAX: Duration = Duration::from_millis(500);

/// How often it checks everything, in case a job became ready below the scan cursor.
const FULL_SCAN_EVERY: Duration = Duration::from_secs(2);

impl PostgresEngine {
    pub(crate) async fn wait_ready(&self, request: Wait) -> Result<Stamped<bool>> {
        request.check()?;
        let mut readied = self.inner.wakeups.watch();
        let scan_cursor = &self.inner.scan_cursor;
        let ranges = || scan_cursor.ranges(request.queues.iter().map(|queue| &**queue));
        let first = self.is_ready(&IS_READY_BUSY, &request, &ranges()).await?;
        if first.value || request.wait_ms == 0 {
            return Ok(first);
        }
        let ready = async {
            let (mut pause, mut full_scan_at) = (POLL_MIN, Instant::now());
            loop {
                // Check in both cases; the sender lives as long as `self`.
                let woken = tokio::time::timeout(pause, readied.changed()).await;
                if woken.is_ok()
                    && let Some(reply) = readied.borrow_and_update().reply_to(&request)
                {
                    return Ok(reply);
                }
                let mut found = self.is_ready(&IS_READY_BUSY, &request, &ranges()).await?;
                if !found.value && full_scan_at.elapsed() >= FULL_SCAN_EVERY {
                    full_scan_at = Instant::now();
                    found = self.is_ready(IS_READY, &request, &Ranges::default()).await?;
                    if found.value {
                        // A claim would miss it, too.
                        scan_cursor.forget();
                        scan_cursor.scan_fully();
                    }
                }
                if found.value {
                    return Ok(found);
                }
                pause = POLL_MAX.min(pause * 2);
            }
        };
        match tokio::time::timeout(Duration::from_millis(request.wait_ms), ready).await {
            Ok(found) => found,
            Err(_) => Ok(first),
        }
    }

    async fn is_ready(
        &self,
        statement: &'static str,
        request: &Wait,
        ranges: &Ranges,
    ) -> Result<Stamped<bool>> {
        let conn = self.inner.shared.pool.lend().await.map_err(Trouble::into_error)?;
        let queues: Vec<&str> = request.queues.iter().map(|queue| &**queue).collect();
        let kinds = request.kinds.as_ref();
        let kinds: Option<Vec<&str>> =
            kinds.map(|kinds| kinds.iter().map(|kind| &**kind).collect());
        let Ranges { lanes, from_ranks, from_seqs, upto_ranks } = ranges;
        let params: crate::conn::Params<'_> =
            &[&queues, &kinds, lanes, from_ranks, from_seqs, upto_ranks];
        let rows = conn.query(statement, params).await.map_err(Trouble::into_error)?;
        let (value, now) = rows.first().map_or((false, 0), |row| (row.get(0), row.get(1)));
        let now = self.inner.shared.now(crate::rows::entries::at(now));
        let epoch = conn.epoch.clone();
        conn.give_back();
        Ok(Stamped { now, epoch, value })
    }
}
