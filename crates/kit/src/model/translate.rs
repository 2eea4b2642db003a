//! Translates operations of a sequence to engine requests.

use super::op::{ClaimSpec, KINDS, QUEUES, Report, SIGNALS, Setting, SettleSpec, Spec, Wish};
use std::collections::BTreeMap;
use windlass_core::engine::{
    Change, Claim, ClaimId, Claimant, Configure, Edits, Lease, Outcome, SessionId, SettleItem,
};
use windlass_core::model::{
    Due, EventBounds, KindPatch, Name, NewJob, Part, PartEdit, PartSet, Policy, QueuePatch,
    SignalWait,
};
use windlass_core::policy::{Backoff, KeepMaxFields, Retention, Unique};
use windlass_core::random::Seeded;
use windlass_core::{JobId, Timestamp};

/// The backoff of all sequences: predictable, except for jitter, which the model adopts from the engine.
pub(super) const BACKOFF: Backoff =
    Backoff::Exponential { base_ms: 2_000, cap_ms: 8_000, jitter_ms: 500 };

/// Everything that a sequence has created so far. Operations refer to it by number.
pub(super) struct Named {
    /// Every job ever enqueued, in order, including removed ones.
    pub(super) ids: Vec<JobId>,
    /// Every session ever opened by a worker, including closed ones.
    pub(super) sessions: Vec<SessionId>,
    /// Every lease ever issued.
    pub(super) leases: Vec<(JobId, Lease)>,
    /// The number of the latest claim of all.
    pub(super) claim_no: u64,
    /// The number of each claimant's latest claim.
    claims: BTreeMap<SessionId, u64>,
    alone: Vec<ClaimId>,
    random: Seeded,
}

impl Named {
    pub(super) const fn new() -> Self {
        Self {
            ids: Vec::new(),
            sessions: Vec::new(),
            leases: Vec::new(),
            claim_no: 0,
            claims: BTreeMap::new(),
            alone: Vec::new(),
            random: Seeded::new(1),
        }
    }

    pub(super) fn fresh_id(&self, now: Timestamp) -> JobId {
        JobId::new(now, &self.random)
    }

    pub(super) fn job(&self, spec: &Spec, now: Timestamp) -> NewJob {
        let again = spec.again.and_then(|number| pick(&self.ids, number).copied());
        // Ids that are too old are refused, which other checks test; sequences use ids within a day.
        let again = again.filter(|id| id.check(now).is_ok());
        let mut job = NewJob::new(KINDS[spec.kind])
            .queue(QUEUES[spec.queue])
            .priority(spec.priority)
            .due(if spec.delay_ms == 0 { Due::Now } else { Due::After(spec.delay_ms) })
            .max_attempts(spec.max_attempts)
            .max_crashes(spec.max_crashes)
            .backoff(BACKOFF);
        job.id = again;
        job.key = spec.key.map(key);
        spec.extras.add_to(&mut job);
        job.policy.max_wait_ms = spec.max_wait_ms;
        job.policy.retention = spec.retention_ms.map(Retention::uniform_ms);
        job.unique = spec.unique.map(|(key, scope, until, on_conflict)| {
            Unique::by(unique_key(key)).scope(scope).until(until).on_conflict(on_conflict)
        });
        job
    }

    /// The claim of a spec; `None` if there is no session yet to make it.
    pub(super) fn resolve(&mut self, spec: &ClaimSpec) -> Option<(Claim, SessionId, u64)> {
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
                    self.alone.push(ClaimId::random(&self.random));
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
        claim.from_priority = spec.from_priority;
        claim.queues.clear();
        for (queue, limit) in &spec.queues {
            claim = claim.queue(QUEUES[*queue], *limit);
        }
        for (kind, limit) in spec.kinds.iter().flatten() {
            claim = claim.kind(KINDS[*kind], *limit);
        }
        Some((claim, session, claim_no))
    }
}

/// An ordering key of the sequences.
pub(super) fn key(number: u8) -> String {
    format!("key-{number}")
}

/// A unique key of the sequences.
pub(super) fn unique_key(number: u8) -> String {
    format!("u-{number}")
}

/// The element at `number` modulo the length.
pub(super) fn pick<T>(list: &[T], number: usize) -> Option<&T> {
    (!list.is_empty()).then(|| &list[number % list.len()])
}

