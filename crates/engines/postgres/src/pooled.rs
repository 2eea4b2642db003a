//! Connections through a pooler that lends servers one transaction at a time, such as pgbouncer in
//! transaction mode. Nothing holds from one transaction to the next: neither settings nor prepared
//! statements, and not even that it is the same server. So each transaction begins with what must hold
//! in it.

use crate::error::{Trouble, Try, unavailable};
use crate::schema::Schema;
use futures_util::future::join3;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

/// What holds on each of our connections. Tables grow from nothing to millions under plans that were
/// made once, so those plans must not depend on how many rows there were; a lock that does not come
/// means that somebody outside holds it.
const SETTINGS: [(&str, &str); 8] = [
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    // Where few seem to be there, gathering and sorting all of them would seem as good as going by an index.
    ("enable_bitmapscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("jit", "off"),
    ("lock_timeout", "10s"),
    ("idle_in_transaction_session_timeout", "60s"),
];
/// A setting of our own, which arrives with the others or not at all.
const ARRIVED: &str = "windlass.session";

/// Whether what we ask for when we connect arrives, and stays: not through a pooler.
pub(crate) const HAS_SESSION: &str =
    "SELECT coalesce(current_setting('windlass.session', true), '') = 'on'";

/// Our settings as they are asked for when connecting, before those of the URL.
pub(crate) fn startup_options(asked: &str) -> String {
    let ours = SETTINGS.iter().chain([&(ARRIVED, "on")]);
    let ours: String = ours.map(|(name, value)| format!("-c {name}={value} ")).collect();
    ours + asked
}

/// Whether a pooler refused us because of what we asked for.
pub(crate) fn refuses_options(error: &tokio_postgres::Error) -> bool {
    let refused = |db: &tokio_postgres::error::DbError| {
        *db.code() == SqlState::PROTOCOL_VIOLATION && db.message().contains("startup parameter")
    };
    error.as_db_error().is_some_and(refused)
}

/// A connection through a pooler.
pub(crate) struct Pooled {
    /// Follows each `BEGIN`. It fails if the server is not the one that it was.
    begin: String,
    in_transaction: AtomicBool,
    /// Another server answers here by now: what is known of the store is void.
    stale: AtomicBool,
}

impl Pooled {
    pub(crate) fn new(schema: &Schema, marker: Uuid) -> Self {
        let settings =
            SETTINGS.map(|(name, value)| format!("set_config('{name}', '{value}', true)"));
        let marked = format!("(SELECT count(*) FROM {{s}}.marker WHERE id = '{marker}')");
        let begin = format!("; SELECT {}, 1 / {marked}", settings.join(", "));
        Self {
            begin: schema.put_into(&begin),
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
        match sql.split([' ', ';']).next() {
            Some("BEGIN") => self.in_transaction.store(true, Ordering::Relaxed),
            Some("COMMIT" | "ROLLBACK") => self.in_transaction.store(false, Ordering::Relaxed),
            _ => return Ok(client.batch_execute(sql).await?),
        }
        match self.in_transaction.load(Ordering::Relaxed) {
            true => self.begin(client, sql).await,
            false => Ok(client.batch_execute(sql).await?),
        }
    }

    async fn begin(&self, client: &Client, sql: &str) -> Try<()> {
        match client.batch_execute(&format!("{sql}{}", self.begin)).await {
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
        let (begin, commit) = (self.begin(client, "BEGIN"), client.batch_execute("COMMIT"));
        let (begun, done, ended) = join3(begin, statement, commit).await;
        begun?;
        let done = done?;
        ended?;
        Ok(done)
    }
}
