//! `LocalEngine`: a cheap handle that sends calls to the writer thread and awaits the replies.

use crate::call::{Call, LocalExecutor, Needs, Request, Waiting, closed};
use crate::database::{Database, connect_to_read, named};
use crate::lock::DirLock;
use crate::options::Options;
use crate::readers::Readers;
use crate::reserve::{Reserve, Space};
use crate::rows::Reader;
use crate::writer::{Tally, Writer, WriterOptions};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use windlass_core::engine::*;
use windlass_core::model::Job;
use windlass_core::policy::Room;
use windlass_core::sync::lock;
use windlass_core::{Error, JobId, Result, Timestamp};

/// The embedded engine: durable jobs in one directory. Cheap to clone; clones share one store, which closes when
/// the last clone is dropped.
#[derive(Clone)]
pub struct LocalEngine {
    inner: Arc<Inner>,
}

struct Inner {
    dir: PathBuf,
    capabilities: Capabilities,
    /// `None` once closed. The mutex makes the sender shareable between threads.
    calls: Mutex<Option<Sender<Box<dyn Call>>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    readers: Readers,
    tally: Arc<Tally>,
    space: Space,
    /// Number of events appended; readers that wait watch it.
    appended: watch::Receiver<u64>,
}

/// Numbers of calls, commits and syncs since the directory was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Calls that the writer executed.
    pub calls: u64,
    /// Committed transactions that changed at least one row.
    pub commits: u64,
    /// Syncs of the write-ahead log, without those of checkpoints. Commits that are pending together share one
    /// sync.
    pub syncs: u64,
}

impl LocalEngine {
    /// Opens a directory and takes ownership of it; creates it if it does not exist. Blocks the calling thread.
    pub fn open(options: Options) -> Result<Self> {
        let Options { dir, clock, random, address, payload_bytes_max, fast_paths } = options;
        let mut capabilities = Capabilities::new("local", Atomicity::Store, Durability::Host)
            .with(Capability::GlobalUnique)
            .with(Capability::FairOrder)
            .with(Capability::Move)
            .with(Capability::Limits)
            .with(Capability::Flows)
            .with(Capability::Events)
            .with(Capability::Topics);
        if let Some(bytes_max) = payload_bytes_max {
            capabilities = capabilities.limit_payloads(bytes_max)?;
        }
        let mut lock = DirLock::acquire(&dir)?;
        // If the disk is full, each step releases parts of the reserve until it succeeds.
        let mut reserve = Reserve::open(&dir)?;
        reserve.spend(|| lock.announce(&dir, address.as_deref()))?;
        let database = reserve.spend(|| Database::open(&dir, &*random))?;
        let stored = reserve.spend(|| database.payload_bytes_max(payload_bytes_max))?;
        capabilities = match stored {
            Some(bytes_max) => capabilities.limit_payloads(bytes_max)?,
            None => capabilities,
        };
        let reader = reserve.spend(|| connect_to_read(&dir))?;
        let readers = Readers::start(Reader::new(reader))?;
        let space = reserve.space();
        let tally = Arc::new(Tally::default());
        let (sender, calls) = channel();
        let (opened, answer) = channel();
        let (publish, appended) = watch::channel(0);
        let options = WriterOptions {
            dir: dir.clone(),
            capabilities: capabilities.clone(),
            clock,
            random,
            fast_paths,
            tally: tally.clone(),
            reserve,
            appended: publish,
        };
        let serve = move || {
            // The thread owns the database, because prepared statements borrow its connection.
            match Writer::open(&database, options) {
                Ok(writer) => {
                    let _ = opened.send(Ok(()));
                    writer.serve(&calls);
                }
                Err(error) => {
                    let _ = opened.send(Err(error));
                }
            };
            drop((database, lock));
        };
        let no_thread = |reason: &dyn fmt::Display| Error::Unavailable {
            store: dir.display().to_string(),
            reason: format!("no thread for the writer: {reason}"),
        };
        let thread = std::thread::Builder::new().name("windlass-writer".into()).spawn(serve);
        let thread = thread.map_err(|error| no_thread(&error))?;
        let opened = answer.recv().unwrap_or_else(|_| Err(no_thread(&"it ended too soon")));
        if let Err(error) = opened {
            // Waits until the lock is released, so that the caller can try again at once.
            let _ = thread.join();
            return Err(named(&dir, &error));
        }
        let inner = Inner {
            dir,
            capabilities,
            calls: Mutex::new(Some(sender)),
            writer: Mutex::new(Some(thread)),
            readers,
            tally,
            space,
            appended,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the counters since the directory was opened.
    pub fn counters(&self) -> Counters {
        let tally = &self.inner.tally;
        Counters {
            calls: tally.calls.load(Ordering::Relaxed),
            commits: tally.commits.load(Ordering::Relaxed),
            syncs: tally.syncs.load(Ordering::Relaxed),
        }
    }

    /// Returns a handle that reports whether the disk has room for new jobs.
    pub fn space(&self) -> Space {
        self.inner.space.clone()
    }

    fn ask<'a, T: Send + 'static>(
        &'a self,
        needs: Needs,
        act: impl FnMut(&mut LocalExecutor<'_>, Timestamp) -> Result<T> + Send + 'static,
    ) -> Answer<'a, T> {
        self.hand_over(needs, false, act)
    }

    /// Sends a call to the writer and awaits its reply. Calls with `adds_jobs` are refused while the disk is full.
    fn hand_over<'a, T: Send + 'static>(
        &'a self,
        needs: Needs,
        adds_jobs: bool,
        act: impl FnMut(&mut LocalExecutor<'_>, Timestamp) -> Result<T> + Send + 'static,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            self.send(Box::new(Request { needs, adds_jobs, act, done: None, reply }))?;
            answer.await.unwrap_or_else(|_| Err(closed()))
        })
    }

    fn send(&self, call: Box<dyn Call>) -> Result<()> {
        let calls = lock(&self.inner.calls);
        let sent = calls.as_ref().and_then(|calls| calls.send(call).ok());
        sent.ok_or_else(closed)
    }

    /// Reads on the second connection. The read may see a commit that is not synced yet, so an empty call through the
    /// writer delays the reply until that commit is acknowledged.
    fn read<'a, R: Send + 'static, T: Send + 'static>(
        &'a self,
        request: R,
        check: fn(&R) -> Result<()>,
        read: fn(&mut Reader, &R) -> Result<T>,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            check(&request)?;
            let seen = self.inner.readers.read(move |reader| read(reader, &request)).await;
            let seen = seen.map_err(|error| named(&self.inner.dir, &error))?;
            let turn = self.ask(Needs::Read, |_, _| Ok(())).await?;
            Ok(turn.map(|()| seen))
        })
    }

    async fn wait_ready(&self, request: Wait) -> Result<Stamped<bool>> {
        request.check()?;
        if request.wait_ms == 0 {
            return self.wait_once(&request).await;
        }
        let found = async {
            loop {
                // A wait that ends because a limit opens is repeated, to learn whether it has.
                let found = self.wait_once(&request).await?;
                if found.value {
                    return Ok(found);
                }
            }
        };
        match tokio::time::timeout(Duration::from_millis(request.wait_ms), found).await {
            Ok(found) => found,
            // The writer may not have run the wait yet, so the state is checked once more.
            Err(_) => {
                self.ask(Needs::Read, move |executor, now| {
                    executor.readiness(&request, now).map(Room::is_now)
                })
                .await
            }
        }
    }
}

