//! The open connections of a server: their limit, which idle one to close for a new one, and how
//! long a client may take to read. It knows nothing about the requests on them.

use crate::options::Limits;
use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, Sleep, sleep};
use windlass_core::sync::lock;

/// Connections beyond the limit, reserved for worker reports and health probes.
const FOR_REPORTS: usize = 64;
/// Connections beyond those, reserved for health probes. Probes have no body, so a slow upload
/// cannot block them.
const FOR_PROBES: usize = 64;
/// Maximum number of connections to examine in one search for an idle one.
const CANDIDATES_MAX: usize = 256;
/// Minimum bytes that a slow client must read within each read timeout.
const TAKEN_BYTES_MIN: usize = 256 * 1024;

/// All open connections. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Connections {
    shared: Arc<Shared>,
}

struct Shared {
    /// Maximum number of connections, without the reserve.
    max: usize,
    open: Mutex<Open>,
    /// Number of open connections, shared with the server's status.
    count: Arc<AtomicUsize>,
    /// Reference point for `idle_since`.
    begin: Instant,
    ended: Notify,
}

#[derive(Default)]
struct Open {
    next: u64,
    by_number: BTreeMap<u64, Arc<State>>,
    /// Connections that were asked to close and are still open.
    leaving: usize,
    /// Connection number at which the next search for an idle one starts.
    searched: u64,
}

/// State of a connection, as needed to decide whether it can be closed.
#[derive(Default)]
struct State {
    /// Whether a request is in progress.
    is_busy: AtomicBool,
    /// Whether part of a reply is not yet written to the socket.
    is_writing: AtomicBool,
    /// When its last reply was sent, in milliseconds since `Shared::begin`.
    idle_since: AtomicU64,
    /// Whether it was asked to close.
    is_leaving: AtomicBool,
    leave: Notify,
}

impl State {
    fn is_idle(&self) -> bool {
        !self.is_busy.load(Ordering::Acquire) && !self.is_writing.load(Ordering::Acquire)
    }
}

/// An accepted connection; dropping it releases its slot.
pub(crate) struct Connection {
    connections: Connections,
    number: u64,
    state: Arc<State>,
    place: Place,
}

/// The type of slot a connection occupies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Usual,
    ForReports,
    ForProbes,
}

/// The requests that are allowed on a connection beyond the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restricted {
    /// Worker reports and health probes.
    ToReports,
    /// Health probes.
    ToProbes,
}

impl Connections {
    pub(crate) fn new(max: usize, count: Arc<AtomicUsize>) -> Self {
        let (open, begin, ended) = (Mutex::default(), Instant::now(), Notify::new());
        Self { shared: Arc::new(Shared { max, open, count, begin, ended }) }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        lock(&self.shared.open)
    }

    /// Allocates a slot for a new connection. At the limit, an idle connection is closed for it; if
    /// none is idle, it gets a reserved slot; if those are used up too, it waits.
    pub(crate) async fn place(&self) -> Connection {
        loop {
            let ended = self.shared.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if let Some(connection) = self.try_place() {
                return connection;
            }
            ended.await;
        }
    }

    fn try_place(&self) -> Option<Connection> {
        let mut open = self.open();
        let place = match self.place_after(open.count()) {
            Some(Place::Usual) => Place::Usual,
            _ if open.end_idle() => self.place_after(open.count())?,
            place => place?,
        };
        let (number, state) = (open.next, Arc::new(State::default()));
        state.idle_since.store(self.now(), Ordering::Relaxed);
        open.next += 1;
        open.by_number.insert(number, state.clone());
        let count = self.shared.count.fetch_add(1, Ordering::Relaxed) + 1;
        metrics::gauge!("windlass_server_connections").set(count as f64);
        Some(Connection { connections: self.clone(), number, state, place })
    }

    /// The type of slot for a new connection when `count` are open; `None` if all are used.
    fn place_after(&self, count: usize) -> Option<Place> {
        let max = self.shared.max;
        if count < max {
            Some(Place::Usual)
        } else if count < max + FOR_REPORTS {
            Some(Place::ForReports)
        } else if count < max + FOR_REPORTS + FOR_PROBES {
            Some(Place::ForProbes)
        } else {
            None
        }
    }

