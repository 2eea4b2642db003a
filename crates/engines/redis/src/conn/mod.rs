//! The connection: one for all verbs, multiplexed. It is opened again whenever it is lost, and shows then whether the
//! store is still the same one.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "the variants are those of the driver, not of the contract"
)]

pub(crate) mod error;
pub(crate) mod library;
pub(crate) mod memory;
pub(crate) mod script;
pub(crate) mod server;
pub(crate) mod source;

use error::{Trouble, Try, corrupt, of_server, unavailable};
use library::{Function, library};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, RedisError, Value, cmd};
use script::{Commands, Reads, Replies};
use server::Server;
use source::Source;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;
use windlass_core::{Result, Timestamp};

/// How long a connection attempt may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// An open connection.
#[derive(Clone)]
pub(crate) struct Live {
    conn: MultiplexedConnection,
    pub(crate) server: Arc<Server>,
}

/// The connection of an engine.
pub(crate) struct Link {
    source: Source,
    /// How long a reply may take. A server that is slower is treated as unreachable, and the outcome as unknown.
    reply_within: Duration,
    live: Mutex<Option<Live>>,
    /// Whether to run the functions as scripts.
    scripts: AtomicBool,
}

/// The reply to a load.
pub(crate) struct LoadReply {
    pub(crate) now: Timestamp,
    /// Of the replies that a commit verifies.
    pub(crate) digest: Vec<u8>,
    pub(crate) replies: Replies,
}

impl Link {
    pub(crate) fn new(source: Source, scripts: bool, reply_within: Duration) -> Self {
        Self { source, reply_within, live: Mutex::default(), scripts: AtomicBool::new(scripts) }
    }

    /// The open connection, or a new one.
    pub(crate) async fn live(&self) -> Result<Live> {
        let mut live = self.live.lock().await;
        if let Some(live) = &*live {
            return Ok(live.clone());
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_WITHIN))
            .set_response_timeout(Some(self.reply_within));
        let client = self.source.client().await?;
        let conn = client.get_multiplexed_async_connection_with_config(&config).await;
        let mut conn = conn.map_err(|error| unavailable(&error))?;
        let server = Arc::new(Server::ask(&mut conn, self.source.fails_over()).await?);
        let opened = Live { conn, server };
        *live = Some(opened.clone());
        Ok(opened)
    }

    /// Closes the connection after an error that it may not survive.
    async fn lose(&self, of: &Live) {
        let mut live = self.live.lock().await;
        if live.as_ref().is_some_and(|live| Arc::ptr_eq(&live.server, &of.server)) {
            *live = None;
        }
    }

    /// Sends a command.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<(Value, Arc<Server>)> {
        let live = self.live().await?;
        match self.send_on(&live, command).await {
            Ok(value) => Ok((value, live.server)),
            Err(error) => Err(of_server(&error)),
        }
    }

    async fn send_on(&self, live: &Live, command: &Cmd) -> redis::RedisResult<Value> {
        let reply = live.conn.clone().send_packed_command(command).await;
        let reply = reply.and_then(Value::extract_error);
        if let Err(error) = &reply
            && (error.is_unrecoverable_error() || error.is_timeout() || is_demoted(error))
        {
            self.lose(live).await;
        }
        reply
    }

    /// Calls a function. Loads the library if the server does not have it, or runs the function as a script if the
    /// server has no functions.
    pub(crate) async fn call(
        &self,
        live: &Live,
        function: Function,
        body: &Commands,
        head: &[Vec<u8>],
    ) -> Try<Value> {
        for _ in 0..3 {
            let scripts = self.scripts.load(Ordering::Relaxed);
            let reply = self.send_on(live, &packed(function, scripts, body, head)).await;
            let error = match reply {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            if !is_missing(&error) {
                return Err(error.into());
            }
            self.install(live, function).await?;
        }
        Err(unavailable("the server forgets our functions at once").into())
    }

    async fn install(&self, live: &Live, function: Function) -> Try<()> {
        if !self.scripts.load(Ordering::Relaxed) {
            let mut load = cmd("FUNCTION");
            load.arg("LOAD").arg("REPLACE").arg(library());
            match self.send_on(live, &load).await {
                Ok(_) => return Ok(()),
                Err(error) if lacks_functions(&error) => {
                    self.scripts.store(true, Ordering::Relaxed);
                }
                Err(error) => return Err(error.into()),
            }
        }
        let mut load = cmd("SCRIPT");
        load.arg("LOAD").arg(function.script());
        self.send_on(live, &load).await?;
        Ok(())
    }

    /// Runs reads at one instant.
    pub(crate) async fn load(&self, live: &Live, reads: &Reads) -> Try<LoadReply> {
        let reply = self.call(live, Function::Load, &reads.0, &[]).await?;
        let Value::Array(parts) = reply else { return Err(malformed()) };
        let [time, Value::BulkString(digest), Value::Array(replies)] =
            <[Value; 3]>::try_from(parts).map_err(|_| malformed())?
        else {
            return Err(malformed());
        };
        let time = Replies(vec![time]);
        let time: Vec<i64> = time
            .members(0)?
            .into_iter()
            .filter_map(|part| std::str::from_utf8(part).ok()?.parse().ok())
            .collect();
        let [seconds, micros] = time[..] else { return Err(malformed()) };
        let now = Timestamp::from_millis(seconds * 1_000 + micros / 1_000);
        Ok(LoadReply { now, digest, replies: Replies(replies) })
    }

    /// Applies writes if these loads would return the same again; returns whether it did.
    pub(crate) async fn commit(
        &self,
        live: &Live,
        function: Function,
        loads: &[(Reads, Vec<u8>)],
        writes: Commands,
    ) -> Try<bool> {
        let head = vec![loads.len().to_string().into_bytes()];
        let mut body = Commands::default();
        for (Reads(reads), digest) in loads {
            body.args.push(reads.len().to_string().into_bytes());
            body.args.push(digest.clone());
            body.append(reads.clone());
        }
        body.append(writes);
        match self.call(live, function, &body, &head).await? {
            Value::Int(done) => Ok(done == 1),
            _ => Err(malformed()),
        }
    }
}

