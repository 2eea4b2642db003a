//! The rows that a verb reads and changes, as far as its request determines them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use windlass_core::JobId;
use windlass_core::engine::{
    Change, ChangeItem, Claim, Enqueue, Heartbeat, Import, MaintainRequest, SessionId, Settle,
    Update, Work,
};
use windlass_core::limits::KEY_BYTES_MAX;
use windlass_core::model::{Header, Name, NewJob, PartName, PartSet};
use windlass_core::{check_name, check_text};
use windlass_executor::UniqueSlot;

/// The leases of a session that a verb reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    /// The leases of one claim.
    Claim(u64),
    /// All leases of the session. Jobs that are not in [`Wants::peek`] may be released.
    All,
}

/// A queue and one of its tenants; `None` for jobs without a tenant.
pub type Tenant = (Name, Option<String>);

/// The leases that a session can still have, as its previous heartbeat established. It lets a store skip the leases
/// that ended since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownLeases {
    /// Claims with a higher number may have leases.
    pub upto: u64,
    /// Claims whose reply the worker had not received.
    pub unanswered: Vec<u64>,
    /// Jobs that the worker declared.
    pub declared: Vec<JobId>,
}

/// The rows that a verb reads and changes.
#[derive(Clone, Debug, Default)]
pub struct Wants {
    /// Sessions to change.
    pub sessions: BTreeMap<SessionId, Held>,
    /// The possible leases of the one session in `sessions`, if known.
    pub known: Option<Arc<KnownLeases>>,
    /// Whether the sessions of owned jobs are changed too, because leases may be extended.
    pub lease_sessions: bool,
    /// Jobs to read.
    pub peek: BTreeSet<JobId>,
    /// Jobs to change.
    pub own: BTreeSet<JobId>,
    /// Jobs whose dependents are changed, because they end.
    pub edges: BTreeSet<JobId>,
    /// Jobs whose dependencies are all read.
    pub inputs: BTreeSet<JobId>,
    /// Jobs that release others: up to [`RESOLUTIONS_MAX`](windlass_core::limits::RESOLUTIONS_MAX) of their dependencies,
    /// from this position on.
    pub spans: BTreeMap<JobId, u32>,
    /// Unique keys.
    pub slots: BTreeSet<UniqueSlot>,
    /// Ordering keys.
    pub lines: BTreeSet<(Name, String)>,
    /// Tenants of fair queues.
    pub turns: BTreeSet<Tenant>,
    /// Groups of lanes with limits by group: their lines, meters and running jobs.
    pub groups: BTreeSet<String>,
    /// Limits over all jobs: their meters and running jobs.
    pub meters: BTreeSet<Name>,
    /// Queues whose depth is read.
    pub depths: BTreeSet<Name>,
    /// The claim whose ready jobs are taken.
    pub heads: Option<Claim>,
    /// The maintenance step whose due jobs are changed.
    pub due: Option<MaintainRequest>,
    /// Whether settings are changed.
    pub settings: bool,
    /// Whether owned jobs may end, so that the first jobs in line for their ordering keys are changed too.
    pub heirs: bool,
    /// Whether the owned jobs only move up in line, so that their unique keys are not read.
    pub moving_up: bool,
    /// The parts of jobs to load.
    pub parts: PartSet,
}

impl Wants {
    /// Whether unique or ordering keys are read.
    pub fn has_keys(&self) -> bool {
        !self.slots.is_empty() || !self.lines.is_empty()
    }

    /// The rows of an enqueue.
    pub fn of_enqueue(request: &Enqueue) -> Self {
        let mut wants = Self::default();
        for job in &request.jobs {
            wants.new_job(job);
            if check_name("queue", &job.queue).is_ok() {
                wants.depths.insert(job.queue.clone());
            }
        }
        wants
    }

