//! Compares engine and model after a step.

use super::interpreter::{ModelJob, agree};
use super::lockstep::{Lockstep, Same};
use bytes::Bytes;
use std::collections::BTreeMap;
use windlass_core::Timestamp;
use windlass_core::engine::{Get, LaneStats, PriorityStats, SessionId, StatsRequest};
use windlass_core::model::{Job, Name, Part, PartSet, State, Wake};

impl Lockstep {
    /// Compares every job, session and lane.
    pub(super) async fn compare(&mut self) -> Same {
        let mut ids = self.named.ids.clone();
        ids.sort_unstable();
        ids.dedup();
        let get = Get::new(ids.iter().copied()).parts(PartSet::ALL);
        let reply = self.rig.engine().get(get).await.map_err(|error| error.to_string())?;
        agree("the time", &self.model.now, &reply.now)?;
        for (id, got) in ids.iter().zip(&reply.value) {
            if let Some(got) = got {
                self.model.adopt_transitions(*id, got.transitions);
            }
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
            *lane.counter(job.state) += 1;
            match job.state {
                State::Available => count_priority(lane, job.new.priority),
                State::Scheduled => {
                    let due_at = job.run_at.0;
                    lane.next_due_at = Some(lane.next_due_at.map_or(due_at, |at| at.min(due_at)));
                }
                _ => {}
            }
        }
        let got = self.rig.engine().stats(StatsRequest::default().by_priority()).await;
        let got = got.map_err(|error| error.to_string())?.value;
        let counts = |stats: &LaneStats| stats.total() > 0;
        let expected: Vec<LaneStats> = lanes.into_values().filter(counts).collect();
        let mut got: Vec<LaneStats> = got.into_iter().filter(counts).collect();
        for lane in &mut got {
            let is_ready = lane.available > 0;
            agree("whether a lane has a head", &is_ready, &lane.head_ready_at.is_some())?;
            lane.head_ready_at = None;
            for priority in &mut lane.priorities {
                priority.head_ready_at = Timestamp::EPOCH;
            }
        }
        got.sort_by(|a, b| (&a.queue, &a.kind).cmp(&(&b.queue, &b.kind)));
        agree("lanes", &expected, &got)
    }

    async fn compare_sessions(&self) -> Same {
        let got = self.rig.engine().sessions().await.map_err(|error| error.to_string())?.value;
        let open = |id: &&SessionId| self.model.sessions.contains_key(*id);
        let expected: Vec<&SessionId> = self.named.sessions.iter().filter(open).collect();
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

/// Counts one more ready job of a priority, with any age.
fn count_priority(lane: &mut LaneStats, priority: i32) {
    let found = lane.priorities.binary_search_by_key(&priority, |reported| reported.priority);
    let at = found.unwrap_or_else(|at| {
        let head_ready_at = Timestamp::EPOCH;
        lane.priorities.insert(at, PriorityStats::new(priority, 0, head_ready_at));
        at
    });
    lane.priorities[at].available += 1;
}

/// Compares a job; where the engine had a choice, the model adopts it.
fn compare_job(job: &mut ModelJob, got: &Job) -> Same {
    let what = |field: &str| format!("{field} of job {}", job.id);
    agree(&what("state"), &job.state, &got.state)?;
    agree(&what("creation"), &job.created_at, &got.header.created_at)?;
    agree(&what("queue"), &job.new.queue, &got.header.queue)?;
    agree(&what("counters"), &job.counters, &got.header.counters)?;
    agree(&what("priority"), &job.new.priority, &got.header.priority)?;
    agree(&what("finish"), &job.finish, &got.finish)?;
    agree(&what("end"), &job.finished_at, &got.finished_at)?;
    agree(&what("transitions"), &job.transitions, &got.transitions)?;
    agree(&what("last transition"), &job.changed_at, &got.changed_at)?;
    let session = got.running.as_ref().map(|running| (&running.session, running.attempt));
    let holder = job.leased.as_ref().filter(|_| job.state == State::Running);
    let holder = holder.map(|leased| (&leased.session, job.counters.attempt));
    let alone = holder.is_some_and(|(session, _)| session.as_str().starts_with("claim "));
    if !alone {
        agree(&what("running attempt"), &holder, &session)?;
    }
    let kept = got.continuation.clone().unwrap_or_default();
    let inbox: Vec<Name> = kept.inbox.into_iter().map(|signal| signal.name).collect();
    agree(&what("inbox"), &job.inbox, &inbox)?;
    let wake = kept.wake.map(|wake| match wake {
        Wake::Signal(signal) => Some(signal.name),
        _ => None,
    });
    agree(&what("end of the last wait"), &job.wake, &wake)?;
    agree(&what("cancellation"), &job.cancel_requested, &got.cancel_requested)?;
    let bytes = |byte: Option<u8>| byte.map(|byte| Bytes::from(vec![byte]));
    let stored = |part: &Option<Part>| part.as_ref().map(|part| part.bytes.clone());
    agree(&what("checkpoint"), &bytes(job.checkpoint), &stored(&got.parts.checkpoint))?;
    agree(&what("payload"), &bytes(job.payload), &stored(&got.parts.payload))?;
    agree(&what("policy"), &job.new.policy, &got.header.policy)?;
    let (least, most): (Timestamp, Timestamp) = job.run_at;
    let run_at = got.header.run_at;
    if run_at < least || run_at > most {
        return Err(format!("{}: {run_at} is not in {least}..{most}", what("run_at")));
    }
    job.run_at = (run_at, run_at);
    Ok(())
}
