//! Requests that wait for something to claim, gathered: those that wait for the same share one wait at the
//! engine, and a sign wakes a few of them, then more for as long as there is something. So thousands that
//! wait cost one wait, and a single job does not set all of them running.

use crate::app::App;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_core::engine::Wait;
use windlass_core::limits::WAIT_MAX_MS;
use windlass_core::model::Name;

/// The first pause after a sign, for those it woke to look; doubles while signs lead to nothing.
const PAUSE_MIN: Duration = Duration::from_millis(2);
/// The longest such pause, and the pause after the engine gave no answer.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// The most that are woken at a time.
const WAKE_MAX: usize = 1_024;

/// What is waited for.
type Key = (Vec<Name>, Option<Vec<Name>>);

/// All groups of a server. There are never more of them than requests that wait.
#[derive(Default)]
pub(crate) struct Waits {
    groups: Mutex<HashMap<Key, Weak<Group>>>,
}

/// Those that wait for the same.
pub(crate) struct Group {
    signs: Notify,
    /// How often a sign led to something.
    hits: AtomicU64,
    /// Ends the group's wait at the engine with the last of its requests.
    over: CancellationToken,
    _over: DropGuard,
}

/// Why a request waits no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// There may be something.
    Look,
    /// Its time is up.
    TimeUp,
    /// Keys have changed.
    Keys,
    /// The server stops.
    Stop,
}

impl Group {
    fn new() -> Arc<Self> {
        let over = CancellationToken::new();
        let guard = over.clone().drop_guard();
        Arc::new(Self { signs: Notify::new(), hits: AtomicU64::new(0), over, _over: guard })
    }

    /// Waits for a sign.
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
            () = self.signs.notified() => Sign::Look,
            () = tokio::time::sleep_until(deadline) => Sign::TimeUp,
        }
    }

    /// Says that a sign led to something.
    pub(crate) fn hit(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }
}

/// Joins those that wait for the same, until the answer is dropped.
pub(crate) fn join(app: &App, wait: &Wait) -> Arc<Group> {
    let key: Key = (wait.queues.clone(), wait.kinds.clone());
    let mut groups = app.waits.groups.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(group) = groups.get(&key).and_then(Weak::upgrade) {
        return group;
    }
    let group = Group::new();
    groups.insert(key.clone(), Arc::downgrade(&group));
    tokio::spawn(watch(app.clone(), key, Arc::downgrade(&group), group.over.clone()));
    group
}

/// Waits at the engine for a whole group, for as long as it lasts.
async fn watch(app: App, key: Key, group: Weak<Group>, over: CancellationToken) {
    tokio::select! {
        () = over.cancelled() => {}
        () = app.stopping.cancelled() => {}
        () = give_signs(&app, &key, &group) => {}
    }
    let mut groups = app.waits.groups.lock().unwrap_or_else(PoisonError::into_inner);
    // Another group may have taken its place meanwhile.
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
            // Those who were woken have taken it all: the next sign is a new one.
            Ok(ready) if !ready.value => {
                (pause, wake, wait.wait_ms) = (PAUSE_MIN, 1, WAIT_MAX_MS);
                continue;
            }
            // Not more than there are: a sign too many is kept, and would be followed in vain.
            Ok(_) => {
                let members = Arc::strong_count(&group) - 1;
                (0..wake.min(members)).for_each(|_| group.signs.notify_one());
            }
            // Whoever looks now learns what is the matter.
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
