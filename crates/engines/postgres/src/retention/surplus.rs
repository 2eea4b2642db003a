//! Retention by number: removes the ended jobs of a queue beyond the newest N of a state, row by row.
//!
//! Jobs that are past their retention by age do not count and are left to it: a survey of their partition may have
//! counted them already.

use crate::conn::Lent;
use crate::conn::error::Try;
use crate::engine::PostgresEngine;
use crate::retention::context::RetentionContext;
use uuid::Uuid;
use windlass_core::engine::MaintainReply;

/// The first job beyond the newest `$3` of a queue and state, and later than the cutoff `$4`.
pub(crate) const FIRST: &str = "SELECT f.at, f.id FROM {s}.lane l CROSS JOIN LATERAL (
        SELECT at, id FROM {s}.finished WHERE lane = l.id AND state = $2::smallint AND NOT own AND at > $4::bigint
        ORDER BY at DESC, id DESC LIMIT $3::bigint + 1) f
    WHERE l.queue = $1::text ORDER BY f.at DESC, f.id DESC OFFSET $3::bigint LIMIT 1";
/// The oldest jobs up to this one.
pub(crate) const SURPLUS: &str = "SELECT f.at, f.id FROM {s}.lane l CROSS JOIN LATERAL (
        SELECT at, id FROM {s}.finished WHERE lane = l.id AND state = $2::smallint AND NOT own AND at > $3::bigint
            AND at <= $4::bigint
        ORDER BY at, id LIMIT $6::bigint) f
    WHERE l.queue = $1::text AND (f.at, f.id) <= ($4::bigint, $5::uuid) ORDER BY f.at, f.id LIMIT $6::bigint";

impl PostgresEngine {
    /// Removes jobs beyond the limits of their queues. Returns whether more may be removed at once.
    pub(super) async fn remove_surplus(
        &self,
        conn: &Lent,
        context: &RetentionContext,
        budget: u32,
        reply: &mut MaintainReply,
    ) -> Try<bool> {
        let mut is_full = false;
        for (queue, state, most, cutoff) in context.keep_limits() {
            let left = i64::from(budget.saturating_sub(reply.done));
            if left == 0 {
                break;
            }
            let (queue, state, most) = (&*queue, state as i16, most.cast_signed());
            let first = conn.query(FIRST, &[&queue, &state, &most, &cutoff]).await?;
            let Some(first) = first.first() else { continue };
            let (at, id): (i64, Uuid) = (first.get(0), first.get(1));
            let rows = conn.query(SURPLUS, &[&queue, &state, &cutoff, &at, &id, &left]).await?;
            let (ended, ids): (Vec<i64>, Vec<Uuid>) =
                rows.iter().map(|row| (row.get::<_, i64>(0), row.get::<_, Uuid>(1))).unzip();
            self.remove(conn, context, &ids, &ended, reply).await?;
            is_full |= rows.len() as i64 >= left;
        }
        Ok(is_full && reply.done > 0)
    }
}
