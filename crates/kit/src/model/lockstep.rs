//! Runs a sequence of operations on an engine and on the model, and compares both after every step.

use super::claiming::Wants;
use super::interpreter::{Code, Model, ModelSession, agree};
use super::op::{ClaimSpec, KINDS, Op, QUEUES, Report, Setting, SettleSpec, Spec, Wish};
use super::translate::{
    BACKOFF, Named, change, configuration, outcome, part_edit, pick, queue, settle_item,
};
use super::upkeep::wished;
use crate::rig::Rig;
use crate::subject::Subject;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use windlass_core::engine::{
    Capability, ChangeItem, Claimed, Configure, Cursor, Disposition, Enqueue, Heartbeat, Held,
    OpenSession, Outcome, RemovedQuery, SessionId, Settle, Update, UpdateItem,
};
use windlass_core::limits::{ID_SKEW_MAX_MS, PAGE_MAX, REMOVED_KEPT_DEFAULT_MS};
use windlass_core::machine::EventKind;
use windlass_core::model::{AttemptEnd, Name, NewJob, State};
use windlass_core::{Error, JobId, Result as Answer};

/// The difference, in words.
pub(super) type Same = Result<(), String>;

pub(super) struct Lockstep {
    pub(super) rig: Rig,
    pub(super) model: Model,
    pub(super) named: Named,
    story: String,
    /// Positions in the streams of queues with events.
    pub(super) read_to: BTreeMap<Name, Cursor>,
}

impl Lockstep {
    pub(super) fn new(subject: Subject) -> Self {
        Self {
            rig: Rig::new(subject),
            model: Model::new(crate::subject::START),
            named: Named::new(),
            story: String::new(),
            read_to: BTreeMap::new(),
        }
    }

    pub(super) fn story(&self) -> &str {
        &self.story
    }

    /// Executes one step; `Err` describes how engine and model differ.
    pub(super) async fn step(&mut self, op: &Op) -> Same {
        let _ = writeln!(self.story, "  {op:?}");
        if self.model.now == crate::subject::START {
            self.model.now = self.rig.now().await;
            self.configure(Setting::Events(QUEUES.len() - 1, true)).await?;
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
            Op::Settle { lease, settle, claim } => self.settle(lease, settle, claim).await?,
            Op::Update { lease, checkpoint, payload, extend_ms } => {
                self.update(lease, checkpoint, payload, extend_ms).await?;
            }
            Op::Change { job, wish, if_state } => self.change(job, wish, if_state).await?,
            Op::Import { job, discards } => self.import(job, discards).await?,
            Op::Configure(setting) => self.configure(setting).await?,
            Op::Advance { ms } => {
                self.rig.advance(ms);
                self.model.now = self.model.now.plus(ms);
            }
            Op::Maintain { work, budget } => self.maintain(work, budget).await?,
        }
        // Before the comparison of the jobs adopts the engine's numbers of transitions.
        self.compare_events().await?;
        self.compare().await
    }

    /// The final step: the store's own check must find nothing.
    pub(super) async fn end(&self) -> Same {
        let report = self.rig.engine().check(false).await.map_err(|error| error.to_string())?.value;
        let jobs = self.model.jobs.len() as u64;
        agree("the number of jobs", &jobs, &report.jobs)?;
        agree("the findings of a check", &Vec::new(), &report.findings)?;
        self.compare_removed().await
    }

    /// Compares the history of removed jobs, without hours that compaction may have deleted.
    async fn compare_removed(&self) -> Same {
        let mut query = RemovedQuery::default();
        query.from = self.model.now.minus(REMOVED_KEPT_DEFAULT_MS / 2);
        query.limit = PAGE_MAX;
        let got = self.rig.engine().removed(query.clone()).await.map_err(|e| e.to_string())?;
        let expected = self.model.removed.page(&query).map_err(|error| error.to_string())?;
        agree("the history of removed jobs", &expected.rows, &got.value.rows)
    }

