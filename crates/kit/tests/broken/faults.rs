//! The effect of each fault on the verbs.

use crate::faulty::{Fault, Faulty};
use windlass_core::engine::*;
use windlass_core::limits::{DELAY_MAX_MS, MAINTAIN_BUDGET_MAX, MAX_CRASHES_MAX};
use windlass_core::model::{Due, Job, NewJob, Part, PartEdit, PartName, State};
use windlass_core::policy::Until;
use windlass_core::random::SystemRandom;
use windlass_core::{Error, JobId, Result};

pub(crate) async fn enqueue(
    engine: &Faulty,
    mut request: Enqueue,
) -> Result<Stamped<Vec<Item<Enqueued>>>> {
    if engine.is(Fault::TearsGraphs) && request.jobs.iter().any(|job| !job.after.is_empty()) {
        request.mode = Mode::Each;
    }
    if engine.is(Fault::TearsBatches) {
        request.mode = Mode::Each;
    }
    for job in &mut request.jobs {
        spoil(engine.fault, job);
    }
    let dropped = engine.is(Fault::AcknowledgesTooMuch) && request.jobs.len() > 1;
    if dropped {
        request.jobs.pop();
    }
    let mut reply = engine.inner.enqueue(request).await?;
    if dropped {
        let id = JobId::new(reply.now, &SystemRandom);
        let state = Some(State::Available);
        reply.value.push(Ok(Enqueued::new(id, Disposition::Created, state)));
    }
    Ok(reply)
}

fn spoil(fault: Fault, job: &mut NewJob) {
    match fault {
        Fault::LosesRank => job.priority = 0,
        Fault::TakesIdsTwice => job.id = None,
        Fault::IgnoresKeys => job.key = None,
        Fault::IgnoresTenants => job.tenant = None,
        Fault::IgnoresGroups => job.group = None,
        Fault::RunsEarly => job.due = Due::Now,
        Fault::ReleasesEarly => job.after.truncate(1),
        Fault::ForgetsEdges if job.after.len() > 1 => job.due = Due::After(DELAY_MAX_MS),
        Fault::CrashesForever => job.policy.max_crashes = MAX_CRASHES_MAX,
        Fault::FreesKeysEarly => {
            if let Some(unique) = &mut job.unique {
                unique.until = Until::window_ms(1);
            }
        }
        Fault::LosesEnvelopes => {
            for name in PartName::ALL {
                let slot = job.parts.slot(name);
                *slot = slot.take().map(|part| Part::new(part.bytes));
            }
        }
        _ => {}
    }
}

pub(crate) async fn heartbeat(
    engine: &Faulty,
    mut request: Heartbeat,
) -> Result<Stamped<HeartbeatReply>> {
    if engine.is(Fault::KeepsUndeclared) {
        request.upto = 0;
    }
    if engine.is(Fault::CrashesOnRelease) {
        crash_undeclared(engine, &request).await?;
    }
    let mut reply = engine.inner.heartbeat(request).await?;
    if engine.is(Fault::HidesCancellations) {
        reply.value.cancel.clear();
    }
    Ok(reply)
}

/// Settles what a heartbeat does not declare as failed.
async fn crash_undeclared(engine: &Faulty, request: &Heartbeat) -> Result<()> {
    let known: Vec<ClaimedJob> = engine.leases().values().cloned().collect();
    let declared = |job: &ClaimedJob| request.held.iter().any(|held| held.lease == job.lease);
    let retry = Outcome::Retry {
        error: windlass_core::model::JobError::new("lost", "lost"),
        delay_ms: Some(0),
    };
    let items = known
        .iter()
        .filter(|job| !declared(job))
        .map(|job| SettleItem::new(job.header.id, job.lease.clone(), retry.clone()));
    engine.inner.settle(Settle::new(items)).await.map(|_| ())
}

pub(crate) async fn claim(engine: &Faulty, mut request: Claim) -> Result<Stamped<Claimed>> {
    spoil_claim(engine, &mut request);
    let mut reply = engine.inner.claim(request.clone()).await?;
    if engine.is(Fault::ClaimsTwice) && reply.value.jobs.is_empty() {
        let leases = engine.leases();
        reply.value.jobs.extend(leases.values().take(1).cloned());
    }
    if engine.is(Fault::MixesSuspects) {
        renumber(engine, &mut request);
        let more = engine.inner.claim(request).await?;
        reply.value.jobs.extend(more.value.jobs);
    }
    engine.remember(&reply.value.jobs);
    Ok(reply)
}

