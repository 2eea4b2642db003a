//! Notifications between processes: `NOTIFY` when jobs may have become claimable, debounced and outside of
//! transactions, and `LISTEN` on a connection of its own. Both are hints: waiters poll as well, and only react later
//! while notifications do not arrive.

use crate::api::schema::literal;
use crate::conn::Conn;
use crate::conn::error::{Try, corrupt};
use crate::conn::server::Server;
use crate::conn::session::Session;
use crate::fast::scan_cursor::ScanCursor;
use crate::wake::readers::Readers;
use futures_util::future::{join, poll_fn};
use metrics::gauge;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client};
use windlass_core::engine::{Stamped, Wait};
use windlass_core::model::Name;
use windlass_core::random::Random;
use windlass_core::sync::lock;
use windlass_executor::LaneKey;

const CHANNEL: &str =
    "SELECT 'windlass_' || replace(value::text, '-', '') FROM {s}.secret WHERE one";
/// Minimum time between two notifications.
const NOTIFY_EVERY: Duration = Duration::from_millis(5);
/// How long a notification to ourselves may take to arrive.
const PROBE_PATIENCE: Duration = Duration::from_secs(3);
/// Delay before the first reconnect; doubles up to the maximum.
const COME_BACK: Duration = Duration::from_millis(100);
const COME_BACK_MAX: Duration = Duration::from_secs(10);

/// Prefix of notifications about the events of a queue, whose name follows.
const EVENTS: &str = "events ";

/// Prefix of notifications by which a process tests its own connection.
const PROBE: &str = "probe ";

/// Sends and receives notifications about claimable jobs.
pub(crate) struct Wakeups {
    line: Arc<Line>,
    task: JoinHandle<()>,
}

/// State shared by senders and the listening task.
struct Line {
    /// The latest wake-up, of this process or another; waiters watch it.
    readied: watch::Sender<Wake>,
    /// Signals that a notification is to be sent.
    changed: Notify,
    /// Whether to notify workers.
    wakes: AtomicBool,
    /// The lowest number of the new jobs since the last notification; `i64::MAX` if there are none.
    lowest: AtomicI64,
    /// Readers of events in this process.
    readers: Readers,
    /// Queues whose readers in other processes are to be notified.
    read: Mutex<BTreeSet<Name>>,
    scan_cursor: Arc<ScanCursor>,
    channel: String,
    /// The notification by which this process tests its own connection.
    probe: String,
    /// Signals that it arrived.
    probed: Notify,
}

/// A wake-up: jobs may have become claimable.
#[derive(Default)]
pub(crate) struct Wake {
    /// Lanes in which jobs have just become ready, if known.
    ready: Option<Stamped<Vec<LaneKey>>>,
    /// Whether a waiter has claimed them without checking first.
    taken: AtomicBool,
}

impl Wake {
    /// Returns the reply for this waiter if it can claim without checking. Only one waiter gets it; the others check
    /// first, because no job may be left for them.
    pub(crate) fn reply_to(&self, wait: &Wait) -> Option<Stamped<bool>> {
        let ready = self.ready.as_ref()?;
        let wants = |(queue, kind): &LaneKey| {
            wait.queues.contains(queue)
                && wait.kinds.as_ref().is_none_or(|kinds| kinds.contains(kind))
        };
        let is_for = ready.value.iter().any(wants) && !self.taken.swap(true, Ordering::Relaxed);
        let Stamped { now, epoch, .. } = ready;
        is_for.then(|| Stamped { now: *now, epoch: epoch.clone(), value: true })
    }
}

impl Line {
    /// Handles a notification: the lowest number of the new jobs, if there are any.
    fn heard(&self, payload: &str) {
        if payload.starts_with(PROBE) {
            if payload == self.probe {
                self.probed.notify_one();
            }
            return;
        }
        if let Some(queue) = payload.strip_prefix(EVENTS) {
            return self.readers.wake(&queue.into());
        }
        match payload.parse() {
            Ok(seq) => self.scan_cursor.report(seq),
            Err(_) if payload.is_empty() => {}
            // Not sent by an engine: wakes no waiter and keeps the scan cursor.
            Err(_) => {
                return tracing::debug!("ignored a notification that was not sent by an engine");
            }
        }
        self.readied.send_replace(Wake::default());
    }

