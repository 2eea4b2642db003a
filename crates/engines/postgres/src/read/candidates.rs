//! Finds the candidates of a page: lanes, and positions or ids of jobs in them. Every statement reads an index in its
//! order, so that it costs what it returns.

use crate::conn::Lent;
use crate::conn::error::Try;
use crate::conn::row::Row;
use crate::rows::entries::job_id;
use uuid::Uuid;
use windlass_core::JobId;
use windlass_core::engine::{Filter, List, ListOrder, ListPlace, SortedBy};
use windlass_core::limits::LIST_EXAMINED_MAX;
use windlass_core::model::State;

/// The lanes of a queue and a kind that have jobs; with a state ($3), those that have jobs in it.
const LANES: &str = "SELECT l.id FROM {s}.tally t JOIN {s}.lane l ON l.id = t.lane
    WHERE ($1::text IS NULL OR l.queue = $1) AND ($2::text IS NULL OR l.kind = $2) GROUP BY l.id
    HAVING CASE $3::smallint WHEN {scheduled} THEN sum(t.scheduled) WHEN {blocked} THEN sum(t.blocked)
        WHEN {available} THEN sum(t.available) WHEN {running} THEN sum(t.running)
        WHEN {paused} THEN sum(t.paused) WHEN {completed} THEN sum(t.completed) WHEN {dead} THEN sum(t.dead)
        WHEN {cancelled} THEN sum(t.cancelled) WHEN {expired} THEN sum(t.expired) ELSE 1 END <> 0";

/// Positions of jobs, lane by lane: $1 lanes, $2 and $3 the position after which they are, $4 how many.
macro_rules! due {
    ($compare:literal, $order:literal) => {
        concat!(
            "SELECT t.run_at, t.id FROM unnest($1::integer[]) w (lane) CROSS JOIN LATERAL (
                SELECT run_at, id FROM {s}.scheduled
                WHERE lane = w.lane AND (run_at, id) ",
            $compare,
            " ($2::bigint, $3::uuid) ORDER BY run_at ",
            $order,
            ", id ",
            $order,
            " LIMIT $4::bigint) t ORDER BY 1 ",
            $order,
            ", 2 ",
            $order,
            " LIMIT $4::bigint"
        )
    };
}

/// The same for running jobs, which are few.
macro_rules! started {
    ($compare:literal, $order:literal) => {
        concat!(
            "SELECT started_at, id FROM {s}.lease WHERE lane = ANY($1::integer[]) AND (started_at, id) ",
            $compare,
            " ($2::bigint, $3::uuid) ORDER BY started_at ",
            $order,
            ", id ",
            $order,
            " LIMIT $4::bigint"
        )
    };
}

/// The same for ended jobs of one state ($5). Each part uses the index of its condition, which has the order of time.
macro_rules! ended {
    ($compare:literal, $order:literal) => {
        concat!(
            "SELECT t.at, t.id FROM unnest($1::integer[]) w (lane) CROSS JOIN LATERAL (
                (SELECT at, id FROM {s}.finished WHERE lane = w.lane AND state = $5::smallint AND NOT own
                    AND at ",
            $compare,
            "= $2::bigint AND (at, id) ",
            $compare,
            " ($2::bigint, $3::uuid) ORDER BY at ",
            $order,
            ", id ",
            $order,
            " LIMIT $4::bigint)
                UNION ALL
                (SELECT at, id FROM {s}.finished WHERE lane = w.lane AND state = $5::smallint AND own
                    AND at ",
            $compare,
            "= $2::bigint AND (at, id) ",
            $compare,
            " ($2::bigint, $3::uuid) ORDER BY at ",
            $order,
            ", id ",
            $order,
            " LIMIT $4::bigint)
            ) t ORDER BY 1 ",
            $order,
            ", 2 ",
            $order,
            " LIMIT $4::bigint"
        )
    };
}

/// The ids of jobs of lanes ($1) in one state, up to $2.
const AVAILABLE: &str = "SELECT t.id FROM unnest($1::integer[]) w (lane) CROSS JOIN LATERAL (
        SELECT id FROM {s}.ready WHERE lane = w.lane ORDER BY rank, seq LIMIT $2::bigint) t LIMIT $2::bigint";
/// The same for blocked or paused jobs; $3 is the state, null for both.
const ASIDE: &str = "SELECT t.id FROM unnest($1::integer[]) w (lane) CROSS JOIN LATERAL (
        SELECT id FROM {s}.aside WHERE lane = w.lane AND ($3::smallint IS NULL OR state = $3)
        ORDER BY state LIMIT $2::bigint) t LIMIT $2::bigint";
/// The same for all other states.
const OTHERS: &str = "SELECT t.id FROM (
        SELECT t.id FROM unnest($1::integer[]) w (lane) CROSS JOIN LATERAL (
            (SELECT id FROM {s}.scheduled WHERE lane = w.lane ORDER BY run_at LIMIT $2::bigint)
            UNION ALL (SELECT id FROM {s}.finished WHERE lane = w.lane AND NOT own ORDER BY state, at LIMIT $2::bigint)
            UNION ALL (SELECT id FROM {s}.finished WHERE lane = w.lane AND own ORDER BY at LIMIT $2::bigint)) t
        UNION ALL SELECT id FROM {s}.lease WHERE lane = ANY($1::integer[])) t
    LIMIT $2::bigint";

