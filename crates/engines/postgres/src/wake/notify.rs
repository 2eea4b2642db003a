//! Wake-ups between processes: `NOTIFY` when something may have become claimable, debounced and outside of
//! every transaction, and `LISTEN` on a connection of its own that does nothing else. Both are hints: who
//! waits looks by himself now and then, and is only slower while this is down.

use crate::conn::Conn;
use crate::conn::error::{Try, corrupt};
use crate::conn::server::Server;
use crate::conn::session::Session;
use crate::fast::scan_cursor::Hints;
use futures_util::future::{join, poll_fn};
use metrics::gauge;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client};
use windlass_core::engine::{Stamped, Wait};
use windlass_core::random::Random;
use windlass_executor::LaneKey;

const CHANNEL: &str =
    "SELECT 'windlass_' || replace(value::text, '-', '') FROM {s}.secret WHERE one";
/// Between two notifications, however much is enqueued.
const NOTIFY_EVERY: Duration = Duration::from_millis(5);
/// How long a word to ourselves may take to be heard.
const PROBE_PATIENCE: Duration = Duration::from_secs(3);
/// Before the first attempt to come back, and before later ones.
const COME_BACK: Duration = Duration::from_millis(100);
const COME_BACK_MAX: Duration = Duration::from_secs(10);

/// How a word begins that is for whoever sent it alone.
const PROBE: &str = "probe ";

/// Tells, and is told, that something may have become claimable.
pub(crate) struct Wakeups {
    line: Arc<Line>,
    task: JoinHandle<()>,
}

/// What those who tell and those who listen share.
struct Line {
    /// The latest wake-up, from here or elsewhere; waiters watch it.
    readied: watch::Sender<Wake>,
    /// Somebody here has something to tell the others,
    told: Notify,
    /// and this is the lowest number of what is new since the last time; the highest if nothing is.
    lowest: AtomicI64,
    hints: Arc<Hints>,
    channel: String,
    /// What we tell ourselves to find out whether anything is heard at all,
    probe: String,
    /// and that it was.
    probed: Notify,
}

/// Something may have become claimable.
#[derive(Default)]
pub(crate) struct Wake {
    /// Where something has just become ready, if it is known.
    ready: Option<Stamped<Vec<LaneKey>>>,
    /// A waiter has gone for it without looking.
    taken: AtomicBool,
}

impl Wake {
    /// That there is something for this waiter, if it need not look. One is told so; others look before they claim,
    /// as there may be nothing left for them.
    pub(crate) fn tell(&self, wait: &Wait) -> Option<Stamped<bool>> {
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
    /// Somebody elsewhere has told something: the lowest number of what is new, if anything is.
    fn heard(&self, payload: &str) {
        if payload.starts_with(PROBE) {
            if payload == self.probe {
                self.probed.notify_one();
            }
            return;
        }
        match payload.parse() {
            Ok(seq) => self.hints.news(seq),
            Err(_) if payload.is_empty() => {}
            // Not from us: it wakes nobody, and what is known of ready jobs holds.
            Err(_) => return tracing::debug!("a notification that no engine sends was ignored"),
        }
        self.readied.send_replace(Wake::default());
    }

    /// What there is to tell.
    fn news(&self) -> String {
        match self.lowest.swap(i64::MAX, Ordering::SeqCst) {
            i64::MAX => format!("NOTIFY {}", self.channel),
            seq => format!("NOTIFY {}, '{seq}'", self.channel),
        }
    }
}

impl Wakeups {
    /// Begins to listen; comes back by itself whenever the connection is lost.
    pub(crate) fn start(
        server: Server,
        channel: String,
        hints: Arc<Hints>,
        random: &dyn Random,
    ) -> Self {
        let line = Arc::new(Line {
            readied: watch::Sender::new(Wake::default()),
            told: Notify::new(),
            lowest: AtomicI64::new(i64::MAX),
            hints,
            channel,
            probe: format!("{PROBE}{:032x}", random.next_u128()),
            probed: Notify::new(),
        });
        let task = tokio::spawn(listen(server, Arc::clone(&line)));
        Self { line, task }
    }

    /// Something may have become claimable; what is new of it is numbered from `seq` on. `ready`: where something
    /// has, as far as it is known.
    pub(crate) fn wake(&self, seq: Option<i64>, ready: Option<Stamped<Vec<LaneKey>>>) {
        if let Some(seq) = seq {
            self.line.hints.news(seq);
            self.line.lowest.fetch_min(seq, Ordering::SeqCst);
        }
        self.line.readied.send_replace(Wake { ready, taken: AtomicBool::new(false) });
        self.line.told.notify_one();
    }

