//! Events: a row per stream (a queue with events) and a row per event.
//!
//! The numbers of the streams are kept in memory; events and changed numbers are written once per transaction. Dropping an
//! event changes the numbers only, at once. Its row is deleted later: some with each transaction that appends, the rest by
//! maintenance.

use super::codec::corrupt;
use super::failed;
use rusqlite::{Connection, Row, params};
use std::collections::BTreeMap;
use windlass_core::engine::{
    Event, EventFields, EventSpan, EventsReply, EventsRequest, events_are_off,
};
use windlass_core::machine::EventKind;
use windlass_core::model::{EventBounds, Finish, Name, State};
use windlass_core::{JobId, Result, Timestamp};

/// Rows of dropped events that a transaction deletes beyond the number of those that it appends.
const DELETED_MORE: u64 = 100;

/// The streams, and the changes of the current transaction.
#[derive(Default)]
pub(super) struct Events {
    streams: BTreeMap<Name, Stream>,
    /// Events that were appended in the current transaction, with stream and number.
    fresh: Vec<(i64, u64, Event)>,
}

#[derive(Clone, Copy)]
struct Stream {
    /// The row key.
    id: i64,
    span: EventSpan,
    /// The number of the last event whose row was deleted. All rows of earlier streams of the queue are below
    /// `span.start`.
    deleted: u64,
    /// Number of events that were appended in the current transaction.
    appended: u64,
    is_changed: bool,
}

