//! Connections: a small pool, lent to one verb at a time, each with its prepared statements.

pub(crate) mod error;
pub(crate) mod estimate;
pub(crate) mod foreign;
pub(crate) mod options;
pub(crate) mod payloads;
pub(crate) mod pooled;
pub(crate) mod room;
pub(crate) mod row;
pub(crate) mod server;
pub(crate) mod session;
pub(crate) mod tls;
pub(crate) mod unnamed;

use crate::api::schema::Schema;
use crate::conn::error::{Trouble, Try, unavailable};
use crate::conn::pooled::Pooled;
pub(crate) use crate::conn::row::Row;
use crate::conn::server::Server;
use crate::conn::session::{Begin, Session};
use crate::conn::unnamed::{Types, ask};
use crate::fast::scan_cursor::ScanCursor;
use crate::rows::lanes::Lanes;
use crate::slow::heartbeat_cache::HeartbeatCache;
use futures_util::future::try_join_all;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement, Transaction};
use uuid::Uuid;
use windlass_core::engine::Epoch;
use windlass_core::random::Random;
use windlass_core::sync::lock;

/// How long a verb waits for a connection while all are in use.
const LEND_TIMEOUT: Duration = Duration::from_secs(30);
/// How soon it tries again if the server accepts no more connections.
const LEND_AGAIN: Duration = Duration::from_millis(5);
/// Identifies the server of a connection and reads when it started.
const IDENTITY: &str = "SELECT s.system_identifier::text, c.timeline_id,
    (extract(epoch FROM pg_postmaster_start_time()) * 1000)::bigint,
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    FROM pg_control_system() s, pg_control_checkpoint() c";
const MARK: &str = "INSERT INTO {s}.marker (one, id) VALUES (true, $1) ON CONFLICT DO NOTHING";
const MARKER: &str = "SELECT id FROM {s}.marker";

/// Parameters of a statement.
pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// The owner of a connection.
enum Link<'t> {
    /// A connection of the pool.
    Own(Client),
    /// A connection of the pool, through a pooler such as pgbouncer.
    Pooled(Client, Pooled),
    /// The application's connection, inside its transaction.
    Theirs(&'t Transaction<'t>),
    /// The application's connection by another driver, inside its transaction.
    Foreign(foreign::Shared<'t>),
}

/// An open transaction of the application.
pub(crate) enum Open<'t> {
    /// By our driver.
    Native(&'t Transaction<'t>),
    /// By another driver.
    #[cfg_attr(
        not(any(feature = "sqlx", feature = "diesel", feature = "diesel-async")),
        expect(dead_code, reason = "only other drivers make one")
    )]
    Foreign(&'t mut dyn foreign::Foreign),
}

impl std::fmt::Debug for Open<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an open transaction")
    }
}

/// A connection that runs our statements.
pub(crate) struct Conn<'t> {
    link: Link<'t>,
    schema: Schema,
    /// Prepared statements; empty on a connection that does not keep them.
    statements: Mutex<HashMap<&'static str, Statement>>,
    types: Arc<Types>,
    /// Constant for a connection: every event that changes it ends all connections.
    pub(crate) epoch: Epoch,
    /// Numbers of the store's lanes.
    pub(crate) lanes: Arc<Lanes>,
    /// When the server became usable, in milliseconds since 1970.
    pub(crate) server_started_at: i64,
    /// The server's clock when the connection was made.
    pub(crate) connected_at: i64,
}

impl<'t> Conn<'t> {
    /// The application's connection. The application ends the transaction.
    pub(crate) fn theirs(transaction: &'t Transaction<'t>, ours: &Conn<'_>) -> Self {
        Self {
            link: Link::Theirs(transaction),
            schema: ours.schema.clone(),
            statements: Mutex::default(),
            types: Arc::clone(&ours.types),
            epoch: ours.epoch.clone(),
            lanes: Arc::clone(&ours.lanes),
            server_started_at: ours.server_started_at,
            connected_at: ours.connected_at,
        }
    }

    /// The application's connection, without an engine. Nothing is known about the server, and nothing is cached beyond
    /// this value: lanes that the transaction adds do not exist if it is rolled back.
    pub(crate) fn joined(open: Open<'t>, schema: &Schema) -> Self {
        Self {
            link: match open {
                Open::Native(transaction) => Link::Theirs(transaction),
                Open::Foreign(link) => Link::Foreign(foreign::Shared::new(link)),
            },
            schema: schema.clone(),
            statements: Mutex::default(),
            types: Arc::default(),
            epoch: Epoch::new(""),
            lanes: Arc::default(),
            server_started_at: 0,
            connected_at: 0,
        }
    }

