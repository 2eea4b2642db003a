//! Explains why a job is not running: all causes of its state, in the order in which they must end.

use crate::entry::Entry;
use crate::executor::Executor;
use crate::limits::lane_of;
use crate::rows::{GroupLine, LaneKey, Rows};
use windlass_core::engine::{Cause, CauseCode, Explanation, Gate};
use windlass_core::limits::{AHEAD_COUNTED_MAX, CLAIM_KINDS_MAX, CLAIM_QUEUES_MAX};
use windlass_core::model::{Job, Limit, Name, Placement, State};
use windlass_core::policy::{Ahead, Room, closed_gates};
use windlass_core::{JobId, Result, Timestamp};

/// Workers with an open session.
struct Serving {
    /// Those that claim from the queue.
    queue: u64,
    /// Those of them that have a handler for the kind.
    lane: u64,
}

impl<R: Rows> Executor<R> {
    /// Explains why a job is not running; see [`windlass_core::engine::Admin::why`].
    pub fn why(&self, id: JobId, now: Timestamp) -> Result<Explanation> {
        let entry = self.read(id, Clone::clone)?;
        let state = entry.job.state;
        let causes = match state.placement() {
            Placement::Leased => vec![self.why_running(&entry)],
            Placement::Ended => vec![ended(&entry.job)],
            Placement::Scheduled | Placement::Ready | Placement::Aside => {
                self.why_waiting(&entry, now)?
            }
        };
        let (queue, kind) = lane_of(&entry.job.header);
        Ok(Explanation::new(id, queue, kind, state, causes))
    }

    fn why_running(&self, entry: &Entry) -> Cause {
        let mut cause = Cause::new(CauseCode::Running);
        cause.cancel_requested = entry.job.cancel_requested;
        let Some(leased) = &entry.leased else { return cause };
        cause.worker = Some(leased.worker.clone());
        if let Some(session) = self.sessions.get(&leased.session) {
            cause.host.clone_from(&session.info.host);
            cause.until = Some(session.expires_at);
        }
        cause.since(leased.started_at)
    }

    /// The causes of a waiting job: its own first, then those that keep it out of ready, then those of its lane.
    fn why_waiting(&self, entry: &Entry, now: Timestamp) -> Result<Vec<Cause>> {
        let lane = lane_of(&entry.job.header);
        let mut causes = own_causes(entry, now);
        causes.extend(self.why_dependent(entry)?);
        causes.extend(self.why_key(entry)?);
        let is_ready = entry.job.state == State::Available;
        let ahead = if is_ready { Some(self.ready_ahead(entry, &lane)?) } else { None };
        // The limits of other jobs are checked once they are due and wait for nothing else.
        let is_limited = is_ready || entry.in_group_line();
        if is_limited {
            causes.extend(self.why_group(entry, &lane, now)?);
        }
        causes.extend(self.why_gated(&lane, ahead, now));
        if is_limited {
            for limit in self.limits_of(&lane).into_iter().filter(|(_, limit)| !limit.by_group) {
                causes.extend(self.why_limited(limit, entry, Ahead::default(), now)?);
            }
        }
        let serving = self.serving(&lane, now);
        let is_due = is_ready || entry.job.state == State::Blocked;
        if is_due && serving.lane == 0 {
            let mut cause = Cause::new(CauseCode::NoWorker);
            cause.workers = Some(serving.queue);
            causes.push(cause);
        }
        if let Some(ahead) = ahead {
            let mut cause = Cause::new(CauseCode::InLine).since(entry.ready_at);
            (cause.ahead, cause.at_least) = counted(ahead);
            cause.workers = Some(serving.lane);
            causes.push(cause);
        }
        Ok(causes)
    }

    /// The first of the jobs that a job depends on and that have not ended.
    fn why_dependent(&self, entry: &Entry) -> Result<Option<Cause>> {
        let open = entry.job.dependencies.open;
        if open == 0 {
            return Ok(None);
        }
        let mut cause = Cause::new(CauseCode::Dependency).since(entry.job.changed_at);
        cause.dependencies = Some(open);
        let inputs = self.rows.inputs(entry.id())?;
        cause.holder = inputs.iter().find(|input| input.is_open()).map(|input| input.job);
        if let Some(job) = cause.holder {
            cause.holder_state = self.state(job)?;
        }
        Ok(Some(cause))
    }

