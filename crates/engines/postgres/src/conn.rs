//! Connections: a few of them, lent out one verb at a time, each with its prepared statements. Knows no
//! verb.

use crate::error::{Try, unavailable};
use crate::schema::Schema;
use crate::server::Server;
use futures_util::future::try_join_all;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement, Transaction};
use uuid::Uuid;
use windlass_core::engine::Epoch;
use windlass_core::random::Random;

/// Reads where a connection leads, and since when that server is up.
const IDENTITY: &str = "SELECT s.system_identifier::text, c.timeline_id,
    (extract(epoch FROM pg_postmaster_start_time()) * 1000)::bigint,
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    FROM pg_control_system() s, pg_control_checkpoint() c";
const MARK: &str = "INSERT INTO {s}.marker (one, id) VALUES (true, $1) ON CONFLICT DO NOTHING";
const MARKER: &str = "SELECT id FROM {s}.marker";

/// Parameters of a statement.
pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Whose connection it is.
enum Link<'t> {
    /// Ours.
    Own(Client),
    /// An application's, in the middle of its transaction.
    Theirs(&'t Transaction<'t>),
}

/// A connection with its prepared statements.
pub(crate) struct Conn<'t> {
    link: Link<'t>,
    schema: Schema,
    statements: Mutex<HashMap<&'static str, Statement>>,
    /// Constant for a connection: whatever changes it ends every connection.
    pub(crate) epoch: Epoch,
    /// When the server started, in milliseconds since 1970.
    pub(crate) server_started_at: i64,
    /// What its clock said when the connection came about.
    pub(crate) connected_at: i64,
}

impl<'t> Conn<'t> {
    /// The connection of an application, which stays in charge of its transaction.
    pub(crate) fn theirs(transaction: &'t Transaction<'t>, ours: &Conn<'_>) -> Self {
        Self {
            link: Link::Theirs(transaction),
            schema: ours.schema.clone(),
            statements: Mutex::default(),
            epoch: ours.epoch.clone(),
            server_started_at: ours.server_started_at,
            connected_at: ours.connected_at,
        }
    }

    fn is_closed(&self) -> bool {
        match &self.link {
            Link::Own(client) => client.is_closed(),
            Link::Theirs(_) => false,
        }
    }

    /// A statement of ours, prepared once for this connection.
    pub(crate) async fn statement(&self, sql: &'static str) -> Try<Statement> {
        let known = self.known().get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let text = self.schema.put_into(sql);
        let statement = match &self.link {
            Link::Own(client) => client.prepare(&text).await?,
            Link::Theirs(transaction) => transaction.prepare(&text).await?,
        };
        self.known().insert(sql, statement.clone());
        Ok(statement)
    }

    /// Prepares statements ahead, so that what follows goes out at once and in order.
    pub(crate) async fn prepare(&self, statements: &[&'static str]) -> Try<()> {
        try_join_all(statements.iter().map(|sql| self.statement(sql))).await.map(|_| ())
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<&'static str, Statement>> {
        self.statements.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a statement of ours and returns its rows.
    pub(crate) async fn query(&self, sql: &'static str, params: Params<'_>) -> Try<Vec<Row>> {
        let statement = self.statement(sql).await?;
        Ok(match &self.link {
            Link::Own(client) => client.query(&statement, params).await?,
            Link::Theirs(transaction) => transaction.query(&statement, params).await?,
        })
    }

    /// Runs a statement of ours and returns how many rows it touched.
    pub(crate) async fn execute(&self, sql: &'static str, params: Params<'_>) -> Try<u64> {
        let statement = self.statement(sql).await?;
        Ok(match &self.link {
            Link::Own(client) => client.execute(&statement, params).await?,
            Link::Theirs(transaction) => transaction.execute(&statement, params).await?,
        })
    }

    /// Runs a statement of ours that cannot be prepared.
    pub(crate) async fn plain(&self, sql: &'static str) -> Try<()> {
        self.command(&self.schema.put_into(sql)).await
    }

    /// Runs words that need no parameters, such as `BEGIN`.
    pub(crate) async fn command(&self, sql: &str) -> Try<()> {
        match &self.link {
            Link::Own(client) => client.batch_execute(sql).await?,
            Link::Theirs(transaction) => transaction.batch_execute(sql).await?,
        }
        Ok(())
    }
}

/// The connections of an engine.
#[derive(Clone)]
pub(crate) struct Pool {
    inner: Arc<Inner>,
}

struct Inner {
    server: Server,
    schema: Schema,
    random: Arc<dyn Random>,
    idle: Mutex<Vec<Conn<'static>>>,
    room: Arc<Semaphore>,
}

impl Pool {
    pub(crate) fn new(
        server: Server,
        schema: Schema,
        random: Arc<dyn Random>,
        connections: usize,
    ) -> Self {
        let room = Arc::new(Semaphore::new(connections));
        Self { inner: Arc::new(Inner { server, schema, random, idle: Mutex::default(), room }) }
    }

    /// Lends a connection; waits for one if all are in use.
    pub(crate) async fn lend(&self) -> Try<Lent> {
        let room = Arc::clone(&self.inner.room).acquire_owned().await;
        let room = room.map_err(|_| unavailable("the engine was closed"))?;
        loop {
            let idle = self.idle().pop();
            let conn = match idle {
                Some(conn) if conn.is_closed() => continue,
                Some(conn) => conn,
                None => self.inner.connect().await?,
            };
            return Ok(Lent { conn, pool: self.clone(), _room: room });
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Conn<'static>>> {
        self.inner.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    async fn connect(&self) -> Try<Conn<'static>> {
        let client = self.server.connect().await?;
        let identity = client.query_one(IDENTITY, &[]).await?;
        let fresh = Uuid::from_u128(self.random.next_u128());
        client.execute(&self.schema.put_into(MARK), &[&fresh]).await?;
        let marker: Uuid = client.query_one(&self.schema.put_into(MARKER), &[]).await?.get(0);
        let (system, timeline): (String, i32) = (identity.get(0), identity.get(1));
        Ok(Conn {
            link: Link::Own(client),
            schema: self.schema.clone(),
            statements: Mutex::default(),
            epoch: Epoch::new(format!("{system}.{timeline}.{}", marker.simple())),
            server_started_at: identity.get(2),
            connected_at: identity.get(3),
        })
    }
}

/// A connection that is lent out. It comes back only if it is given back: whoever lets it go in the
/// middle of something leaves it in a state that nobody knows, and it is closed.
pub(crate) struct Lent {
    conn: Conn<'static>,
    pool: Pool,
    _room: OwnedSemaphorePermit,
}

impl std::ops::Deref for Lent {
    type Target = Conn<'static>;

    fn deref(&self) -> &Conn<'static> {
        &self.conn
    }
}

impl Lent {
    /// Gives the connection back, with nothing under way on it.
    pub(crate) fn give_back(self) {
        let Self { conn, pool, _room } = self;
        pool.idle().push(conn);
    }
}
