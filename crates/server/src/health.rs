//! Health of the store: whether it answers, since when it does not, and why. It must not know the
//! callers.

use crate::disk::{DiskProbe, DiskUse, Shortage};
use metrics::{describe_gauge, gauge};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};
use windlass_core::Error;
use windlass_core::engine::Engine;
use windlass_core::sync::lock;
use windlass_wire as wire;

/// Interval of health checks.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Timeout of one health check.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// An outage of this length makes the store unhealthy; a shorter one counts as transient.
const UNHEALTHY_AFTER: Duration = Duration::from_secs(30);

/// Reason of an outage as shown to callers without view permission.
const UNAVAILABLE: &str = "it does not answer; see the server's log, or /healthz with a key that has the view \
     permission";
/// Reason of a full disk as shown to callers without view permission.
const FULL: &str = "its disk is full";

/// Health of the store. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct StoreHealth {
    inner: Arc<Inner>,
}

struct Inner {
    /// Display name of the store.
    name: String,
    /// Returns why the store refuses new jobs, or `None` if it accepts them.
    shortage: Option<Arc<Shortage>>,
    /// Whether the store refused new jobs at the last check.
    refused: AtomicBool,
    outage: Mutex<Option<Outage>>,
    disk: Mutex<Option<DiskUse>>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("name", &self.name).field("outage", &self.outage).finish()
    }
}

#[derive(Clone, Debug)]
struct Outage {
    since: Instant,
    reason: String,
    /// Whether the error for a long outage was logged.
    lasting: bool,
}

