//! Waiting for claimable jobs: by messages on a connection of its own, and by polling, which does not depend on them.

use crate::conn::Link;
use crate::conn::error::{Trouble, Try};
use crate::conn::source::Source;
use crate::engine::RedisEngine;
use crate::events::readers::Readers;
use crate::slow::perform::{Run, TRIES_MAX};
use crate::slow::transaction::{Loaded, Transaction};
use futures_util::StreamExt as _;
use metrics::gauge;
use redis::cmd;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use windlass_core::engine::{Stamped, Wait};
use windlass_core::limits::RANK_MAX;
use windlass_core::model::Name;
use windlass_core::policy::{Room, allowance};
use windlass_core::{Error, Result};
use windlass_executor::LaneKey;
use windlass_workset::GroupRows;

/// First polling interval; doubles up to the maximum.
const POLL_MIN: Duration = Duration::from_millis(10);
/// Maximum polling interval.
const POLL_MAX: Duration = Duration::from_millis(500);
/// How long the channel may be silent before the connection is tested, and how long the test may take.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// Delay before a reconnect; doubles up to the maximum.
const COME_BACK: Duration = Duration::from_millis(100);
const COME_BACK_MAX: Duration = Duration::from_secs(10);
/// The message by which a process tests its own connection.
const PROBE: &[u8] = b"probe";

/// Prefix of messages about the events of a queue, whose name follows.
const EVENTS: &[u8] = b"events ";

/// The message about the events of a queue.
pub(crate) fn of_events(queue: &Name) -> Vec<u8> {
    [EVENTS, queue.as_bytes()].concat()
}

/// Wake-ups of this process, and the task that receives those of others.
pub(crate) struct Wakeups {
    sender: Arc<watch::Sender<()>>,
    readers: Arc<Readers>,
    task: JoinHandle<()>,
}

impl Wakeups {
    pub(crate) fn start(source: Source, link: Arc<Link>, channel: Vec<u8>) -> Self {
        let sender = Arc::new(watch::Sender::new(()));
        let readers = Arc::new(Readers::default());
        let local = (Arc::clone(&sender), Arc::clone(&readers));
        let task = tokio::spawn(listen(source, link, channel, local));
        Self { sender, readers, task }
    }

    /// Wakes the waiters of this process.
    pub(crate) fn wake(&self) {
        self.sender.send_replace(());
    }

    /// Wakes the readers of the events of a queue in this process.
    pub(crate) fn wake_readers(&self, queue: &Name) {
        self.readers.wake(queue);
    }

    /// A receiver of wake-ups about the events of a queue from now on.
    pub(crate) fn watch_events(&self, queue: &Name) -> watch::Receiver<()> {
        self.readers.watch(queue)
    }
}

