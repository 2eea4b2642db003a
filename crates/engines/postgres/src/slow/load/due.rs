//! The jobs and sessions that a maintenance step may change. Candidates come from indexes that may be out of date; the
//! locked job is authoritative. Jobs locked by other transactions are skipped.

use super::edges::{UNRESOLVED, UNRESOLVED_MAX};
use super::gather::{add_held, session};
use super::{Jobs, Loaded, Loader};
use crate::conn::Row;
use crate::conn::error::Try;
use crate::retention::surplus::{FIRST, SURPLUS};
use crate::rows::entries::{at, job_id, session_columns};
use futures_util::future::{try_join, try_join3};
use std::collections::BTreeMap;
use uuid::Uuid;
use windlass_core::engine::Work;
use windlass_core::model::{Name, QueueSettings, State};
use windlass_core::{JobId, Timestamp};
use windlass_workset::{StaleDeadline, Wants};

const SCHEDULED: &str = "SELECT run_at, id FROM {s}.scheduled ORDER BY run_at, seq LIMIT $1";
const DEADLINES: &str = "SELECT at, id FROM {s}.deadline WHERE work = $1 ORDER BY at, id LIMIT $2";
const AGING: &str = "SELECT a.run_at + w.ms, a.id, w.queue, a.run_at
    FROM unnest($1::text[], $2::bigint[]) w (queue, ms) CROSS JOIN LATERAL
        (SELECT run_at, id FROM {s}.aging WHERE queue = w.queue ORDER BY run_at, id LIMIT $3) a";
const LANES: &str = "SELECT id, queue FROM {s}.lane";
/// When the next job falls due. Jobs that are due already are removed without the executor (`retention`), but for those of
/// queues that record events.
const FINISHED: &str = "SELECT f.at + w.ms, f.id
    FROM unnest($1::integer[], $2::smallint[], $3::bigint[]) w (lane, state, ms) CROSS JOIN LATERAL
        (SELECT at, id FROM {s}.finished WHERE lane = w.lane AND state = w.state AND NOT own
            AND at > $4 - w.ms ORDER BY at LIMIT 1) f";
/// Jobs that are due, in lanes whose jobs only the executor removes.
const FINISHED_RECORDED: &str = "SELECT f.at + w.ms, f.id
    FROM unnest($1::integer[], $2::smallint[], $3::bigint[]) w (lane, state, ms) CROSS JOIN LATERAL
        (SELECT at, id FROM {s}.finished WHERE lane = w.lane AND state = w.state AND NOT own
            AND at <= $4 - w.ms ORDER BY at LIMIT $5) f
    LIMIT $5";
/// A session expires when its time is over and the server has been up for as long as the session's time to live.
const RUN_OUT: &str = concat!(
    "SELECT ",
    session_columns!("greatest(expires_at, $2 + ttl_ms)"),
    " FROM {s}.session WHERE expires_at <= $1 AND $2 + ttl_ms <= $1
    ORDER BY expires_at, id LIMIT $3 FOR UPDATE SKIP LOCKED"
);
const NEXT_TO_RUN_OUT: &str = concat!(
    "SELECT ",
    session_columns!("greatest(expires_at, $2 + ttl_ms)"),
    " FROM {s}.session WHERE NOT (expires_at <= $1 AND $2 + ttl_ms <= $1)
    ORDER BY greatest(expires_at, $2 + ttl_ms) LIMIT 1"
);
const COUNT_RUN_OUT: &str = "SELECT count(*) FROM (SELECT FROM {s}.session
    WHERE expires_at <= $1 AND $2 + ttl_ms <= $1 LIMIT $3) s";
const HELD_SOME: &str = "SELECT e.session, e.id
    FROM unnest($1::text[]) WITH ORDINALITY w (session, n) JOIN {s}.lease e
    ON e.session = ANY(ARRAY[w.session])
    ORDER BY w.n LIMIT $2";