    /// Adds the rows of a new job. An invalid job will be refused and may contain text that a store cannot look
    /// up, so its keys are skipped.
    fn new_job(&mut self, job: &NewJob) {
        self.peek.extend(job.id);
        // Each learns that it has a dependent.
        self.own.extend(job.after.iter().map(|dependency| dependency.job));
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

    /// The rows of an import. Invalid jobs will be refused, and their keys are skipped.
    pub fn of_import(request: &Import) -> Self {
        let mut wants = Self::default();
        for job in &request.jobs {
            let Header { id, queue, kind, key, unique, .. } = &job.header;
            let mut new = NewJob::new(kind.clone()).queue(queue.clone());
            (new.id, new.key, new.unique) = (Some(*id), key.clone(), unique.clone());
            wants.new_job(&new);
        }
        wants
    }

    /// The rows of a claim.
    pub fn of_claim(claim: &Claim) -> Self {
        let mut wants = Self::default();
        wants.claim(claim);
        wants
    }

    fn claim(&mut self, claim: &Claim) {
        let held = claim.by.claim_no().map_or(Held::All, Held::Claim);
        self.sessions.insert(claim.by.session(), held);
        self.heads = Some(claim.clone());
        self.parts = claim.parts;
    }

    /// The rows of a settle.
    pub fn of_settle(request: &Settle) -> Self {
        let mut wants = Self { heirs: true, ..Self::default() };
        for item in &request.items {
            wants.own.insert(item.id);
            item.follow_ups.iter().for_each(|job| wants.new_job(job));
            let joined = item.follow_ups.iter().filter_map(|job| job.joins.as_ref()?.to);
            wants.own.extend(joined);
        }
        if let Some(claim) = &request.claim {
            wants.claim(claim);
        }
        wants
    }

    /// The rows of an update.
    pub fn of_update(request: &Update) -> Self {
        let mut wants = Self::default();
        for item in &request.items {
            wants.own.insert(item.id);
            wants.lease_sessions |= item.extend_ms.is_some();
            for name in PartName::ALL {
                if item.fetch.has(name) {
                    wants.parts = wants.parts.with(name);
                }
            }
        }
        wants
    }

    /// The rows of a heartbeat.
    pub fn of_heartbeat(beat: &Heartbeat, known: Option<Arc<KnownLeases>>) -> Self {
        let mut wants = Self::of_session(&beat.session);
        wants.known = known;
        wants.peek.extend(beat.held.iter().map(|held| held.id));
        wants
    }

    /// The rows of a verb that releases all jobs of a session.
    pub fn of_session(session: &SessionId) -> Self {
        // A text that cannot be a session id is looked up nowhere.
        let valid = session.check().is_ok().then(|| (session.clone(), Held::All));
        Self { sessions: valid.into_iter().collect(), heirs: true, ..Self::default() }
    }

    /// The rows of a change.
    pub fn of_change(batch: &[ChangeItem]) -> Self {
        let room = |item: &ChangeItem| match &item.change {
            Change::Move(queue) => check_name("queue", queue).is_ok().then(|| queue.clone()),
            // A replay may exceed the depth limit, and the others stay in their queue.
            Change::Cancel
            | Change::Promote
            | Change::Reschedule(_)
            | Change::Reprioritise(_)
            | Change::Kill
            | Change::Pause
            | Change::Resume
            | Change::Signal(_)
            | Change::Replay(_)
            | Change::Discard => None,
            // The executor refuses it.
            _ => None,
        };
        let own = batch.iter().map(|item| item.id).collect();
        let depths = batch.iter().filter_map(room).collect();
        Self { own, depths, heirs: true, ..Self::default() }
    }

    /// The rows of a change of settings.
    pub fn of_settings() -> Self {
        Self { settings: true, ..Self::default() }
    }

    /// The rows of a maintenance step.
    pub fn of_maintain(request: MaintainRequest) -> Self {
        let due = (request.work != Work::Compact).then_some(request);
        Self { due, heirs: true, ..Self::default() }
    }

    /// Whether nothing but sessions, settings and ready jobs is changed.
    pub fn locks_nothing_more(&self) -> bool {
        self.own.is_empty() && self.slots.is_empty() && self.lines.is_empty()
    }

    /// Whether no rows are needed.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
            && self.peek.is_empty()
            && self.own.is_empty()
            && self.edges.is_empty()
            && self.inputs.is_empty()
            && self.spans.is_empty()
            && self.slots.is_empty()
            && self.lines.is_empty()
            && self.turns.is_empty()
            && self.groups.is_empty()
            && self.meters.is_empty()
            && self.depths.is_empty()
            && self.heads.is_none()
            && self.due.is_none()
    }
}
