//! The records of clients: one event before each call and one after its reply. Independent of clocks: the
//! caller stamps each event, with a shared counter in one process or with the machine's monotonic clock.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use windlass_core::engine::Lease;
use windlass_core::model::{AttemptEnd, Due, NewJob, State};
use windlass_core::policy::OnConflict;
use windlass_core::{JobId, Timestamp};

/// One line of a history.
///
/// Serializes to one JSON object per line. A client that is killed leaves an invocation without a reply, or a
/// truncated last line: drop that line, because its call was never made or never answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Time by a clock that all clients share. Equal values mean that the order is unknown.
    pub at: u64,
    /// The client.
    pub client: u32,
    /// The client's number for this call; the same for both of its events and unique otherwise.
    pub op: u64,
    /// The call or its reply.
    #[serde(flatten)]
    pub note: Note,
}

/// A call or its reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// Written before the call.
    Invoked(Call),
    /// Written after its reply. A call with an unknown outcome has none.
    Answered(Reply),
}

/// A call, reduced to what the promises depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// An enqueue of jobs.
    Enqueue(Vec<Wanted>),
    /// A claim, under a name that only a repetition of it shares.
    Claim(String),
    /// Reports, optionally with the name of the next claim.
    Settle {
        /// The reports.
        items: Vec<Report>,
        /// The claim in the same call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        claim: Option<String>,
    },
    /// An update under leases, after which the jobs keep running.
    Update(Vec<Hold>),
    /// Changes by operators.
    Change(Vec<(JobId, Wish)>),
}

/// A reply, with one result per item in the order of the call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Reply to an enqueue.
    Enqueued(Vec<Admission>),
    /// Reply to a claim.
    Claimed(Vec<Start>),
    /// Reply to a settle.
    Settled {
        /// Results of the reports.
        items: Vec<Receipt>,
        /// The jobs of the claim, if there was one and it did not fail.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        claimed: Vec<Start>,
    },
    /// Reply to an update: whether each lease was accepted; `None` if unknown.
    Updated(Vec<Option<bool>>),
    /// Reply to a change.
    Changed(Vec<Effect>),
    /// The whole call was refused with this code and did nothing.
    Refused(String),
}

/// A job that a client enqueues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Its id, chosen by the producer, so that a job without a reply can be identified.
    pub id: JobId,
    /// Its kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Its ordering key, with the queue as its scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Whether its position for the key is fixed at the enqueue: it is due at once and does not arrive later
    /// through an outbox.
    pub in_line: bool,
    /// The conflict rule of its unique key, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique: Option<OnConflict>,
    /// Number of lost leases above which it is dead.
    #[serde(default)]
    pub crashes_max: u32,
    /// The group in which limits count it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Its cost under limits.
    #[serde(default = "one")]
    pub cost: u32,
    /// The jobs that it runs after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<JobId>,
    /// The job that waits for it, if it joined one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joins: Option<JobId>,
}

const fn one() -> u32 {
    1
}

impl Wanted {
    /// Sets the ordering key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the number of lost leases above which it is dead.
    #[must_use]
    pub const fn crashes_max(mut self, crashes_max: u32) -> Self {
        self.crashes_max = crashes_max;
        self
    }

    /// A job without a key, due at once, dead after its first lost lease.
    pub fn plain(id: JobId) -> Self {
        let (kind, group) = (String::new(), String::new());
        Self {
            id,
            kind,
            key: None,
            in_line: true,
            unique: None,
            crashes_max: 0,
            group,
            cost: 1,
            after: Vec::new(),
            joins: None,
        }
    }

    /// The relevant fields of `job`, with the id `id`.
    pub fn of(id: JobId, job: &NewJob) -> Self {
        Self {
            id,
            kind: job.kind.to_string(),
            key: job.key.as_ref().map(|key| format!("{}/{key}", job.queue)),
            // A dependent joins the line of its key once it could run.
            in_line: job.due == Due::Now && job.after.is_empty(),
            unique: job.unique.as_ref().map(|unique| unique.on_conflict),
            crashes_max: job.policy.max_crashes,
            group: job.group.clone().or_else(|| job.tenant.clone()).unwrap_or_default(),
            cost: job.cost,
            after: job.after.iter().map(|dependency| dependency.job).collect(),
            joins: job.joins.as_ref().and_then(|join| join.to),
        }
    }

