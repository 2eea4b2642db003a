//! A story told to an engine and to the model, compared after every step.

use super::interpreter::{Code, Model, ModelJob, ModelSession, Wants, agree, slot};
use super::op::{ClaimSpec, KINDS, Op, QUEUES, Report, Setting, Spec, Wish};
use crate::rig::Rig;
use crate::subject::Subject;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use windlass_core::engine::{
    Change, ChangeItem, Claim, ClaimId, Claimant, Claimed, Configure, Edits, Enqueue, Get,
    Heartbeat, Held, LaneStats, Lease, MaintainRequest, OpenSession, Outcome, SessionId, Settle,
    SettleItem, StatsRequest, Update, UpdateItem, Work,
};
use windlass_core::limits::MAINTAIN_BUDGET_MAX;
use windlass_core::machine::EventKind;
use windlass_core::model::{
    Due, Job, KindPatch, Name, NewJob, Part, PartEdit, PartSet, QueuePatch, State,
};
use windlass_core::policy::{Backoff, Retention, Unique, expires_at, keep_until};
use windlass_core::random::{Seeded, SystemRandom};
use windlass_core::{Error, JobId, Result as Answer, Timestamp};

/// What differs, in words.
type Same = Result<(), String>;

/// The backoff of all stories: exact enough to predict, with jitter to be taken over.
const BACKOFF: Backoff = Backoff::Exponential { base_ms: 2_000, cap_ms: 8_000, jitter_ms: 500 };

pub(super) struct Lockstep {
    rig: Rig,
    model: Model,
    /// Every job ever enqueued, gone or not, in order.
    ids: Vec<JobId>,
    /// Every session ever opened by a worker, closed or not.
    sessions: Vec<SessionId>,
    /// Every lease ever given.
    leases: Vec<(JobId, Lease)>,
    /// Each claimant's latest claim, and the number of the latest of all.
    claims: BTreeMap<SessionId, u64>,
    claim_no: u64,
    alone: Vec<ClaimId>,
    story: String,
    random: Seeded,
}

impl Lockstep {
    pub(super) fn new(subject: Subject) -> Self {
        Self {
            rig: Rig::new(subject),
            model: Model::new(crate::subject::START),
            ids: Vec::new(),
            sessions: Vec::new(),
            leases: Vec::new(),
            claims: BTreeMap::new(),
            claim_no: 0,
            alone: Vec::new(),
            story: String::new(),
            random: Seeded::new(1),
        }
    }

    pub(super) fn story(&self) -> &str {
        &self.story
    }

    /// One step of the story; `Err` tells where engine and table part.
    pub(super) async fn step(&mut self, op: &Op) -> Same {
        let _ = writeln!(self.story, "  {op:?}");
        if self.model.now == crate::subject::START {
            self.model.now = self.rig.now().await;
        }
        self.model.next_step();
        match op.clone() {
            Op::Enqueue { jobs, all_or_nothing } => self.enqueue(jobs, all_or_nothing).await?,
            Op::OpenSession { ttl_ms } => self.open_session(ttl_ms).await?,
            Op::CloseSession { session } => self.close_session(session).await?,
            Op::Heartbeat { session, forgets, unanswered } => {
                self.heartbeat(session, forgets, unanswered).await?;
            }
            Op::Claim(spec) => self.claim(spec).await?,
            Op::Settle { lease, report, checkpoint, then, claim } => {
                self.settle(lease, report, checkpoint, then, claim).await?;
            }
            Op::Update { lease, checkpoint, extend_ms } => {
                self.update(lease, checkpoint, extend_ms).await?;
            }
            Op::Change { job, wish } => self.change(job, wish).await?,
            Op::Configure(setting) => self.configure(setting).await?,
            Op::Advance { ms } => {
                self.rig.advance(ms);
                self.model.now = self.model.now.plus(ms);
            }
            Op::Maintain { work, budget } => self.maintain(work, budget).await?,
        }
        self.compare().await
    }

    /// The last word: the store must find itself sound.
    pub(super) async fn end(&self) -> Same {
        let report = self.rig.engine().check(false).await.map_err(|error| error.to_string())?.value;
        let jobs = self.model.jobs.len() as u64;
        agree("the number of jobs", &jobs, &report.jobs)?;
        agree("the findings of a check", &Vec::new(), &report.findings)
    }