    /// Where processes of this schema tell each other.
    pub(crate) fn channel(&self) -> &str {
        &self.line.channel
    }

    /// Sees every wake-up from now on.
    pub(crate) fn watch(&self) -> watch::Receiver<Wake> {
        self.line.readied.subscribe()
    }
}

impl Drop for Wakeups {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The channel of a store. Its name is a secret of those who may read the tables: `NOTIFY` needs no right at all.
pub(crate) async fn channel(conn: &Conn<'_>) -> Try<String> {
    let rows = conn.query(CHANNEL, &[]).await?;
    let name = rows.first().map(|row| row.get(0));
    Ok(name.ok_or_else(|| {
        corrupt(&"the secret of the wake-ups is gone; restore the table `secret`")
    })?)
}

async fn listen(server: Server, line: Arc<Line>) {
    let mut pause = COME_BACK;
    loop {
        if let Ok((client, mut connection)) = server.open().await {
            let telling = tokio::spawn(tell(client, Arc::clone(&line)));
            loop {
                match poll_fn(|context| connection.poll_message(context)).await {
                    Some(Ok(AsyncMessage::Notification(told))) => {
                        line.heard(told.payload());
                        pause = COME_BACK;
                    }
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => break,
                }
            }
            telling.abort();
            heard_gauge(false);
        }
        tracing::debug!("not listening for wake-ups; workers look by themselves meanwhile");
        tokio::time::sleep(pause).await;
        pause = COME_BACK_MAX.min(pause * 2);
    }
}

/// Listens, and passes on what there is to tell, at most so often.
async fn tell(client: Client, line: Arc<Line>) {
    // Through a pooler nobody hears anything, and it would be the pooler's connection that listens.
    let hears = Session::establish(&client).await.is_ok_and(|session| session.is_kept);
    if !hears {
        tracing::debug!("a pooler is in between: workers look by themselves for what is ready");
        heard_gauge(false);
    } else if client.batch_execute(&format!("LISTEN {}", line.channel)).await.is_err() {
        return;
    }
    // Whatever was told before was told to nobody here.
    line.hints.forget();
    let probing = async {
        if hears {
            probe(&client, &line).await;
        }
    };
    join(probing, pass_on(&client, &line)).await;
}

/// Finds out whether anything is heard, by telling ourselves something.
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
        // The connection is lost, and with it this attempt.
        Ok(Err(_)) => {}
        Err(_) => {
            heard_gauge(false);
            tracing::warn!(
                "notifications of this server do not arrive: workers look by themselves, up to half a second \
                 late; if something stands between us and the server, give the server's own address"
            );
        }
    }
}

fn heard_gauge(heard: bool) {
    gauge!("windlass_postgres_wakeups_heard").set(if heard { 1.0 } else { 0.0 });
}

async fn pass_on(client: &Client, line: &Line) {
    loop {
        line.told.notified().await;
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
    fn one_waiter_goes_for_what_became_ready_here_without_looking() {
        let wake = wake(&[("mail", "send"), ("images", "scale")]);
        assert!(wake.tell(&Wait::new(["other"], 1)).is_none());
        assert!(wake.tell(&Wait::new(["mail"], 1).kind("scale")).is_none());
        assert!(wake.tell(&Wait::new(["other", "mail"], 1).kind("send")).is_some());
        assert!(wake.tell(&Wait::new(["images"], 1)).is_none(), "another has gone for it");
    }

    #[test]
    fn a_notification_that_no_engine_sends_wakes_nobody_and_resets_nothing() {
        let hints = Arc::new(Hints::default());
        let (_, told) = hints.for_claim("q", false);
        hints.taken(told, "q", [(1, 0, 7)].into_iter(), &crate::fast::scan_cursor::Come::new());
        let line = Line {
            readied: watch::Sender::new(Wake::default()),
            told: Notify::new(),
            lowest: AtomicI64::new(i64::MAX),
            hints: Arc::clone(&hints),
            channel: "a_channel".to_owned(),
            probe: format!("{PROBE}0"),
            probed: Notify::new(),
        };
        let woken = line.readied.subscribe();
        let known = hints.ranges(["q"]);
        for payload in ["x", "1;2", "probe 1", "99999999999999999999"] {
            line.heard(payload);
            assert_eq!(hints.ranges(["q"]), known, "{payload}");
            assert!(!woken.has_changed().unwrap(), "{payload}");
        }
        line.heard("3");
        assert_ne!(hints.ranges(["q"]), known);
        assert!(woken.has_changed().unwrap());
    }

    #[test]
    fn who_is_woken_from_elsewhere_looks() {
        assert!(Wake::default().tell(&Wait::new(["mail"], 1)).is_none());
    }
}
