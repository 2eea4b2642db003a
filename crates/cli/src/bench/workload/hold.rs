//! W7: who is in the way of clearing up on PostgreSQL, from before the load until the release.

use super::super::meter::Sample;
use super::Workload;
use super::dump::{self, Dump};
use crate::connect::Url;
use anyhow::{Result, bail};
use tokio_postgres::{Client, NoTls};
use windlass::PostgresUrl;

/// Whether somebody is in the way.
pub(super) enum Taken {
    Held(Hold),
    /// This workload is the one without.
    Nothing,
    /// It cannot be done here, and why.
    Impossible(String),
}

/// Somebody who is in the way until released.
pub(super) enum Hold {
    /// A session with a transaction open.
    Transaction(Client),
    /// `pg_dump`, again and again.
    Dump(Dump),
}

impl Hold {
    /// Gets in the way as the workload says.
    pub(super) async fn take(url: &Url, workload: Workload) -> Result<Taken> {
        if workload == Workload::W6 {
            return Ok(Taken::Nothing);
        }
        let Url::Postgres(at) = url else { bail!("only PostgreSQL has snapshots") };
        let client = connect(at).await?;
        if workload == Workload::W7dump {
            let version: String = client.query_one("SHOW server_version_num", &[]).await?.get(0);
            let major = version.parse::<u32>().unwrap_or(0) / 10_000;
            return Ok(match dump::find(major).await {
                Ok(program) => Taken::Held(Self::Dump(Dump::start(program, at)?)),
                Err(reason) => Taken::Impossible(reason),
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
        Ok(Taken::Held(Self::Transaction(client)))
    }

    /// Gets out of the way, and notes what there is to say about it.
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