    fn fresh_id(&self) -> JobId {
        JobId::new(self.model.now, &self.random)
    }

    fn job(&self, spec: &Spec) -> NewJob {
        let again = spec.again.and_then(|number| pick(&self.ids, number).copied());
        // An id from long ago is refused, which other checks look at; stories stay within a day.
        let again = again.filter(|id| id.check(self.model.now).is_ok());
        let mut job = NewJob::new(KINDS[spec.kind])
            .queue(QUEUES[spec.queue])
            .priority(spec.priority)
            .due(Due::After(spec.delay_ms))
            .max_attempts(spec.max_attempts)
            .max_crashes(spec.max_crashes)
            .backoff(BACKOFF);
        job.id = again;
        job.key = spec.key.map(|key| format!("key-{key}"));
        job.policy.max_wait_ms = spec.max_wait_ms;
        job.policy.retention = spec.retention_ms.map(Retention::uniform);
        job.unique = spec.unique.map(|(key, scope, until, on_conflict)| {
            Unique::by(format!("u-{key}")).scope(scope).until(until).on_conflict(on_conflict)
        });
        job
    }

    async fn enqueue(&mut self, specs: Vec<Spec>, all_or_nothing: bool) -> Same {
        let mut jobs: Vec<NewJob> = specs.iter().map(|spec| self.job(spec)).collect();
        for job in &mut jobs {
            let fresh = self.fresh_id();
            self.ids.push(*job.id.get_or_insert(fresh));
        }
        let request = match all_or_nothing {
            true => Enqueue::all_or_nothing(jobs.clone()),
            false => Enqueue::each(jobs.clone()),
        };
        let got = self.rig.engine().enqueue(request).await.map_err(|e| e.to_string())?.value;
        let expected = match all_or_nothing {
            true => {
                let together = self.model.or_nothing(|model| {
                    jobs.iter().map(|job| model.enqueue(job.clone(), true)).collect()
                });
                let all = |code| (0..got.len()).map(|_| Err(code)).collect::<Vec<_>>();
                together.map_or_else(all, |items: Vec<_>| items.into_iter().map(Ok).collect())
            }
            false => jobs
                .into_iter()
                .map(|job| self.model.or_nothing(|model| model.enqueue(job, true)))
                .collect(),
        };
        for (expected, got) in expected.iter().zip(&got) {
            // One culprit answers with its own error, the others that they were not to blame.
            if all_or_nothing && got.as_ref().is_err_and(|e| e.code() == "aborted") {
                agree("all or nothing", &expected.is_err(), &true)?;
                continue;
            }
            let got = got.as_ref().map(|item| (item.id, item.disposition)).map_err(Error::code);
            agree("enqueue", expected, &got)?;
        }
        Ok(())
    }

    async fn open_session(&mut self, ttl_ms: u64) -> Same {
        let request = OpenSession::new("story").ttl_ms(ttl_ms);
        let got = self.rig.engine().open_session(request).await.map_err(|e| e.to_string())?.value;
        let expires_at = self.model.now.plus(ttl_ms);
        agree("the end of a fresh session", &expires_at, &got.expires_at)?;
        let session = ModelSession { ttl_ms, expires_at, alone: false };
        self.model.sessions.insert(got.id.clone(), session);
        self.sessions.push(got.id);
        Ok(())
    }

    async fn close_session(&mut self, number: usize) -> Same {
        let Some(session) = pick(&self.sessions, number).cloned() else { return Ok(()) };
        let got = self.rig.engine().close_session(session.clone()).await;
        got.map_err(|error| error.to_string())?;
        self.release(self.model.held_by(&session))?;
        self.model.sessions.remove(&session);
        Ok(())
    }

    /// Gives jobs back, in whatever order the engine likes.
    fn release(&mut self, jobs: Vec<JobId>) -> Same {
        let now = self.model.now;
        for id in jobs {
            self.model.remember_settled(id, windlass_core::model::AttemptEnd::Release);
            let released = self.model.apply(id, EventKind::Release, Some((now, now)), None);
            released.map_err(str::to_owned)?;
        }
        self.model.in_any_order();
        Ok(())
    }

