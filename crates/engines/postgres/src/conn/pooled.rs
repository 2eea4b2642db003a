//! Connections through a pooler in transaction mode, such as pgbouncer. Settings and prepared statements do not survive
//! a transaction, and the next one may run on another server. So each transaction sets its settings and verifies the
//! server first.

use crate::api::schema::Schema;
use crate::conn::error::{Trouble, Try, unavailable};
use crate::conn::session::{Begin, Session};
use futures_util::future::join3;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

/// A connection through a pooler.
pub(crate) struct Pooled {
    session: Session,
    /// Appended to each `BEGIN`; fails if the server is another one than before.
    is_same: String,
    in_transaction: AtomicBool,
    /// Another server answers: everything cached about the store is void.
    stale: AtomicBool,
}

impl Pooled {
    pub(crate) fn new(session: Session, schema: &Schema, marker: Uuid) -> Self {
        let is_same =
            format!("; SELECT 1 / (SELECT count(*) FROM {{s}}.marker WHERE id = '{marker}')");
        Self {
            session,
            is_same: schema.render(&is_same),
            in_transaction: AtomicBool::new(false),
            stale: AtomicBool::new(false),
        }
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Relaxed)
    }

    /// Runs a command without parameters. It is sent when the future is first polled, so that commands polled later are
    /// sent after it and know whether they are inside a transaction.
    pub(crate) async fn command(&self, client: &Client, sql: &str) -> Try<()> {
        if let Some(begin) = Begin::of(sql) {
            self.in_transaction.store(true, Ordering::Relaxed);
            return self.begin(client, &begin).await;
        }
        if matches!(sql.split([' ', ';']).next(), Some("COMMIT" | "ROLLBACK")) {
            self.in_transaction.store(false, Ordering::Relaxed);
        }
        Ok(client.batch_execute(sql).await?)
    }

    async fn begin(&self, client: &Client, begin: &Begin<'_>) -> Try<()> {
        let sql = self.session.begin(begin) + &self.is_same;
        match client.batch_execute(&sql).await {
            Err(error) if error.code() == Some(&SqlState::DIVISION_BY_ZERO) => {
                self.stale.store(true, Ordering::Relaxed);
                Err(Trouble::Retryable(unavailable("another server answers on this connection")))
            }
            begun => Ok(begun?),
        }
    }

    /// Runs a statement inside the open transaction, or in one of its own, in one round trip.
    pub(crate) async fn carry<T>(
        &self,
        client: &Client,
        statement: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Try<T> {
        if self.in_transaction.load(Ordering::Relaxed) {
            return Ok(statement.await?);
        }
        let begin = Begin::default();
        let (begin, commit) = (self.begin(client, &begin), client.batch_execute("COMMIT"));
        let (begun, done, ended) = join3(begin, statement, commit).await;
        begun?;
        let done = done?;
        ended?;
        Ok(done)
    }
}