    /// The job that holds the ordering key of a blocked job, or the first in line for it.
    fn why_key(&self, entry: &Entry) -> Result<Option<Cause>> {
        let header = &entry.job.header;
        let Some(key) = header.key.as_ref().filter(|_| entry.in_line()) else { return Ok(None) };
        let line = self.rows.line(&header.queue, key)?;
        let first = line.first.map(|(_, id)| id).filter(|id| *id != header.id);
        let mut cause = Cause::new(CauseCode::Key).since(entry.job.changed_at);
        cause.key = Some(key.clone());
        cause.holder = line.holder.or(first);
        if let Some(holder) = cause.holder {
            cause.holder_state = self.state(holder)?;
        }
        Ok(Some(cause))
    }

    /// The limits by group that keep a job in line, or that would return a ready job to its line.
    fn why_group(&self, entry: &Entry, lane: &LaneKey, now: Timestamp) -> Result<Vec<Cause>> {
        let (header, in_line) = (&entry.job.header, entry.in_group_line());
        let group = header.limit_group();
        let line = match in_line {
            true => self.rows.group_line(lane, group)?,
            false => GroupLine::default(),
        };
        let mut causes = Vec::new();
        for limit in self.limits_of(lane).into_iter().filter(|(_, limit)| limit.by_group) {
            causes.extend(self.why_limited(limit, entry, line.ahead, now)?);
        }
        if causes.is_empty() && in_line {
            // Its limits have room: it waits for the jobs before it, or is released by the next step.
            let mut cause = Cause::new(CauseCode::Limit).until(line.opens_at);
            let waits_for = line.first.as_ref().map(|first| &first.limit);
            cause.limit = waits_for.or_else(|| entry.job.limits.first()).cloned();
            cause.group = Some(group.to_owned());
            causes.push(cause);
        }
        if let Some(first) = line.first.filter(|first| first.id != header.id) {
            for cause in &mut causes {
                (cause.holder, cause.holder_state) = (Some(first.id), Some(State::Blocked));
            }
        }
        if in_line {
            causes.iter_mut().for_each(|cause| cause.since = Some(entry.job.changed_at));
        }
        Ok(causes)
    }

    /// Why a limit does not let a job start; `None` if it has room.
    fn why_limited(
        &self,
        (name, limit): (&Name, &Limit),
        entry: &Entry,
        ahead: Ahead,
        now: Timestamp,
    ) -> Result<Option<Cause>> {
        let header = &entry.job.header;
        let group = header.limit_group();
        let until = match self.room_under((name, limit), group, ahead, header.cost, now)? {
            Room::Now => return Ok(None),
            Room::At(at) => Some(at),
            Room::Later => None,
        };
        let counted_in = limit.counted_in(group);
        let (tokens, held_until) = self.allowed(name, limit, counted_in, now)?;
        let code = if held_until.is_some() { CauseCode::LimitHeld } else { CauseCode::Limit };
        let mut cause = Cause::new(code).until(until.or(held_until));
        cause.limit = Some(name.clone());
        cause.group = limit.by_group.then(|| group.to_owned());
        cause.running = Some(self.rows.running_under(name, limit.by_group.then_some(group))?);
        cause.max_running = limit.rule_for(group).max_running;
        (cause.tokens, cause.cost) = (tokens, tokens.map(|_| header.cost));
        Ok(Some(cause))
    }

