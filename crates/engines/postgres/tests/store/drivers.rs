//! Transactions of the application by every driver, with jobs in them.

use crate::common::{application, url};
use diesel_async::async_connection_wrapper::AsyncConnectionWrapper;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use sqlx::{Connection as _, PgConnection};
use windlass_core::Result;
use windlass_core::engine::{Enqueue, Enqueued, Item, SettleItem, Settled};
use windlass_postgres::Transactional;

/// A synchronous connection.
type Blocking = AsyncConnectionWrapper<AsyncPgConnection>;

/// A connection of the application.
pub(crate) enum Driver {
    Tokio(tokio_postgres::Client),
    Sqlx(PgConnection),
    DieselAsync(Box<AsyncPgConnection>),
    /// Given to a thread that may block, and taken back.
    Diesel(Option<Box<Blocking>>),
}

/// What to do in one transaction, in this order.
#[derive(Clone, Default)]
pub(crate) struct Script {
    /// A statement of the application.
    pub(crate) sql: String,
    /// Jobs to enqueue.
    pub(crate) enqueue: Option<Enqueue>,
    /// A report to settle.
    pub(crate) settle: Option<SettleItem>,
    /// Whether to roll back in the end.
    pub(crate) rolls_back: bool,
}

impl Script {
    pub(crate) fn enqueue(request: Enqueue) -> Self {
        Self { enqueue: Some(request), ..Self::default() }
    }

    pub(crate) fn settle(item: SettleItem) -> Self {
        Self { settle: Some(item), ..Self::default() }
    }

    fn end(&self) -> &'static str {
        if self.rolls_back { "ROLLBACK" } else { "COMMIT" }
    }
}

/// The results of a script.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) enqueued: Vec<Item<Enqueued>>,
    pub(crate) settled: Option<Result<Settled>>,
}

impl Driver {
    pub(crate) async fn all() -> [Self; 4] {
        let blocking = tokio::task::spawn_blocking(|| {
            <Blocking as diesel::Connection>::establish(&url()).expect("connects")
        });
        [
            Self::Tokio(application().await),
            Self::Sqlx(PgConnection::connect(&url()).await.expect("connects")),
            Self::DieselAsync(Box::new(
                AsyncPgConnection::establish(&url()).await.expect("connects"),
            )),
            Self::Diesel(Some(Box::new(blocking.await.expect("no panic")))),
        ]
    }

    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Tokio(_) => "tokio-postgres",
            Self::Sqlx(_) => "sqlx",
            Self::DieselAsync(_) => "diesel-async",
            Self::Diesel(_) => "diesel",
        }
    }

    /// Runs a script in a transaction. A refused step rolls it back.
    pub(crate) async fn run(&mut self, jobs: &Transactional, script: Script) -> Result<Done> {
        Box::pin(self.run_all(jobs, script)).await
    }

    async fn run_all(&mut self, jobs: &Transactional, script: Script) -> Result<Done> {
        let mut done = Done::default();
        match self {
            Self::Tokio(client) => {
                let mut on = client.transaction().await.expect("begins");
                on.batch_execute(&script.sql).await.expect("its statement");
                let ran = async {
                    if let Some(request) = script.enqueue.clone() {
                        done.enqueued = jobs.enqueue(&mut on, request).await?;
                    }
                    if let Some(item) = script.settle.clone() {
                        done.settled = Some(jobs.settle(&mut on, item).await);
                    }
                    Ok(())
                };
                let ran: Result<()> = ran.await;
                match ran.is_ok() && !script.rolls_back {
                    true => on.commit().await.expect("commits"),
                    false => on.rollback().await.expect("rolls back"),
                }
                ran.map(|()| done)
            }
            Self::Sqlx(connection) => {
                let mut on = connection.begin().await.expect("begins");
                let sql = sqlx::AssertSqlSafe(script.sql.clone());
                sqlx::raw_sql(sql).execute(&mut *on).await.expect("its statement");
                if let Some(request) = script.enqueue.clone() {
                    done.enqueued = jobs.enqueue(&mut on, request).await?;
                }
                if let Some(item) = script.settle.clone() {
                    done.settled = Some(jobs.settle(&mut on, item).await);
                }
                match script.rolls_back {
                    true => on.rollback().await.expect("rolls back"),
                    false => on.commit().await.expect("commits"),
                }
                Ok(done)
            }
            Self::DieselAsync(on) => {
                on.batch_execute("BEGIN").await.expect("begins");
                on.batch_execute(&script.sql).await.expect("its statement");
                let ran = async {
                    if let Some(request) = script.enqueue.clone() {
                        done.enqueued = jobs.enqueue(&mut **on, request).await?;
                    }
                    if let Some(item) = script.settle.clone() {
                        done.settled = Some(jobs.settle(&mut **on, item).await);
                    }
                    Ok(())
                };
                let ran: Result<()> = ran.await;
                let end = if ran.is_ok() { script.end() } else { "ROLLBACK" };
                on.batch_execute(end).await.expect("ends");
                ran.map(|()| done)
            }
            Self::Diesel(slot) => {
                let (mut on, jobs) = (slot.take().expect("not in use"), jobs.clone());
                let blocking = tokio::task::spawn_blocking(move || {
                    let ran = run_blocking(&mut on, &jobs, &script);
                    (on, ran)
                });
                let (on, ran) = blocking.await.expect("no panic");
                *slot = Some(on);
                ran
            }
        }
    }
}

fn run_blocking(on: &mut Blocking, jobs: &Transactional, script: &Script) -> Result<Done> {
    use diesel::connection::SimpleConnection;
    SimpleConnection::batch_execute(on, "BEGIN").expect("begins");
    SimpleConnection::batch_execute(on, &script.sql).expect("its statement");
    let mut ran = || {
        let mut done = Done::default();
        if let Some(request) = script.enqueue.clone() {
            done.enqueued = jobs.enqueue_diesel(on, request)?;
        }
        if let Some(item) = script.settle.clone() {
            done.settled = Some(jobs.settle_diesel(on, item));
        }
        Ok(done)
    };
    let ran: Result<Done> = ran();
    let end = if ran.is_ok() { script.end() } else { "ROLLBACK" };
    SimpleConnection::batch_execute(on, end).expect("ends");
    ran
}