    async fn heartbeat(&mut self, number: usize, forgets: Option<usize>, unanswered: bool) -> Same {
        let Some(session) = pick(&self.sessions, number).cloned() else { return Ok(()) };
        let mut held: Vec<Held> = Vec::new();
        for id in self.model.held_by(&session) {
            let leased = self.model.jobs[&id].leased.as_ref().expect("held jobs are leased");
            held.push(Held { id, lease: leased.lease.clone() });
        }
        let forgotten =
            forgets.filter(|_| !held.is_empty()).map(|n| held.remove(n % held.len()).id);
        let mut beat = Heartbeat::new(session.clone(), self.claim_no, held.clone());
        let of_forgotten = forgotten.and_then(|id| self.model.jobs[&id].leased.as_ref());
        if let Some(leased) = of_forgotten.filter(|_| unanswered) {
            beat = beat.unanswered([leased.claim_no]);
        }
        let got = self.rig.engine().heartbeat(beat).await.map(|reply| reply.value);
        let Some(known) = self.model.sessions.get_mut(&session) else {
            return agree("a lost session", &Some("session_lost"), &code(&got));
        };
        known.expires_at = self.model.now.plus(known.ttl_ms);
        let expires_at = known.expires_at;
        let got = got.map_err(|error| error.to_string())?;
        agree("the end of the session", &expires_at, &got.expires_at)?;
        let released: Vec<JobId> = forgotten.into_iter().filter(|_| !unanswered).collect();
        agree("the number released", &(released.len() as u32), &got.released)?;
        agree("lost leases", &Vec::new(), &got.lost)?;
        let wanted = |held: &&Held| self.model.jobs[&held.id].cancel_requested;
        let cancel: Vec<JobId> = held.iter().filter(wanted).map(|held| held.id).collect();
        agree("cancellations", &cancel, &got.cancel)?;
        self.release(released)
    }

    /// The claim a spec asks for; `None` if there is no session yet to ask for it.
    fn resolve(&mut self, spec: &ClaimSpec) -> Option<(Claim, SessionId, u64)> {
        let (by, session, claim_no) = match spec.by {
            Ok(number) => {
                let session = pick(&self.sessions, number).cloned()?;
                let latest = self.claims.get(&session).copied().filter(|_| spec.again);
                let claim_no = latest.unwrap_or_else(|| {
                    self.claim_no += 1;
                    self.claim_no
                });
                self.claims.insert(session.clone(), claim_no);
                (Claimant::Session { session: session.clone(), claim_no }, session, claim_no)
            }
            Err(lease_ms) => {
                if !spec.again || self.alone.is_empty() {
                    self.alone.push(ClaimId::random(&SystemRandom));
                }
                let claim_id = self.alone.last().cloned()?;
                let by = Claimant::Alone {
                    claim_id: claim_id.clone(),
                    worker: "alone".into(),
                    lease_ms,
                };
                (by, SessionId::new(format!("claim {claim_id}")), 0)
            }
        };
        let mut claim = Claim::new(by, QUEUES[0], spec.limit).parts(PartSet::NONE);
        claim.queues.clear();
        for (queue, limit) in &spec.queues {
            claim = claim.queue(QUEUES[*queue], *limit);
        }
        for (kind, limit) in spec.kinds.iter().flatten() {
            claim = claim.kind(KINDS[*kind], *limit);
        }
        Some((claim, session, claim_no))
    }

    async fn claim(&mut self, spec: ClaimSpec) -> Same {
        let Some((claim, session, claim_no)) = self.resolve(&spec) else { return Ok(()) };
        let got = self.rig.engine().claim(claim).await.map(|reply| reply.value);
        self.claimed(&spec, &session, claim_no, got)
    }

    /// Compares what a claim got.
    fn claimed(
        &mut self,
        spec: &ClaimSpec,
        session: &SessionId,
        claim_no: u64,
        got: Answer<Claimed>,
    ) -> Same {
        if spec.by.is_ok() && !self.model.sessions.contains_key(session) {
            return agree("a claim by a lost session", &Some("session_lost"), &code(&got));
        }
        let jobs = got.map_err(|error| error.to_string())?.jobs;
        let named = |list: &[(usize, u32)], names: &[&str]| -> Vec<(Name, u32)> {
            list.iter().map(|(n, limit)| (Name::from(names[*n]), *limit)).collect()
        };
        let kinds = spec.kinds.as_ref().map(|kinds| named(kinds, &KINDS));
        let wants = Wants {
            session,
            claim_no,
            queues: &named(&spec.queues, &QUEUES),
            kinds: kinds.as_deref(),
            limit: spec.limit,
        };
        self.model.claim(&wants, &jobs)?;
        if let Err(lease_ms) = spec.by
            && !jobs.is_empty()
        {
            let expires_at = self.model.now.plus(lease_ms);
            let fresh = ModelSession { ttl_ms: lease_ms, expires_at, alone: true };
            self.model.sessions.entry(session.clone()).or_insert(fresh);
        }
        self.leases.extend(jobs.into_iter().map(|job| (job.header.id, job.lease)));
        Ok(())
    }

