//! The history of removed jobs.

use crate::conn::error::Try;
use crate::conn::{Lent, Row};
use crate::engine::PostgresEngine;
use crate::rows::codec;
use windlass_core::engine::{Page, RemovedCount, RemovedKey, RemovedQuery, Stamped};
use windlass_core::time::HOUR_MS;
use windlass_core::{Result, Timestamp};

const PAGE: &str = "SELECT hour, queue, kind, tenant, outcome, jobs FROM {s}.removed
    WHERE hour >= $1::bigint AND ($2::text IS NULL OR queue = $2)
        AND (hour, queue, kind, tenant, outcome) > ($3::bigint, $4::text, $5::text, $6::text, $7::smallint)
    ORDER BY hour, queue, kind, tenant, outcome LIMIT $8";
const FORGET: &str = "DELETE FROM {s}.removed WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM {s}.removed WHERE hour <= $1::bigint ORDER BY hour LIMIT $2 FOR UPDATE SKIP LOCKED))";

impl PostgresEngine {
    /// Returns a page of the history.
    pub(crate) async fn removed_jobs(
        &self,
        query: RemovedQuery,
    ) -> Result<Stamped<Page<RemovedCount>>> {
        query.check()?;
        let place = query.place()?;
        let conn = self.begin_look().await?;
        let looked = removed_page(&conn, &query, place.as_ref()).await;
        self.end_look(conn, looked).await
    }

    /// Deletes up to `limit` rows of hours that ended at `before` or earlier.
    pub(crate) async fn forget_removed(
        &self,
        conn: &Lent,
        before: Timestamp,
        limit: u32,
    ) -> Try<()> {
        let last = before.minus(HOUR_MS).as_millis();
        conn.execute(FORGET, &[&last, &i64::from(limit)]).await?;
        Ok(())
    }
}

async fn removed_page(
    conn: &Lent,
    query: &RemovedQuery,
    place: Option<&RemovedKey>,
) -> Try<Page<RemovedCount>> {
    let queue = query.queue.as_deref();
    let hour = place.map_or(i64::MIN, |key| key.hour.as_millis());
    let after_queue = place.map_or("", |key| &*key.queue);
    let kind = place.map_or("", |key| &*key.kind);
    let tenant = place.and_then(|key| key.tenant.as_deref()).unwrap_or_default();
    let outcome = place.map_or(-1, |key| key.outcome as i16);
    let (first, limit) = (query.first_hour().as_millis(), i64::from(query.limit) + 1);
    let rows = conn
        .query(PAGE, &[&first, &queue, &hour, &after_queue, &kind, &tenant, &outcome, &limit])
        .await?;
    let rows: Result<Vec<RemovedCount>> = rows.iter().map(read).collect();
    Ok(RemovedCount::page(rows?, query.limit as usize))
}

fn read(row: &Row) -> Result<RemovedCount> {
    let hour = Timestamp::from_millis(row.get(0));
    let (queue, kind) = (row.get::<_, &str>(1).into(), row.get::<_, &str>(2).into());
    let tenant = Some(row.get::<_, String>(3)).filter(|tenant| !tenant.is_empty());
    let key = RemovedKey::new(hour, queue, kind, tenant, codec::state(row.get(4))?);
    Ok(RemovedCount::new(key, row.get::<_, i64>(5).cast_unsigned()))
}