impl Drop for Wakeups {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Waiters and readers of this process.
type Local = (Arc<watch::Sender<()>>, Arc<Readers>);

/// Listens for ever; reconnects whenever the connection is lost or silent.
async fn listen(source: Source, link: Arc<Link>, channel: Vec<u8>, local: Local) {
    let mut pause = COME_BACK;
    loop {
        let began = tokio::time::Instant::now();
        let lost = hear(&source, &link, &channel, &local).await;
        gauge!("windlass_redis_wakeups_heard").set(0);
        if let Err(error) = lost {
            tracing::warn!(%error, "lost the connection for wake-ups; polling until it is back");
        }
        // Messages may have been lost: waiters check.
        local.0.send_replace(());
        pause =
            if began.elapsed() > COME_BACK_MAX { COME_BACK } else { COME_BACK_MAX.min(pause * 2) };
        tokio::time::sleep(pause).await;
    }
}

/// Receives messages until the connection is lost, or does not deliver a message that this process sent.
async fn hear(
    source: &Source,
    link: &Link,
    channel: &[u8],
    (sender, readers): &Local,
) -> redis::RedisResult<()> {
    let client = source.client().await.map_err(|error| unknown_place(&error))?;
    let connect = tokio::time::timeout(SILENCE_MAX, client.get_async_pubsub());
    let mut messages = connect.await.map_err(|_| silent())??;
    messages.subscribe(channel).await?;
    gauge!("windlass_redis_wakeups_heard").set(1);
    sender.send_replace(());
    let mut stream = messages.into_on_message();
    let mut probed = false;
    loop {
        match tokio::time::timeout(SILENCE_MAX, stream.next()).await {
            Ok(Some(message)) => {
                probed = false;
                match message.get_payload_bytes() {
                    PROBE => {}
                    payload => match payload.strip_prefix(EVENTS).map(std::str::from_utf8) {
                        Some(Ok(queue)) => readers.wake(&queue.into()),
                        Some(Err(_)) => {}
                        None => sender.send_replace(()),
                    },
                }
            }
            Ok(None) => return Ok(()),
            Err(_) if probed => return Err(silent()),
            Err(_) => {
                probed = true;
                let mut publish = cmd("PUBLISH");
                publish.arg(channel).arg(PROBE);
                // Without an answer, the next silence ends this connection, too.
                drop(link.send(&publish).await);
            }
        }
    }
}

fn unknown_place(error: &Error) -> redis::RedisError {
    (redis::ErrorKind::Io, "it is not known where the server is", error.to_string()).into()
}

fn silent() -> redis::RedisError {
    (redis::ErrorKind::Io, "the server does not deliver messages").into()
}

impl RedisEngine {
    pub(crate) async fn wait_ready(&self, request: Wait) -> Result<Stamped<bool>> {
        request.check()?;
        let mut readied = self.inner.wakeups.sender.subscribe();
        let found = self.is_ready(&request).await?;
        let first = found.clone().map(|room| matches!(room, Room::Now));
        if first.value || request.wait_ms == 0 {
            return Ok(first);
        }
        let ready = async {
            let (mut pause, mut found) = (POLL_MIN, found);
            loop {
                let opens_in = match found.value {
                    Room::At(at) => Duration::from_millis(at.since(found.now).max(1)),
                    Room::Now | Room::Later => pause,
                };
                // Check in both cases; the sender lives as long as `self`.
                let _ = tokio::time::timeout(pause.min(opens_in), readied.changed()).await;
                found = self.is_ready(&request).await?;
                if matches!(found.value, Room::Now) {
                    return Ok(found.map(|_| true));
                }
                pause = POLL_MAX.min(pause * 2);
            }
        };
        match tokio::time::timeout(Duration::from_millis(request.wait_ms), ready).await {
            Ok(found) => found,
            Err(_) => Ok(first),
        }
    }

    /// Whether a job could be claimed now: the executor decides.
    async fn is_ready(&self, request: &Wait) -> Result<Stamped<Room>> {
        for _ in 0..TRIES_MAX {
            let (transaction, mut loaded) = self.inner.shared.look().await?;
            peek_heads(&transaction, request, &mut loaded).await.map_err(Trouble::into_error)?;
            let mut readiness = |run: &mut Run<'_>, now| run.readiness(request, now);
            if let Some(room) =
                self.inner.shared.ask(&transaction, &mut loaded, &mut readiness).await?
            {
                return Ok(room);
            }
        }
        Err(Trouble::Conflict.into_error())
    }
}

/// Loads the first ready job of each open lane, and the lines that open.
async fn peek_heads(transaction: &Transaction<'_>, request: &Wait, loaded: &mut Loaded) -> Try<()> {
    let kinds: Option<&[Name]> = request.kinds.as_deref();
    let lanes = transaction.lanes_with_jobs(&request.queues, kinds, loaded).await?;
    let is_open = |(queue, kind): &LaneKey| {
        let settings = &transaction.settings;
        let (queue, kind) = (settings.queues.get(queue), settings.kinds.get(kind));
        allowance(queue, kind, loaded.now).is_open()
    };
    let lanes: Vec<_> = lanes.into_iter().filter(is_open).map(|lane| (lane, 1)).collect();
    loaded.has_heads = true;
    for (lane, head) in transaction.read_heads(&lanes, -RANK_MAX, loaded).await? {
        loaded.heads.insert(lane, vec![head]);
    }
    if !transaction.settings.limits.is_empty() {
        peek_openings(transaction, &request.queues, loaded).await?;
    }
    Ok(())
}

/// Loads the first line of each queue that opens, without its jobs.
async fn peek_openings(
    transaction: &Transaction<'_>,
    queues: &[Name],
    loaded: &mut Loaded,
) -> Try<()> {
    let openings = transaction.openings(queues, 1, loaded).await?;
    for (queue, opening) in openings {
        let lanes = loaded.groups.entry(opening.group).or_default();
        let mut rows = GroupRows::default();
        (rows.waiting, rows.opens_at) = (1, Some(opening.at));
        lanes.insert((queue, opening.kind), rows);
    }
    Ok(())
}