    async fn enqueue(&mut self, specs: Vec<Spec>, all_or_nothing: bool) -> Same {
        let mut jobs: Vec<NewJob> =
            specs.iter().map(|spec| self.named.job(spec, self.model.now)).collect();
        for job in &mut jobs {
            let fresh = self.named.fresh_id(self.model.now);
            self.named.ids.push(*job.id.get_or_insert(fresh));
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
            // The invalid job returns its own error, the others return `aborted`.
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
        self.named.sessions.push(got.id);
        Ok(())
    }

    async fn close_session(&mut self, number: usize) -> Same {
        let Some(session) = pick(&self.named.sessions, number).cloned() else { return Ok(()) };
        let got = self.rig.engine().close_session(session.clone()).await;
        got.map_err(|error| error.to_string())?;
        self.release(self.model.held_by(&session))?;
        self.model.sessions.remove(&session);
        Ok(())
    }

    /// Releases jobs, in whichever order the engine chose.
    fn release(&mut self, jobs: Vec<JobId>) -> Same {
        let now = self.model.now;
        for id in jobs {
            let leased = self.model.jobs[&id].leased.clone().expect("held jobs are leased");
            self.model.remember_settled(id, leased.lease, AttemptEnd::Release);
            let released = self.model.apply(id, EventKind::Release, Some((now, now)), None);
            released.map_err(str::to_owned)?;
        }
        self.model.in_any_order();
        Ok(())
    }

    async fn heartbeat(&mut self, number: usize, forgets: Option<usize>, unanswered: bool) -> Same {
        let Some(session) = pick(&self.named.sessions, number).cloned() else { return Ok(()) };
        let mut held: Vec<Held> = Vec::new();
        for id in self.model.held_by(&session) {
            let leased = self.model.jobs[&id].leased.as_ref().expect("held jobs are leased");
            held.push(Held { id, lease: leased.lease.clone() });
        }
        let forgotten =
            forgets.filter(|_| !held.is_empty()).map(|n| held.remove(n % held.len()).id);
        let mut beat = Heartbeat::new(session.clone(), self.named.claim_no, held.clone());
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

    async fn claim(&mut self, spec: ClaimSpec) -> Same {
        let Some((claim, session, claim_no)) = self.named.resolve(&spec) else { return Ok(()) };
        let got = self.rig.engine().claim(claim).await.map(|reply| reply.value);
        self.claimed(&spec, &session, claim_no, got)
    }

    /// Compares the result of a claim.
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
            from_priority: spec.from_priority,
        };
        self.model.claim(&wants, &jobs)?;
        if let Err(lease_ms) = spec.by
            && !jobs.is_empty()
        {
            let expires_at = self.model.now.plus(lease_ms);
            let fresh = ModelSession { ttl_ms: lease_ms, expires_at, alone: true };
            self.model.sessions.entry(session.clone()).or_insert(fresh);
        }
        self.named.leases.extend(jobs.into_iter().map(|job| (job.header.id, job.lease)));
        Ok(())
    }

    async fn settle(
        &mut self,
        number: usize,
        settle: SettleSpec,
        claim: Option<ClaimSpec>,
    ) -> Same {
        let Some((id, lease)) = pick(&self.named.leases, number).cloned() else { return Ok(()) };
        let follow_ups: Vec<NewJob> =
            settle.then.iter().map(|spec| self.named.job(spec, self.model.now)).collect();
        let item = settle_item((id, lease.clone()), &settle, follow_ups.clone());
        let requested = claim.and_then(|spec| Some((self.named.resolve(&spec)?, spec)));
        let mut request = Settle::new([item]);
        if let Some(((claim, _, _), _)) = &requested {
            request = request.then(claim.clone());
        }
        let reply = self.rig.engine().settle(request).await.map_err(|e| e.to_string())?.value;
        let got = reply.items.into_iter().next().expect("one answer for one report");
        match self.model.lease_of(id, &lease) {
            Err(expected) => agree("a stale report", &Some(expected), &code(&got))?,
            Ok(Some(end)) => {
                let got = got.map_err(|error| error.to_string())?;
                agree("a repeated report", &(true, end), &(got.already, got.end))?;
            }
            Ok(None) => {
                let expected = self.settle_in_model(id, &settle, follow_ups);
                let got = got.map(|settled| {
                    (settled.already, settled.end, settled.state, {
                        settled.follow_ups.iter().map(|job| (job.id, job.disposition)).collect()
                    })
                });
                let end = |state| outcome(settle.report).end(state);
                let expected = expected.map(|(state, jobs)| (false, end(state), state, jobs));
                agree("a report", &expected, &got.map_err(|error| error.code()))?;
                if expected.is_ok() {
                    self.model.edit_parts(id, settle.checkpoint, settle.payload);
                }
            }
        }
        match (requested, reply.claimed) {
            (Some(((_, session, claim_no), spec)), Some(got)) => {
                self.claimed(&spec, &session, claim_no, got)
            }
            (None, None) => Ok(()),
            _ => Err("a claim was answered that was not asked, or the other way round".into()),
        }
    }

