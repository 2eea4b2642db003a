//! Memory accounting for requests and replies: bytes held in total and per client. Knows nothing of
//! HTTP except the sender of a request.

use crate::admit::{Peer, Principal};
use http::Extensions;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use windlass_core::sync::lock;

/// How long a request waits for memory before it is refused. Short, because waiting requests use
/// memory too.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// Maximum number of requests waiting for memory in one room; further requests are refused at once.
const WAITING_MAX: usize = 64;

/// The client that memory is attributed to: the request's key, otherwise its source address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Client {
    Key(Arc<str>),
    Address(IpAddr),
}

impl Client {
    pub(crate) fn of(extensions: &Extensions) -> Self {
        if let Some(Principal(name)) = extensions.get() {
            return Self::Key(name.clone());
        }
        let peer = extensions.get::<Peer>();
        Self::Address(peer.map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |peer| network(peer.0)))
    }
}

/// The address to account for: IPv6 clients usually control a whole /64 network.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        v4 => v4,
    }
}

/// A bounded amount of memory. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Bytes for all clients together.
    total: usize,
    /// Bytes per client. A single larger request is allowed if the client holds nothing else.
    each: usize,
    /// Never held across an await.
    used: Mutex<Used>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Used {
    bytes: usize,
    clients: HashMap<Client, usize>,
    waiting: usize,
}

/// No memory is available for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Room {
    /// A room of `total` bytes, of which one client may hold `each`.
    pub(crate) fn new(total: usize, each: usize) -> Self {
        let (used, freed) = (Mutex::default(), Notify::new());
        Self { shared: Arc::new(Shared { total, each, used, freed }) }
    }

    /// An empty reservation for this client.
    pub(crate) fn empty(&self, client: Client) -> Reservation {
        Reservation { shared: self.shared.clone(), client, bytes: 0 }
    }

    /// Reserves memory for this client. A request larger than the room reserves the whole room.
    pub(crate) async fn take(&self, client: Client, bytes: usize) -> Result<Reservation, Full> {
        let mut taken = self.empty(client);
        taken.grow(bytes.min(self.shared.total)).await?;
        Ok(taken)
    }
}

impl Shared {
    fn used(&self) -> MutexGuard<'_, Used> {
        lock(&self.used)
    }
}

/// Reserved memory; dropping it releases the memory.
#[derive(Debug)]
pub(crate) struct Reservation {
    shared: Arc<Shared>,
    client: Client,
    bytes: usize,
}

impl Reservation {
    /// Reserves more memory; waits up to [`WAIT_MAX`] for other reservations to end.
    pub(crate) async fn grow(&mut self, by: usize) -> Result<(), Full> {
        if self.try_grow(by) {
            return Ok(());
        }
        let _waiting = Waiting::new(&self.shared)?;
        let shared = self.shared.clone();
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            let freed = shared.freed.notified();
            tokio::pin!(freed);
            // Register before the next attempt, so that a release in between is not missed.
            freed.as_mut().enable();
            if self.try_grow(by) {
                return Ok(());
            }
            tokio::time::timeout_at(deadline, freed).await.map_err(|_| Full)?;
        }
    }

    fn try_grow(&mut self, by: usize) -> bool {
        let mut used = self.shared.used();
        let of_client = used.clients.get(&self.client).copied().unwrap_or_default();
        // A client that holds nothing else may exceed its share with one request.
        let is_within_share = of_client + by <= self.shared.each || of_client == self.bytes;
        if !is_within_share || used.bytes + by > self.shared.total {
            return false;
        }
        used.bytes += by;
        used.clients.insert(self.client.clone(), of_client + by);
        self.bytes += by;
        true
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut used = self.shared.used();
        used.bytes -= self.bytes;
        if let Some(of_client) = used.clients.get_mut(&self.client) {
            *of_client -= self.bytes;
            if *of_client == 0 {
                used.clients.remove(&self.client);
            }
        }
        let is_awaited = used.waiting > 0;
        drop(used);
        if is_awaited {
            self.shared.freed.notify_waiters();
        }
    }
}

/// Counts a request as waiting for memory until dropped.
struct Waiting(Arc<Shared>);

impl Waiting {
    fn new(shared: &Arc<Shared>) -> Result<Self, Full> {
        let mut used = shared.used();
        if used.waiting >= WAITING_MAX {
            return Err(Full);
        }
        used.waiting += 1;
        Ok(Self(shared.clone()))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.used().waiting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(name: &str) -> Client {
        Client::Key(name.into())
    }

    #[tokio::test(start_paused = true)]
    async fn one_client_takes_its_share_of_the_memory_and_leaves_the_rest_to_others() {
        let room = Room::new(1_000, 500);
        let first = room.take(client("a"), 400).await.unwrap();
        assert_eq!(room.take(client("a"), 200).await.unwrap_err(), Full);
        let second = room.take(client("b"), 500).await.unwrap();
        assert_eq!(room.take(client("c"), 200).await.unwrap_err(), Full);
        drop(first);
        let third = room.take(client("a"), 200).await.unwrap();
        drop((second, third));
        // A client that holds nothing else may exceed its share.
        let big = room.take(client("a"), 5_000).await.unwrap();
        assert_eq!(big.bytes, 1_000);
        drop(big);
        assert!(room.shared.used().clients.is_empty() && room.shared.used().bytes == 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_for_memory_that_is_given_back_in_time() {
        let room = Room::new(1_000, 500);
        let first = room.take(client("a"), 1_000).await.unwrap();
        let second = tokio::spawn({
            let room = room.clone();
            async move { room.take(client("b"), 1_000).await }
        });
        tokio::time::sleep(WAIT_MAX / 2).await;
        drop(first);
        assert_eq!(second.await.unwrap().unwrap().bytes, 1_000);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_over_the_limit_of_waiting_ones_are_refused_at_once() {
        let room = Room::new(1_000, 500);
        let _first = room.take(client("a"), 1_000).await.unwrap();
        let waiting: Vec<_> = (0..WAITING_MAX)
            .map(|_| {
                let room = room.clone();
                tokio::spawn(async move { room.take(client("b"), 1).await.map(drop) })
            })
            .collect();
        while room.shared.used().waiting < WAITING_MAX {
            tokio::task::yield_now().await;
        }
        let requested = Instant::now();
        assert_eq!(room.take(client("c"), 1).await.unwrap_err(), Full);
        assert_eq!(requested.elapsed(), Duration::ZERO);
        for waiting in waiting {
            assert_eq!(waiting.await.unwrap(), Err(Full));
        }
        assert_eq!(room.shared.used().waiting, 0);
    }

    #[test]
    fn a_client_is_its_network() {
        let same = |a: &str, b: &str| network(a.parse().unwrap()) == network(b.parse().unwrap());
        assert!(same("2001:db8::1", "2001:db8::ffff:1"));
        assert!(!same("2001:db8::1", "2001:db8:0:1::1"));
        assert!(same("::ffff:10.0.0.1", "10.0.0.1"));
        assert!(!same("10.0.0.1", "10.0.0.2"));
    }
}
