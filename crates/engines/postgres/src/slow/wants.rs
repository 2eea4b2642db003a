//! The rows that a verb needs, as far as the request names them, and rows that a run found missing.

use crate::slow::heartbeat_cache::Known;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use windlass_core::JobId;
use windlass_core::engine::{
    ChangeItem, Claim, Claimant, Enqueue, Heartbeat, MaintainRequest, SessionId, Settle, Update,
    Work,
};
use windlass_core::limits::KEY_BYTES_MAX;
use windlass_core::model::{Name, NewJob, PartSet};
use windlass_core::{check_name, check_text};
use windlass_executor::UniqueSlot;

/// Which leases of a session a verb needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Held {
    /// The leases of one claim.
    Claim(u64),
    /// All leases; those not wanted otherwise will be released.
    All,
}

/// A tenant of a queue; `None` for jobs without a tenant.
pub(crate) type Tenant = (Name, Option<String>);

/// The rows that a verb needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wants {
    /// Sessions to lock.
    pub(crate) sessions: BTreeMap<SessionId, Held>,
    /// The cached leases of the session of which all leases are wanted.
    pub(crate) known: Option<Arc<Known>>,
    /// Whether the sessions that lease the `own` jobs are wanted, too, because they may be extended.
    pub(crate) lease_sessions: bool,
    /// Jobs to read.
    pub(crate) peek: BTreeSet<JobId>,
    /// Jobs to lock and change.
    pub(crate) own: BTreeSet<JobId>,
    /// Unique keys.
    pub(crate) slots: BTreeSet<UniqueSlot>,
    /// Ordering keys.
    pub(crate) lines: BTreeSet<(Name, String)>,
    /// Tenants of fair queues to lock.
    pub(crate) turns: BTreeSet<Tenant>,
    /// Queues whose depth is needed.
    pub(crate) depths: BTreeSet<Name>,
    /// A claim of ready jobs.
    pub(crate) heads: Option<Claim>,
    /// A maintenance request whose due jobs are needed.
    pub(crate) due: Option<MaintainRequest>,
    /// Whether settings will be changed.
    pub(crate) settings: bool,
    /// Whether `own` jobs may end, so that the next in line for their keys are wanted, too.
    pub(crate) heirs: bool,
    /// Whether `own` jobs are heirs that only move up, so that their unique keys are not needed.
    pub(crate) moving_up: bool,
    /// Parts to load.
    pub(crate) parts: PartSet,
}

impl Wants {
    /// Whether keys are wanted.
    pub(crate) fn has_keys(&self) -> bool {
        !self.slots.is_empty() || !self.lines.is_empty()
    }

    pub(crate) fn of_enqueue(request: &Enqueue) -> Self {
        let mut wants = Self::default();
        for job in &request.jobs {
            wants.new_job(job);
            if check_name("queue", &job.queue).is_ok() {
                wants.depths.insert(job.queue.clone());
            }
        }
        wants
    }

    /// Adds the keys of a new job. A job that will be refused may contain text that no statement accepts.
    fn new_job(&mut self, job: &NewJob) {
        self.peek.extend(job.id);
        let text = |text: &Option<String>| {
            text.as_ref().is_none_or(|text| check_text("key", text, KEY_BYTES_MAX).is_ok())
        };
        let names = check_name("queue", &job.queue).and_then(|()| check_name("kind", &job.kind));
        let unique_key = job.unique.as_ref().map(|unique| unique.key.clone());
        if names.is_err() || !text(&job.key) || !text(&unique_key) {
            return;
        }
        if let Some(unique) = &job.unique {
            let slot = UniqueSlot::new(unique.scope, &job.queue, &job.kind, &unique.key);
            self.slots.insert(slot);
        }
        if let Some(key) = &job.key {
            self.lines.insert((job.queue.clone(), key.clone()));
        }
    }

    pub(crate) fn of_claim(claim: &Claim) -> Self {
        let mut wants = Self::default();
        wants.claim(claim);
        wants
    }

    fn claim(&mut self, claim: &Claim) {
        let (session, held) = match &claim.by {
            Claimant::Session { session, claim_no } => (session.clone(), Held::Claim(*claim_no)),
            Claimant::Alone { claim_id, .. } => {
                (SessionId::new(format!("alone:{claim_id}")), Held::All)
            }
        };
        self.sessions.insert(session, held);
        self.heads = Some(claim.clone());
        self.parts = claim.parts;
    }

    pub(crate) fn of_settle(request: &Settle) -> Self {
        let mut wants = Self { heirs: true, ..Self::default() };
        for item in &request.items {
            wants.own.insert(item.id);
            item.follow_ups.iter().for_each(|job| wants.new_job(job));
        }
        if let Some(claim) = &request.claim {
            wants.claim(claim);
        }
        wants
    }

    pub(crate) fn of_update(request: &Update) -> Self {
        let mut wants = Self::default();
        for item in &request.items {
            wants.own.insert(item.id);
            wants.lease_sessions |= item.extend_ms.is_some();
            for name in windlass_core::model::PartName::ALL {
                if item.fetch.has(name) {
                    wants.parts = wants.parts.with(name);
                }
            }
        }
        wants
    }

    pub(crate) fn of_heartbeat(beat: &Heartbeat, known: Option<Arc<Known>>) -> Self {
        let mut wants = Self::of_session(&beat.session);
        wants.known = known;
        wants.peek.extend(beat.held.iter().map(|held| held.id));
        wants
    }

    pub(crate) fn of_session(session: &SessionId) -> Self {
        // A text that cannot be a session id is skipped.
        let known = session.check().is_ok().then(|| (session.clone(), Held::All));
        Self { sessions: known.into_iter().collect(), heirs: true, ..Self::default() }
    }

    pub(crate) fn of_change(batch: &[ChangeItem]) -> Self {
        Self { own: batch.iter().map(|item| item.id).collect(), heirs: true, ..Self::default() }
    }

    pub(crate) fn of_settings() -> Self {
        Self { settings: true, ..Self::default() }
    }

    pub(crate) fn of_maintain(request: MaintainRequest) -> Self {
        let due = (request.work != Work::Compact).then_some(request);
        Self { due, heirs: true, ..Self::default() }
    }

    /// Whether only sessions, settings and ready jobs will be locked.
    pub(crate) fn locks_nothing_more(&self) -> bool {
        self.own.is_empty() && self.slots.is_empty() && self.lines.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sessions.is_empty()
            && self.peek.is_empty()
            && self.own.is_empty()
            && self.slots.is_empty()
            && self.lines.is_empty()
            && self.turns.is_empty()
            && self.depths.is_empty()
            && self.heads.is_none()
            && self.due.is_none()
    }
}