impl Events {
    /// Reads the streams, when the directory is opened and after a rollback.
    pub(super) fn read(conn: &Connection) -> Result<Self> {
        let sql = "SELECT queue, id, start, dropped, last, deleted FROM event_stream";
        let stream = |row: &Row<'_>| {
            let number = |at| row.get::<_, i64>(at).map(i64::cast_unsigned);
            let span = EventSpan { start: number(2)?, dropped: number(3)?, last: number(4)? };
            let (id, deleted) = (row.get(1)?, number(5)?);
            let stream = Stream { id, span, deleted, appended: 0, is_changed: false };
            Ok((Name::from(row.get::<_, String>(0)?), stream))
        };
        let read = || conn.prepare_cached(sql)?.query_map([], stream)?.collect();
        let streams: rusqlite::Result<_> = read();
        Ok(Self { streams: streams.map_err(|error| failed(&error))?, fresh: Vec::new() })
    }

    pub(super) fn append(&mut self, queue: &Name, bounds: EventBounds, event: Event) {
        let Some(stream) = self.streams.get_mut(queue) else { return };
        let number = stream.span.append();
        stream.span.keep(bounds.max);
        stream.appended += 1;
        stream.is_changed = true;
        self.fresh.push((stream.id, number, event));
    }

    pub(super) fn reset(&mut self, queue: &Name, now: Timestamp) {
        let next_id = self.streams.values().map(|stream| stream.id).max().unwrap_or(0) + 1;
        let previous = self.streams.get(queue).copied();
        let span = EventSpan::begin(now, previous.map(|stream| stream.span));
        let (id, deleted) = previous.map_or((next_id, span.start), |it| (it.id, it.deleted));
        let fresh = Stream { id, span, deleted, appended: 0, is_changed: true };
        self.streams.insert(queue.clone(), fresh);
    }

    /// Writes the changes of the transaction.
    pub(super) fn flush(&mut self, conn: &Connection) -> Result<()> {
        if !self.streams.values().any(|stream| stream.is_changed) {
            return Ok(());
        }
        let mut write = || -> rusqlite::Result<()> {
            let sql =
                "INSERT INTO event VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
            let mut insert = conn.prepare_cached(sql)?;
            for (stream, number, event) in self.fresh.drain(..) {
                insert_one(&mut insert, stream, number, event)?;
            }
            let sql = "INSERT OR REPLACE INTO event_stream VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            let mut save = conn.prepare_cached(sql)?;
            for (queue, stream) in self.streams.iter_mut().filter(|(_, it)| it.is_changed) {
                let limit = stream.appended.saturating_mul(2).saturating_add(DELETED_MORE);
                stream.delete(conn, limit)?;
                let EventSpan { start, dropped, last } = stream.span;
                let numbers = [start, dropped, last, stream.deleted].map(u64::cast_signed);
                let [start, dropped, last, deleted] = numbers;
                save.execute(params![stream.id, &**queue, start, dropped, last, deleted])?;
                (stream.appended, stream.is_changed) = (0, false);
            }
            Ok(())
        };
        write().map_err(|error| failed(&error))
    }

    /// A page of a stream; the changes of the transaction are written.
    pub(super) fn page(&self, conn: &Connection, request: &EventsRequest) -> Result<EventsReply> {
        let EventsRequest { queue, from, limit, .. } = request;
        let span = self.streams.get(queue).map(|stream| (stream.id, stream.span));
        let (id, span) = span.ok_or_else(|| events_are_off(queue))?;
        let begin = span.resume(queue, from)?;
        let sql =
            "SELECT number, at, job, queue, kind, event, state, attempt, transition, reason, error
            FROM event WHERE stream = ?1 AND number > ?2 ORDER BY number LIMIT ?3";
        let rows = || -> rusqlite::Result<Vec<_>> {
            let params = params![id, begin.0.cast_signed(), limit];
            conn.prepare_cached(sql)?.query_map(params, |row| read(row, queue))?.collect()
        };
        let rows = rows().map_err(|error| failed(&error))?;
        let events = rows.into_iter().collect::<Result<Vec<_>>>()?;
        Ok(span.reply(queue, begin, events))
    }

    /// Queues whose rows are not exactly the events that their streams keep. The changes of the transaction are written.
    pub(super) fn incomplete(&self, conn: &Connection) -> Result<Vec<Name>> {
        let sql = "SELECT count(*), coalesce(max(number), ?2) FROM event
            WHERE stream = ?1 AND number > ?2";
        let mut found = Vec::new();
        for (queue, Stream { id, span, .. }) in &self.streams {
            let stored = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
            let read = || {
                let place = [*id, span.dropped.cast_signed()];
                conn.prepare_cached(sql)?.query_row(place, stored)
            };
            let stored = read().map_err(|error| failed(&error))?;
            if stored != (span.len().cast_signed(), span.last.cast_signed()) {
                found.push(queue.clone());
            }
        }
        Ok(found)
    }

    /// Drops all events of a queue: its readers learn of the gap.
    pub(super) fn drop_all(&mut self, queue: &Name) {
        if let Some(stream) = self.streams.get_mut(queue) {
            stream.span.drop_to(stream.span.last);
            stream.is_changed = true;
        }
    }

    /// See [`windlass_executor::Maintenance::drop_events`]. The changes of the transaction are written.
    pub(super) fn drop_old(
        &mut self,
        conn: &Connection,
        bounds: &dyn Fn(&Name) -> Option<EventBounds>,
        now: Timestamp,
        limit: usize,
    ) -> Result<bool> {
        let mut left = limit as u64;
        let mut over = Vec::new();
        for (queue, stream) in &mut self.streams {
            match bounds(queue) {
                Some(bounds) => {
                    stream.span.keep(bounds.max);
                    let cutoff = now.minus(bounds.max_age_ms);
                    stream.drop_before(conn, cutoff, left).map_err(|error| failed(&error))?;
                }
                None => stream.span.drop_to(stream.span.last),
            }
            let before = stream.deleted;
            let deleted = stream.delete(conn, left).map_err(|error| failed(&error))?;
            left = left.saturating_sub(deleted);
            stream.is_changed |= deleted > 0 || stream.deleted != before;
            // The next stream of the queue must not begin with numbers of this one.
            if bounds(queue).is_none() && stream.is_clean() && !stream.span.is_recent(now) {
                over.push(queue.clone());
            }
        }
        for queue in over {
            let sql = "DELETE FROM event_stream WHERE queue = ?1";
            let delete = || conn.prepare_cached(sql)?.execute([&*queue]);
            delete().map_err(|error| failed(&error))?;
            self.streams.remove(&queue);
        }
        self.flush(conn)?;
        Ok(left == 0)
    }
}

impl Stream {
    /// Whether the rows of all dropped events are deleted.
    const fn is_clean(&self) -> bool {
        self.deleted >= self.span.dropped
    }