/// Values of `deadline.work`.
pub(crate) const EXPIRES: i16 = 0;
pub(crate) const REMOVED: i16 = 1;

impl Loader<'_, '_> {
    /// Finds candidates.
    pub(super) async fn find_due(
        &self,
        wants: &mut Wants,
        loaded: &mut Loaded,
        jobs: &mut Jobs,
    ) -> Try<()> {
        let Some(request) = wants.due else { return Ok(()) };
        let limit = i64::from(request.budget) + 1;
        loaded.due_at = Some(loaded.now);
        match request.work {
            Work::Promote => {
                let rows = self.conn.query(SCHEDULED, &[&limit]).await?;
                loaded.due = rows.iter().map(due).collect();
                self.openings(wants, loaded, limit).await?;
                let most = i64::from(UNRESOLVED_MAX.min(request.budget));
                let rows = self.conn.query(UNRESOLVED, &[&most]).await?;
                loaded.unresolved = rows.iter().map(|row| job_id(row.get(0))).collect();
                wants.own.extend(&loaded.unresolved);
            }
            Work::Expire => self.expiring(loaded, limit).await?,
            Work::Retain => self.removable(loaded, limit).await?,
            Work::Reclaim => return self.run_out(wants, loaded, limit).await,
            Work::Compact => return Ok(()),
            // The executor refuses it.
            _ => return Ok(()),
        }
        loaded.due.sort_by_key(|(at, _)| *at);
        loaded.due.truncate(limit as usize);
        let now = loaded.now;
        wants.own.extend(loaded.due.iter().filter(|(at, _)| *at <= now).map(|(_, id)| *id));
        jobs.skip_held = true;
        Ok(())
    }

    async fn expiring(&self, loaded: &mut Loaded, limit: i64) -> Try<()> {
        let limited = |(queue, settings): (&Name, &QueueSettings)| {
            let ms = i64::try_from(settings.max_wait_ms?).unwrap_or(i64::MAX / 2);
            Some((queue.to_string(), ms))
        };
        let queues = loaded.queues.as_ref();
        let (queues, limits): (Vec<String>, Vec<i64>) =
            queues.into_iter().flatten().filter_map(limited).unzip();
        let conn = self.conn;
        let (own, by_queue) = try_join(
            conn.query(DEADLINES, &[&EXPIRES, &limit]),
            conn.query(AGING, &[&queues, &limits, &limit]),
        )
        .await?;
        loaded.due = own.iter().chain(&by_queue).map(due).collect();
        // Out of date until the job confirms it.
        let overdue = |row: &&Row| at(row.get(0)) <= loaded.now;
        let own = own.iter().filter(overdue).map(|row| StaleDeadline {
            queue: None,
            at: at(row.get(0)),
            id: job_id(row.get(1)),
        });
        let by_queue = by_queue.iter().filter(overdue).map(|row| StaleDeadline {
            queue: Some(row.get::<_, &str>(2).into()),
            at: at(row.get(3)),
            id: job_id(row.get(1)),
        });
        loaded.stale = own.chain(by_queue).collect();
        Ok(())
    }

    async fn removable(&self, loaded: &mut Loaded, limit: i64) -> Try<()> {
        let (mut all, mut recorded) = (Ended::default(), Ended::default());
        for row in self.conn.query(LANES, &[]).await? {
            let queue: Name = row.get::<_, &str>(1).into();
            let settings = loaded.settings_of(&queue);
            for state in State::ALL.into_iter().filter(|state| state.is_terminal()) {
                let (lane, kept_ms) = (row.get(0), settings.retention.of(state));
                all.push(lane, state, kept_ms);
                // A removal is an event, which only the executor appends.
                if settings.events.is_some() {
                    recorded.push(lane, state, kept_ms);
                }
            }
        }
        let conn = self.conn;
        let (now, Ended { lanes, states, kept }) = (loaded.now.as_millis(), all);
        let (own, by_lane) = try_join(
            conn.query(DEADLINES, &[&REMOVED, &limit]),
            conn.query(FINISHED, &[&lanes, &states, &kept, &now]),
        )
        .await?;
        loaded.due = own.iter().chain(&by_lane).map(due).collect();
        if !recorded.lanes.is_empty() {
            let Ended { lanes, states, kept } = recorded;
            let params: crate::conn::Params<'_> = &[&lanes, &states, &kept, &now, &limit];
            let rows = conn.query(FINISHED_RECORDED, params).await?;
            loaded.due.extend(rows.iter().map(due));
            self.surplus(loaded, limit).await?;
        }
        Ok(())
    }

