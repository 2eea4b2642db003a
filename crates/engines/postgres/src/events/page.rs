//! Reading a page of a stream, and waiting for one.

use super::{number, span};
use crate::conn::error::{Trouble, Try, corrupt, unavailable};
use crate::conn::{Lent, Row};
use crate::engine::PostgresEngine;
use crate::rows::codec;
use crate::rows::entries::{at, job_id};
use std::time::Duration;
use windlass_core::Result;
use windlass_core::engine::{
    Event, EventFields, EventSpan, EventsFrom, EventsReply, EventsRequest, Stamped, events_are_off,
};
use windlass_core::machine::EventKind;
use windlass_core::model::{EventBounds, Finish, Name, QueueSettings};

/// The settings of a queue, its stream, whether events wait for a number, and the time.
const STREAM: &str = "SELECT q.settings, s.id, s.start, s.dropped, s.last,
        EXISTS (SELECT FROM {s}.event_inbox i WHERE i.stream = s.id),
        (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    FROM (SELECT $1::text AS name) w LEFT JOIN {s}.queue q ON q.name = w.name
    LEFT JOIN {s}.event_stream s ON s.queue = w.name AND NOT s.ended";
/// The numbers of a stream, and its events after a number, as of one moment.
const PAGE: &str = "SELECT s.start, s.dropped, s.last, e.number, e.at, e.job, e.queue, e.kind, e.event, e.state, e.attempt,
        e.transition, e.reason, e.error
    FROM {s}.event_stream s LEFT JOIN LATERAL (
        SELECT * FROM {s}.event e WHERE e.stream = $1::integer AND e.number > $2::bigint ORDER BY e.number LIMIT $3::bigint
    ) e ON true
    WHERE s.id = $1 AND NOT s.ended";

/// Reads of a page, if its first events are dropped between two statements.
const TRIES_MAX: u32 = 20;
/// First polling interval of a reader that waits, for notifications that do not arrive; doubles up to the maximum.
const POLL_MIN: Duration = Duration::from_millis(100);
/// Maximum polling interval.
const POLL_MAX: Duration = Duration::from_secs(1);

/// A stream, as a read finds it.
struct Stream {
    id: i32,
    span: EventSpan,
    bounds: EventBounds,
    has_inbox: bool,
}

impl PostgresEngine {
    /// Reads events, or waits for the first one; see [`windlass_core::engine::Admin::events`].
    pub(crate) async fn wait_for_events(
        &self,
        mut request: EventsRequest,
    ) -> Result<Stamped<EventsReply>> {
        request.check()?;
        let mut woken = self.inner.wakeups.watch_events(&request.queue);
        let first = self.read_events(&request).await?;
        if request.wait_ms == 0 || first.value.is_news() {
            return Ok(first);
        }
        request = request.after(first.value.next);
        let news = async {
            let mut pause = POLL_MIN;
            loop {
                // Reads in both cases; the sender lives as long as its receivers.
                let _ = tokio::time::timeout(pause, woken.changed()).await;
                let reply = self.read_events(&request).await;
                if reply.as_ref().map_or(true, |reply| reply.value.is_news()) {
                    return reply;
                }
                pause = POLL_MAX.min(pause * 2);
            }
        };
        match tokio::time::timeout(Duration::from_millis(request.wait_ms), news).await {
            Ok(reply) => reply,
            Err(_) => self.read_events(&request).await,
        }
    }

    async fn read_events(&self, request: &EventsRequest) -> Result<Stamped<EventsReply>> {
        let conn = self.inner.shared.pool.lend().await.map_err(Trouble::into_error)?;
        let read = self.read_events_on(&conn, request).await.map_err(Trouble::into_error)?;
        conn.give_back();
        Ok(read)
    }

    async fn read_events_on(
        &self,
        conn: &Lent,
        request: &EventsRequest,
    ) -> Try<Stamped<EventsReply>> {
        let rows = conn.query(STREAM, &[&&*request.queue]).await?;
        let row = rows.first().ok_or_else(|| corrupt(&"no row for a queue"))?;
        let off = || events_are_off(&request.queue);
        let stream = stream(row)?.ok_or_else(off)?;
        let now = self.inner.shared.now(at(row.get(6)));
        let span = number_enough(conn, &stream, request).await?.ok_or_else(off)?;
        let value = page(conn, stream.id, span, request).await?.ok_or_else(off)?;
        Ok(Stamped { now, epoch: conn.epoch.clone(), value })
    }
}

/// Reads a stream; `None` if events are off.
fn stream(row: &Row) -> Result<Option<Stream>> {
    let settings: QueueSettings = codec::from_text(row.get(0))?;
    let Some((bounds, id)) = settings.events.zip(row.get::<_, Option<i32>>(1)) else {
        return Ok(None);
    };
    Ok(Some(Stream { id, span: span(row, 2), bounds, has_inbox: row.get(5) }))
}

/// Numbers events until none are left, or until the page has enough. Returns `None` if the stream has ended meanwhile.
async fn number_enough(
    conn: &Lent,
    stream: &Stream,
    request: &EventsRequest,
) -> Try<Option<EventSpan>> {
    let Stream { id, mut span, bounds, has_inbox } = *stream;
    let mut more = has_inbox || span.len() > bounds.max;
    while more {
        let Some(numbered) = number(conn, id, bounds, true).await? else { return Ok(None) };
        (span, more) = numbered;
        let (begin, _) = span.resume(&request.queue, &request.from)?;
        more &= request.from == EventsFrom::Latest || span.last - begin < u64::from(request.limit);
    }
    Ok(Some(span))
}

/// The page of a request; `None` if the stream has ended.
async fn page(
    conn: &Lent,
    stream: i32,
    mut span: EventSpan,
    request: &EventsRequest,
) -> Try<Option<EventsReply>> {
    let EventsRequest { queue, from, limit, .. } = request;
    for _ in 0..TRIES_MAX {
        let begin = span.resume(queue, from)?;
        let params: crate::conn::Params<'_> =
            &[&stream, &begin.0.cast_signed(), &i64::from(*limit)];
        let rows = conn.query(PAGE, params).await?;
        let Some(first) = rows.first() else { return Ok(None) };
        span = super::span(first, 0);
        // Otherwise, events of the page may be missing.
        if span.dropped <= begin.0 {
            let events = rows.iter().filter_map(|row| event(row, queue).transpose());
            return Ok(Some(span.reply(queue, begin, events.collect::<Result<Vec<_>>>()?)));
        }
    }
    Err(unavailable("events are dropped faster than they are read: raise events.max").into())
}

/// Reads an event and its number; `None` if the page is empty.
fn event(row: &Row, queue: &Name) -> Result<Option<(u64, Event)>> {
    let Some(number) = row.get::<_, Option<i64>>(3) else { return Ok(None) };
    let (name, reason): (&str, Option<&str>) = (row.get(8), row.get(12));
    let event = EventKind::named(name).ok_or_else(|| corrupt(&format!("event {name:?}")))?;
    let reason = reason.map(serde_json::from_str::<Finish>).transpose();
    let moved_to = row.get::<_, Option<&str>>(6).map(Name::from);
    let count = |column| u32::try_from(row.get::<_, i64>(column)).unwrap_or(u32::MAX);
    let event = EventFields {
        job: job_id(row.get(5)),
        queue: moved_to.unwrap_or_else(|| queue.clone()),
        kind: row.get::<_, &str>(7).into(),
        number: count(11),
        event,
        state: row.get::<_, Option<i16>>(9).map(codec::state).transpose()?,
        at: at(row.get(4)),
        attempt: count(10),
        reason: reason.map_err(|error| corrupt(&error))?,
        error: row.get(13),
    };
    Ok(Some((number.cast_unsigned(), event.into())))
}
