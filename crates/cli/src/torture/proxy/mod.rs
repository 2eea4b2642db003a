//! A proxy on loopback between the clients and their store: it passes bytes, and does to them what a bad
//! network does. Of HTTP it knows as much as is needed to send a request twice.

mod repeat;
mod weather;

pub(super) use weather::Weather;

use super::happens;
use anyhow::{Context as _, Result};
use repeat::{is_enqueue, whole_request};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use windlass_core::random::{Random as _, Seeded};

/// Bytes passed on at a time.
const CHUNK_BYTES: usize = 64 * 1024;
/// Connections at a time; more wait to be accepted.
const CONNECTIONS_MAX: usize = 1_024;
/// Of a thousand chunks, so many meet their fate in bad weather.
const FATE_PER_MILLE: u64 = 300;
/// Requests that wait to be sent once more, at a time.
const REPEATS_MAX: usize = 64;
/// A request is sent once more after so long at most: some leases are over by then.
const REPEAT_AFTER_MAX_MS: u64 = 2 * super::LEASE_MS;
/// How long anybody listens to the answer to a request that was sent once more.
const REPEAT_ANSWER_MAX: Duration = Duration::from_secs(5);
/// A listener that cannot accept rests for so long.
const ACCEPT_AGAIN: Duration = Duration::from_millis(20);

/// A running proxy. It ends when dropped, and its connections with it.
pub(super) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    _accepting: AbortOnDropHandle<()>,
}

struct Shared {
    /// `host:port` of the store; a server that was started again has another.
    upstream: Mutex<String>,
    weather: watch::Sender<Weather>,
    random: Seeded,
    connections: Arc<Semaphore>,
    repeats: TaskTracker,
    /// Whether enqueues are never sent twice.
    enqueues_once: AtomicBool,
}

/// How a connection ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// As if somebody had closed it.
    Closed,
    /// As if somebody had pulled the plug.
    Reset,
}

impl Proxy {
    /// A proxy in front of `upstream`, in clear weather.
    pub(super) async fn start(upstream: String, seed: u64) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
        let address = listener.local_addr().context("cannot tell where the proxy listens")?;
        let shared = Arc::new(Shared {
            upstream: Mutex::new(upstream),
            weather: watch::Sender::new(Weather::Clear),
            random: Seeded::new(seed),
            connections: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            repeats: TaskTracker::new(),
            enqueues_once: AtomicBool::new(false),
        });
        let accepting = AbortOnDropHandle::new(tokio::spawn(accept(listener, shared.clone())));
        Ok(Self { address, shared, _accepting: accepting })
    }

    /// Where the clients find it.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Never sends an enqueue twice. Once the record of a job is removed, its second enqueue would be a new job.
    pub(super) fn enqueues_once(&self) {
        self.shared.enqueues_once.store(true, Ordering::Relaxed);
    }

    /// Has new connections go there.
    pub(super) fn toward(&self, upstream: String) {
        *self.shared.upstream.lock().unwrap_or_else(PoisonError::into_inner) = upstream;
    }

    /// Changes the weather, for bytes that are under way too.
    pub(super) fn set(&self, weather: Weather) {
        self.shared.weather.send_replace(weather);
    }

    /// Clears the sky, and waits until every repeated request has arrived.
    pub(super) async fn calm_down(&self) {
        self.set(Weather::Clear);
        self.shared.repeats.close();
        self.shared.repeats.wait().await;
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with this task, and the connections with it.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok(permit) = shared.connections.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((client, _)) => {
                let shared = shared.clone();
                connections.spawn(async move {
                    shared.carry(client).await;
                    drop(permit);
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

impl Shared {
    /// One connection, from end to end.
    async fn carry(self: Arc<Self>, mut client: TcpStream) {
        self.passing().await;
        let upstream = self.upstream.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let end = match TcpStream::connect(upstream).await {
            Ok(mut server) => {
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let ((asks, hears), (answers, listens)) = (client.split(), server.split());
                tokio::select! {
                    end = self.requests(asks, listens) => end,
                    end = self.replies(answers, hears) => end,
                }
            }
            Err(_) => End::Reset,
        };
        if end == End::Reset {
            // What is not read or sent yet is thrown away, and the other side told so.
            let _ = client.set_zero_linger();
        }
    }

    async fn requests(self: &Arc<Self>, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> End {
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            let Ok(length @ 1..) = from.read(&mut buffer).await else { return End::Closed };
            let chunk = &buffer[..length];
            match self.passing().await {
                Weather::Resets if self.strikes() => return End::Reset,
                Weather::Repeats if self.strikes() => self.repeat(chunk),
                _ => {}
            }
            if to.write_all(chunk).await.is_err() {
                return End::Closed;
            }
        }
    }

    async fn replies(&self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> End {
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            let Ok(length @ 1..) = from.read(&mut buffer).await else { return End::Closed };
            match self.passing().await {
                Weather::Resets if self.strikes() => return End::Reset,
                // The store has done it, and nobody will know.
                Weather::LostReplies if self.strikes() => return End::Closed,
                _ => {}
            }
            if to.write_all(&buffer[..length]).await.is_err() {
                return End::Closed;
            }
        }
    }

    /// Waits until bytes get through, and says what else may happen to them.
    async fn passing(&self) -> Weather {
        let mut watch = self.weather.subscribe();
        let now = *watch.borrow();
        if let Weather::Slow { ms } = now {
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
        // The sender is ours: it cannot be gone.
        watch.wait_for(|weather| *weather != Weather::Cut).await.map_or(Weather::Clear, |it| *it)
    }

    fn strikes(&self) -> bool {
        happens(&self.random, FATE_PER_MILLE)
    }

    /// Sends a request once more, later and on a connection of its own; nobody hears the answer.
    fn repeat(self: &Arc<Self>, chunk: &[u8]) {
        let kept = self.enqueues_once.load(Ordering::Relaxed) && is_enqueue(chunk);
        let full = self.repeats.len() >= REPEATS_MAX || self.repeats.is_closed();
        if !whole_request(chunk) || kept || full {
            return;
        }
        let (shared, chunk) = (self.clone(), chunk.to_vec());
        let after = Duration::from_millis(self.random.below(REPEAT_AFTER_MAX_MS));
        self.repeats.spawn(async move {
            tokio::time::sleep(after).await;
            let upstream = shared.upstream.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let sent = async {
                let mut server = TcpStream::connect(upstream).await?;
                server.write_all(&chunk).await?;
                server.read(&mut [0; 1]).await
            };
            // Whatever becomes of it: it was never promised to anybody.
            let _ = tokio::time::timeout(REPEAT_ANSWER_MAX, sent).await;
        });
    }
}

#[cfg(test)]
mod tests;
