//! W7: obstacles to vacuuming on PostgreSQL (an open transaction, a dump), held from before the load until the
//! release.

use super::super::meter::Sample;
use super::Workload;
use super::dump::{self, Dump};
use crate::connect::Url;
use anyhow::{Result, bail};
use tokio_postgres::{Client, NoTls};
use windlass::PostgresUrl;

/// The result of setting up the obstacle.
pub(super) enum SetUp {
    Held(Hold),
    /// The workload has no obstacle.
    Nothing,
    /// The obstacle is not possible here, with the reason.
    Impossible(String),
}

/// An obstacle to vacuuming, until released.
pub(super) enum Hold {
    /// A session with an open transaction.
    Transaction(Client),
    /// Consecutive runs of `pg_dump`.
    Dump(Dump),
}

impl Hold {
    /// Sets up the obstacle of the workload.
    pub(super) async fn take(url: &Url, workload: Workload) -> Result<SetUp> {
        if workload == Workload::W6 {
            return Ok(SetUp::Nothing);
        }
        let Url::Postgres(at) = url else { bail!("only PostgreSQL has snapshots") };
        let client = connect(at).await?;
        if workload == Workload::W7dump {
            let version: String = client.query_one("SHOW server_version_num", &[]).await?.get(0);
            let major = version.parse::<u32>().unwrap_or(0) / 10_000;
            return Ok(match dump::find(major).await {
                Ok(program) => SetUp::Held(Self::Dump(Dump::start(program, at)?)),
                Err(reason) => SetUp::Impossible(reason),
            });
        }
        client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
        let hold = match workload {
            Workload::W7reader => format!(
                "SELECT * FROM \"{0}\".jobs LIMIT 1; SELECT * FROM \"{0}\".queue_stats;",
                at.schema()
            ),
            Workload::W7writer => "SELECT pg_current_xact_id()".to_owned(),
            _ => "SELECT 1".to_owned(),
        };
        client.batch_execute(&hold).await?;
        Ok(SetUp::Held(Self::Transaction(client)))
    }

    /// Removes the obstacle, and adds its figures to the sample.
    pub(super) async fn release(self, sample: &mut Sample) -> Result<()> {
        match self {
            Self::Transaction(client) => client.batch_execute("COMMIT").await?,
            Self::Dump(dump) => sample.figure("dump_held_percent", dump.stop().await?),
        }
        Ok(())
    }
}

async fn connect(at: &PostgresUrl) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(at.server(), NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}
