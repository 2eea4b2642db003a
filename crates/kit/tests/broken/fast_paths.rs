//! Fast paths that are wrong in one of five ways, each noticed by the differential test. The engine in memory has none:
//! a wrapper stands for one, and forges replies so that only the fault itself can be seen.

use crate::sound;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::model::{Header, Job, NewJob};
use windlass_core::policy::Until;
use windlass_core::time::{DAY_MS, ManualClock};
use windlass_kit::{START, SteadyRandom, Subject, model};
use windlass_memory::MemoryEngine;

/// Stories for each fault; the most hidden one takes about a dozen.
const CASES: u32 = 60;

/// The fault of the fast path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Jobs with a `max_wait` are stored as if they had none, and never expire.
    TreatsAFieldAsPlain,
    /// The end of a job does not free its unique key.
    SkipsAnEffect,
    /// A completion is missing in the counts.
    CountsWrong,
    /// Ordering keys are stored in the job and nowhere else.
    LosesAKey,
    /// A completion is missing in the history.
    ForgetsHistory,
}

struct WrongFastPath {
    inner: Arc<dyn Engine>,
    fault: Fault,
    fast_paths: FastPaths,
    /// Jobs as they were enqueued, where something else was stored.
    enqueued: Mutex<HashMap<JobId, NewJob>>,
    completed: Mutex<HashSet<JobId>>,
}

impl WrongFastPath {
    fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn completed(&self) -> MutexGuard<'_, HashSet<JobId>> {
        self.completed.lock().expect("no fault panics while it holds the lock")
    }

    fn enqueued(&self) -> MutexGuard<'_, HashMap<JobId, NewJob>> {
        self.enqueued.lock().expect("no fault panics while it holds the lock")
    }

    /// Changes a job into the one that the wrong fast path stores.
    fn spoil(&self, job: &mut NewJob) {
        match self.fault {
            Fault::TreatsAFieldAsPlain => job.policy.max_wait_ms = None,
            Fault::LosesAKey => job.key = None,
            Fault::SkipsAnEffect => {
                if let Some(unique) = job.unique.as_mut().filter(|it| it.until == Until::Finished) {
                    unique.until = Until::window_ms(DAY_MS);
                }
            }
            Fault::CountsWrong | Fault::ForgetsHistory => {}
        }
    }

    /// Shows a job as it was enqueued.
    fn forge(&self, header: &mut Header) {
        let Some(job) = self.enqueued().get(&header.id).cloned() else { return };
        (header.key, header.unique) = (job.key, job.unique);
        header.policy.max_wait_ms = job.policy.max_wait_ms;
    }

    fn forge_claimed(&self, claimed: &mut Claimed) {
        claimed.jobs.iter_mut().for_each(|job| self.forge(&mut job.header));
    }

    async fn enqueue_wrongly(
        &self,
        mut request: Enqueue,
    ) -> windlass_core::Result<Stamped<Vec<Item<Enqueued>>>> {
        let jobs = request.jobs.clone();
        request.jobs.iter_mut().for_each(|job| self.spoil(job));
        let reply = self.inner.enqueue(request).await?;
        for (job, item) in jobs.into_iter().zip(&reply.value) {
            if let Ok(Enqueued { id, disposition: Disposition::Created, .. }) = item {
                self.enqueued().insert(*id, job);
            }
        }
        Ok(reply)
    }
}

impl Jobs for WrongFastPath {
    windlass_core::pass_on!(inner: capabilities);

