//! The driver of beanstalkd. It has no client library of its own; this speaks its protocol, with bulk puts
//! and the worker's reserves and deletes pipelined, which is the fastest its protocol allows.

mod wire;

use anyhow::{Context as _, Result};
use bench_harness::{About, Payload, Queue, Seen, drive};
use std::process::ExitCode;
use std::sync::Arc;
use tokio::sync::{Mutex, mpsc};
use wire::Connection;

const CONNECTIONS: usize = 64;
const BULK: usize = 100;
const BULK_CALLERS: usize = 4;
/// Connections of the worker, and jobs each reserves and deletes in one write.
const WORKERS: usize = 8;
const RESERVED: usize = 20;

#[derive(Clone)]
struct Beanstalkd {
    address: Arc<str>,
    version: Arc<str>,
    /// Connections no other driver uses right now.
    idle: Arc<Mutex<mpsc::Receiver<Connection>>>,
    back: mpsc::Sender<Connection>,
}

impl Beanstalkd {
    /// Puts the jobs in one write and waits for all answers.
    async fn put(&self, payloads: &[Payload]) -> Result<()> {
        let mut connection =
            self.idle.lock().await.recv().await.context("no connection is left")?;
        connection.put(payloads).await?;
        self.back.send(connection).await?;
        Ok(())
    }
}

impl Queue for Beanstalkd {
    async fn open(url: &str) -> Result<Self> {
        let address =
            url.strip_prefix("beanstalk://").context("the URL must begin with beanstalk://")?;
        let (back, idle) = mpsc::channel(CONNECTIONS);
        for _ in 0..CONNECTIONS {
            back.send(Connection::open(address).await?).await?;
        }
        let version = Connection::open(address).await?.stat("version").await?;
        Ok(Self {
            address: address.into(),
            version: version.trim_matches('"').into(),
            idle: Arc::new(Mutex::new(idle)),
            back,
        })
    }

    fn about(&self) -> About {
        About {
            version: self.version.to_string(),
            settings: format!(
                "{CONNECTIONS} connections; worker: {WORKERS} connections that reserve and delete {RESERVED} jobs in \
                 a write; bulk: {BULK_CALLERS} callers of {BULK} puts in a write"
            ),
            bulk: BULK,
            bulk_callers: BULK_CALLERS,
        }
    }

    async fn enqueue(&self, payload: Payload) -> Result<()> {
        self.put(&[payload]).await
    }

    async fn enqueue_many(&self, payloads: Vec<Payload>) -> Result<()> {
        self.put(&payloads).await
    }

    async fn work(&self, seen: Seen) -> Result<()> {
        for _ in 0..WORKERS {
            let mut connection = Connection::open(&self.address).await?;
            let seen = seen.clone();
            tokio::spawn(async move {
                loop {
                    let ids = connection.reserve(RESERVED, |payload| seen.start(payload.n)).await?;
                    connection.delete(&ids).await?;
                }
                #[expect(unreachable_code, reason = "names the type of the errors above")]
                anyhow::Ok(())
            });
        }
        Ok(())
    }

    async fn left(&self) -> Result<u64> {
        let mut connection = Connection::open(&self.address).await?;
        let ready: u64 = connection.stat("current-jobs-ready").await?.parse()?;
        let reserved: u64 = connection.stat("current-jobs-reserved").await?.parse()?;
        Ok(ready + reserved)
    }
}

fn main() -> ExitCode {
    drive::<Beanstalkd>()
}