    /// Sets the job that waits for it.
    #[must_use]
    pub const fn joins(mut self, waiting: JobId) -> Self {
        self.joins = Some(waiting);
        self
    }

    /// Sets the jobs that it runs after.
    #[must_use]
    pub fn after(mut self, jobs: impl IntoIterator<Item = JobId>) -> Self {
        self.after.extend(jobs);
        self.in_line &= self.after.is_empty();
        self
    }

    /// Whether it may replace another job.
    pub(super) const fn replaces(&self) -> bool {
        matches!(self.unique, Some(OnConflict::Replace | OnConflict::Debounce))
    }
}

/// The result of enqueueing a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Admission {
    /// It is stored under its own id, by this call or an earlier one.
    Stored {
        /// Its state.
        state: State,
        /// The job that it replaced.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaced: Option<JobId>,
    },
    /// The enqueue was answered with another job.
    StoodIn {
        /// The other job.
        by: JobId,
        /// State of the other job, if it still exists.
        state: Option<State>,
    },
    /// It was not stored.
    Refused,
    /// The outcome is unknown.
    Unclear,
}

/// A lease on a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The job.
    pub id: JobId,
    /// The lease.
    pub lease: Lease,
}

/// A job returned by a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The job.
    pub id: JobId,
    /// Its lease.
    pub lease: Lease,
    /// Number of the attempt.
    pub attempt: u32,
    /// When it started, by the store's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
}

/// One report under a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The job.
    pub id: JobId,
    /// The lease.
    pub lease: Lease,
    /// The reported end of the attempt.
    pub end: AttemptEnd,
    /// Jobs to create in the same step, with given or derived ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub follow_ups: Vec<Wanted>,
}

impl Report {
    /// Whether the history may record this report as `end`: a retry of a job that must not run again is recorded as
    /// a failure.
    pub(super) fn is_recorded_as(&self, end: AttemptEnd) -> bool {
        self.end == end || (self.end, end) == (AttemptEnd::Retry, AttemptEnd::Fail)
    }

    /// Whether the job waits for jobs that the report creates. If its cancellation was requested, it is cancelled instead,
    /// and they are not created.
    pub(super) fn waits_for_children(&self) -> bool {
        self.follow_ups.iter().any(|job| job.joins == Some(self.id))
    }
}

/// The result of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Receipt {
    /// This call ended the attempt.
    Applied {
        /// The new state of the job.
        state: State,
        /// Results of the follow-ups.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        follow_ups: Vec<Admission>,
    },
    /// The attempt had already ended; this call changed nothing.
    Already {
        /// The recorded end.
        end: AttemptEnd,
        /// The state of the job.
        state: State,
    },
    /// Refused with this code; this call changed nothing.
    Refused(String),
    /// The outcome is unknown.
    Unclear,
}

/// A change by an operator, reduced to what the promises depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wish {
    /// Cancel.
    Cancel,
    /// Replay.
    Replay,
    /// Discard.
    Discard,
    /// Discard if the job is in this state.
    DiscardIf(State),
    /// A change that may cost the job its position for its key: pause, resume, reschedule, move.
    Move,
    /// Anything else.
    Other,
}

/// The result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It took effect; with the job's state, or `None` if it was deleted.
    Done(Option<State>),
    /// Refused; nothing changed.
    Refused,
    /// The outcome is unknown.
    Unclear,
}

/// The events of all clients, in any order: their timestamps decide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The events.
    pub events: Vec<Event>,
}

impl History {
    /// Every job that may have been created, whatever the replies were.
    pub fn wanted(&self) -> BTreeSet<JobId> {
        let calls = self.events.iter().filter_map(|event| match &event.note {
            Note::Invoked(call) => Some(call),
            Note::Answered(_) => None,
        });
        let wanted = calls.flat_map(|call| match call {
            Call::Enqueue(jobs) => jobs.iter().map(|job| job.id).collect(),
            Call::Settle { items, .. } => {
                items.iter().flat_map(|item| &item.follow_ups).map(|job| job.id).collect()
            }
            _ => Vec::new(),
        });
        wanted.collect()
    }
}

impl FromIterator<Event> for History {
    fn from_iter<T: IntoIterator<Item = Event>>(events: T) -> Self {
        Self { events: events.into_iter().collect() }
    }
}
