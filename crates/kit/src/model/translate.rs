//! Translates operations of a sequence to engine requests.

use super::lockstep::{BACKOFF, Lockstep, pick};
use super::op::{ClaimSpec, KINDS, QUEUES, Report, Spec, Wish};
use windlass_core::engine::{Change, Claim, ClaimId, Claimant, Edits, Outcome, SessionId};
use windlass_core::model::{Due, NewJob, Part, PartEdit, PartSet, Policy};
use windlass_core::policy::{Retention, Unique};
use windlass_core::random::SystemRandom;

impl Lockstep {
    pub(super) fn job(&self, spec: &Spec) -> NewJob {
        let again = spec.again.and_then(|number| pick(&self.ids, number).copied());
        // Ids that are too old are refused, which other checks test; sequences use ids within a day.
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
}

pub(super) fn outcome(report: Report) -> Outcome {
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
        Wish::Pause => Change::Pause,
        Wish::Resume => Change::Resume,
        Wish::Signal => Change::Signal,
        Wish::Replay(edit) => {
            let mut edits = Edits::default();
            edits.due = Due::After(edit.delay_ms);
            edits.priority = edit.priority;
            edits.policy = edit.max_attempts.map(policy);
            if let Some(byte) = edit.payload {
                edits.payload = PartEdit::Set(Part::new(vec![byte]));
            }
            if edit.start_over {
                edits.state = PartEdit::Unset;
            }
            Change::Replay(Box::new(edits))
        }
        Wish::Discard => Change::Discard,
    }
}