    /// The pending notifications as SQL.
    fn news(&self) -> String {
        let Self { channel, .. } = self;
        let mut all = String::new();
        if self.wakes.swap(false, Ordering::SeqCst) {
            all = match self.lowest.swap(i64::MAX, Ordering::SeqCst) {
                i64::MAX => format!("NOTIFY {channel};"),
                seq => format!("NOTIFY {channel}, '{seq}';"),
            };
        }
        for queue in std::mem::take(&mut *lock(&self.read)) {
            let payload = literal(&format!("{EVENTS}{queue}"));
            let _ = write!(all, "NOTIFY {channel}, {payload};");
        }
        all
    }
}

impl Wakeups {
    /// Starts the task that listens; it reconnects whenever the connection is lost.
    pub(crate) fn start(
        server: Server,
        channel: String,
        scan_cursor: Arc<ScanCursor>,
        random: &dyn Random,
    ) -> Self {
        let line = Arc::new(Line {
            readied: watch::Sender::new(Wake::default()),
            changed: Notify::new(),
            wakes: AtomicBool::new(false),
            lowest: AtomicI64::new(i64::MAX),
            readers: Readers::default(),
            read: Mutex::default(),
            scan_cursor,
            channel,
            probe: format!("{PROBE}{:032x}", random.next_u128()),
            probed: Notify::new(),
        });
        let task = tokio::spawn(listen(server, Arc::clone(&line)));
        Self { line, task }
    }

    /// Wakes waiters: new claimable jobs are numbered from `seq` on. `ready` are their lanes, if known.
    pub(crate) fn wake(&self, seq: Option<i64>, ready: Option<Stamped<Vec<LaneKey>>>) {
        if let Some(seq) = seq {
            self.line.scan_cursor.report(seq);
            self.line.lowest.fetch_min(seq, Ordering::SeqCst);
        }
        self.line.readied.send_replace(Wake { ready, taken: AtomicBool::new(false) });
        self.line.wakes.store(true, Ordering::SeqCst);
        self.line.changed.notify_one();
    }

    /// Wakes readers of the events of these queues, here and in other processes.
    pub(crate) fn wake_readers(&self, queues: BTreeSet<Name>) {
        queues.iter().for_each(|queue| self.line.readers.wake(queue));
        lock(&self.line.read).extend(queues);
        self.line.changed.notify_one();
    }

    /// A receiver of wake-ups about the events of a queue from now on.
    pub(crate) fn watch_events(&self, queue: &Name) -> watch::Receiver<()> {
        self.line.readers.watch(queue)
    }

    /// A receiver of all wake-ups from now on.
    pub(crate) fn watch(&self) -> watch::Receiver<Wake> {
        self.line.readied.subscribe()
    }
}