    fn settle_in_model(
        &mut self,
        id: JobId,
        settle: &SettleSpec,
        follow_ups: Vec<NewJob>,
    ) -> Result<(State, Vec<(JobId, Disposition)>), Code> {
        let (report, event) = (settle.report, outcome(settle.report).event());
        let ends = matches!(report, Report::Complete(_) | Report::Fail | Report::Cancel);
        if ends && settle.queue.is_some() {
            return Err("invalid");
        }
        let queue = settle.queue.map(queue);
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
            Report::Wait(_, ms) => exactly(ms.unwrap_or(0)),
            _ => exactly(0),
        };
        let settled = self.model.or_nothing(|model| {
            if let Outcome::Wait(wait) = outcome(report) {
                model.begins = Some(wait);
            }
            let state = model.apply_in(id, event, Some(run_at), queue)?;
            model.begins = None;
            let state = state.unwrap_or(State::Completed);
            model.remember_settled(id, leased.lease.clone(), outcome(report).end(state));
            let mut created = Vec::new();
            for (index, mut job) in follow_ups.into_iter().enumerate() {
                let made_at = leased.started_at.max(now.minus(ID_SKEW_MAX_MS));
                job.id = job.id.or(Some(JobId::follow_up(id, attempt, index, made_at)));
                created.push(model.enqueue(job, false)?);
            }
            Ok((state, created))
        })?;
        self.named.ids.extend(settled.1.iter().map(|(id, _)| *id));
        self.end_if_alone(&leased.session);
        Ok(settled)
    }

    /// The session of a claim without a session ends with its last lease.
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
        payload: Option<u8>,
        extend_ms: Option<u64>,
    ) -> Same {
        let Some((id, lease)) = pick(&self.named.leases, number).cloned() else { return Ok(()) };
        let mut item = UpdateItem::new(id, lease.clone());
        item.extend_ms = extend_ms;
        item.parts.checkpoint = part_edit(checkpoint);
        item.parts.payload = part_edit(payload);
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
        self.model.edit_parts(id, checkpoint, payload);
        Ok(())
    }

    async fn change(&mut self, number: usize, wish: Wish, if_state: Option<State>) -> Same {
        let Some(id) = pick(&self.named.ids, number).copied() else { return Ok(()) };
        let mut item = ChangeItem::new(id, change(wish));
        item.if_state = if_state;
        let reply = self.rig.engine().change(vec![item]).await.map_err(|e| e.to_string())?.value;
        let got = reply.into_iter().next().expect("one answer for one change");
        let got = got.map(|changed| changed.state).map_err(|error| error.code());
        let expected = self.model.or_nothing(|model| wished(model, id, wish, if_state));
        agree("a change", &expected, &got)
    }

    async fn configure(&mut self, setting: Setting) -> Same {
        if matches!(setting, Setting::Events(..)) && !self.rig.has(Capability::Events) {
            return Ok(());
        }
        let change = configuration(setting);
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
}

pub(super) fn code<T>(answer: &Answer<T>) -> Option<Code> {
    answer.as_ref().err().map(Error::code)
}
