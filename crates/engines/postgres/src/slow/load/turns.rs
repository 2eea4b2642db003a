//! Loads the turns of tenants in fair queues, last of all: a transaction that has locked a tenant waits for nothing.

use super::{Loaded, Loader};
use crate::conn::Row;
use crate::conn::error::Try;
use futures_util::future::try_join;
use std::collections::{BTreeSet, HashMap};
use windlass_executor::Standing;
use windlass_workset::Wants;

const LATEST: &str = "SELECT t.queue, t.tenant, t.turn
    FROM unnest($1::text[], $2::text[]) w (queue, tenant)
    JOIN {s}.turn t ON t.queue = ANY(ARRAY[w.queue]) AND t.tenant = w.tenant
    ORDER BY w.queue, w.tenant FOR UPDATE OF t";
const SERVED: &str = "SELECT w.queue, s.turn FROM unnest($1::text[]) w (queue) CROSS JOIN LATERAL
    (SELECT turn FROM {s}.served WHERE queue = w.queue ORDER BY turn DESC LIMIT 1) s";

/// Rows of the latest turns of tenants, and of the turns being served.
type TurnRows = (Vec<Row>, Vec<Row>);

impl Loader<'_, '_> {
    pub(super) async fn turns(&self, wants: &Wants) -> Try<TurnRows> {
        if wants.turns.is_empty() {
            return Ok(TurnRows::default());
        }
        let conn = self.conn;
        let (queues, tenants): (Vec<&str>, Vec<&str>) = wants
            .turns
            .iter()
            .map(|(queue, tenant)| (&**queue, tenant.as_deref().unwrap_or_default()))
            .unzip();
        let distinct: Vec<&str> =
            queues.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
        conn.prepare(&[LATEST, SERVED]).await?;
        try_join(conn.query(LATEST, &[&queues, &tenants]), conn.query(SERVED, &[&distinct])).await
    }
}

/// Adds the turns of the wanted tenants.
pub(super) fn add_turns(loaded: &mut Loaded, wants: &Wants, (latest, served): TurnRows) {
    let served: HashMap<&str, i64> = served.iter().map(|row| (row.get(0), row.get(1))).collect();
    for tenant in &wants.turns {
        let served = served.get(&*tenant.0).copied().unwrap_or_default();
        loaded.turns.insert(tenant.clone(), Standing { served, latest: None });
    }
    for row in &latest {
        let tenant = Some(row.get::<_, String>(1)).filter(|tenant| !tenant.is_empty());
        if let Some(standing) = loaded.turns.get_mut(&(row.get::<_, &str>(0).into(), tenant)) {
            standing.latest = Some(row.get(2));
        }
    }
}
