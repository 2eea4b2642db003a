//! The history of removed jobs: a row per hour, queue, kind, tenant and outcome.

use super::{codec, failed};
use rusqlite::{Connection, Params, Row, params};
use std::collections::HashMap;
use windlass_core::engine::{
    OTHER_TENANT, Page, RemovedCount, RemovedKey, RemovedQuery, tenant_of_removed,
};
use windlass_core::time::HOUR_MS;
use windlass_core::{Result, Timestamp};

/// Jobs that were removed in the current transaction.
#[derive(Default)]
pub(super) struct Removed {
    fresh: HashMap<RemovedKey, u64>,
}

impl Removed {
    pub(super) fn clear(&mut self) {
        self.fresh.clear();
    }

    pub(super) fn add(&mut self, key: RemovedKey) {
        *self.fresh.entry(key).or_default() += 1;
    }

    /// Writes the jobs that were removed in this transaction.
    pub(super) fn flush(&mut self, conn: &Connection) -> Result<()> {
        let mut fresh: Vec<_> = self.fresh.drain().collect();
        fresh.sort_unstable();
        for (key, count) in fresh {
            let tenant = key.tenant.as_deref();
            let tenant = tenant_of_removed(tenant, |tenant| tenants(conn, &key, tenant))?;
            let sql = "INSERT INTO removed (hour, queue, kind, tenant, outcome, jobs)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                ON CONFLICT DO UPDATE SET jobs = jobs + excluded.jobs";
            let (hour, outcome) = (key.hour.as_millis(), key.outcome as i64);
            let tenant = tenant.unwrap_or_default();
            let row = params![hour, &*key.queue, &*key.kind, tenant, outcome, count as i64];
            run(conn, sql, row)?;
        }
        Ok(())
    }
}

/// Whether the hour has this tenant for the queue and kind of the key, and how many tenants it has.
fn tenants(conn: &Connection, key: &RemovedKey, tenant: &str) -> Result<(bool, usize)> {
    let sql = "SELECT count(DISTINCT tenant), coalesce(max(tenant = ?4), 0) FROM removed
        WHERE hour = ?1 AND queue = ?2 AND kind = ?3 AND tenant NOT IN ('', ?5)";
    let place = params![key.hour.as_millis(), &*key.queue, &*key.kind, tenant, OTHER_TENANT];
    let count = |row: &Row<'_>| Ok((row.get(1)?, row.get::<_, i64>(0)? as usize));
    let counted = || conn.prepare_cached(sql)?.query_row(place, count);
    counted().map_err(|error| failed(&error))
}

/// Returns a page of the history.
pub(super) fn page(conn: &Connection, query: &RemovedQuery) -> Result<Page<RemovedCount>> {
    // Positions before the first hour and after a row; an empty queue matches all.
    let sql = "SELECT hour, queue, kind, tenant, outcome, jobs FROM removed
        WHERE hour >= ?1 AND (?2 = '' OR queue = ?2)
            AND (hour, queue, kind, tenant, outcome) > (?3, ?4, ?5, ?6, ?7)
        ORDER BY hour, queue, kind, tenant, outcome LIMIT ?8";
    let queue = query.queue.as_deref().unwrap_or_default();
    let place = query.place()?;
    let (hour, name, kind, tenant, outcome) = match &place {
        Some(RemovedKey { hour, queue, kind, tenant, outcome, .. }) => {
            let tenant = tenant.as_deref().unwrap_or_default();
            (hour.as_millis(), &**queue, &**kind, tenant, *outcome as i64)
        }
        None => (i64::MIN, "", "", "", -1),
    };
    let limit = i64::from(query.limit) + 1;
    let first = query.first_hour().as_millis();
    let params = params![first, queue, hour, name, kind, tenant, outcome, limit];
    let mut statement = conn.prepare_cached(sql).map_err(|error| failed(&error))?;
    let mut rows = statement.query(params).map_err(|error| failed(&error))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(|error| failed(&error))? {
        found.push(read(row)?);
    }
    Ok(RemovedCount::page(found, query.limit as usize))
}

fn read(row: &Row<'_>) -> Result<RemovedCount> {
    type Columns = (i64, String, String, String, i64, i64);
    let columns = || -> rusqlite::Result<Columns> {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
    };
    let (hour, queue, kind, tenant, outcome, jobs) = columns().map_err(|error| failed(&error))?;
    let (hour, tenant) = (Timestamp::from_millis(hour), (!tenant.is_empty()).then_some(tenant));
    let outcome = codec::state(outcome)?;
    let key = RemovedKey::new(hour, queue.into(), kind.into(), tenant, outcome);
    Ok(RemovedCount::new(key, jobs.cast_unsigned()))
}

/// Deletes up to `limit` rows of hours that ended at `before` or earlier.
pub(super) fn forget(conn: &Connection, before: Timestamp, limit: usize) -> Result<()> {
    let sql = "DELETE FROM removed WHERE (hour, queue, kind, tenant, outcome) IN
        (SELECT hour, queue, kind, tenant, outcome FROM removed WHERE hour <= ?1 LIMIT ?2)";
    run(conn, sql, params![before.minus(HOUR_MS).as_millis(), limit as i64])
}

fn run(conn: &Connection, sql: &str, params: impl Params) -> Result<()> {
    let act = || conn.prepare_cached(sql)?.execute(params);
    act().map(|_| ()).map_err(|error| failed(&error))
}
