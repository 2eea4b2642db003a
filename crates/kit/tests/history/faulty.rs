//! An engine with one fault: it wraps a sound one. Also served by the tests of `windlass torture`, which
//! must find every one of them out.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use windlass_core::engine::{
    Admin, Answer, Change, ChangeItem, Changed, Claim, Claimed, Configure, Engine, Enqueue,
    Enqueued, Get, Item, Jobs, Lease, Maintain, MaintainReply, MaintainRequest, Settle,
    SettleReply, Work,
};
use windlass_core::limits::DELAY_MAX_MS;
use windlass_core::model::{Due, Job, Limit, NewJob, Rate, State};
use windlass_core::{JobId, Result};

/// Its fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// A report under any lease counts for the current one.
    AcceptsStaleLeases,
    /// It loses jobs that it reclaims.
    ForgetsReclaimed,
    /// It does not know ordering keys.
    StripsKeys,
    /// Nothing that failed comes back: it is never due.
    NeverPromotes,
    /// It says that a job is stored, and stores every twentieth job not.
    DropsEnqueues,
    /// A repeated report is executed again, according to its reply.
    ForgetsReports,
    /// When it removes what is past its retention, it removes what was replayed and waits, too.
    RemovesReplayed,
    /// It makes changes whatever the state that they were decided for.
    IgnoresConditions,
    /// It lets twice as many jobs run and start as a limit allows.
    DoublesLimits,
    /// A job with several dependencies waits for the first one only.
    ReleasesEarly,
    /// A job with several dependencies waits for ever.
    ForgetsEdges,
    /// A dependent that is done is released once more.
    ResolvesTwice,
    /// A job that waits for its children waits for none.
    ForgetsChildren,
}

pub(crate) struct Faulty {
    inner: Arc<dyn Engine>,
    fault: Fault,
    leases: Mutex<HashMap<JobId, Lease>>,
    replayed: Mutex<HashSet<JobId>>,
    /// Dependents that were not done yet.
    dependents: Mutex<HashMap<JobId, NewJob>>,
}

impl Faulty {
    pub(crate) fn new(inner: Arc<dyn Engine>, fault: Fault) -> Self {
        Self {
            inner,
            fault,
            leases: Mutex::default(),
            replayed: Mutex::default(),
            dependents: Mutex::default(),
        }
    }

    fn noted(&self, claimed: &Claimed) {
        let mut leases = self.leases.lock().expect("no panic");
        leases.extend(claimed.jobs.iter().map(|job| (job.header.id, job.lease.clone())));
    }

    /// Throws away what was replayed and waits.
    async fn remove_replayed(&self) -> Result<()> {
        let replayed: Vec<JobId> = self.replayed.lock().expect("no panic").drain().collect();
        for job in self.inner.get(Get::new(replayed)).await?.value.into_iter().flatten() {
            if job.state.is_waiting() {
                for change in [Change::Cancel, Change::Discard] {
                    self.inner.change(vec![ChangeItem::new(job.header.id, change)]).await?;
                }
            }
        }
        Ok(())
    }

    /// Spoils the dependencies of a new job.
    fn spoil(&self, job: &mut NewJob) {
        match self.fault {
            Fault::ReleasesEarly => job.after.truncate(1),
            Fault::ForgetsEdges if job.after.len() > 1 => job.due = Due::After(DELAY_MAX_MS),
            Fault::ResolvesTwice if !job.after.is_empty() => {
                let mut dependents = self.dependents.lock().expect("no panic");
                dependents.extend(job.id.map(|id| (id, job.clone())));
            }
            _ => {}
        }
    }

    /// Stores dependents that are done once more, as if they had been released again.
    async fn resolve_again(&self, settled: Vec<JobId>) -> Result<()> {
        for id in settled {
            let known = self.dependents.lock().expect("no panic").remove(&id);
            let Some(mut job) = known else { continue };
            let removed = self.inner.change(vec![ChangeItem::new(id, Change::Discard)]).await?;
            if removed.value.iter().all(Result::is_ok) {
                job.after.clear();
                self.inner.enqueue(Enqueue::each([job])).await?;
            }
        }
        Ok(())
    }

    /// Reclaims, and throws away what came back.
    async fn forget(&self, request: MaintainRequest) -> Result<()> {
        let held: Vec<JobId> = self.leases.lock().expect("no panic").keys().copied().collect();
        let running = |jobs: Vec<Option<Job>>| {
            let jobs = jobs.into_iter().flatten();
            jobs.filter(|job| job.state == State::Running).map(|job| job.header.id)
        };
        let before: Vec<JobId> = running(self.inner.get(Get::new(held)).await?.value).collect();
        self.inner.maintain(request).await?;
        let after: Vec<JobId> =
            running(self.inner.get(Get::new(before.clone())).await?.value).collect();
        for id in before.into_iter().filter(|id| !after.contains(id)) {
            for change in [Change::Cancel, Change::Discard] {
                self.inner.change(vec![ChangeItem::new(id, change)]).await?;
            }
        }
        Ok(())
    }
}

