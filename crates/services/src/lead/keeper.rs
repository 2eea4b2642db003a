//! Acquires, renews and releases the leadership. Independent of the work done under it.

use super::claim::{Claim, ClaimState, KEY, state_of};
use super::{Lead, Term};
use crate::records::{encode, get, put};
use crate::runner::answered;
use metrics::gauge;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use windlass_core::engine::{Engine, Epoch, Expect};
use windlass_core::random::{Random, SystemRandom};
use windlass_core::{Error, Result};

/// A renewal is due after the TTL divided by this, so that two renewals may fail before the leadership
/// expires.
const RENEW_PART: u32 = 3;
/// The TTL divided by this is not relied upon, to allow for clock drift.
const DRIFT_PART: u32 = 10;
/// Maximum interval at which followers read the record, so that a released leadership is taken soon.
const FOLLOW_MAX: Duration = Duration::from_secs(1);
/// Jitter of followers that read at the same time.
const FOLLOW_JITTER_MS: u64 = 20;
/// Retry interval of a process that is not permitted to run the services.
const FORBIDDEN_REST: Duration = Duration::from_secs(60);
/// Maximum duration of the release.
const RESIGN_MAX: Duration = Duration::from_secs(2);

/// The record as this process last wrote it.
#[derive(Clone, Copy)]
struct Held {
    version: u64,
    token: u64,
}

/// Maintains the leadership for one process.
pub(crate) struct Keeper {
    engine: Arc<dyn Engine>,
    me: String,
    label: String,
    ttl: Duration,
    held: Option<Held>,
    /// The store's epoch according to its latest reply.
    epoch: Epoch,
    /// The version of another process's claim, and when it was first seen.
    watched: Option<(u64, Instant)>,
    seen: watch::Sender<Option<Term>>,
    failing: bool,
}

impl Keeper {
    pub(crate) fn new(engine: Arc<dyn Engine>, label: String, ttl_ms: u64) -> (Self, Lead) {
        let (sender, seen) = watch::channel(None);
        let me = format!("{:032x}", SystemRandom.next_u128());
        let ttl = Duration::from_millis(ttl_ms);
        let (held, epoch, watched, failing) = (None, Epoch::new(""), None, false);
        let keeper = Self { engine, me, label, ttl, held, epoch, watched, seen: sender, failing };
        (keeper, Lead { seen })
    }