/// All ids after another one, and whether their lane is one of $2.
macro_rules! walk {
    ($compare:literal, $order:literal) => {
        concat!(
            "SELECT id, $2::integer[] IS NULL OR lane = ANY($2::integer[]) FROM {s}.job
            WHERE id ",
            $compare,
            " $1::uuid ORDER BY id ",
            $order,
            " LIMIT $3::bigint"
        )
    };
}

/// The jobs that an index of a field selects; one null without an index.
const BY_FIELD: &str = "SELECT {s}.jobs_by_field($1::smallint, $2::text[], $3::text, $4::bigint)";

/// The jobs that an index selects for one of the fields of a filter; `None` without an index, or if it selects more than
/// a page may examine: then a scan fills the page as quickly.
pub(super) async fn by_field(conn: &Lent, filter: &Filter) -> Try<Option<Vec<JobId>>> {
    // PostgreSQL does not distinguish a JSON null from a missing field, and its texts contain no zero byte.
    let is_text = |value: &str| value != "null" && !value.contains('\0');
    for (field, value) in filter.fields.iter().filter(|(_, value)| is_text(value)) {
        let (part, steps) = (field.part() as i16, field.steps());
        let most = LIST_EXAMINED_MAX as i64 + 1;
        let rows = conn.query(BY_FIELD, &[&part, &steps, value, &most]).await?;
        let ids: Option<Vec<JobId>> =
            rows.iter().map(|row| row.get::<_, Option<Uuid>>(0).map(job_id)).collect();
        if let Some(mut ids) = ids.filter(|ids| ids.len() <= LIST_EXAMINED_MAX) {
            ids.sort_unstable();
            ids.dedup();
            return Ok(Some(ids));
        }
    }
    Ok(None)
}

/// The lanes that a filter selects.
pub(super) async fn lanes(conn: &Lent, filter: &Filter) -> Try<Vec<i32>> {
    let state = filter.state.map(|state| state as i16);
    let (queue, kind) = (filter.queue.as_deref(), filter.kind.as_deref());
    let lanes = conn.query(LANES, &[&queue, &kind, &state]).await?;
    Ok(lanes.iter().map(|row| row.get(0)).collect())
}

/// The next ids of all jobs, and whether each job is in one of these lanes.
pub(super) async fn walk(
    conn: &Lent,
    order: ListOrder,
    after: Uuid,
    lanes: Option<&[i32]>,
    limit: usize,
) -> Try<Vec<Row>> {
    let sql = match order {
        ListOrder::Newest => walk!("<", "DESC"),
        ListOrder::Oldest => walk!(">", "ASC"),
    };
    conn.query(sql, &[&after, &lanes, &(limit as i64)]).await
}

/// The next positions of a listing by time.
pub(super) async fn positions(
    conn: &Lent,
    request: &List,
    lanes: &[i32],
    after: ListPlace,
    limit: usize,
) -> Try<Vec<Row>> {
    let (at_ms, id, limit) = (after.at.as_millis(), after.id.as_uuid(), limit as i64);
    let sql = match (request.sorted_by(), request.order) {
        (SortedBy::Due, ListOrder::Newest) => due!("<", "DESC"),
        (SortedBy::Due, ListOrder::Oldest) => due!(">", "ASC"),
        (SortedBy::Started, ListOrder::Newest) => started!("<", "DESC"),
        (SortedBy::Started, ListOrder::Oldest) => started!(">", "ASC"),
        (SortedBy::Ended | SortedBy::Enqueued, order) => {
            let sql = match order {
                ListOrder::Newest => ended!("<", "DESC"),
                ListOrder::Oldest => ended!(">", "ASC"),
            };
            let state = request.filter.state.unwrap_or(State::Completed) as i16;
            return conn.query(sql, &[&lanes, &at_ms, &id, &limit, &state]).await;
        }
    };
    conn.query(sql, &[&lanes, &at_ms, &id, &limit]).await
}

/// The ids of the jobs of these lanes in a state; `None` if they are more than `most`.
pub(super) async fn ids_of(
    conn: &Lent,
    lanes: &[i32],
    state: Option<State>,
    most: usize,
) -> Try<Option<Vec<JobId>>> {
    let limit = most as i64 + 1;
    let mut rows = Vec::new();
    if state.is_none_or(|state| state == State::Available) {
        rows.extend(conn.query(AVAILABLE, &[&lanes, &limit]).await?);
    }
    if state != Some(State::Available) {
        let state = state.map(|state| state as i16);
        rows.extend(conn.query(ASIDE, &[&lanes, &limit, &state]).await?);
    }
    if state.is_none() && rows.len() <= most {
        rows.extend(conn.query(OTHERS, &[&lanes, &limit]).await?);
    }
    let ids = || rows.iter().map(|row| job_id(row.get(0))).collect();
    Ok((rows.len() <= most).then(ids))
}