fn spoil_claim(engine: &Faulty, request: &mut Claim) {
    if engine.is(Fault::IgnoresKinds) {
        request.kinds = None;
    }
    if engine.is(Fault::ForgetsClaims) {
        renumber(engine, request);
    }
    if engine.is(Fault::IgnoresFloors) {
        request.from_priority = None;
    }
}

fn renumber(engine: &Faulty, request: &mut Claim) {
    if let Claimant::Session { claim_no, .. } = &mut request.by {
        *claim_no = engine.next();
    }
}

pub(crate) async fn settle(engine: &Faulty, mut request: Settle) -> Result<Stamped<SettleReply>> {
    for item in &mut request.items {
        spoil_report(engine, item);
    }
    if let Some(claim) = &mut request.claim {
        spoil_claim(engine, claim);
    }
    let mut reply = engine.inner.settle(request).await?;
    for item in &mut reply.value.items {
        let again = item.as_ref().ok().filter(|settled| settled.already).map(|settled| settled.id);
        if let Some(id) = again.filter(|_| engine.is(Fault::ForgetsReports)) {
            *item = Err(Error::LeaseLost { id });
        }
    }
    match &reply.value.claimed {
        Some(Err(error)) if engine.is(Fault::MixesFailures) => return Err(error.clone()),
        Some(Ok(claimed)) => engine.remember(&claimed.jobs),
        _ => {}
    }
    Ok(reply)
}

fn spoil_report(engine: &Faulty, item: &mut SettleItem) {
    match engine.fault {
        Fault::ForgetsHolds => item.hold = None,
        Fault::IgnoresLeases => {
            if let Some(current) = engine.leases().get(&item.id) {
                item.lease = current.lease.clone();
            }
        }
        Fault::LosesFollowUps => item.follow_ups.clear(),
        Fault::LosesCheckpoints => item.parts.checkpoint = PartEdit::Keep,
        Fault::CountsReleases if item.outcome == Outcome::Release => {
            item.outcome = Outcome::retry("released", "released");
        }
        Fault::RetriesAtOnce => {
            if let Outcome::Retry { delay_ms, .. } = &mut item.outcome {
                *delay_ms = Some(0);
            }
        }
        _ => {}
    }
}

pub(crate) async fn maintain(
    engine: &Faulty,
    mut request: MaintainRequest,
) -> Result<Stamped<MaintainReply>> {
    if engine.is(Fault::IgnoresBudgets) {
        request.budget = MAINTAIN_BUDGET_MAX;
    }
    if engine.is(Fault::NeverExpires) && request.work == Work::Expire {
        request.work = Work::Compact;
    }
    let reply = engine.inner.maintain(request).await?;
    if engine.is(Fault::ForgetsOnReclaim) && request.work == Work::Reclaim {
        let lost: Vec<JobId> = engine.leases().keys().copied().collect();
        for job in engine.inner.get(Get::new(lost)).await?.value.into_iter().flatten() {
            if job.state == State::Scheduled {
                forget(engine, job.header.id, true).await?;
            }
        }
    }
    if engine.is(Fault::RemovesEarly) && request.work == Work::Retain {
        let ended = List::new(Filter::state(State::Completed));
        for job in engine.inner.list(ended).await?.value.rows {
            forget(engine, job.header.id, false).await?;
        }
    }
    Ok(reply)
}

pub(crate) async fn list(engine: &Faulty, mut request: List) -> Result<Stamped<Page<Job>>> {
    if engine.is(Fault::IgnoresTags) {
        request.filter.tag = None;
    }
    if engine.is(Fault::IgnoresFields) {
        request.filter.fields.pop();
    }
    if engine.is(Fault::IgnoresWindows) {
        request.filter.ended_until = None;
    }
    if engine.is(Fault::HalvesPages) {
        request.limit = request.limit.div_ceil(2);
    }
    let from = request.filter.created_from;
    let mut reply = engine.inner.list(request).await?;
    if engine.is(Fault::SortsById) {
        reply.value.rows.sort_by_key(|job| std::cmp::Reverse(job.header.id));
    }
    if engine.is(Fault::BelievesIds) {
        let too_old = |id: JobId| from.is_some_and(|from| id.time() < from);
        reply.value.rows.retain(|job| !too_old(job.header.id));
    }
    Ok(reply)
}

/// Makes a job vanish.
async fn forget(engine: &Faulty, id: JobId, cancel_first: bool) -> Result<()> {
    let mut changes = vec![ChangeItem::new(id, Change::Discard)];
    if cancel_first {
        changes.insert(0, ChangeItem::new(id, Change::Cancel));
    }
    engine.inner.change(changes).await.map(|_| ())
}