    async fn settle(
        &mut self,
        number: usize,
        report: Report,
        checkpoint: Option<u8>,
        then: Vec<Spec>,
        claim: Option<ClaimSpec>,
    ) -> Same {
        let Some((id, lease)) = pick(&self.leases, number).cloned() else { return Ok(()) };
        let follow_ups: Vec<NewJob> = then.iter().map(|spec| self.job(spec)).collect();
        let mut item = SettleItem::new(id, lease.clone(), outcome(report));
        item.follow_ups.clone_from(&follow_ups);
        if let Some(byte) = checkpoint {
            item.state = PartEdit::Set(Part::new(vec![byte]));
        }
        let asked = claim.and_then(|spec| Some((self.resolve(&spec)?, spec)));
        let mut request = Settle::new([item]);
        if let Some(((claim, _, _), _)) = &asked {
            request = request.then(claim.clone());
        }
        let reply = self.rig.engine().settle(request).await.map_err(|e| e.to_string())?.value;
        let got = reply.items.into_iter().next().expect("one answer for one report");
        let end = outcome(report).end();
        match self.model.lease_of(id, &lease) {
            Err(expected) => agree("a stale report", &Some(expected), &code(&got))?,
            Ok(Some(end)) => {
                let got = got.map_err(|error| error.to_string())?;
                agree("a repeated report", &(true, end), &(got.already, got.end))?;
            }
            Ok(None) => {
                let expected = self.settle_in_model(id, report, follow_ups);
                let got = got.map(|settled| {
                    (settled.already, settled.end, settled.state, {
                        settled.follow_ups.iter().map(|job| (job.id, job.disposition)).collect()
                    })
                });
                let expected = expected.map(|(state, jobs)| (false, end, state, jobs));
                agree("a report", &expected, &got.map_err(|error| error.code()))?;
                if let (Some(byte), Ok(_)) = (checkpoint, &expected) {
                    self.model.checkpoint(id, byte);
                }
            }
        }
        match (asked, reply.claimed) {
            (Some(((_, session, claim_no), spec)), Some(got)) => {
                self.claimed(&spec, &session, claim_no, got)
            }
            (None, None) => Ok(()),
            _ => Err("a claim was answered that was not asked, or the other way round".into()),
        }
    }

    #[expect(clippy::type_complexity, reason = "state and follow-ups, compared at once")]
    fn settle_in_model(
        &mut self,
        id: JobId,
        report: Report,
        follow_ups: Vec<NewJob>,
    ) -> Result<(State, Vec<(JobId, windlass_core::engine::Disposition)>), Code> {
        let event = outcome(report).event();
        let job = &self.model.jobs[&id];
        let (failures, attempt) = (job.counters.failures + 1, job.counters.attempt);
        let leased = job.leased.clone().expect("its lease is current");
        let now = self.model.now;
        let exactly = |ms| (now.plus(ms), now.plus(ms));
        let run_at = match report {
            Report::Retry(None) => {
                let least = BACKOFF.without_jitter().delay_max_ms(failures);
                (now.plus(least), now.plus(BACKOFF.delay_max_ms(failures)))
            }
            Report::Retry(Some(ms)) | Report::Snooze(ms) => exactly(ms),
            _ => exactly(0),
        };
        let settled = self.model.or_nothing(|model| {
            model.remember_settled(id, outcome(report).end());
            let state = model.apply(id, event, Some(run_at), None)?;
            let mut created = Vec::new();
            for (index, mut job) in follow_ups.into_iter().enumerate() {
                job.id = job.id.or(Some(JobId::follow_up(id, attempt, index, leased.started_at)));
                created.push(model.enqueue(job, false)?);
            }
            Ok((state.unwrap_or(State::Completed), created))
        })?;
        self.ids.extend(settled.1.iter().map(|(id, _)| *id));
        self.end_if_alone(&leased.session);
        Ok(settled)
    }

