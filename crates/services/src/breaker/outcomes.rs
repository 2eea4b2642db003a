//! A layer that counts the outcomes of attempts for kinds with a breaker and sends the counts to the leader.
//! It is inactive while no kind has a breaker. It must not change requests or replies. Independent of when a
//! breaker opens.

use super::{LOG, LOG_KEPT, Report};
use crate::kinds;
use crate::logs::append;
use crate::records::encode;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;
use tracing::debug;
use windlass_core::engine::*;
use windlass_core::model::{AttemptEnd, Name};
use windlass_core::policy::BreakerCount;
use windlass_core::sync::lock;
use windlass_core::{JobId, Result};

/// Outcomes are collected for this long before they are sent to the leader.
const TELL_AFTER: Duration = Duration::from_millis(250);
/// Interval at which the set of kinds with a breaker is refreshed while jobs are claimed.
const RELOAD_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of claimed jobs whose kind is remembered; the kind of other jobs is looked up.
const REMEMBERED_MAX: usize = 100_000;
/// Maximum number of jobs whose kind is looked up at a time; further ones are not counted.
const UNKNOWN_MAX: usize = 1_000;

/// Counts outcomes for breakers. Processes that host services, or through which other processes settle,
/// settle through this layer.
///
/// Attempts with a lost lease are not counted: the death of a worker says nothing about the kind.
#[derive(Clone)]
pub struct Outcomes {
    engine: Arc<dyn Engine>,
    pending: Arc<Mutex<Pending>>,
}

#[derive(Default)]
struct Pending {
    /// Kinds with a breaker.
    watched: HashSet<Name>,
    /// The revision of the rules that `watched` was read from.
    revision: Option<u64>,
    /// When `watched` was last refreshed.
    reloaded: Option<Instant>,
    /// The kinds of jobs claimed through this layer.
    kinds: HashMap<JobId, Name>,
    counts: BTreeMap<Name, BreakerCount>,
    /// Outcomes of jobs that were claimed elsewhere, with whether they succeeded.
    unknown: Vec<(JobId, bool)>,
    /// Whether sending to the leader is already scheduled.
    sending: bool,
}

impl fmt::Debug for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outcomes({})", self.engine.capabilities().engine)
    }
}

