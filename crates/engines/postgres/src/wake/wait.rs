//! Waiting for claimable jobs: by notifications, and by polling, which does not depend on them.

use crate::conn::Lent;
use crate::conn::error::{Trouble, Try};
use crate::engine::PostgresEngine;
use crate::fast::scan_cursor::Ranges;
use crate::slow::load::{Loaded, Loader, SettingRows, add_settings};
use std::sync::LazyLock;
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::engine::{Stamped, Wait};
use windlass_core::policy::Room;
use windlass_core::{Result, Timestamp};

/// Whether a job is claimable in lanes without limits, idle ones included; the time; and whether there are lanes with
/// limits.
const IS_READY: &str = "SELECT EXISTS (SELECT FROM {s}.open_lane l
    WHERE l.queue = ANY($1) AND ($2::text[] IS NULL OR l.kind = ANY($2)) AND NOT l.metered /* busy */
        AND CASE WHEN l.id = ANY ($3::integer[]) THEN EXISTS (
            SELECT FROM unnest($3::integer[], $4::bigint[], $5::bigint[], $6::bigint[])
                w (lane, from_rank, from_seq, upto_rank)
            CROSS JOIN LATERAL (SELECT FROM {s}.ready r WHERE r.lane = l.id
                AND (r.rank, r.seq) >= (w.from_rank, w.from_seq) AND r.rank <= w.upto_rank LIMIT 1) r
            WHERE w.lane = l.id)
        ELSE EXISTS (SELECT FROM {s}.ready r WHERE r.lane = l.id) END),
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
    EXISTS (SELECT FROM {s}.open_lane l WHERE l.queue = ANY($1) AND l.metered)";

/// Whether a job is claimable in lanes that are not idle.
static IS_READY_BUSY: LazyLock<String> =
    LazyLock::new(|| IS_READY.replace("/* busy */", "AND NOT l.idle"));

/// First polling interval; doubles up to the maximum.
const POLL_MIN: Duration = Duration::from_millis(10);
/// Maximum polling interval.
const POLL_MAX: Duration = Duration::from_millis(500);

/// How often it checks everything, in case a job became ready below the scan cursor.
const FULL_SCAN_EVERY: Duration = Duration::from_secs(2);

/// The state of the wanted lanes.
struct Readiness {
    ready: bool,
    /// When time alone makes a job claimable.
    opens_at: Option<Timestamp>,
}

impl PostgresEngine {
    pub(crate) async fn wait_ready(&self, request: Wait) -> Result<Stamped<bool>> {
        request.check()?;
        let mut readied = self.inner.wakeups.watch();
        let scan_cursor = &self.inner.scan_cursor;
        let ranges = || scan_cursor.ranges(request.queues.iter().map(|queue| &**queue));
        let mut found = self.is_ready(&IS_READY_BUSY, &request, &ranges()).await?;
        let (now, epoch) = (found.now, found.epoch.clone());
        let first = Stamped { now, epoch, value: found.value.ready };
        if first.value || request.wait_ms == 0 {
            return Ok(first);
        }
        let ready = async {
            let (mut pause, mut full_scan_at) = (POLL_MIN, Instant::now());
            loop {
                // Check in both cases; the sender lives as long as `self`.
                let opens_in = found.value.opens_at.map(|at| at.since(found.now).max(1));
                let opens_in = opens_in.map_or(pause, Duration::from_millis);
                let woken = tokio::time::timeout(pause.min(opens_in), readied.changed()).await;
                if woken.is_ok()
                    && let Some(reply) = readied.borrow_and_update().reply_to(&request)
                {
                    return Ok(reply);
                }
                found = self.is_ready(&IS_READY_BUSY, &request, &ranges()).await?;
                if !found.value.ready && full_scan_at.elapsed() >= FULL_SCAN_EVERY {
                    full_scan_at = Instant::now();
                    found = self.is_ready(IS_READY, &request, &Ranges::default()).await?;
                    if found.value.ready {
                        // A claim would miss it, too.
                        scan_cursor.forget();
                        scan_cursor.scan_fully();
                    }
                }
                if found.value.ready {
                    return Ok(found.map(|found| found.ready));
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
    ) -> Result<Stamped<Readiness>> {
        let conn = self.inner.shared.pool.lend().await.map_err(Trouble::into_error)?;
        let queues: Vec<String> = request.queues.iter().map(ToString::to_string).collect();
        let kinds = request.kinds.as_ref();
        let kinds: Option<Vec<String>> =
            kinds.map(|kinds| kinds.iter().map(ToString::to_string).collect());
        let Ranges { lanes, from_ranks, from_seqs, upto_ranks } = ranges;
        let params: crate::conn::Params<'_> =
            &[&queues, &kinds, lanes, from_ranks, from_seqs, upto_ranks];
        let rows = conn.query(statement, params).await.map_err(Trouble::into_error)?;
        let (ready, now, metered) =
            rows.first().map_or((false, 0, false), |row| (row.get(0), row.get(1), row.get(2)));
        let now = self.inner.shared.now(crate::rows::entries::at(now));
        let mut value = Readiness { ready, opens_at: None };
        if !ready && metered {
            let room = self.room_under_limits(&conn, request, &queues, kinds.as_deref(), now).await;
            match room.map_err(Trouble::into_error)? {
                Room::Now => value.ready = true,
                Room::At(at) => value.opens_at = Some(at),
                Room::Later => {}
            }
        }
        let epoch = conn.epoch.clone();
        conn.give_back();
        Ok(Stamped { now, epoch, value })
    }

    /// Whether a job of a lane with limits is claimable: the executor decides.
    async fn room_under_limits(
        &self,
        conn: &Lent,
        request: &Wait,
        queues: &[String],
        kinds: Option<&[String]>,
        now: Timestamp,
    ) -> Try<Room> {
        let shared = &self.inner.shared;
        let mut loaded = Loaded::default();
        add_settings(&mut loaded, SettingRows::read(conn).await?)?;
        let loader = Loader::new(conn, shared.clock.as_ref());
        loader.peek_gates(Some(queues), kinds, &mut loaded).await?;
        let run = self.run_over(&loaded, conn);
        Ok(run.readiness(request, now)?)
    }
}