impl Jobs for Faulty {
    windlass_core::pass_on!(inner: capabilities);

    fn enqueue(&self, mut request: Enqueue) -> Answer<'_, Vec<Item<Enqueued>>> {
        Box::pin(async move {
            if self.fault == Fault::StripsKeys {
                request.jobs.iter_mut().for_each(|job| job.key = None);
            }
            request.jobs.iter_mut().for_each(|job| self.spoil(job));
            let dropped: Vec<JobId> = request.jobs.iter().filter_map(|job| job.id).collect();
            let answer = self.inner.enqueue(request).await?;
            for id in dropped {
                if self.fault == Fault::DropsEnqueues && id.as_bytes()[15].is_multiple_of(20) {
                    for change in [Change::Cancel, Change::Discard] {
                        self.inner.change(vec![ChangeItem::new(id, change)]).await?;
                    }
                }
            }
            Ok(answer)
        })
    }

    fn claim(&self, request: Claim) -> Answer<'_, Claimed> {
        Box::pin(async move {
            let answer = self.inner.claim(request).await?;
            self.noted(&answer.value);
            Ok(answer)
        })
    }

    fn settle(&self, mut request: Settle) -> Answer<'_, SettleReply> {
        Box::pin(async move {
            if self.fault == Fault::AcceptsStaleLeases {
                let leases = self.leases.lock().expect("no panic");
                for item in &mut request.items {
                    if let Some(lease) = leases.get(&item.id) {
                        item.lease = lease.clone();
                    }
                }
            }
            if self.fault == Fault::ForgetsChildren {
                let children = request.items.iter_mut().flat_map(|item| &mut item.follow_ups);
                children.for_each(|job| job.joins = None);
            }
            let settled = request.items.iter().map(|item| item.id).collect();
            let mut answer = self.inner.settle(request).await?;
            if self.fault == Fault::ResolvesTwice {
                self.resolve_again(settled).await?;
            }
            if let Some(Ok(claimed)) = &answer.value.claimed {
                self.noted(claimed);
            }
            if self.fault == Fault::ForgetsReports {
                answer.value.items.iter_mut().flatten().for_each(|item| item.already = false);
            }
            Ok(answer)
        })
    }

    windlass_core::pass_on!(inner: open_session, heartbeat, close_session, take, wait, update);
}

impl Admin for Faulty {
    fn change(&self, mut batch: Vec<ChangeItem>) -> Answer<'_, Vec<Item<Changed>>> {
        Box::pin(async move {
            if self.fault == Fault::IgnoresConditions {
                batch.iter_mut().for_each(|item| item.if_state = None);
            }
            let replays = batch.iter().map(|item| matches!(item.change, Change::Replay(_)));
            let replays: Vec<bool> = replays.collect();
            let answer = self.inner.change(batch).await?;
            let replayed = answer.value.iter().zip(replays).filter(|(_, replay)| *replay);
            let replayed = replayed.filter_map(|(item, _)| item.as_ref().ok().map(|it| it.id));
            self.replayed.lock().expect("no panic").extend(replayed);
            Ok(answer)
        })
    }

    fn configure(&self, mut batch: Vec<Configure>) -> Answer<'_, Vec<Item<()>>> {
        for change in &mut batch {
            if let Configure::Limit(_, Some(limit)) = change
                && self.fault == Fault::DoublesLimits
            {
                double(limit);
            }
        }
        self.inner.configure(batch)
    }

    windlass_core::pass_on!(inner: get, list, stats, limits, why, sessions, settings, removed, events, records, import, health);
}

impl Maintain for Faulty {
    fn maintain(&self, request: MaintainRequest) -> Answer<'_, MaintainReply> {
        Box::pin(async move {
            let work = request.work;
            if self.fault == Fault::RemovesReplayed && work == Work::Retain {
                self.remove_replayed().await?;
            }
            let nothing = || MaintainReply::default();
            if self.fault == Fault::ForgetsReclaimed && work == Work::Reclaim {
                self.forget(request).await?;
            } else if !(self.fault == Fault::NeverPromotes && work == Work::Promote) {
                return self.inner.maintain(request).await;
            }
            Ok(self.inner.health().await?.map(|()| nothing()))
        })
    }

    windlass_core::pass_on!(inner: check);
}

/// Allows twice as much.
fn double(limit: &mut Limit) {
    limit.rule.max_running = limit.rule.max_running.map(|max| max * 2);
    limit.rule.rate = limit.rule.rate.map(|rate| match rate {
        Rate::Bucket { amount, per_ms, burst } => {
            Rate::Bucket { amount: amount * 2, per_ms, burst: burst * 2 }
        }
        Rate::Window { max, per_ms } => Rate::window(max * 2, per_ms),
        other => other,
    });
}
