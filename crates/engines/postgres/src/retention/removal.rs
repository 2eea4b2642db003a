//! Removal row by row: finds ended jobs past their retention, from the cursor on, and deletes them with all their rows.

use crate::conn::Lent;
use crate::conn::Row;
use crate::conn::error::Try;
use crate::engine::PostgresEngine;
use crate::retention::context::{Cutoffs, Partition, RetentionContext};
use crate::retention::cursor::RetentionCursor;
use std::sync::MutexGuard;
use tokio::time::Instant;
use uuid::Uuid;
use windlass_core::engine::MaintainReply;
use windlass_core::sync::lock;

const REMOVE: &str = include_str!("../../sql/remove.sql");
/// Jobs of one table that are past their retention, each with its cutoff, lane, state and end.
macro_rules! due_in {
    ($table:literal) => {
        concat!(
            "SELECT f.id, w.ended, w.lane, w.state, f.at
            FROM unnest($1::integer[], $2::smallint[], $3::bigint[], $7::bigint[]) w (lane, state, ended, since)
            CROSS JOIN LATERAL (SELECT id, at FROM ",
            $table,
            " WHERE lane = w.lane AND state = w.state AND NOT own AND at >= w.since AND at <= w.ended
                AND id >= $4 AND id < $5 ORDER BY at LIMIT $6) f LIMIT $6"
        )
    };
}
const DUE_IN_PARTITION: &str = due_in!("{s}.finished");
const DUE_IN_DEFAULT: &str = due_in!("{s}.finished_default");

/// The range of all ids; the highest UUID is not an id.
const ALL_IDS: (Uuid, Uuid) = (Uuid::nil(), Uuid::max());

impl PostgresEngine {
    /// Removes due rows from the default partition and from `partitions`, one after the other. Returns whether more may
    /// be removed at once.
    pub(super) async fn remove_rows(
        &self,
        conn: &Lent,
        context: &RetentionContext,
        partitions: &[&Partition],
        budget: u32,
        reply: &mut MaintainReply,
    ) -> Try<bool> {
        let ranges = partitions.iter().map(|range| (DUE_IN_PARTITION, (range.from, range.upto)));
        let Cutoffs { lanes, states, ended } = &context.cutoffs;
        let begun = Instant::now();
        let is_full_scan = self.retention_cursor().begin(begun);
        let mut is_full = false;
        for (due, (from, upto)) in std::iter::once((DUE_IN_DEFAULT, ALL_IDS)).chain(ranges) {
            let left = i64::from(budget.saturating_sub(reply.done));
            if left == 0 {
                break;
            }
            let since = self.retention_cursor().since(from, &context.cutoffs);
            let due = conn.query(due, &[lanes, states, ended, &from, &upto, &left, &since]).await?;
            let (ids, ended): (Vec<Uuid>, Vec<i64>) =
                due.iter().map(|row| (row.get::<_, Uuid>(0), row.get::<_, i64>(1))).unzip();
            self.remove(conn, context, &ids, &ended, reply).await?;
            is_full |= due.len() as i64 >= left;
            let found = due.iter().map(|row| (row.get(2), row.get(3), row.get(4)));
            self.retention_cursor().note(from, found);
        }
        if is_full_scan {
            self.retention_cursor().rest(begun);
        }
        // Jobs locked by other transactions are found and not removed: if there are only those, the next step can wait.
        Ok(is_full && reply.done > 0)
    }

    /// Removes these jobs if they ended at or before the matching time in `ended`.
    pub(super) async fn remove(
        &self,
        conn: &Lent,
        context: &RetentionContext,
        ids: &[Uuid],
        ended: &[i64],
        reply: &mut MaintainReply,
    ) -> Try<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let gone = conn.query(REMOVE, &[&ids, &ended, &context.now.as_millis()]).await?;
        let counts = |row: &Row| (row.get(0), row.get(1), row.get(2));
        let gone: Vec<(i32, i16, i64)> = gone.iter().map(counts).collect();
        Ok(context.count(reply, &gone)?)
    }

    pub(super) fn retention_cursor(&self) -> MutexGuard<'_, RetentionCursor> {
        lock(&self.inner.retention_cursor)
    }
}
