//! Events of queues that record them: `page` reads a stream, `drop` keeps streams within their bounds.
//!
//! Transactions insert their events into an inbox (`slow/save/events.rs`), without a position in the stream, because the
//! order of commits is known only after the commit. Readers and maintenance number the events that they can see, one caller
//! per stream at a time (`sql/001_initial/4_events.sql`), so every event gets its position after its commit. ADR 008 gives
//! the reasons.

mod drop;
mod page;

use crate::conn::error::Try;
use crate::conn::{Lent, Row};
use windlass_core::engine::EventSpan;
use windlass_core::model::EventBounds;

/// Events that are numbered in one call.
const NUMBERED_MAX: i64 = 5_000;
const NUMBER: &str = "SELECT start, dropped, last, moved FROM {s}.number_events($1, $2, $3, $4)";

/// Numbers up to [`NUMBERED_MAX`] events of a stream, and drops the oldest beyond its bounds. Returns its numbers, and whether
/// there may be more; `None` if the stream has ended, or another call holds it and this one does not `wait`.
///
/// Outside of any transaction: its commit is as durable as the server is configured, and so makes the events durable that
/// it numbers.
async fn number(
    conn: &Lent,
    stream: i32,
    bounds: EventBounds,
    wait: bool,
) -> Try<Option<(EventSpan, bool)>> {
    let kept = bounds.max.cast_signed();
    let rows = conn.query(NUMBER, &[&stream, &NUMBERED_MAX, &kept, &wait]).await?;
    Ok(rows.first().map(|row| (span(row, 0), row.get::<_, i64>(3) == NUMBERED_MAX)))
}

/// Reads the numbers of a stream from three columns, from `first` on.
fn span(row: &Row, first: usize) -> EventSpan {
    let number = |column| row.get::<_, i64>(first + column).cast_unsigned();
    EventSpan { start: number(0), dropped: number(1), last: number(2) }
}