impl Outcomes {
    /// Wraps this engine.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine, pending: Arc::default() }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        lock(&self.pending)
    }

    /// Refreshes the set of kinds with a breaker if that is due. If the store does not answer, the old set is
    /// kept; the outage is reported elsewhere.
    async fn reload_rules(&self) {
        let known = {
            let mut pending = self.pending();
            if pending.reloaded.is_some_and(|at| at.elapsed() < RELOAD_EVERY) {
                return;
            }
            pending.reloaded = Some(Instant::now());
            pending.revision
        };
        let reloaded = async {
            let revision = kinds::revision(&*self.engine).await?.value;
            if known == Some(revision) {
                return Ok(None);
            }
            Ok::<_, windlass_core::Error>(Some((revision, kinds::all(&*self.engine).await?)))
        };
        if let Ok(Some((revision, found))) = reloaded.await {
            let with_breaker = |it: &kinds::Registered| {
                it.rules.as_ref().is_ok_and(|rules| rules.breaker.is_some())
            };
            let watched = found.into_iter().filter(with_breaker).map(|it| it.kind);
            let mut pending = self.pending();
            pending.watched = watched.collect();
            pending.revision = Some(revision);
            if pending.watched.is_empty() {
                pending.kinds = HashMap::new();
            }
        }
    }

    fn remember(&self, claimed: &Claimed) {
        let mut pending = self.pending();
        if pending.watched.is_empty() {
            return;
        }
        if pending.kinds.len() > REMEMBERED_MAX {
            // Most of them are leases lost to other workers, which will never be settled here.
            pending.kinds.clear();
        }
        let jobs = claimed.jobs.iter().map(|job| (job.header.id, job.header.kind.clone()));
        pending.kinds.extend(jobs);
    }

    fn count(&self, items: &[Item<Settled>]) {
        let mut pending = self.pending();
        if pending.watched.is_empty() {
            return;
        }
        for item in items.iter().flatten() {
            let kind = pending.kinds.remove(&item.id);
            let ok = match item.end {
                _ if item.already => continue,
                AttemptEnd::Complete => true,
                AttemptEnd::Retry | AttemptEnd::Fail => false,
                AttemptEnd::Snooze
                | AttemptEnd::Release
                | AttemptEnd::Wait
                | AttemptEnd::Cancel
                | AttemptEnd::Lost
                | _ => continue,
            };
            match kind {
                Some(kind) => pending.note(kind, ok),
                None if pending.unknown.len() < UNKNOWN_MAX => pending.unknown.push((item.id, ok)),
                None => {}
            }
        }
        let has_news = !(pending.counts.is_empty() && pending.unknown.is_empty());
        if has_news && !std::mem::replace(&mut pending.sending, true) {
            let outcomes = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(TELL_AFTER).await;
                outcomes.send_counts().await;
            });
        }
    }

    /// Sends the outcomes to the leader. Outcomes that cannot be sent are dropped: a breaker is about the
    /// present.
    async fn send_counts(&self) {
        let unknown = {
            let mut pending = self.pending();
            pending.sending = false;
            std::mem::take(&mut pending.unknown)
        };
        self.find_out(unknown).await;
        let counts = std::mem::take(&mut self.pending().counts);
        let entries = counts.into_iter().map(|(kind, count)| encode(&Report { kind, count }));
        let reported = match entries.collect::<Result<Vec<_>>>() {
            Ok(entries) if entries.is_empty() => Ok(()),
            Ok(entries) => append(&*self.engine, LOG, entries, LOG_KEPT).await,
            Err(error) => Err(error),
        };
        if let Err(error) = reported {
            debug!(%error, "cannot send outcomes to the breakers");
        }
    }

    /// Looks up the kinds of jobs that were claimed elsewhere.
    async fn find_out(&self, unknown: Vec<(JobId, bool)>) {
        if unknown.is_empty() {
            return;
        }
        let ids = Get::new(unknown.iter().map(|(id, _)| *id));
        let Ok(found) = self.engine.get(ids).await else { return };
        let mut pending = self.pending();
        for ((_, ok), job) in unknown.into_iter().zip(found.value) {
            if let Some(job) = job {
                pending.note(job.header.kind, ok);
            }
        }
    }
}

impl Pending {
    fn note(&mut self, kind: Name, ok: bool) {
        if self.watched.contains(&kind) {
            let count = self.counts.entry(kind).or_default();
            let counter = if ok { &mut count.ok } else { &mut count.errors };
            *counter = counter.saturating_add(1);
        }
    }
}

impl Jobs for Outcomes {
    windlass_core::pass_on!(
        engine: capabilities, enqueue, open_session, heartbeat, close_session, take, wait, update
    );

    fn claim(&self, request: Claim) -> Answer<'_, Claimed> {
        Box::pin(async move {
            self.reload_rules().await;
            let reply = self.engine.claim(request).await?;
            self.remember(&reply.value);
            Ok(reply)
        })
    }

    fn settle(&self, request: Settle) -> Answer<'_, SettleReply> {
        Box::pin(async move {
            self.reload_rules().await;
            let reply = self.engine.settle(request).await?;
            self.count(&reply.value.items);
            if let Some(Ok(claimed)) = &reply.value.claimed {
                self.remember(claimed);
            }
            Ok(reply)
        })
    }
}

impl Admin for Outcomes {
    windlass_core::pass_on!(engine: get, list, stats, limits, why, sessions, change, configure, settings, removed, events, records, import, health);
}

impl Maintain for Outcomes {
    windlass_core::pass_on!(engine: maintain, check);
}