    /// A claim's own session ends with its last lease.
    fn end_if_alone(&mut self, session: &SessionId) {
        let alone = self.model.sessions.get(session).is_some_and(|session| session.alone);
        if alone && self.model.held_by(session).is_empty() {
            self.model.sessions.remove(session);
        }
    }

    async fn update(
        &mut self,
        number: usize,
        checkpoint: Option<u8>,
        extend_ms: Option<u64>,
    ) -> Same {
        let Some((id, lease)) = pick(&self.leases, number).cloned() else { return Ok(()) };
        let mut item = UpdateItem::new(id, lease.clone());
        item.extend_ms = extend_ms;
        if let Some(byte) = checkpoint {
            item.state = PartEdit::Set(Part::new(vec![byte]));
        }
        let reply =
            self.rig.engine().update(Update::new([item])).await.map_err(|e| e.to_string())?;
        let got = reply.value.into_iter().next().expect("one answer for one update");
        match self.model.lease_of(id, &lease) {
            Err(expected) => return agree("a stale update", &Some(expected), &code(&got)),
            Ok(Some(_)) => return agree("a late update", &Some("lease_lost"), &code(&got)),
            Ok(None) => {}
        }
        let session = self.model.jobs[&id].leased.as_ref().map(|leased| leased.session.clone());
        let session = session.and_then(|id| self.model.sessions.get_mut(&id));
        if let (Some(ms), Some(session)) = (extend_ms, session) {
            if !session.alone {
                return agree("extending a session's lease", &Some("invalid"), &code(&got));
            }
            session.expires_at = self.model.now.plus(ms);
        }
        let got = got.map_err(|error| error.to_string())?;
        let wanted = self.model.jobs[&id].cancel_requested;
        agree("the cancellation in an update", &wanted, &got.cancel_requested)?;
        if let Some(byte) = checkpoint {
            self.model.checkpoint(id, byte);
        }
        Ok(())
    }

    async fn change(&mut self, number: usize, wish: Wish) -> Same {
        let Some(id) = pick(&self.ids, number).copied() else { return Ok(()) };
        let item = ChangeItem::new(id, change(wish));
        let reply = self.rig.engine().change(vec![item]).await.map_err(|e| e.to_string())?.value;
        let got = reply.into_iter().next().expect("one answer for one change");
        let got = got.map(|changed| changed.state).map_err(|error| error.code());
        let expected = self.model.or_nothing(|model| wished(model, id, wish));
        agree("a change", &expected, &got)
    }

    async fn configure(&mut self, setting: Setting) -> Same {
        let queue = |n: usize, patch| Configure::queue(QUEUES[n], patch);
        let kind = |n: usize, patch| Configure::kind(KINDS[n], patch);
        let change = match setting {
            Setting::PauseQueue(n, on) => queue(n, QueuePatch::paused(on)),
            Setting::PauseKind(n, on) => kind(n, KindPatch::paused(on)),
            Setting::Permits(n, permits) => kind(n, KindPatch::permits(permits)),
            Setting::MaxDepth(n, limit) => queue(n, QueuePatch::max_depth(limit)),
            Setting::MaxWait(n, limit) => queue(n, QueuePatch::max_wait_ms(limit)),
            Setting::Retention(n, ms) => queue(n, QueuePatch::retention(Retention::uniform(ms))),
        };
        match &change {
            Configure::Queue(name, patch) => {
                patch.apply(self.model.queues.entry(name.clone()).or_default());
            }
            Configure::Kind(name, patch) => {
                patch.apply(self.model.kinds.entry(name.clone()).or_default());
            }
            _ => return Err("no such setting in stories".into()),
        }
        self.rig.try_configure(change).await.map_err(|error| error.to_string())
    }