    /// Closes an idle connection to release a file descriptor. Returns false if none is idle.
    pub(crate) fn end_one(&self) -> bool {
        self.open().end_idle()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.shared.begin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Open {
    /// Open connections without those that are closing.
    fn count(&self) -> usize {
        self.by_number.len() - self.leaving
    }

    /// Asks the longest idle connection among those examined to close. Returns false if none is
    /// idle.
    fn end_idle(&mut self) -> bool {
        let later = self.by_number.range(self.searched..);
        let candidates = later.chain(self.by_number.range(..self.searched)).take(CANDIDATES_MAX);
        let (mut found, mut last): (Option<&Arc<State>>, _) = (None, self.searched);
        let since = |state: &State| state.idle_since.load(Ordering::Relaxed);
        for (number, state) in candidates {
            last = number + 1;
            let is_leaving = state.is_leaving.load(Ordering::Relaxed);
            if !is_leaving && state.is_idle() && found.is_none_or(|it| since(state) < since(it)) {
                found = Some(state);
            }
        }
        let found = found.cloned();
        self.searched = last;
        let Some(state) = found else { return false };
        state.is_leaving.store(true, Ordering::Relaxed);
        state.leave.notify_one();
        self.leaving += 1;
        metrics::counter!("windlass_server_connections_ended_total").increment(1);
        true
    }
}

impl Connection {
    /// Waits until the connection is asked to close while idle.
    pub(crate) async fn close_requested(&self) {
        loop {
            self.state.leave.notified().await;
            if self.state.is_idle() {
                return;
            }
            // A request arrived first. Keep this connection; a later search closes another.
            let mut open = self.connections.open();
            open.leaving -= 1;
            self.state.is_leaving.store(false, Ordering::Relaxed);
        }
    }

    /// Whether no request is in progress on it.
    pub(crate) fn is_idle(&self) -> bool {
        self.state.is_idle()
    }

    /// Marks the connection as busy until the returned guard is dropped.
    pub(crate) fn request(&self) -> Busy {
        self.state.is_busy.store(true, Ordering::Release);
        Busy { connections: self.connections.clone(), state: self.state.clone() }
    }

    /// The restriction that applies now: `None` for a regular slot, or once a regular slot is free.
    pub(crate) fn restricted(&self) -> Option<Restricted> {
        if self.place == Place::Usual {
            return None;
        }
        let others = self.connections.open().count() - 1;
        let free = self.connections.place_after(others).unwrap_or(Place::ForProbes);
        match self.place.min(free) {
            Place::Usual => None,
            Place::ForReports => Some(Restricted::ToReports),
            Place::ForProbes => Some(Restricted::ToProbes),
        }
    }

    /// Wraps the stream with a time limit for the client to read.
    pub(crate) fn patient<S>(
        &self,
        stream: S,
        limits: &watch::Receiver<Limits>,
    ) -> WriteTimeout<S> {
        let patience = limits.borrow().read_timeout;
        let (connections, state) = (self.connections.clone(), self.state.clone());
        WriteTimeout { stream, connections, state, patience, blocked: None, taken: 0 }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut open = self.connections.open();
        open.by_number.remove(&self.number);
        if self.state.is_leaving.load(Ordering::Relaxed) {
            open.leaving -= 1;
        }
        drop(open);
        let count = self.connections.shared.count.fetch_sub(1, Ordering::Relaxed) - 1;
        metrics::gauge!("windlass_server_connections").set(count as f64);
        self.connections.shared.ended.notify_waiters();
    }
}

/// Marks a connection as busy; dropping it marks the connection as idle.
pub(crate) struct Busy {
    connections: Connections,
    state: Arc<State>,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.state.idle_since.store(self.connections.now(), Ordering::Relaxed);
        self.state.is_busy.store(false, Ordering::Release);
    }
}

/// A stream that fails if the client reads too slowly.
pub(crate) struct WriteTimeout<S> {
    stream: S,
    connections: Connections,
    state: Arc<State>,
    /// Time limit for the client to read [`TAKEN_BYTES_MIN`] or the rest of the reply.
    patience: Duration,
    /// The running time limit, started by the first blocked write.
    blocked: Option<Pin<Box<Sleep>>>,
    /// Bytes written since the time limit started.
    taken: usize,
}

impl<S> WriteTimeout<S> {
    /// Passes on the result of a write, or fails if the client's time limit has expired.
    fn in_time(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        self.state.is_writing.store(true, Ordering::Release);
        match written {
            Poll::Ready(Ok(bytes)) => {
                self.taken += bytes;
                if self.taken >= TAKEN_BYTES_MIN {
                    (self.blocked, self.taken) = (None, 0);
                }
                Poll::Ready(Ok(bytes))
            }
            Poll::Pending => {
                let patience = self.patience;
                let blocked = self.blocked.get_or_insert_with(|| Box::pin(sleep(patience)));
                ready!(blocked.as_mut().poll(cx));
                Poll::Ready(Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the client does not read its replies",
                )))
            }
            failed => failed,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.in_time(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.in_time(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        if self.state.is_writing.swap(false, Ordering::AcqRel) {
            self.state.idle_since.store(self.connections.now(), Ordering::Relaxed);
            (self.blocked, self.taken) = (None, 0);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    /// The tests use paused time, so this only lets other tasks run.
    const SOON: Duration = Duration::from_millis(1);

    fn connections(max: usize) -> Connections {
        Connections::new(max, Arc::default())
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_connection_ends_for_a_new_one() {
        let all = connections(2);
        let [first, second] = [all.place().await, all.place().await];
        tokio::time::advance(Duration::from_millis(5)).await;
        drop(first.request());
        let third = all.place().await;
        second.close_requested().await;
        drop(second);
        assert!([&first, &third].iter().all(|it| it.restricted().is_none()));
        assert_eq!(all.shared.count.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn while_all_are_busy_the_next_are_for_reports_then_for_probes_and_then_wait() {
        let all = connections(1);
        let (mut open, mut requests) = (Vec::new(), Vec::new());
        for _ in 0..=FOR_REPORTS + FOR_PROBES {
            let connection = all.place().await;
            requests.push(connection.request());
            open.push(connection);
        }
        let restricted = |number: usize| open[number].restricted();
        assert_eq!(restricted(0), None);
        assert_eq!(restricted(FOR_REPORTS), Some(Restricted::ToReports));
        assert_eq!(restricted(FOR_REPORTS + 1), Some(Restricted::ToProbes));
        let mut next = Box::pin(all.place());
        assert!(timeout(SOON, &mut next).await.is_err(), "no place at all");
        drop(requests);
        // The connections before it have closed, so the last one now has a regular slot.
        let last = open.pop().expect("the last");
        drop(open);
        assert_eq!(last.restricted(), None);
        assert_eq!(next.await.restricted(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_busy_again_stays() {
        let all = connections(1);
        let first = all.place().await;
        let _second = all.place().await;
        let busy = first.request();
        let reported = first.close_requested();
        tokio::pin!(reported);
        assert!(timeout(SOON, &mut reported).await.is_err(), "a request came first");
        assert_eq!(all.open().leaving, 0);
        drop(busy);
        assert!(timeout(SOON, &mut reported).await.is_err(), "not asked to close again");
    }
}
