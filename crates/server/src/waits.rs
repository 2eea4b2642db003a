//! Groups requests that wait for claimable jobs. Requests for the same queues and kinds share one
//! engine wait. When jobs become ready, a group wakes one request, then twice as many in each round
//! while jobs remain. Thousands of waiting requests thus cost one engine wait, and a single job
//! does not wake all of them.

use crate::app::App;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_core::engine::Wait;
use windlass_core::limits::WAIT_MAX_MS;
use windlass_core::model::Name;
use windlass_core::sync::lock;

/// Initial pause after a wake-up, for the woken requests to claim. Doubles while wake-ups yield no
/// jobs.
const PAUSE_MIN: Duration = Duration::from_millis(2);
/// Maximum pause between wake-ups, and the pause after an engine error.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Maximum number of requests to wake in one round.
const WAKE_MAX: usize = 1_024;

/// The queues and kinds to wait for.
type Key = (Vec<Name>, Option<Vec<Name>>);

/// All groups of a server. At most one per waiting request.
#[derive(Default)]
pub(crate) struct Waits {
    groups: Mutex<HashMap<Key, Weak<Group>>>,
}

/// Requests that wait for the same queues and kinds.
pub(crate) struct Group {
    signs: Notify,
    /// Number of wake-ups that led to a claimed job.
    hits: AtomicU64,
    /// Cancels the group's engine wait when its last request leaves.
    over: CancellationToken,
    _over: DropGuard,
}

/// Why a request stopped waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// Jobs may be ready.
    Check,
    /// Its wait time has expired.
    TimeUp,
    /// The keys of the store have changed.
    Keys,
    /// The server is shutting down.
    Stop,
}

impl Group {
    fn new() -> Arc<Self> {
        let over = CancellationToken::new();
        let guard = over.clone().drop_guard();
        Arc::new(Self { signs: Notify::new(), hits: AtomicU64::new(0), over, _over: guard })
    }

    /// Waits until the request is woken, its deadline passes, keys change or the server stops.
    pub(crate) async fn sign(
        &self,
        app: &App,
        keys: &mut watch::Receiver<()>,
        deadline: Instant,
    ) -> Sign {
        tokio::select! {
            biased;
            () = app.stopping.cancelled() => Sign::Stop,
            _ = keys.changed() => Sign::Keys,
            () = self.signs.notified() => Sign::Check,
            () = tokio::time::sleep_until(deadline) => Sign::TimeUp,
        }
    }

    /// Records that a wake-up led to a claimed job.
    pub(crate) fn hit(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }
}

/// Joins the group for these queues and kinds, creating it if needed. Dropping the returned value
/// leaves it.
pub(crate) fn join(app: &App, wait: &Wait) -> Arc<Group> {
    let key: Key = (wait.queues.clone(), wait.kinds.clone());
    let mut groups = lock(&app.waits.groups);
    if let Some(group) = groups.get(&key).and_then(Weak::upgrade) {
        return group;
    }
    let group = Group::new();
    groups.insert(key.clone(), Arc::downgrade(&group));
    tokio::spawn(watch(app.clone(), key, Arc::downgrade(&group), group.over.clone()));
    group
}

/// Runs a group's engine wait until the group is empty or the server stops.
async fn watch(app: App, key: Key, group: Weak<Group>, over: CancellationToken) {
    tokio::select! {
        () = over.cancelled() => {}
        () = app.stopping.cancelled() => {}
        () = give_signs(&app, &key, &group) => {}
    }
    let mut groups = lock(&app.waits.groups);
    // A new group may have replaced it in the map.
    if groups.get(&key).is_some_and(|it| it.ptr_eq(&group)) {
        groups.remove(&key);
    }
}

async fn give_signs(app: &App, key: &Key, group: &Weak<Group>) {
    let mut wait = Wait::new(key.0.iter().cloned(), 0);
    wait.kinds.clone_from(&key.1);
    let (mut pause, mut wake, mut hits) = (PAUSE_MIN, 1, 0);
    loop {
        let ready = app.call_within(app.engine.wait(wait.clone()), wait.wait_ms).await;
        let Some(group) = group.upgrade() else { return };
        match ready {
            // The woken requests have claimed everything: start over with one request.
            Ok(ready) if !ready.value => {
                (pause, wake, wait.wait_ms) = (PAUSE_MIN, 1, WAIT_MAX_MS);
                continue;
            }
            // At most one notification per member: `Notify` stores a surplus one, which would cause
            // a useless claim.
            Ok(_) => {
                let members = Arc::strong_count(&group) - 1;
                (0..wake.min(members)).for_each(|_| group.signs.notify_one());
            }
            // Wake all requests: their own engine calls report the error.
            Err(_) => {
                group.signs.notify_waiters();
                pause = PAUSE_MAX;
            }
        }
        let now = group.hits.load(Ordering::Relaxed);
        pause = if now == hits { pause } else { PAUSE_MIN };
        hits = now;
        drop(group);
        tokio::time::sleep(pause).await;
        (pause, wake, wait.wait_ms) = ((pause * 2).min(PAUSE_MAX), (wake * 2).min(WAKE_MAX), 0);
    }
}