pub(super) fn outcome(report: Report) -> Outcome {
    match report {
        Report::Complete(None) => Outcome::DONE,
        Report::Complete(Some(byte)) => Outcome::Complete { result: Some(Part::new(vec![byte])) },
        Report::Retry(delay_ms) => match Outcome::retry("oops", "again") {
            Outcome::Retry { error, .. } => Outcome::Retry { error, delay_ms },
            other => other,
        },
        Report::Snooze(delay_ms) => Outcome::Snooze { delay_ms },
        Report::Fail => Outcome::fail("oops", "never"),
        Report::Release => Outcome::Release,
        Report::Wait(name, timeout_ms) => {
            let mut wait = SignalWait::for_signals(name.map(|name| SIGNALS[name]));
            wait.timeout_ms = timeout_ms;
            Outcome::Wait(wait)
        }
        Report::Cancel => Outcome::Cancel,
    }
}

/// A queue of the sequences.
pub(super) fn queue(number: usize) -> Name {
    QUEUES[number].into()
}

/// Sets a part to one byte, or keeps it.
pub(super) fn part_edit(byte: Option<u8>) -> PartEdit {
    byte.map_or(PartEdit::Keep, |byte| PartEdit::Set(Part::new(vec![byte])))
}

/// A report, with these follow-ups.
pub(super) fn settle_item(
    (id, lease): (JobId, Lease),
    settle: &SettleSpec,
    follow_ups: Vec<NewJob>,
) -> SettleItem {
    let mut item = SettleItem::new(id, lease, outcome(settle.report));
    item.parts.checkpoint = part_edit(settle.checkpoint);
    item.parts.payload = part_edit(settle.payload);
    item.queue = settle.queue.map(queue);
    item.follow_ups = follow_ups;
    item
}

/// The policy that a replay sets.
pub(super) fn policy(max_attempts: u32) -> Policy {
    let mut policy = Policy::default();
    policy.max_attempts = max_attempts;
    policy.backoff = BACKOFF;
    policy
}

pub(super) fn change(wish: Wish) -> Change {
    match wish {
        Wish::Cancel => Change::Cancel,
        Wish::Promote => Change::Promote,
        Wish::Reschedule(ms) => Change::Reschedule(Due::After(ms)),
        Wish::Reprioritise(priority) => Change::Reprioritise(priority),
        Wish::Move(queue) => Change::Move(QUEUES[queue].into()),
        Wish::Kill => Change::Kill,
        Wish::Pause => Change::Pause,
        Wish::Resume => Change::Resume,
        Wish::Signal(name) => Change::signal(SIGNALS[name]),
        Wish::Replay(edit) => {
            let mut edits = Edits::default();
            edits.due = Due::After(edit.delay_ms);
            edits.priority = edit.priority;
            edits.policy = edit.max_attempts.map(policy);
            edits.queue = edit.queue.map(queue);
            edits.payload = part_edit(edit.payload);
            if edit.start_over {
                edits.checkpoint = PartEdit::Unset;
            }
            Change::Replay(Box::new(edits))
        }
        Wish::Discard => Change::Discard,
    }
}

pub(super) fn configuration(setting: Setting) -> Configure {
    let queue = |n: usize, patch| Configure::queue(QUEUES[n], patch);
    let kind = |n: usize, patch| Configure::kind(KINDS[n], patch);
    match setting {
        Setting::PauseQueue(n, on) => queue(n, QueuePatch::paused(on)),
        Setting::PauseKind(n, on) => kind(n, KindPatch::paused(on)),
        Setting::Permits(n, permits) => kind(n, KindPatch::permits(permits)),
        Setting::MaxDepth(n, limit) => queue(n, QueuePatch::max_depth(limit)),
        Setting::MaxWait(n, limit) => queue(n, QueuePatch::max_wait_ms(limit)),
        Setting::KeepMax(n, most) => {
            let [completed, cancelled, dead, expired] = [most; 4];
            let keep_max = KeepMaxFields { completed, cancelled, dead, expired };
            queue(n, QueuePatch::keep_max(keep_max.into()))
        }
        Setting::Events(n, on) => queue(n, QueuePatch::events(on.then(EventBounds::default))),
        Setting::Retention(n, ms) => queue(n, QueuePatch::retention(Retention::uniform_ms(ms))),
    }
}
