//! Loads unique keys and ordering keys.

use super::{Loaded, Loader, some};
use crate::conn::Conn;
use crate::conn::Row;
use crate::conn::error::Try;
use crate::rows::entries::{at, job_id};
use futures_util::future::try_join3;
use windlass_core::model::Name;
use windlass_executor::{UniqueHold, UniqueSlot};
use windlass_workset::{LineRows, Wants};

const UNIQUES: &str = "SELECT u.queue, u.kind, u.key, u.id, u.until
    FROM unnest($1::text[], $2::text[], $3::text[]) w (queue, kind, key)
    JOIN {s}.unique_key u ON u.queue = ANY(ARRAY[w.queue]) AND u.kind = w.kind AND u.key = w.key
    ORDER BY w.queue, w.kind, w.key FOR UPDATE OF u";
const HOLDERS: &str =
    "SELECT h.queue, h.key, h.id FROM unnest($1::text[], $2::text[]) w (queue, key)
    JOIN {s}.key_holder h ON h.queue = ANY(ARRAY[w.queue]) AND h.key = w.key
    ORDER BY w.queue, w.key FOR UPDATE OF h";
const LINES: &str = "SELECT w.queue, w.key, l.seq, l.id
    FROM unnest($1::text[], $2::text[]) w (queue, key) CROSS JOIN LATERAL
        (SELECT seq, id FROM {s}.key_line WHERE queue = w.queue AND key = w.key
            ORDER BY seq LIMIT $3) l";

pub(super) async fn prepare(conn: &Conn<'_>) -> Try<()> {
    conn.prepare(&[UNIQUES, HOLDERS, LINES]).await
}

/// Rows of unique keys, of holders and of lines.
pub(super) type KeyRows = (Vec<Row>, Vec<Row>, Vec<Row>, usize);

impl Loader<'_, '_> {
    pub(super) async fn keys(&self, wants: &Wants, loaded: &Loaded) -> Try<KeyRows> {
        let missing = wants.slots.iter().filter(|slot| !loaded.uniques.contains_key(slot));
        let (mut queues, mut kinds, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        for slot in missing {
            queues.push(&*slot.queue);
            kinds.push(&*slot.kind);
            keys.push(&*slot.key);
        }
        let (in_queues, lines): (Vec<&str>, Vec<&str>) =
            wants.lines.iter().map(|(queue, key)| (&**queue, &**key)).unzip();
        let chunk = loaded.line_chunk(wants);
        let (slots, ordered) = (!keys.is_empty(), !lines.is_empty());
        let conn = self.conn;
        let (uniques, holders, waiting) = try_join3(
            some(slots, conn.query(UNIQUES, &[&queues, &kinds, &keys])),
            some(ordered, conn.query(HOLDERS, &[&in_queues, &lines])),
            some(ordered, conn.query(LINES, &[&in_queues, &lines, &(chunk as i64)])),
        )
        .await?;
        Ok((uniques, holders, waiting, chunk))
    }
}

/// Adds unique keys and ordering keys.
pub(super) fn add_keys(loaded: &mut Loaded, wants: &Wants, rows: KeyRows) {
    let (uniques, holders, waiting, chunk) = rows;
    for slot in &wants.slots {
        loaded.uniques.entry(slot.clone()).or_default();
    }
    for row in &uniques {
        let slot = UniqueSlot { queue: row.get(0), kind: row.get(1), key: row.get(2) };
        let until = row.get::<_, Option<i64>>(4).map(at);
        loaded.uniques.insert(slot, Some(UniqueHold { holder: job_id(row.get(3)), until }));
    }
    let line = |row: &Row| -> (Name, String) { (row.get::<_, &str>(0).into(), row.get(1)) };
    for line in &wants.lines {
        loaded.lines.insert(line.clone(), LineRows::of_chunk(chunk));
    }
    for row in &holders {
        loaded.lines.entry(line(row)).or_default().holder = Some(job_id(row.get(2)));
    }
    for row in &waiting {
        let place = (row.get::<_, i64>(2).cast_unsigned(), job_id(row.get(3)));
        loaded.lines.entry(line(row)).or_default().waiting.insert(place);
    }
    for line in &wants.lines {
        loaded.lines.entry(line.clone()).or_default().complete();
    }
}
