//! Wins the leadership, renews it, gives it back. It must not know what is done under it.

use super::claim::{Claim, KEY, Verdict, judge};
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

/// A renewal comes after this part of the time to live, so that two may fail.
const RENEW_PART: u32 = 3;
/// This part of the time to live is not trusted: clocks do not run alike.
const DRIFT_PART: u32 = 10;
/// How often those who do not lead look, at least: how soon a leadership given back is taken.
const FOLLOW_MAX: Duration = Duration::from_secs(1);
/// Those who look at the same moment spread over this time.
const FOLLOW_JITTER_MS: u64 = 20;
/// How often somebody asks again who may not keep the store in order.
const FORBIDDEN_REST: Duration = Duration::from_secs(60);
/// How long giving it back may take.
const RESIGN_MAX: Duration = Duration::from_secs(2);

/// The record as this process wrote it last.
#[derive(Clone, Copy)]
struct Held {
    version: u64,
    token: u64,
}

/// Keeps the leadership for one process.
pub(crate) struct Keeper {
    engine: Arc<dyn Engine>,
    me: String,
    label: String,
    ttl: Duration,
    held: Option<Held>,
    /// The store's epoch, as its last answer told.
    epoch: Epoch,
    /// Another's claim, and since when it has been like this.
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

    /// Wins and renews until it is stopped, then gives it back.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        loop {
            let turn = async {
                let pause = self.turn().await;
                sleep(pause).await;
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = turn => {}
            }
        }
        self.resign().await;
    }

    /// One look or renewal; says how long to wait for the next.
    async fn turn(&mut self) -> Duration {
        let done = match self.held {
            Some(held) => self.renew(held).await,
            None => self.look().await,
        };
        match done {
            Ok(pause) => {
                if std::mem::take(&mut self.failing) {
                    info!(label = self.label, "the leadership can be seen to again");
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
            // Another's, or a renewal of our own whose reply was lost.
            Err(Error::VersionConflict { .. }) => self.look().await,
            Err(error) => Err(error),
        }
    }

    async fn look(&mut self) -> Result<Duration> {
        let sent = Instant::now();
        let seen = answered(self.ttl / RENEW_PART, get(&*self.engine, KEY)).await?;
        self.epoch.clone_from(&seen.epoch);
        match judge(&seen, &self.me) {
            Verdict::Mine { version, left_ms } => {
                let token = self.held.map_or(version, |held| held.token);
                Ok(self.holds(Held { version, token }, sent, Duration::from_millis(left_ms)))
            }
            Verdict::Taken { version, left_ms, ttl_ms } => {
                self.gone("another process leads");
                if self.outlived(version, ttl_ms) {
                    return self.win(Expect::Version(version)).await;
                }
                let left = Duration::from_millis(left_ms).min(FOLLOW_MAX);
                let jitter = Duration::from_millis(SystemRandom.below(FOLLOW_JITTER_MS));
                Ok(left.min(self.ttl / RENEW_PART) + jitter)
            }
            Verdict::Free(expect) => {
                self.gone("it ran out");
                self.win(expect).await
            }
        }
    }

    /// Whether another's claim has not been renewed for its time to live by our own steady clock: a
    /// store whose clock stands or went back must not keep a dead leader in office.
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
                info!(label = self.label, term = version, "leads the services of this store");
                Ok(self.holds(Held { version, token: version }, sent, self.ttl))
            }
            Err(Error::VersionConflict { .. }) => {
                debug!(label = self.label, "another process was faster to lead");
                Ok(FOLLOW_MAX.min(self.ttl / RENEW_PART))
            }
            Err(error) => Err(error),
        }
    }

    /// The store answered: sure for `left` from the moment it was asked, but for what clocks may
    /// differ.
    fn holds(&mut self, held: Held, sent: Instant, left: Duration) -> Duration {
        self.held = Some(held);
        let sure = left.min(self.ttl) - left.min(self.ttl) / DRIFT_PART;
        self.seen.send_replace(Some(Term { token: held.token, until: sent + sure }));
        gauge!("windlass_service_leader").set(1.0);
        left.min(self.ttl) / RENEW_PART
    }

    fn gone(&mut self, why: &str) {
        if let Some(held) = self.held.take() {
            warn!(label = self.label, term = held.token, why, "leads no more");
        }
        self.seen.send_if_modified(|seen| seen.take().is_some());
        gauge!("windlass_service_leader").set(0.0);
    }

    /// The store did not answer. The term goes on for as long as it is sure, and if nobody else took
    /// it, the next renewal that is answered goes on with it.
    fn failed(&mut self, error: &Error) -> Duration {
        if let Error::Forbidden { .. } = error {
            // A worker whose key is for working only: the server it works for sees to its store itself.
            if !std::mem::replace(&mut self.failing, true) {
                info!(label = self.label, %error, "others keep the store in order");
            }
            self.gone("it may not");
            return FORBIDDEN_REST;
        }
        if !std::mem::replace(&mut self.failing, true) {
            warn!(label = self.label, %error, "the leadership cannot be seen to; trying again");
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

    /// Gives the leadership back, if it is ours.
    async fn resign(&mut self) {
        self.seen.send_replace(None);
        gauge!("windlass_service_leader").set(0.0);
        match answered(RESIGN_MAX, self.give_back()).await {
            Ok(true) => info!(label = self.label, "gave the leadership back"),
            // Whoever may not lead has nothing to give back.
            Ok(false) | Err(Error::Forbidden { .. }) => {}
            Err(error) => warn!(label = self.label, %error, "the leadership is left to run out"),
        }
    }

    async fn give_back(&mut self) -> Result<bool> {
        // Not by the version we know: a renewal may have been cut off before its reply.
        let seen = get(&*self.engine, KEY).await?;
        let Verdict::Mine { version, .. } = judge(&seen, &self.me) else {
            return Ok(false);
        };
        // Written, not deleted: versions of a record only rise while it is there.
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
        // If it changed meanwhile, the next renewal says so.
        self.epoch = written.epoch;
        Ok(written.value)
    }
}
