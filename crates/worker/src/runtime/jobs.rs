//! Jobs from claim to end: starts handlers, runs suspects alone, and collects finished handlers.

use super::{Phase, Runtime};
use crate::running::Running;
use crate::shared::Finished;
use crate::signal::Cause;
use crate::starter::STUCK_AFTER;
use crate::stats::End;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::time::Instant;
use windlass_core::engine::{ClaimedJob, Outcome};

/// A job whose earlier attempts lost their leases. While the worker holds one, it claims and runs nothing
/// else.
pub(super) struct Suspect {
    running: Arc<Running>,
    started: bool,
}

impl Runtime {
    /// Starts the jobs returned by a claim, which may have been from a priority on.
    pub(super) fn start(&mut self, jobs: Vec<ClaimedJob>, claimed_from: Option<i32>) {
        let now = Instant::now();
        let mut got = vec![0; self.shared.queues.len()];
        self.shared.counts.claimed.fetch_add(jobs.len() as u64, Ordering::Relaxed);
        let mut starting = Vec::with_capacity(jobs.len());
        for job in jobs {
            let places = self.room.places(&job.header);
            let (queue, kind) = places.unwrap_or_default();
            let running = Arc::new(Running::new(job, queue, kind, self.shared.clone()));
            self.held.insert(running.header.id, running.clone());
            let working = matches!(self.phase, Phase::Working);
            if places.is_none() || !working {
                // Not a queue or kind of this worker, or too late: release it for other workers.
                self.report(running, Outcome::Release);
                continue;
            }
            got[queue] += 1;
            self.floors.start(running.header.priority, claimed_from, now);
            if running.header.counters.is_suspect() {
                self.hold_suspect(running);
            } else {
                self.prepare(&running, now);
                starting.push(running);
            }
        }
        self.turns.charge(&got);
        self.gather(&starting);
        self.launch(starting, now);
    }

    /// Reserves capacity for a job that starts now.
    fn prepare(&mut self, running: &Running, now: Instant) {
        self.room.take(running.queue, running.kind);
        self.meters.started(running.queue, running.kind);
        running.begin(now);
    }

    fn launch(&mut self, jobs: Vec<Arc<Running>>, now: Instant) {
        if !jobs.is_empty() {
            self.shared.starter.start(jobs);
            self.help_at.get_or_insert(now + STUCK_AFTER);
        }
    }

    /// Adds a runner if the current one is blocked in a CPU-bound handler.
    pub(super) fn help_starter(&mut self) {
        if let Some(at) = self.help_at
            && at <= Instant::now()
        {
            let again = self.shared.starter.help();
            self.help_at = again.then(|| Instant::now() + STUCK_AFTER);
        }
    }

    fn hold_suspect(&mut self, running: Arc<Running>) {
        if self.suspect.is_some() {
            // Stores return suspects one at a time; if one did not, the second is released.
            return self.report(running, Outcome::Release);
        }
        tracing::warn!(id = %running.header.id, kind = %running.header.kind,
            crashes = running.header.counters.crashes, "earlier attempts lost their leases: running this job alone");
        self.suspect = Some(Suspect { running, started: false });
    }

    /// Whether a suspect blocks all other work.
    pub(super) const fn is_occupied(&self) -> bool {
        self.suspect.is_some()
    }

    /// Starts the suspect once nothing else runs, or releases it.
    pub(super) fn start_suspect(&mut self) {
        let Some(suspect) = self.suspect.as_ref().filter(|suspect| !suspect.started) else {
            return;
        };
        let running = suspect.running.clone();
        let outcome = match running.signal.causes().gravest() {
            Some(Cause::LeaseLost) => {
                self.suspect = None;
                return self.lose(&running);
            }
            Some(Cause::Operator) => Outcome::Cancel,
            _ if !matches!(self.phase, Phase::Working) => Outcome::Release,
            // Jobs of other claims in flight are started as they arrive.
            _ if self.room.running() > 0 || self.claims.any_open() => return,
            _ => {
                self.suspect = Some(Suspect { running: running.clone(), started: true });
                let now = Instant::now();
                self.prepare(&running, now);
                return self.launch(vec![running], now);
            }
        };
        self.suspect = None;
        self.report(running, outcome);
    }

    /// Collects finished handlers.
    pub(super) fn collect_finished(&mut self) {
        let mut batch = std::mem::take(&mut self.finished);
        self.shared.inbox.take_finished(&mut batch);
        for Finished { running, outcome, took } in batch.drain(..) {
            self.room.give_back(running.queue, running.kind);
            self.meters.ended(running.queue, running.kind, took);
            let id = running.header.id;
            if self.suspect.as_ref().is_some_and(|suspect| suspect.running.header.id == id) {
                self.suspect = None;
                self.claims.try_now();
            }
            match outcome {
                Some(outcome) => self.report(running, outcome),
                None => self.lose(&running),
            }
        }
        self.finished = batch;
    }

    /// Drops a job whose lease is lost.
    pub(super) fn lose(&mut self, running: &Running) {
        self.let_go(running);
        self.shared.counts.end(End::Lost);
        self.meters.settled(running.queue, running.kind, End::Lost);
        let _span = running.span.enter();
        tracing::warn!("lease lost: the outcome of this attempt is dropped");
    }

    /// Forgets a lease, unless the job is held again under a newer one.
    pub(super) fn let_go(&mut self, running: &Running) {
        if let std::collections::hash_map::Entry::Occupied(held) =
            self.held.entry(running.header.id)
            && held.get().lease == running.lease
        {
            held.remove();
        }
    }
}