    /// Acquires and renews until stopped, then releases.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        loop {
            let context = async {
                let pause = self.context().await;
                sleep(pause).await;
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = context => {}
            }
        }
        self.resign().await;
    }

    /// Reads or renews once; returns the delay until the next time.
    async fn context(&mut self) -> Duration {
        let done = match self.held {
            Some(held) => self.renew(held).await,
            None => self.read_claim().await,
        };
        match done {
            Ok(pause) => {
                if std::mem::take(&mut self.failing) {
                    info!(label = self.label, "the leadership record is reachable again");
                }
                pause
            }
            Err(error) => self.failed(&error),
        }
    }

    async fn renew(&mut self, held: Held) -> Result<Duration> {
        let sent = Instant::now();
        match self.write(self.ttl, Expect::Version(held.version)).await {
            Ok(version) => Ok(self.holds(Held { version, ..held }, sent, self.ttl)),
            // Another process leads, or the reply of this process's previous renewal was lost.
            Err(Error::VersionConflict { .. }) => self.read_claim().await,
            Err(error) => Err(error),
        }
    }

    async fn read_claim(&mut self) -> Result<Duration> {
        let sent = Instant::now();
        let seen = answered(self.ttl / RENEW_PART, get(&*self.engine, KEY)).await?;
        self.epoch.clone_from(&seen.epoch);
        match state_of(&seen, &self.me) {
            ClaimState::Mine { version, left_ms } => {
                let token = self.held.map_or(version, |held| held.token);
                Ok(self.holds(Held { version, token }, sent, Duration::from_millis(left_ms)))
            }
            ClaimState::Taken { version, left_ms, ttl_ms } => {
                self.gone("another process leads");
                if self.outlived(version, ttl_ms) {
                    return self.win(Expect::Version(version)).await;
                }
                let left = Duration::from_millis(left_ms).min(FOLLOW_MAX);
                let jitter = Duration::from_millis(SystemRandom.below(FOLLOW_JITTER_MS));
                Ok(left.min(self.ttl / RENEW_PART) + jitter)
            }
            ClaimState::Free(expect) => {
                self.gone("expired");
                self.win(expect).await
            }
        }
    }

    /// Whether another process's claim has not been renewed for its TTL by the local monotonic clock: a store
    /// whose clock stops or goes back must not keep a dead leader.
    fn outlived(&mut self, version: u64, ttl_ms: u64) -> bool {
        match self.watched {
            Some((seen, since)) if seen == version => {
                since.elapsed() > Duration::from_millis(ttl_ms)
            }
            _ => {
                self.watched = Some((version, Instant::now()));
                false
            }
        }
    }

    async fn win(&mut self, expect: Expect) -> Result<Duration> {
        let sent = Instant::now();
        match self.write(self.ttl, expect).await {
            Ok(version) => {
                info!(
                    label = self.label,
                    term = version,
                    "acquired the leadership of the services"
                );
                Ok(self.holds(Held { version, token: version }, sent, self.ttl))
            }
            Err(Error::VersionConflict { .. }) => {
                debug!(label = self.label, "another process acquired the leadership first");
                Ok(FOLLOW_MAX.min(self.ttl / RENEW_PART))
            }
            Err(error) => Err(error),
        }
    }

    /// Records an acknowledged claim: valid for `left` from the time the request was sent, minus the
    /// allowance for drift.
    fn holds(&mut self, held: Held, sent: Instant, left: Duration) -> Duration {
        self.held = Some(held);
        let sure = left.min(self.ttl) - left.min(self.ttl) / DRIFT_PART;
        self.seen.send_replace(Some(Term { token: held.token, until: sent + sure }));
        gauge!("windlass_service_leader").set(1.0);
        left.min(self.ttl) / RENEW_PART
    }

    fn gone(&mut self, why: &str) {
        if let Some(held) = self.held.take() {
            warn!(label = self.label, term = held.token, why, "lost the leadership");
        }
        self.seen.send_if_modified(|seen| seen.take().is_some());
        gauge!("windlass_service_leader").set(0.0);
    }

    /// Handles a missing reply. The term continues while it is certainly valid; if no other process has taken
    /// over by then, the next acknowledged renewal continues it.
    fn failed(&mut self, error: &Error) -> Duration {
        if let Error::Forbidden { .. } = error {
            // A worker with a key for work only: the server that it is connected to runs the services.
            if !std::mem::replace(&mut self.failing, true) {
                info!(label = self.label, %error, "not permitted to run the services");
            }
            self.gone("not permitted");
            return FORBIDDEN_REST;
        }
        if !std::mem::replace(&mut self.failing, true) {
            warn!(label = self.label, %error, "cannot read or renew the leadership; retrying");
        }
        let over = |term: &Term| term.until <= Instant::now();
        if self.seen.borrow().as_ref().is_some_and(over) {
            self.seen.send_replace(None);
            gauge!("windlass_service_leader").set(0.0);
        }
        let pause = self.ttl / DRIFT_PART;
        let jitter_ms = SystemRandom.below(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
        pause + Duration::from_millis(jitter_ms)
    }

    /// Releases the leadership, if this process has it.
    async fn resign(&mut self) {
        self.seen.send_replace(None);
        gauge!("windlass_service_leader").set(0.0);
        match answered(RESIGN_MAX, self.give_back()).await {
            Ok(true) => info!(label = self.label, "released the leadership"),
            // A process without permission to lead has nothing to release.
            Ok(false) | Err(Error::Forbidden { .. }) => {}
            Err(error) => warn!(label = self.label, %error, "not released; it will expire"),
        }
    }

    async fn give_back(&mut self) -> Result<bool> {
        // Reads the current version first, because a renewal may have been interrupted before its reply.
        let seen = get(&*self.engine, KEY).await?;
        let ClaimState::Mine { version, .. } = state_of(&seen, &self.me) else {
            return Ok(false);
        };
        // Overwritten, not deleted: the version of a record, the fencing token, increases only while the
        // record exists.
        self.write(Duration::ZERO, Expect::Version(version)).await?;
        Ok(true)
    }

    async fn write(&mut self, ttl: Duration, expect: Expect) -> Result<u64> {
        let claim = Claim {
            holder: self.me.clone(),
            label: self.label.clone(),
            ttl_ms: u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX),
            epoch: self.epoch.as_str().to_owned(),
        };
        let put = put(&*self.engine, KEY, encode(&claim)?, expect);
        let written = answered(self.ttl / RENEW_PART, put).await?;
        // If the epoch changed meanwhile, the next renewal detects it.
        self.epoch = written.epoch;
        Ok(written.value)
    }
}