impl StoreHealth {
    pub(crate) fn new(name: String, disk: Option<&DiskProbe>) -> Self {
        describe_gauge!(
            "windlass_store_full",
            "whether the store refuses new jobs for want of space"
        );
        describe_gauge!("windlass_store_up", "whether the store answered when it was asked last");
        describe_gauge!("windlass_store_down_seconds", "for how long the store has not answered");
        let inner = Inner {
            name,
            shortage: disk.and_then(|disk| disk.shortage.clone()),
            refused: AtomicBool::new(false),
            outage: Mutex::default(),
            disk: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    fn outage(&self) -> MutexGuard<'_, Option<Outage>> {
        lock(&self.inner.outage)
    }

    /// Records a successful health check and ends an outage.
    pub(crate) fn answered(&self) {
        let outage = self.outage().take();
        if let Some(outage) = outage {
            let outage_ms = millis(outage.since.elapsed());
            info!(store = self.inner.name, outage_ms, "the store answers again");
        }
        gauge!("windlass_store_up").set(1.0);
        gauge!("windlass_store_down_seconds").set(0.0);
    }

    /// Records a failed health check. Logs once when an outage starts and once when the store
    /// becomes unhealthy.
    pub(crate) fn failed(&self, reason: String) {
        let mut held = self.outage();
        let store = &self.inner.name;
        let outage = held.get_or_insert_with(|| {
            warn!(store, reason, "the store does not answer; refusing requests until it does");
            Outage { since: Instant::now(), reason: String::new(), lasting: false }
        });
        let down = outage.since.elapsed();
        if down >= UNHEALTHY_AFTER && !std::mem::replace(&mut outage.lasting, true) {
            error!(
                store,
                reason,
                down_ms = millis(down),
                "the store still does not answer: unhealthy"
            );
        }
        outage.reason = reason;
        gauge!("windlass_store_up").set(0.0);
        gauge!("windlass_store_down_seconds").set(down.as_secs_f64());
    }

    /// Why the store refuses new jobs; `None` if it accepts them.
    fn shortage(&self) -> Option<String> {
        self.inner.shortage.as_ref().and_then(|why| why())
    }

    /// The error for an enqueue if the store refuses new jobs; without details if the caller may
    /// not view them.
    pub(crate) fn full(&self, may_view: bool) -> Option<Error> {
        let reason = self.shortage()?;
        let (store, reason) = match may_view {
            true => (self.inner.name.clone(), reason),
            false => ("the store".to_owned(), FULL.to_owned()),
        };
        Some(Error::StoreFull { store, reason })
    }

    /// Checks whether the store refuses new jobs, and logs changes.
    fn check_shortage(&self) {
        let (store, shortage) = (&self.inner.name, self.shortage());
        gauge!("windlass_store_full").set(f64::from(u8::from(shortage.is_some())));
        let refused = self.inner.refused.swap(shortage.is_some(), Ordering::AcqRel);
        match (refused, shortage) {
            (false, Some(reason)) => {
                error!(store, reason, "the disk of the store is full: new jobs are refused");
            }
            (true, None) => info!(store, "new jobs are accepted again"),
            _ => {}
        }
    }

    /// Records the measured disk usage.
    pub(crate) fn disk(&self, seen: DiskUse) {
        *lock(&self.inner.disk) = Some(seen);
    }

    /// The current health, with all details.
    pub(crate) fn standing(&self) -> wire::StoreHealth {
        let outage = self.outage().clone();
        let down = outage.as_ref().map(|outage| outage.since.elapsed());
        let disk = *lock(&self.inner.disk);
        let shortage = self.shortage();
        wire::StoreHealth {
            name: self.inner.name.clone(),
            up: outage.is_none(),
            healthy: down.is_none_or(|down| down < UNHEALTHY_AFTER),
            accepts_jobs: outage.is_none() && shortage.is_none(),
            down_ms: down.map(millis),
            reason: outage.map(|outage| outage.reason).or(shortage),
            disk: disk.map(|disk| wire::Disk {
                used_bytes: disk.used_bytes,
                limit_bytes: disk.limit_bytes,
                filling: disk.is_filling(),
            }),
        }
    }

    /// The current health without the store's name and error messages, which reveal its location.
    /// For callers without view permission.
    pub(crate) fn outline(&self) -> wire::StoreHealth {
        let standing = self.standing();
        let reported = if standing.up { FULL } else { UNAVAILABLE };
        let reason = standing.reason.map(|_| reported.to_owned());
        wire::StoreHealth { name: "the store".to_owned(), reason, disk: None, ..standing }
    }

    /// The error for requests during an outage, without details.
    pub(crate) fn unavailable() -> Error {
        Error::Unavailable { store: "the store".to_owned(), reason: UNAVAILABLE.to_owned() }
    }

    /// The error for requests during an outage, with the reason.
    pub(crate) fn away(&self) -> Error {
        let reason = self.outage().as_ref().map(|outage| outage.reason.clone());
        let reason = reason.unwrap_or_else(|| "it does not answer".to_owned());
        Error::Unavailable { store: self.inner.name.clone(), reason }
    }

    /// Checks the store's health once.
    pub(crate) async fn ask(&self, engine: &dyn Engine) -> bool {
        match timeout(ANSWER_WITHIN, engine.health()).await {
            Ok(Ok(_)) => {
                self.answered();
                self.check_shortage();
                true
            }
            Ok(Err(error)) => {
                self.failed(reported(error));
                false
            }
            Err(_) => {
                self.failed(format!("no answer within {} ms", millis(ANSWER_WITHIN)));
                false
            }
        }
    }

    /// Checks the store's health periodically until shutdown.
    pub(crate) async fn watch(self, engine: Arc<dyn Engine>, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(ASK_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            self.ask(&*engine).await;
        }
    }
}

/// The reason of an error without the store's name, which is reported separately.
pub(crate) fn reported(error: Error) -> String {
    match error {
        Error::Unavailable { reason, .. } | Error::StoreFull { reason, .. } => reason,
        other => other.to_string(),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_a_hiccup_for_thirty_seconds_and_over_with_the_first_answer() {
        let health = StoreHealth::new("the store".into(), None);
        assert!(health.standing().up && health.standing().healthy);
        health.failed("connection refused".into());
        tokio::time::advance(UNHEALTHY_AFTER - Duration::from_millis(1)).await;
        let standing = health.standing();
        assert!(!standing.up && standing.healthy, "{standing:?}");
        tokio::time::advance(Duration::from_millis(1)).await;
        health.failed("still refused".into());
        let standing = health.standing();
        assert!(!standing.healthy, "{standing:?}");
        assert_eq!(standing.reason.as_deref(), Some("still refused"));
        assert_eq!(standing.down_ms, Some(30_000));
        health.answered();
        assert!(health.standing().up && health.standing().healthy);
    }
}
