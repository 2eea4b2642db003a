//! Connections through a pooler that lends servers one transaction at a time, such as pgbouncer in
//! transaction mode. Nothing holds from one transaction to the next: neither settings nor prepared
//! statements, and not even that it is the same server. So each transaction begins with what must hold
//! in it.

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
    /// Ends each beginning of a transaction. It fails if the server is not the one that it was.
    is_same: String,
    in_transaction: AtomicBool,
    /// Another server answers here by now: what is known of the store is void.
    stale: AtomicBool,
}

impl Pooled {
    pub(crate) fn new(session: Session, schema: &Schema, marker: Uuid) -> Self {
        let is_same =
            format!("; SELECT 1 / (SELECT count(*) FROM {{s}}.marker WHERE id = '{marker}')");
        Self {
            session,
            is_same: schema.put_into(&is_same),
            in_transaction: AtomicBool::new(false),
            stale: AtomicBool::new(false),
        }
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Relaxed)
    }

    /// Runs words that need no parameters. They are sent when this is first polled, and so is what is
    /// polled after it: in that order, and knowing whether it is within a transaction.
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
                Err(Trouble::Again(unavailable("another server answers by now")))
            }
            begun => Ok(begun?),
        }
    }

    /// Carries out a statement: within the transaction that is open, or in one of its own, all of it in
    /// one round trip.
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