    async fn maintain(&mut self, work: Work, budget: u32) -> Same {
        // Which of several overdue jobs a small budget reaches is promised for promotion only.
        let budget = if work == Work::Promote { budget } else { MAINTAIN_BUDGET_MAX };
        let request = MaintainRequest::new(work, budget);
        let got = self.rig.engine().maintain(request).await.map_err(|e| e.to_string())?.value;
        let due = self.overdue(work);
        let event = match work {
            Work::Promote => EventKind::Due,
            Work::Expire => EventKind::Expire,
            Work::Retain => EventKind::Retain,
            _ => EventKind::Lose,
        };
        let left = due.len().saturating_sub(budget as usize);
        if work != Work::Reclaim {
            let done = due.len().min(budget as usize) as u32;
            agree("the work done and left", &(done, left > 0), &(got.done, got.more))?;
        }
        for id in due.into_iter().take(budget as usize) {
            let run_at = (work == Work::Reclaim).then(|| self.model.crash_span(id));
            self.model.apply(id, event, run_at, None).map_err(str::to_owned)?;
        }
        if work == Work::Reclaim {
            let now = self.model.now;
            self.model.sessions.retain(|_, session| session.expires_at > now);
        }
        if work != Work::Promote {
            self.model.in_any_order();
        }
        Ok(())
    }

    /// The jobs some work must touch now, in order.
    fn overdue(&self, work: Work) -> Vec<JobId> {
        let (model, now) = (&self.model, self.model.now);
        let is_due = |job: &&ModelJob| -> bool {
            let settings = model.queues.get(&job.new.queue).cloned().unwrap_or_default();
            let policy = &job.new.policy;
            match (work, job.state) {
                (Work::Promote, State::Scheduled) => job.run_at.0 <= now,
                (Work::Expire, State::Blocked | State::Available | State::Paused) => {
                    let at = expires_at(job.run_at.0, policy.max_wait_ms, settings.max_wait_ms);
                    at.is_some_and(|at| at <= now)
                }
                (Work::Retain, state) => job.finished_at.is_some_and(|at| {
                    keep_until(state, at, policy.retention, settings.retention) <= now
                }),
                (Work::Reclaim, State::Running) => job.leased.as_ref().is_some_and(|leased| {
                    model.sessions.get(&leased.session).is_none_or(|s| s.expires_at <= now)
                }),
                _ => false,
            }
        };
        let mut due: Vec<&ModelJob> = model.jobs.values().filter(is_due).collect();
        due.sort_by_key(|job| (job.run_at.0, job.entered()));
        due.into_iter().map(|job| job.id).collect()
    }

    /// Every job, session and lane must look the same on both sides.
    async fn compare(&mut self) -> Same {
        let mut ids = self.ids.clone();
        ids.sort_unstable();
        ids.dedup();
        let get = Get::new(ids.iter().copied()).parts(PartSet::ALL);
        let reply = self.rig.engine().get(get).await.map_err(|error| error.to_string())?;
        agree("the time", &self.model.now, &reply.now)?;
        for (id, got) in ids.iter().zip(&reply.value) {
            match (self.model.jobs.get_mut(id), got) {
                (None, None) => {}
                (Some(job), Some(got)) => compare_job(job, got)?,
                (known, _) => {
                    let exists = known.is_some();
                    agree(&format!("whether {id} exists"), &exists, &got.is_some())?;
                }
            }
        }
        self.compare_lanes().await?;
        self.compare_sessions().await
    }

    async fn compare_lanes(&self) -> Same {
        let mut lanes: BTreeMap<(Name, Name), LaneStats> = BTreeMap::new();
        for job in self.model.jobs.values() {
            let (queue, kind) = (job.new.queue.clone(), job.new.kind.clone());
            let gate = self.model.gate(&queue, &kind);
            let empty = LaneStats::empty(queue.clone(), kind.clone());
            let lane = lanes.entry((queue, kind)).or_insert(empty);
            lane.gate = gate;
            if let Some(counter) = lane.counter(job.state) {
                *counter += 1;
            }
        }
        let got = self.rig.engine().stats(StatsRequest::default()).await;
        let got = got.map_err(|error| error.to_string())?.value;
        let counts = |stats: &LaneStats| stats.depth() + stats.running + stats.dead > 0;
        let expected: Vec<LaneStats> = lanes.into_values().filter(counts).collect();
        let mut got: Vec<LaneStats> = got.into_iter().filter(counts).collect();
        for lane in &mut got {
            let is_ready = lane.available > 0;
            agree("whether a lane has a head", &is_ready, &lane.oldest_ready_at.is_some())?;
            lane.oldest_ready_at = None;
        }
        got.sort_by(|a, b| (&a.queue, &a.kind).cmp(&(&b.queue, &b.kind)));
        agree("lanes", &expected, &got)
    }

