//! A proxy on loopback between the clients and the store. It forwards bytes and simulates an unreliable
//! network. It knows just enough HTTP to send a request twice.

mod repeat;
mod weather;

pub(super) use weather::Weather;

use super::happens;
use anyhow::{Context as _, Result};
use repeat::{is_enqueue, whole_request};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use windlass_core::random::{Random as _, Seeded};
use windlass_core::sync::lock;

/// Size of the forwarding buffer, in bytes.
const CHUNK_BYTES: usize = 64 * 1024;
/// Maximum number of connections; more wait to be accepted.
const CONNECTIONS_MAX: usize = 1_024;
/// Probability per mille that a chunk is affected by the current fault.
const FAULTS_PER_MILLE: u64 = 300;
/// Maximum number of requests waiting to be repeated.
const REPEATS_MAX: usize = 64;
/// Maximum delay before a request is repeated: some leases have expired by then.
const REPEAT_AFTER_MAX_MS: u64 = 2 * super::LEASE_MS;
/// Time to wait for the response to a repeated request.
const REPEAT_ANSWER_MAX: Duration = Duration::from_secs(5);
/// Delay after an error of accept.
const ACCEPT_AGAIN: Duration = Duration::from_millis(20);

/// A running proxy. It ends when dropped, and its connections with it.
pub(super) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    _accepting: AbortOnDropHandle<()>,
}

struct Shared {
    /// `host:port` of the store; it changes when a server is restarted.
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
    /// Closed normally.
    Closed,
    /// Reset.
    Reset,
}

impl Proxy {
    /// Starts a proxy in front of `upstream`, without faults.
    pub(super) async fn start(upstream: String, seed: u64) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
        let address = listener.local_addr().context("the address of the proxy is unknown")?;
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

    /// The address to which clients connect.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Never sends an enqueue twice. Once the record of a job is removed, its second enqueue would be a new job.
    pub(super) fn enqueues_once(&self) {
        self.shared.enqueues_once.store(true, Ordering::Relaxed);
    }

    /// Sets the upstream of new connections.
    pub(super) fn toward(&self, upstream: String) {
        *lock(&self.shared.upstream) = upstream;
    }

    /// Changes the behaviour of the network, also for bytes in flight.
    pub(super) fn set(&self, weather: Weather) {
        self.shared.weather.send_replace(weather);
    }

    /// Ends all faults, and waits until every repeated request has been sent.
    pub(super) async fn calm_down(&self) {
        self.set(Weather::Clear);
        self.shared.repeats.close();
        self.shared.repeats.wait().await;
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Owned by this task, so that the connections end with it.
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
    /// Forwards one connection.
    async fn carry(self: Arc<Self>, mut client: TcpStream) {
        self.passing().await;
        let upstream = lock(&self.upstream).clone();
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
            // Discards unread and unsent bytes and sends a TCP reset.
            let _ = client.set_zero_linger();
        }
    }

    async fn requests(self: &Arc<Self>, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> End {
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            let Ok(length @ 1..) = from.read(&mut buffer).await else { return End::Closed };
            let chunk = &buffer[..length];
            match self.passing().await {
                Weather::Resets if self.is_affected() => return End::Reset,
                Weather::Repeats if self.is_affected() => self.repeat(chunk),
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
                Weather::Resets if self.is_affected() => return End::Reset,
                // The store has executed the request, but the client gets no reply.
                Weather::LostReplies if self.is_affected() => return End::Closed,
                _ => {}
            }
            if to.write_all(&buffer[..length]).await.is_err() {
                return End::Closed;
            }
        }
    }

    /// Delays the bytes as the current fault requires, and returns the fault that may affect them.
    async fn passing(&self) -> Weather {
        let mut watch = self.weather.subscribe();
        let now = *watch.borrow();
        if let Weather::Slow { ms } = now {
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
        // Cannot fail: `self` owns the sender.
        watch.wait_for(|weather| *weather != Weather::Cut).await.map_or(Weather::Clear, |it| *it)
    }

    fn is_affected(&self) -> bool {
        happens(&self.random, FAULTS_PER_MILLE)
    }

    /// Sends a request again, later and on a separate connection; the response is discarded.
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
            let upstream = lock(&shared.upstream).clone();
            let sent = async {
                let mut server = TcpStream::connect(upstream).await?;
                server.write_all(&chunk).await?;
                server.read(&mut [0; 1]).await
            };
            // Errors are ignored: no client depends on the repeated request.
            let _ = tokio::time::timeout(REPEAT_ANSWER_MAX, sent).await;
        });
    }
}

#[cfg(test)]
mod tests;