    /// Ended jobs beyond the number that their queue keeps, of queues that record events.
    async fn surplus(&self, loaded: &mut Loaded, limit: i64) -> Try<()> {
        let (now, queues) = (loaded.now, loaded.queues.iter().flatten());
        let recorded = queues.filter(|(_, settings)| settings.events.is_some());
        let limits: Vec<(String, State, u64, i64)> = recorded
            .flat_map(|(queue, settings)| {
                settings.keep_max.limits().map(move |(state, most)| {
                    let cutoff = now.minus(settings.retention.of(state)).as_millis();
                    (queue.to_string(), state, most, cutoff)
                })
            })
            .collect();
        for (queue, state, most, cutoff) in limits {
            let (state, most) = (state as i16, most.cast_signed());
            let first = self.conn.query(FIRST, &[&queue, &state, &most, &cutoff]).await?;
            let Some(first) = first.first() else { continue };
            let (at, id): (i64, Uuid) = (first.get(0), first.get(1));
            let params: crate::conn::Params<'_> = &[&queue, &state, &cutoff, &at, &id, &limit];
            let rows = self.conn.query(SURPLUS, params).await?;
            loaded.surplus.extend(rows.iter().map(|row| due(row).1));
            loaded.due.extend(rows.iter().map(due));
        }
        Ok(())
    }

    /// Expired sessions, their leases, and the session that expires next.
    async fn run_out(&self, wants: &mut Wants, loaded: &mut Loaded, limit: i64) -> Try<()> {
        let conn = self.conn;
        let (now, started) = (loaded.now.as_millis(), conn.server_started_at);
        let (over, all, next) = try_join3(
            conn.query(RUN_OUT, &[&now, &started, &limit]),
            conn.query(COUNT_RUN_OUT, &[&now, &started, &limit]),
            conn.query(NEXT_TO_RUN_OUT, &[&now, &started]),
        )
        .await?;
        // Sessions locked by others may be extended or not.
        loaded.unsure = all.first().is_some_and(|row| row.get::<_, i64>(0) > over.len() as i64);
        let mut order: BTreeMap<_, _> = BTreeMap::new();
        for row in over.iter().chain(&next) {
            let (id, session) = session(row);
            order.insert((session.expires_at, id.clone()), id.to_string());
            loaded.held.entry(id.clone()).or_default();
            loaded.sessions.insert(id, session);
        }
        let ids: Vec<String> = order.into_values().take(over.len()).collect();
        for row in conn.query(HELD_SOME, &[&ids, &limit]).await? {
            wants.own.insert(add_held(loaded, &row));
        }
        Ok(())
    }
}

/// Lanes and states, and how long their jobs are kept, as columns.
#[derive(Default)]
struct Ended {
    lanes: Vec<i32>,
    states: Vec<i16>,
    kept: Vec<i64>,
}

impl Ended {
    fn push(&mut self, lane: i32, state: State, kept_ms: u64) {
        self.lanes.push(lane);
        self.states.push(state as i16);
        self.kept.push(i64::try_from(kept_ms).unwrap_or(i64::MAX / 2));
    }
}

fn due(row: &Row) -> (Timestamp, JobId) {
    (at(row.get(0)), job_id(row.get(1)))
}