    /// The closed gates of a lane, and permits that the jobs ahead will use up.
    fn why_gated(
        &self,
        lane: &LaneKey,
        ahead: Option<usize>,
        now: Timestamp,
    ) -> impl Iterator<Item = Cause> + use<R> {
        let (queue, kind) = (self.queues.get(&lane.0), self.kinds.get(&lane.1));
        let gate = |(gate, until): (Gate, Option<Timestamp>)| {
            let code = match gate {
                Gate::QueuePaused => CauseCode::QueuePaused,
                Gate::QueueHeld => CauseCode::QueueHeld,
                Gate::KindPaused => CauseCode::KindPaused,
                Gate::NoPermits => CauseCode::Permits,
                // Explained limit by limit.
                Gate::Limited => return None,
                // A gate of a newer core.
                _ => return None,
            };
            let mut cause = Cause::new(code).until(until);
            cause.permits = (gate == Gate::NoPermits).then_some(0);
            Some(cause)
        };
        let permits = kind.and_then(|settings| settings.permits).filter(|permits| *permits > 0);
        let used_up = permits.zip(ahead).filter(|(permits, ahead)| *permits as usize <= *ahead);
        let used_up = used_up.map(|(permits, ahead)| {
            let mut cause = Cause::new(CauseCode::Permits);
            cause.permits = Some(permits);
            (cause.ahead, cause.at_least) = counted(ahead);
            cause
        });
        closed_gates(queue, kind, now).filter_map(gate).chain(used_up)
    }

    /// The number of ready jobs before a ready job of this lane, up to [`AHEAD_COUNTED_MAX`].
    fn ready_ahead(&self, entry: &Entry, lane: &LaneKey) -> Result<usize> {
        let heads = self.rows.ready(lane, None, AHEAD_COUNTED_MAX)?;
        let place = (entry.rank, entry.seq);
        Ok(heads.iter().take_while(|head| (head.rank, head.seq) < place).count())
    }

    /// The workers with an open session that serve a lane. A worker that sent no names, or as many as fit, may serve
    /// others, too. Sessions of single claims end with their jobs and serve nothing else.
    fn serving(&self, (queue, kind): &LaneKey, now: Timestamp) -> Serving {
        let serves = |names: &[Name], max: usize, name: &Name| {
            names.is_empty() || names.len() >= max || names.contains(name)
        };
        let mut serving = Serving { queue: 0, lane: 0 };
        let open =
            |session: &&crate::session::SessionEntry| !session.alone && session.expires_at > now;
        for session in self.sessions.values().filter(open) {
            if serves(&session.info.queues, CLAIM_QUEUES_MAX, queue) {
                serving.queue += 1;
                let has_kind = serves(&session.info.kinds, CLAIM_KINDS_MAX, kind);
                serving.lane += u64::from(has_kind);
            }
        }
        serving
    }
}

/// A number of jobs that were counted, and whether there may be more.
const fn counted(ahead: usize) -> (Option<u64>, bool) {
    (Some(ahead as u64), ahead >= AHEAD_COUNTED_MAX)
}

/// The causes of a waiting job that concern no other job and no setting.
fn own_causes(entry: &Entry, now: Timestamp) -> Vec<Cause> {
    let Job { header, state, .. } = &entry.job;
    let mut causes = Vec::new();
    if *state == State::Paused {
        causes.push(Cause::new(CauseCode::JobPaused).since(entry.job.changed_at));
    }
    // A blocked or ready job was due: a clock that was set back does not change that.
    let waits_for_time = matches!(state, State::Scheduled | State::Paused);
    let wait = entry.continuation().and_then(|continuation| continuation.wait.as_ref());
    let timed = wait.is_some_and(|wait| wait.timeout_ms.is_some());
    if let Some(wait) = wait {
        let until = timed.then_some(header.run_at);
        let mut cause = Cause::new(CauseCode::Signal).since(entry.job.changed_at).until(until);
        cause.signals.clone_from(&wait.signals);
        causes.push(cause);
    }
    // The end of a wait is not a time that the job waits for.
    if timed && header.run_at > now {
        return causes;
    }
    if waits_for_time && header.run_at > now {
        let mut cause = Cause::new(CauseCode::NotDue).until(header.run_at);
        let failed = header.counters.failures > 0;
        cause.error = entry.job.error.clone().filter(|_| failed);
        causes.push(cause);
    } else if *state == State::Scheduled {
        causes.push(Cause::new(CauseCode::NotPromoted).since(header.run_at));
    }
    causes
}

fn ended(job: &Job) -> Cause {
    let mut cause = Cause::new(CauseCode::Ended).since(job.finished_at);
    cause.finish.clone_from(&job.finish);
    cause.error = job.error.clone().filter(|_| job.state == State::Dead);
    cause
}