impl LocalEngine {
    /// Reads events, or waits for the first one; see [`Admin::events`]. An event is shown once it is durable, so that no
    /// reader has seen one that a power failure undoes.
    async fn wait_for_events(&self, mut request: EventsRequest) -> Result<Stamped<EventsReply>> {
        let mut appended = self.inner.appended.clone();
        appended.mark_unchanged();
        let read = |request: &EventsRequest| {
            let request = request.clone();
            self.ask(Needs::Durable, move |executor, _| executor.events(&request))
        };
        let first = read(&request).await?;
        if request.wait_ms == 0 || first.value.is_news() {
            return Ok(first);
        }
        request = request.after(first.value.next);
        let news = async {
            // Fails once the writer has ended; the read then says so.
            while appended.changed().await.is_ok() {
                let reply = read(&request).await;
                if reply.as_ref().map_or(true, |reply| reply.value.is_news()) {
                    return reply;
                }
            }
            read(&request).await
        };
        match tokio::time::timeout(Duration::from_millis(request.wait_ms), news).await {
            Ok(reply) => reply,
            Err(_) => read(&request).await,
        }
    }

    /// Registers a wait with the writer. Returns when a job is ready, when a limit may open, or at once if the request
    /// does not wait.
    async fn wait_once(&self, request: &Wait) -> Result<Stamped<bool>> {
        let (reply, mut answer) = oneshot::channel();
        let (opens_in, mut opening) = watch::channel(None);
        let request = request.clone();
        self.send(Box::new(Waiting { request, found: None, opens_in, reply }))?;
        loop {
            let ms = *opening.borrow_and_update();
            let opens = async {
                match ms {
                    Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                found = &mut answer => return found.unwrap_or_else(|_| Err(closed())),
                // The sender is gone once the wait is answered.
                changed = opening.changed() => if changed.is_err() {
                    return answer.await.unwrap_or_else(|_| Err(closed()));
                },
                () = opens => return self.ask(Needs::Read, |_, _| Ok(false)).await,
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Readers close first: the last connection to close checkpoints and removes the log.
        self.readers.close();
        // Without senders, the writer executes the pending calls and ends.
        lock(&self.calls).take();
        let writer = lock(&self.writer).take();
        if let Some(writer) = writer {
            // The panic hook has already reported a panic of the writer.
            let _ = writer.join();
        }
    }
}

impl fmt::Debug for LocalEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalEngine({})", self.inner.dir.display())
    }
}

// A transaction that fails because of one call is run again, call by call, so each run gets a clone of its request.
// Clones are cheap: names and bytes are reference-counted.
impl Jobs for LocalEngine {
    fn capabilities(&self) -> &Capabilities {
        &self.inner.capabilities
    }

