//! Loads the turns of tenants in fair queues, last of all: a transaction that has locked a tenant waits for nothing.

use super::{Loaded, Loader};
use crate::conn::error::Try;
use crate::slow::wants::{Tenant, Wants};
use futures_util::future::try_join;
use std::collections::{BTreeSet, HashMap};
use tokio_postgres::Row;
use windlass_core::model::Name;
use windlass_executor::Standing;

const LATEST: &str = "SELECT t.queue, t.tenant, t.turn
    FROM unnest($1::text[], $2::text[]) w (queue, tenant)
    JOIN {s}.turn t ON t.queue = ANY(ARRAY[w.queue]) AND t.tenant = w.tenant
    ORDER BY w.queue, w.tenant FOR UPDATE OF t";
const SERVED: &str = "SELECT w.queue, s.turn FROM unnest($1::text[]) w (queue) CROSS JOIN LATERAL
    (SELECT turn FROM {s}.served WHERE queue = w.queue ORDER BY turn DESC LIMIT 1) s";

/// Rows of the latest turns of tenants, and of the turns being served.
type TurnRows = (Vec<Row>, Vec<Row>);

impl Loader<'_> {
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

impl Loaded {
    pub(super) fn add_turns(&mut self, wants: &Wants, (latest, served): TurnRows) {
        let served: HashMap<&str, i64> =
            served.iter().map(|row| (row.get(0), row.get(1))).collect();
        for tenant in &wants.turns {
            let served = served.get(&*tenant.0).copied().unwrap_or_default();
            self.turns.insert(tenant.clone(), Standing { served, latest: None });
        }
        for row in &latest {
            let tenant = Some(row.get::<_, String>(1)).filter(|tenant| !tenant.is_empty());
            if let Some(standing) = self.turns.get_mut(&(row.get::<_, &str>(0).into(), tenant)) {
                standing.latest = Some(row.get(2));
            }
        }
    }

    /// The standing of a tenant, if loaded.
    pub(crate) fn standing(&self, queue: &Name, tenant: &Option<String>) -> Option<Standing> {
        let tenant: Tenant = (queue.clone(), tenant.clone());
        self.turns.get(&tenant).copied()
    }
}