    fn is_closed(&self) -> bool {
        match &self.link {
            Link::Own(client) => client.is_closed(),
            Link::Pooled(client, pooled) => client.is_closed() || pooled.is_stale(),
            Link::Theirs(_) | Link::Foreign(_) => false,
        }
    }

    /// Whether session state survives from one transaction to the next.
    pub(crate) const fn has_session(&self) -> bool {
        matches!(self.link, Link::Own(_))
    }

    /// The prepared statement, prepared once per connection.
    async fn statement(&self, client: &Client, sql: &'static str) -> Try<Statement> {
        let known = self.known().get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = client.prepare(&self.schema.render(sql)).await?;
        self.known().insert(sql, statement.clone());
        Ok(statement)
    }

    /// Prepares statements ahead of time, so that the following ones are sent at once and in order.
    pub(crate) async fn prepare(&self, statements: &[&'static str]) -> Try<()> {
        let Link::Own(client) = &self.link else { return Ok(()) };
        try_join_all(statements.iter().map(|sql| self.statement(client, sql))).await.map(|_| ())
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<&'static str, Statement>> {
        lock(&self.statements)
    }

    /// Runs a statement and returns its rows.
    pub(crate) async fn query(&self, sql: &'static str, params: Params<'_>) -> Try<Vec<Row>> {
        let client = match &self.link {
            Link::Own(client) => {
                let statement = self.statement(client, sql).await?;
                return Ok(ours(client.query(&statement, params).await?));
            }
            Link::Pooled(client, _) => client,
            Link::Theirs(transaction) => transaction.client(),
            Link::Foreign(link) => {
                let (text, params) = (self.schema.render(sql), self.types.of(sql, params));
                return Box::pin(link.query(&text, params)).await;
            }
        };
        let (text, params) = (self.schema.render(sql), self.types.of(sql, params));
        // Boxed, because the future is large and a verb sends many at a time.
        Ok(ours(Box::pin(self.unnamed(client.query_typed(&text, &params))).await?))
    }

    /// Runs a statement and returns the number of affected rows.
    pub(crate) async fn execute(&self, sql: &'static str, params: Params<'_>) -> Try<u64> {
        let client = match &self.link {
            Link::Own(client) => {
                let statement = self.statement(client, sql).await?;
                return Ok(client.execute(&statement, params).await?);
            }
            Link::Pooled(client, _) => client,
            Link::Theirs(transaction) => transaction.client(),
            Link::Foreign(_) => return Ok(self.query(sql, params).await?.len() as u64),
        };
        let (text, params) = (self.schema.render(sql), self.types.of(sql, params));
        Box::pin(self.unnamed(client.execute_typed(&text, &params))).await
    }

    async fn unnamed<T>(
        &self,
        statement: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Try<T> {
        match &self.link {
            Link::Pooled(client, pooled) => pooled.carry(client, statement).await,
            Link::Own(_) | Link::Theirs(_) | Link::Foreign(_) => Ok(statement.await?),
        }
    }

    /// Runs a statement that cannot be prepared.
    pub(crate) async fn plain(&self, sql: &str) -> Try<()> {
        self.command(&self.schema.render(sql)).await
    }

    /// Runs a command without parameters, such as `BEGIN`, which means READ COMMITTED unless it names another level.
    pub(crate) async fn command(&self, sql: &str) -> Try<()> {
        match &self.link {
            Link::Own(client) => match Begin::of(sql) {
                Some(begin) => client.batch_execute(&begin.sql()).await?,
                None => client.batch_execute(sql).await?,
            },
            Link::Pooled(client, pooled) => pooled.command(client, sql).await?,
            Link::Theirs(transaction) => transaction.batch_execute(sql).await?,
            Link::Foreign(link) => link.command(sql).await?,
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
    /// One permit per allowed connection.
    connections: usize,
    idle: Mutex<Vec<Conn<'static>>>,
    room: Arc<Semaphore>,
    types: Arc<Types>,
    /// Lanes and epoch of the store that was connected last.
    lanes: Mutex<Option<(Epoch, Arc<Lanes>)>>,
    scan_cursor: Arc<ScanCursor>,
    heartbeat_cache: Arc<HeartbeatCache>,
}

impl Pool {
    pub(crate) fn new(
        server: Server,
        schema: Schema,
        random: Arc<dyn Random>,
        connections: usize,
        scan_cursor: Arc<ScanCursor>,
        heartbeat_cache: Arc<HeartbeatCache>,
    ) -> Self {
        let room = Arc::new(Semaphore::new(connections));
        let (idle, types, lanes) = (Mutex::default(), Arc::default(), Mutex::default());
        Self {
            inner: Arc::new(Inner {
                server,
                schema,
                random,
                connections,
                idle,
                room,
                types,
                lanes,
                scan_cursor,
                heartbeat_cache,
            }),
        }
    }

    /// Lends a connection; waits if all are in use.
    pub(crate) async fn lend(&self) -> Try<Lent> {
        let lent = tokio::time::timeout(LEND_TIMEOUT, self.lend_in_turn()).await;
        let busy = "every connection was in use for 30 s; retry later, or allow more of them";
        lent.map_err(|_| unavailable(busy))?
    }

    async fn lend_in_turn(&self) -> Try<Lent> {
        let room = Arc::clone(&self.inner.room).acquire_owned().await;
        let room = room.map_err(|_| unavailable("the engine was closed"))?;
        loop {
            let idle = self.idle().pop();
            let conn = match idle {
                Some(conn) if conn.is_closed() => continue,
                Some(conn) => conn,
                None => match self.inner.connect().await {
                    // The server accepts no more connections: wait for one of ours.
                    Err(Trouble::Retryable(_)) if self.others_have_some() => {
                        tokio::time::sleep(LEND_AGAIN).await;
                        continue;
                    }
                    connected => connected?,
                },
            };
            return Ok(Lent { conn, pool: self.clone(), _room: room });
        }
    }

    /// Whether another caller has a connection or has just returned it.
    fn others_have_some(&self) -> bool {
        self.inner.room.available_permits() + 1 < self.inner.connections || !self.idle().is_empty()
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Conn<'static>>> {
        lock(&self.inner.idle)
    }
}

impl Inner {
    async fn connect(&self) -> Try<Conn<'static>> {
        let client = self.server.connect().await?;
        let session = Session::establish(&client).await?;
        client.batch_execute(&session.begin(&Begin::default())).await?;
        let identity = ask_one(&client, IDENTITY, &[]).await?;
        let connected_at = identity.get(3);
        let fresh = Marker::new(connected_at, &*self.random).0;
        ask(&client, &self.schema.render(MARK), &[&fresh]).await?;
        let marker = Marker(ask_one(&client, &self.schema.render(MARKER), &[]).await?.get(0));
        client.batch_execute("COMMIT").await?;
        let link = match session.is_kept {
            true => Link::Own(client),
            false => Link::Pooled(client, Pooled::new(session, &self.schema, marker.0)),
        };
        let (system, timeline): (String, i32) = (identity.get(0), identity.get(1));
        let epoch = Epoch::new(format!("{system}.{timeline}.{}", marker.0.simple()));
        Ok(Conn {
            link,
            schema: self.schema.clone(),
            statements: Mutex::default(),
            types: Arc::clone(&self.types),
            lanes: self.lanes_of(&epoch),
            epoch,
            server_started_at: marker.made_before(connected_at).max(identity.get(2)),
            connected_at,
        })
    }

    fn lanes_of(&self, epoch: &Epoch) -> Arc<Lanes> {
        let mut known = lock(&self.lanes);
        match &*known {
            Some((of, lanes)) if of == epoch => Arc::clone(lanes),
            _ => {
                // Jobs may be numbered again from a lower number.
                self.scan_cursor.forget();
                self.heartbeat_cache.forget_all();
                Arc::clone(&known.insert((epoch.clone(), Arc::default())).1)
            }
        }
    }
}

/// A random id that begins with the time, written by the first process that connects after a crash or a promotion. A
/// replica may have run for long before its promotion, but sessions could not send heartbeats to it, so their time
/// counts from the marker on.
struct Marker(Uuid);

/// Random bits of a marker, below the time.
const MARKER_RANDOM_BITS: u32 = 80;

impl Marker {
    fn new(now: i64, random: &dyn Random) -> Self {
        let time = u128::from(now.cast_unsigned()) << MARKER_RANDOM_BITS;
        Self(Uuid::from_u128(time | (random.next_u128() >> (128 - MARKER_RANDOM_BITS))))
    }

    /// When it was created, in milliseconds since 1970; 0 if the value is not plausible.
    const fn made_before(&self, now: i64) -> i64 {
        let made_at = (self.0.as_u128() >> MARKER_RANDOM_BITS).cast_signed() as i64;
        if made_at <= now { made_at } else { 0 }
    }
}

/// A lent connection. It is closed when dropped without [`Lent::give_back`], because its state is unknown then.
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
    /// Returns the connection to the pool; nothing may be in flight on it.
    pub(crate) fn give_back(self) {
        let Self { conn, pool, _room } = self;
        pool.idle().push(conn);
    }
}

/// Rows of our driver.
fn ours(rows: Vec<tokio_postgres::Row>) -> Vec<Row> {
    rows.into_iter().map(Row::Ours).collect()
}

/// Runs a statement that returns exactly one row.
async fn ask_one(client: &Client, sql: &str, params: Params<'_>) -> Try<tokio_postgres::Row> {
    let row = ask(client, sql, params).await?.into_iter().next();
    Ok(row.ok_or_else(|| unavailable("a statement answered nothing"))?)
}