    fn enqueue(&self, request: Enqueue) -> Answer<'_, Vec<Item<Enqueued>>> {
        self.hand_over(Needs::Durable, true, move |executor, now| {
            executor.enqueue(request.clone(), now)
        })
    }

    fn open_session(&self, request: OpenSession) -> Answer<'_, Session> {
        self.ask(Needs::Written, move |executor, now| executor.open_session(request.clone(), now))
    }

    fn heartbeat(&self, request: Heartbeat) -> Answer<'_, HeartbeatReply> {
        self.ask(Needs::Written, move |executor, now| executor.heartbeat(request.clone(), now))
    }

    fn close_session(&self, session: SessionId) -> Answer<'_, ()> {
        self.ask(Needs::Written, move |executor, now| executor.close_session(&session, now))
    }

    fn claim(&self, request: Claim) -> Answer<'_, Claimed> {
        self.ask(Needs::Written, move |executor, now| executor.claim(&request, now))
    }

    fn wait(&self, request: Wait) -> Answer<'_, bool> {
        Box::pin(self.wait_ready(request))
    }

    fn settle(&self, request: Settle) -> Answer<'_, SettleReply> {
        self.ask(Needs::Durable, move |executor, now| executor.settle(&request, now))
    }

    fn update(&self, request: Update) -> Answer<'_, Vec<Item<Updated>>> {
        self.ask(Needs::Durable, move |executor, now| executor.update(request.clone(), now))
    }

    fn take(&self, request: Take) -> Answer<'_, Took> {
        self.ask(Needs::Durable, move |executor, now| executor.take_tokens(&request, now))
    }
}

impl Admin for LocalEngine {
    fn get(&self, request: Get) -> Answer<'_, Vec<Option<Job>>> {
        self.read(request, Get::check, |reader, request| reader.get(request))
    }

    fn list(&self, request: List) -> Answer<'_, Page<Job>> {
        self.read(request, List::check, |reader, request| reader.list(request))
    }

    fn stats(&self, request: StatsRequest) -> Answer<'_, Vec<LaneStats>> {
        self.ask(Needs::Read, move |executor, now| executor.stats(&request, now))
    }

    fn limits(&self) -> Answer<'_, Vec<LimitStats>> {
        self.ask(Needs::Read, move |executor, now| executor.limits(now))
    }

    fn why(&self, id: JobId) -> Answer<'_, Explanation> {
        self.ask(Needs::Read, move |executor, now| executor.why(id, now))
    }

    fn sessions(&self) -> Answer<'_, Vec<SessionInfo>> {
        self.ask(Needs::Read, move |executor, _| Ok(executor.sessions()))
    }

    fn change(&self, batch: Vec<ChangeItem>) -> Answer<'_, Vec<Item<Changed>>> {
        self.ask(Needs::Durable, move |executor, now| executor.change(batch.clone(), now))
    }

    fn import(&self, request: Import) -> Answer<'_, Vec<Item<Enqueued>>> {
        let act =
            move |executor: &mut LocalExecutor<'_>, now| executor.import(request.clone(), now);
        self.hand_over(Needs::Durable, true, act)
    }

    fn configure(&self, batch: Vec<Configure>) -> Answer<'_, Vec<Item<()>>> {
        self.ask(Needs::Durable, move |executor, now| executor.configure(batch.clone(), now))
    }

    fn settings(&self) -> Answer<'_, Settings> {
        self.ask(Needs::Read, move |executor, _| Ok(executor.settings()))
    }

    fn records(&self, batch: Vec<RecordOp>) -> Answer<'_, Vec<Item<RecordReply>>> {
        self.ask(Needs::Durable, move |executor, now| executor.records(batch.clone(), now))
    }

    fn removed(&self, request: RemovedQuery) -> Answer<'_, Page<RemovedCount>> {
        self.ask(Needs::Read, move |executor, _| executor.removed(&request))
    }

    fn events(&self, request: EventsRequest) -> Answer<'_, EventsReply> {
        Box::pin(self.wait_for_events(request))
    }

    fn health(&self) -> Answer<'_, ()> {
        self.ask(Needs::Read, move |_, _| Ok(()))
    }
}

impl Maintain for LocalEngine {
    fn maintain(&self, request: MaintainRequest) -> Answer<'_, MaintainReply> {
        self.ask(Needs::Durable, move |executor, now| executor.maintain(request, now))
    }

    fn check(&self, repair: bool) -> Answer<'_, CheckReport> {
        self.ask(Needs::Durable, move |executor, now| executor.check(repair, now))
    }
}
