//! Checks that streams have all events that they keep, and that no job of a queue with events can end without one.

use super::check::Finds;
use crate::conn::error::Try;
use crate::conn::{Lent, Row};
use crate::rows::entries::job_id;

const INCOMPLETE: &str = "SELECT s.id, s.queue FROM {s}.event_stream s WHERE NOT s.ended
    AND (s.last - s.dropped, s.last) <> (SELECT count(*), coalesce(max(e.number), s.dropped) FROM {s}.event e
        WHERE e.stream = s.id AND e.number > s.dropped)
    ORDER BY s.id";
/// Leases that a fast path would end.
const PLAIN_LEASES: &str = "SELECT e.id FROM {s}.queue q JOIN {s}.lane l ON l.queue = q.name JOIN {s}.lease e ON e.lane = l.id
    WHERE q.recorded AND e.flags & ({flag_plain} | {flag_plain_alone} | {flag_plain_in_group}) <> 0 ORDER BY e.id";
/// Drops all events: readers learn of the gap.
const DROP_ALL: &str = "UPDATE {s}.event_stream SET dropped = last WHERE id = ANY($1)";
const CLEAR_FLAGS: &str = "UPDATE {s}.lease SET flags = 0 WHERE id = ANY($1)";

/// Adds what is wrong with events, and repairs it.
pub(super) async fn judge(conn: &Lent, repair: bool, found: &mut Finds) -> Try<()> {
    let incomplete = conn.query(INCOMPLETE, &[]).await?;
    let missing = |row: &Row| format!("events of queue {} are missing", row.get::<_, &str>(1));
    found.extend(incomplete.iter().map(missing));
    let plain = conn.query(PLAIN_LEASES, &[]).await?;
    let ends = |row: &Row| format!("job {} would end without an event", job_id(row.get(0)));
    found.extend(plain.iter().map(ends));
    if repair && !incomplete.is_empty() {
        let streams: Vec<i32> = incomplete.iter().map(|row| row.get(0)).collect();
        conn.execute(DROP_ALL, &[&streams]).await?;
    }
    if repair && !plain.is_empty() {
        let jobs: Vec<uuid::Uuid> = plain.iter().map(|row| row.get(0)).collect();
        conn.execute(CLEAR_FLAGS, &[&jobs]).await?;
    }
    Ok(())
}
