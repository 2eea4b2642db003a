//! The server behind a connection: whether a store may live there, what it survives, and which one it is.

use super::error::{of_server, unavailable};
use redis::aio::MultiplexedConnection;
use redis::{Value, cmd};
use std::collections::HashMap;
use tokio::time::Instant;
use windlass_core::engine::{Durability, Epoch};
use windlass_core::{Error, Result, Timestamp};

/// The oldest supported major version: functions, and `EVAL` with flags.
const MAJOR_MIN: u64 = 7;

/// A server, as of the time of the connection.
#[derive(Debug)]
pub(crate) struct Server {
    /// The identity of the process and of its data.
    pub(crate) epoch: Epoch,
    /// When the process started, by its own clock.
    pub(crate) started_at: Timestamp,
    /// What an acknowledged write survives.
    pub(crate) durability: Durability,
    /// The time of the server when it was asked, and of this process.
    asked_at: (Timestamp, Instant),
}

impl Server {
    /// The time of the server, estimated: for new ids, and to refuse ids that are a day off. Never stored as a time.
    pub(crate) fn about_now(&self) -> Timestamp {
        let (time, when) = self.asked_at;
        time.plus(when.elapsed().as_millis() as u64)
    }

    /// Asks the server about itself, and refuses one that could lose or evict jobs unnoticed.
    /// `fails_over`: another server may take over, which may not have the latest writes.
    pub(crate) async fn ask(conn: &mut MultiplexedConnection, fails_over: bool) -> Result<Self> {
        let info = info(conn).await?;
        let text = |field: &str| info.get(field).map_or("", String::as_str);
        let version = text("redis_version");
        let major = version.split('.').next().and_then(|major| major.parse::<u64>().ok());
        if major.is_none_or(|major| major < MAJOR_MIN) {
            let expected = format!("Windlass needs Redis {MAJOR_MIN}.0 or Valkey 7.2 at least");
            return Err(Error::invalid("redis_version", version, expected));
        }
        let policy = text("maxmemory_policy");
        if policy != "noeviction" {
            let expected = "the server may evict jobs: set maxmemory-policy to noeviction";
            return Err(Error::invalid("maxmemory_policy", policy, expected));
        }
        if text("cluster_enabled") == "1" {
            let expected =
                "Redis Cluster is not supported in this version: use a standalone server";
            return Err(Error::invalid("cluster_enabled", "1", expected));
        }
        if text("role") != "master" {
            return Err(unavailable("the server is a replica; connect to its primary"));
        }
        let (now, fsync) = (time(conn).await?, fsync(conn).await);
        let up = text("uptime_in_seconds").parse::<u64>().unwrap_or(0);
        let durability = match (text("aof_enabled"), fsync.as_deref()) {
            ("1", Some("always")) if !fails_over => Durability::Host,
            ("1", _) => Durability::Relaxed,
            _ => Durability::Volatile,
        };
        Ok(Self {
            epoch: Epoch::new(format!("{}.{}", text("run_id"), text("master_replid"))),
            started_at: now.minus(up * 1_000),
            durability,
            asked_at: (now, Instant::now()),
        })
    }
}

async fn send(conn: &mut MultiplexedConnection, command: &redis::Cmd) -> Result<Value> {
    let reply = conn.send_packed_command(command).await.and_then(Value::extract_error);
    reply.map_err(|error| of_server(&error))
}

/// The fields of INFO, which managed services allow where they forbid CONFIG.
async fn info(conn: &mut MultiplexedConnection) -> Result<HashMap<String, String>> {
    let text = match send(conn, &cmd("INFO")).await? {
        Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Value::VerbatimString { text, .. } => text,
        _ => return Err(unavailable("INFO returned no text")),
    };
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    Ok(fields.map(|(field, value)| (field.to_owned(), value.trim().to_owned())).collect())
}

async fn time(conn: &mut MultiplexedConnection) -> Result<Timestamp> {
    let (seconds, micros): (i64, i64) =
        cmd("TIME").query_async(conn).await.map_err(|error| of_server(&error))?;
    Ok(Timestamp::from_millis(seconds * 1_000 + micros / 1_000))
}

/// When the append-only file is synced; `None` where CONFIG is not allowed.
async fn fsync(conn: &mut MultiplexedConnection) -> Option<String> {
    let setting: Result<Vec<String>, _> =
        cmd("CONFIG").arg("GET").arg("appendfsync").query_async(conn).await;
    setting.ok()?.into_iter().nth(1)
}