    async fn compare_sessions(&self) -> Same {
        let got = self.rig.engine().sessions().await.map_err(|error| error.to_string())?.value;
        let open = |id: &&SessionId| self.model.sessions.contains_key(*id);
        let expected: Vec<&SessionId> = self.sessions.iter().filter(open).collect();
        for id in expected {
            let Some(info) = got.iter().find(|info| info.id == *id) else {
                return Err(format!("session {id} should be open"));
            };
            let known = (self.model.sessions[id].expires_at, self.model.held_by(id).len() as u64);
            agree("a session", &known, &(info.expires_at, info.running))?;
        }
        agree("the number of sessions", &self.model.sessions.len(), &got.len())
    }
}

/// A job on both sides; where the engine was free to choose, the model takes its choice.
fn compare_job(job: &mut ModelJob, got: &Job) -> Same {
    let what = |field: &str| format!("{field} of job {}", job.id);
    agree(&what("state"), &job.state, &got.state)?;
    agree(&what("counters"), &job.counters, &got.header.counters)?;
    agree(&what("priority"), &job.new.priority, &got.header.priority)?;
    agree(&what("finish"), &job.finish, &got.finish)?;
    agree(&what("end"), &job.finished_at, &got.finished_at)?;
    agree(&what("cancellation"), &job.cancel_requested, &got.cancel_requested)?;
    let bytes = job.checkpoint.map(|byte| Bytes::from(vec![byte]));
    agree(&what("checkpoint"), &bytes, &got.parts.state.as_ref().map(|part| part.bytes.clone()))?;
    let (least, most): (Timestamp, Timestamp) = job.run_at;
    let run_at = got.header.run_at;
    if run_at < least || run_at > most {
        return Err(format!("{}: {run_at} is not in {least}..{most}", what("run_at")));
    }
    job.run_at = (run_at, run_at);
    Ok(())
}

fn wished(model: &mut Model, id: JobId, wish: Wish) -> Result<Option<State>, Code> {
    let now = model.now;
    let at = |ms| Some((now.plus(ms), now.plus(ms)));
    let event = change(wish).event();
    let run_at = match wish {
        Wish::Promote => at(0),
        Wish::Reschedule(ms) | Wish::Replay { delay_ms: ms } => at(ms),
        _ => None,
    };
    if let (Wish::Reprioritise(priority), Some(job)) = (wish, model.jobs.get_mut(&id)) {
        job.new.priority = priority;
    }
    if matches!(wish, Wish::Replay { .. })
        && let Some(job) = model.jobs.get(&id)
        && matches!(job.state, State::Dead | State::Cancelled | State::Expired)
        && let Some(unique) = job.new.unique.clone()
    {
        let slot = slot(&job.new);
        if model.holder(&slot).is_some_and(|holder| holder != id) {
            return Err("duplicate");
        }
        model.hold(slot, id, unique.until);
    }
    model.apply(id, event, run_at, None)
}

fn outcome(report: Report) -> Outcome {
    match report {
        Report::Complete => Outcome::DONE,
        Report::Retry(delay_ms) => match Outcome::retry("oops", "again") {
            Outcome::Retry { error, .. } => Outcome::Retry { error, delay_ms },
            other => other,
        },
        Report::Snooze(delay_ms) => Outcome::Snooze { delay_ms },
        Report::Fail => Outcome::fail("oops", "never"),
        Report::Release => Outcome::Release,
        Report::Wait => Outcome::Wait,
        Report::Cancel => Outcome::Cancel,
    }
}

fn change(wish: Wish) -> Change {
    match wish {
        Wish::Cancel => Change::Cancel,
        Wish::Promote => Change::Promote,
        Wish::Reschedule(ms) => Change::Reschedule(Due::After(ms)),
        Wish::Reprioritise(priority) => Change::Reprioritise(priority),
        Wish::Pause => Change::Pause,
        Wish::Resume => Change::Resume,
        Wish::Signal => Change::Signal,
        Wish::Replay { delay_ms } => {
            let mut edits = Edits::default();
            edits.due = Due::After(delay_ms);
            Change::Replay(Box::new(edits))
        }
        Wish::Discard => Change::Discard,
    }
}

fn code<T>(answer: &Answer<T>) -> Option<Code> {
    answer.as_ref().err().map(Error::code)
}

/// The `number`-th, counted around.
fn pick<T>(list: &[T], number: usize) -> Option<&T> {
    (!list.is_empty()).then(|| &list[number % list.len()])
}