    /// Deletes rows of dropped events, at most `limit`; returns how many.
    fn delete(&mut self, conn: &Connection, limit: u64) -> rusqlite::Result<u64> {
        if self.is_clean() || limit == 0 {
            return Ok(0);
        }
        let sql = "SELECT max(number), count(*) FROM (SELECT number FROM event
            WHERE stream = ?1 AND number <= ?2 ORDER BY number LIMIT ?3)";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let to = self.span.dropped.cast_signed();
        let found = |row: &Row<'_>| Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, i64>(1)?));
        let (upto, found) =
            conn.prepare_cached(sql)?.query_row(params![self.id, to, limit], found)?;
        if let Some(upto) = upto {
            let sql = "DELETE FROM event WHERE stream = ?1 AND number <= ?2";
            conn.prepare_cached(sql)?.execute([self.id, upto])?;
        }
        // Fewer than the limit: these were the last.
        self.deleted = match upto {
            Some(upto) if found == limit => upto.cast_unsigned(),
            _ => self.span.dropped,
        };
        Ok(found.cast_unsigned())
    }

    /// Drops events from before `cutoff`, at most `limit`.
    fn drop_before(
        &mut self,
        conn: &Connection,
        cutoff: Timestamp,
        limit: u64,
    ) -> rusqlite::Result<()> {
        // The first that is not older ends it: the clock may have been set back.
        let sql = "SELECT number, at FROM event WHERE stream = ?1 AND number > ?2
            ORDER BY number LIMIT ?3";
        let mut statement = conn.prepare_cached(sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut rows = statement.query([self.id, self.span.dropped.cast_signed(), limit])?;
        while let Some(row) = rows.next()? {
            if row.get::<_, i64>(1)? >= cutoff.as_millis() {
                break;
            }
            self.span.drop_to(row.get::<_, i64>(0)?.cast_unsigned());
            self.is_changed = true;
        }
        Ok(())
    }
}

fn insert_one(
    insert: &mut rusqlite::CachedStatement<'_>,
    stream: i64,
    number: u64,
    event: Event,
) -> rusqlite::Result<()> {
    let EventFields {
        job,
        queue,
        kind,
        number: transition,
        event,
        state,
        at,
        attempt,
        reason,
        error,
    } = event.into();
    let reason = reason.map(|reason| serde_json::to_string(&reason)).transpose();
    let reason = reason.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    insert.execute(params![
        stream,
        number.cast_signed(),
        at.as_millis(),
        job.as_bytes(),
        &*queue,
        &*kind,
        event.name(),
        state.map(|state| state as i64),
        attempt,
        transition,
        reason,
        error,
    ])?;
    Ok(())
}

/// Reads an event and its number.
fn read(row: &Row<'_>, queue: &Name) -> rusqlite::Result<Result<(u64, Event)>> {
    let number = row.get::<_, i64>(0)?.cast_unsigned();
    let (event, reason): (String, Option<String>) = (row.get(5)?, row.get(9)?);
    let state: Option<i64> = row.get(6)?;
    let name: String = row.get(3)?;
    type Decoded = (EventKind, Option<State>, Option<Finish>);
    let fields = |(event, state, reason): Decoded| -> rusqlite::Result<EventFields> {
        Ok(EventFields {
            job: JobId::from_bytes(row.get(2)?),
            queue: if name == **queue { queue.clone() } else { name.as_str().into() },
            kind: row.get::<_, String>(4)?.into(),
            number: row.get(8)?,
            event,
            state,
            at: Timestamp::from_millis(row.get(1)?),
            attempt: row.get(7)?,
            reason,
            error: row.get(10)?,
        })
    };
    let decoded = || -> Result<Decoded> {
        let event = EventKind::named(&event).ok_or_else(|| corrupt(&format!("event {event:?}")))?;
        let state = state.map(super::codec::state).transpose()?;
        let reason = reason.map(|text| serde_json::from_str(&text)).transpose();
        Ok((event, state, reason.map_err(|error| corrupt(&error))?))
    };
    Ok(match decoded() {
        Ok(decoded) => Ok((number, fields(decoded)?.into())),
        Err(error) => Err(error),
    })
}