    fn enqueue(&self, request: Enqueue) -> Answer<'_, Vec<Item<Enqueued>>> {
        match self.fast_paths.are_on() {
            true => Box::pin(self.enqueue_wrongly(request)),
            false => self.inner.enqueue(request),
        }
    }

    windlass_core::pass_on!(inner: open_session, heartbeat, close_session, take);

    fn claim(&self, request: Claim) -> Answer<'_, Claimed> {
        Box::pin(async move {
            let mut reply = self.inner.claim(request).await?;
            self.forge_claimed(&mut reply.value);
            Ok(reply)
        })
    }

    windlass_core::pass_on!(inner: wait);

    fn settle(&self, request: Settle) -> Answer<'_, SettleReply> {
        Box::pin(async move {
            let plain: HashSet<JobId> =
                request.items.iter().filter_map(|item| Some(item.plain()?.id)).collect();
            let mut reply = self.inner.settle(request).await?;
            let done = reply.value.items.iter().flatten();
            let done = done.filter(|settled| !settled.already && plain.contains(&settled.id));
            if self.fast_paths.are_on() {
                self.completed().extend(done.map(|settled| settled.id));
            }
            if let Some(Ok(claimed)) = &mut reply.value.claimed {
                self.forge_claimed(claimed);
            }
            Ok(reply)
        })
    }

    windlass_core::pass_on!(inner: update);
}

impl Admin for WrongFastPath {
    fn get(&self, request: Get) -> Answer<'_, Vec<Option<Job>>> {
        Box::pin(async move {
            let mut reply = self.inner.get(request).await?;
            for job in reply.value.iter_mut().flatten() {
                self.forge(&mut job.header);
                let was_fast = self.completed().contains(&job.header.id);
                if self.is(Fault::ForgetsHistory) && was_fast {
                    job.history.pop();
                }
            }
            Ok(reply)
        })
    }

    windlass_core::pass_on!(inner: list);

    fn stats(&self, request: StatsRequest) -> Answer<'_, Vec<LaneStats>> {
        Box::pin(async move {
            let mut reply = self.inner.stats(request).await?;
            if self.is(Fault::CountsWrong) && !self.completed().is_empty() {
                reply.value.iter_mut().take(1).for_each(|lane| lane.running += 1);
            }
            Ok(reply)
        })
    }

    windlass_core::pass_on!(inner: limits, why, sessions, change, configure, settings, removed, events, records, import, health);
}

impl Maintain for WrongFastPath {
    windlass_core::pass_on!(inner: maintain, check);
}

async fn wrong(fault: Fault) -> Subject {
    let (clock, fast_paths) = (Arc::new(ManualClock::at(START)), FastPaths::default());
    let engine = MemoryEngine::with(clock.clone(), Arc::new(SteadyRandom::default()));
    let wrong = WrongFastPath {
        inner: Arc::new(engine),
        fault,
        fast_paths: fast_paths.clone(),
        enqueued: Mutex::default(),
        completed: Mutex::default(),
    };
    Subject::new(Arc::new(wrong), clock).switched_by(fast_paths)
}

/// The report of the differential test for a fault.
fn said(fault: Fault) -> String {
    model::difference_in(CASES, || wrong(fault)).expect("the differential test notices")
}

#[test]
fn an_engine_without_fast_paths_passes() {
    model::run_differential(8, sound);
}

#[test]
fn a_field_treated_as_plain_is_noticed() {
    let said = said(Fault::TreatsAFieldAsPlain);
    assert!(said.contains("Expired") || said.contains("Maintain"), "{said}");
}

#[test]
fn a_skipped_effect_is_noticed() {
    // By the key of the job, or by the answer to another one that asks for it.
    let said = said(Fault::SkipsAnEffect);
    let in_answers = said.contains("Existing") && said.contains("Created");
    assert!(in_answers || said.contains("Window(86400s)"), "{said}");
}

#[test]
fn a_wrong_count_is_noticed() {
    let said = said(Fault::CountsWrong);
    assert!(said.contains("lane ") && said.contains("running: 1"), "{said}");
}

#[test]
fn a_lost_key_is_noticed() {
    let said = said(Fault::LosesAKey);
    assert!(said.contains("Blocked"), "{said}");
}

#[test]
fn a_missing_history_entry_is_noticed() {
    let said = said(Fault::ForgetsHistory);
    assert!(said.contains("history: []"), "{said}");
}