impl Drop for Wakeups {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads the name of the store's channel. It contains a secret of the roles that may read the tables, because `NOTIFY`
/// needs no privilege.
pub(crate) async fn channel(conn: &Conn<'_>) -> Try<String> {
    let rows = conn.query(CHANNEL, &[]).await?;
    let name = rows.first().map(|row| row.get(0));
    Ok(name.ok_or_else(|| corrupt(&"the table `secret` is empty: restore its row"))?)
}

async fn listen(server: Server, line: Arc<Line>) {
    let mut pause = COME_BACK;
    loop {
        if let Ok((client, mut connection)) = server.open().await {
            let sending = tokio::spawn(send(client, Arc::clone(&line)));
            loop {
                match poll_fn(|context| connection.poll_message(context)).await {
                    Some(Ok(AsyncMessage::Notification(received))) => {
                        line.heard(received.payload());
                        pause = COME_BACK;
                    }
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => break,
                }
            }
            sending.abort();
            heard_gauge(false);
        }
        tracing::debug!("not listening for notifications; workers poll meanwhile");
        tokio::time::sleep(pause).await;
        pause = COME_BACK_MAX.min(pause * 2);
    }
}

/// Listens, tests the connection, and sends pending notifications.
async fn send(client: Client, line: Arc<Line>) {
    // Through a pooler no notification arrives: the pooler's server connection would listen.
    let hears = Session::establish(&client).await.is_ok_and(|session| session.is_kept);
    if !hears {
        tracing::debug!(
            "connected through a pooler, which delivers no notifications: workers poll"
        );
        heard_gauge(false);
    } else if client.batch_execute(&format!("LISTEN {}", line.channel)).await.is_err() {
        return;
    }
    // Notifications sent before were not received here.
    line.scan_cursor.forget();
    let probing = async {
        if hears {
            probe(&client, &line).await;
        }
    };
    join(probing, pass_on(&client, &line)).await;
}

/// Tests whether notifications arrive, by sending one to ourselves.
async fn probe(client: &Client, line: &Line) {
    let heard = async {
        client.batch_execute(&format!("NOTIFY {}, '{}'", line.channel, line.probe)).await?;
        line.probed.notified().await;
        Ok::<_, tokio_postgres::Error>(())
    };
    match tokio::time::timeout(PROBE_PATIENCE, heard).await {
        Ok(Ok(())) => {
            heard_gauge(true);
            tracing::debug!("notifications of this server arrive");
        }
        // The connection is lost; the next one tests again.
        Ok(Err(_)) => {}
        Err(_) => {
            heard_gauge(false);
            tracing::warn!(
                "notifications of this server do not arrive: workers poll and may start up to half a second \
                 late; if there is a proxy before the server, connect to the server directly"
            );
        }
    }
}

fn heard_gauge(heard: bool) {
    gauge!("windlass_postgres_wakeups_heard").set(if heard { 1.0 } else { 0.0 });
}

async fn pass_on(client: &Client, line: &Line) {
    loop {
        line.changed.notified().await;
        if client.batch_execute(&line.news()).await.is_err() {
            return;
        }
        tokio::time::sleep(NOTIFY_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::Timestamp;
    use windlass_core::engine::Epoch;

    fn wake(lanes: &[(&str, &str)]) -> Wake {
        let lanes = lanes.iter().map(|(queue, kind)| ((*queue).into(), (*kind).into()));
        let ready =
            Stamped { now: Timestamp::EPOCH, epoch: Epoch::new("e"), value: lanes.collect() };
        Wake { ready: Some(ready), taken: AtomicBool::new(false) }
    }

    #[test]
    fn one_waiter_claims_without_checking() {
        let wake = wake(&[("mail", "send"), ("images", "scale")]);
        assert!(wake.reply_to(&Wait::new(["other"], 1)).is_none());
        assert!(wake.reply_to(&Wait::new(["mail"], 1).kind("scale")).is_none());
        assert!(wake.reply_to(&Wait::new(["other", "mail"], 1).kind("send")).is_some());
        assert!(wake.reply_to(&Wait::new(["images"], 1)).is_none(), "another waiter claims it");
    }

    #[test]
    fn a_notification_of_another_store_wakes_no_waiter_and_resets_no_cursor() {
        let scan_cursor = Arc::new(ScanCursor::default());
        let (_, start) = scan_cursor.for_claim("q");
        scan_cursor.taken(start, "q", [(1, 0, 7)].into_iter());
        let line = Line {
            readied: watch::Sender::new(Wake::default()),
            changed: Notify::new(),
            wakes: AtomicBool::new(false),
            lowest: AtomicI64::new(i64::MAX),
            readers: Readers::default(),
            read: Mutex::default(),
            scan_cursor: Arc::clone(&scan_cursor),
            channel: "a_channel".to_owned(),
            probe: format!("{PROBE}0"),
            probed: Notify::new(),
        };
        let woken = line.readied.subscribe();
        let known = scan_cursor.ranges(["q"]);
        for payload in ["x", "1;2", "probe 1", "99999999999999999999"] {
            line.heard(payload);
            assert_eq!(scan_cursor.ranges(["q"]), known, "{payload}");
            assert!(!woken.has_changed().unwrap(), "{payload}");
        }
        line.heard("3");
        assert_ne!(scan_cursor.ranges(["q"]), known);
        assert!(woken.has_changed().unwrap());
    }

    #[test]
    fn a_waiter_woken_by_another_process_checks_first() {
        assert!(Wake::default().reply_to(&Wait::new(["mail"], 1)).is_none());
    }
}