fn packed(function: Function, as_script: bool, body: &Commands, head: &[Vec<u8>]) -> Cmd {
    let mut command = match as_script {
        true => {
            let mut command = cmd("EVALSHA");
            command.arg(redis::Script::new(&function.script()).get_hash());
            command
        }
        false => {
            let mut command = cmd("FCALL");
            command.arg(function.name());
            command
        }
    };
    command.arg(body.keys.len());
    for part in body.keys.iter().chain(head).chain(&body.args) {
        command.arg(part.as_slice());
    }
    command
}

/// The list that a function returned; `None`: it refused.
pub(crate) fn array_or_refusal(reply: Value) -> Try<Option<Vec<Value>>> {
    match reply {
        Value::Array(list) => Ok(Some(list)),
        Value::Nil => Ok(None),
        _ => Err(malformed()),
    }
}

/// The number that a function returned; `None`: it refused.
pub(crate) fn int_or_refusal(reply: &Value) -> Try<Option<i64>> {
    match reply {
        Value::Int(number) => Ok(Some(*number)),
        Value::Nil => Ok(None),
        _ => Err(malformed()),
    }
}

/// The reply of a function is not what it should be.
pub(crate) fn malformed() -> Trouble {
    corrupt(&"a function returned something else than expected").into()
}

fn says(error: &RedisError, text: &str) -> bool {
    error.detail().is_some_and(|detail| detail.contains(text))
}

/// The server does not have the function or the script, for example after a restart without persistence.
fn is_missing(error: &RedisError) -> bool {
    error.code() == Some("NOSCRIPT")
        || says(error, "Function not found")
        || (error.code() == Some("ERR") && says(error, "unknown command 'FCALL"))
}

/// The server has no functions, or does not allow them.
fn lacks_functions(error: &RedisError) -> bool {
    error.code() == Some("NOPERM")
        || says(error, "unknown command")
        || says(error, "unknown subcommand")
}

/// The server has become a replica.
fn is_demoted(error: &RedisError) -> bool {
    matches!(error.code(), Some("READONLY" | "LOADING" | "MASTERDOWN"))
}
