//! Keeping streams within their bounds: numbers what waits in the inbox, and deletes dropped and old events in bounded
//! steps.

use super::{number, span};
use crate::conn::error::Try;
use crate::conn::{Lent, Row};
use crate::engine::PostgresEngine;
use crate::rows::codec;
use windlass_core::model::{EventBounds, QueueSettings};
use windlass_core::{Result, Timestamp};

/// All streams with the settings of their queues, and whether events wait for a number; without streams, a row if there are
/// events of streams that are gone.
const STREAMS: &str = "SELECT s.id, s.start, s.dropped, s.last, s.ended, q.settings,
        EXISTS (SELECT FROM {s}.event_inbox i WHERE i.stream = s.id)
    FROM (SELECT EXISTS (SELECT FROM {s}.event_inbox) AS has_inbox) w
    LEFT JOIN {s}.event_stream s ON true LEFT JOIN {s}.queue q ON q.name = s.queue
    WHERE s.id IS NOT NULL OR w.has_inbox ORDER BY s.id";
/// Drops the events of a stream that are older than a time, up to a number of them; returns the number of the last event
/// that is dropped. The first one that is not older ends it: the clock may have been set back. The row of the stream is
/// locked by the update, and numbers only rise.
const DROP_OLD: &str = "UPDATE {s}.event_stream s SET dropped = greatest(s.dropped, o.upto) FROM (
        SELECT max(number) AS upto FROM (
            SELECT number, bool_and(at < $2::bigint) OVER (ORDER BY number) AS is_old FROM (
                SELECT number, at FROM {s}.event WHERE stream = $1::integer AND number > $3::bigint
                ORDER BY number LIMIT $4::bigint) e) e
        WHERE is_old) o
    WHERE s.id = $1 AND NOT s.ended AND o.upto IS NOT NULL RETURNING s.dropped";
const DELETE: &str = "SELECT {s}.delete_events($1, $2, $3)";
/// Deletes events that transactions have added to a stream after it had ended. Looks up one row per stream, not each row.
const DELETE_LATE: &str = "WITH RECURSIVE filled AS (
        SELECT min(stream) AS stream FROM {s}.event_inbox
        UNION ALL SELECT (SELECT min(i.stream) FROM {s}.event_inbox i WHERE i.stream > f.stream)
        FROM filled f WHERE f.stream IS NOT NULL
    ), over AS (
        SELECT f.stream FROM filled f WHERE f.stream IS NOT NULL
            AND NOT EXISTS (SELECT FROM {s}.event_stream s WHERE s.id = f.stream AND NOT s.ended)
    )
    DELETE FROM {s}.event_inbox WHERE ctid = ANY(ARRAY(
        SELECT i.ctid FROM over o CROSS JOIN LATERAL
            (SELECT ctid FROM {s}.event_inbox WHERE stream = o.stream ORDER BY no LIMIT $1) i LIMIT $1))";
const FORGET: &str = "DELETE FROM {s}.event_stream WHERE id = $1 AND ended";

/// A stream, as maintenance finds it.
struct Stream {
    id: i32,
    span: windlass_core::engine::EventSpan,
    /// `None`: the stream has ended.
    bounds: Option<EventBounds>,
    has_inbox: bool,
}

impl Stream {
    fn read(row: &Row) -> Result<Option<Self>> {
        let Some(id) = row.get::<_, Option<i32>>(0) else { return Ok(None) };
        let settings: QueueSettings = codec::from_text(row.get(5))?;
        let bounds = settings.events.filter(|_| !row.get::<_, bool>(4));
        Ok(Some(Self { id, span: span(row, 1), bounds, has_inbox: row.get(6) }))
    }
}

impl PostgresEngine {
    /// Runs a step that drops and deletes up to `budget` events. Returns whether there are more.
    pub(crate) async fn drop_events(&self, conn: &Lent, now: Timestamp, budget: u32) -> Try<bool> {
        let rows = conn.query(STREAMS, &[]).await?;
        if rows.is_empty() {
            return Ok(false);
        }
        let mut left = i64::from(budget);
        left -= conn.execute(DELETE_LATE, &[&left]).await?.cast_signed();
        let mut more = false;
        for row in &rows {
            let Some(stream) = Stream::read(row)? else { continue };
            match stream.bounds {
                Some(bounds) => more |= keep_within(conn, &stream, bounds, now, &mut left).await?,
                None => forget(conn, &stream, now, &mut left).await?,
            }
        }
        Ok(more || left <= 0)
    }
}

/// Numbers events and drops those beyond the bounds. Returns whether more wait for a number.
async fn keep_within(
    conn: &Lent,
    stream: &Stream,
    bounds: EventBounds,
    now: Timestamp,
    left: &mut i64,
) -> Try<bool> {
    let (mut span, mut more) = (stream.span, false);
    if stream.has_inbox || span.len() > bounds.max {
        match number(conn, stream.id, bounds, false).await? {
            Some(numbered) => (span, more) = numbered,
            // A reader numbers them.
            None => return Ok(false),
        }
    }
    let before = now.minus(bounds.max_age_ms).as_millis();
    let from = span.dropped.cast_signed();
    let limit = (*left).max(0);
    let dropped = conn.query(DROP_OLD, &[&stream.id, &before, &from, &limit]).await?;
    let upto = dropped.first().map_or(from, |row| row.get(0));
    if upto > span.start.cast_signed() {
        delete(conn, stream.id, upto, left).await?;
    }
    Ok(more)
}

/// Deletes the events of a stream that has ended, and then its row, unless the next stream of the queue could begin with its
/// numbers.
async fn forget(conn: &Lent, stream: &Stream, now: Timestamp, left: &mut i64) -> Try<()> {
    delete(conn, stream.id, i64::MAX, left).await?;
    if *left > 0 && !stream.span.is_recent(now) {
        conn.execute(FORGET, &[&stream.id]).await?;
    }
    Ok(())
}

/// Deletes events up to a number, as far as the budget goes.
async fn delete(conn: &Lent, stream: i32, upto: i64, left: &mut i64) -> Try<()> {
    if *left > 0 {
        let deleted = conn.query(DELETE, &[&stream, &upto, left]).await?;
        *left -= deleted.first().map_or(0, |row| row.get(0));
    }
    Ok(())
}
