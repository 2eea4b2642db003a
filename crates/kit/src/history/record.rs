//! What clients write down: one event before each call and one after its answer. Knows no clock: the
//! caller stamps each event, with a shared counter in one process or a monotonic clock of the machine.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use windlass_core::JobId;
use windlass_core::engine::Lease;
use windlass_core::model::{AttemptEnd, Due, NewJob, State};
use windlass_core::policy::OnConflict;

/// One line of a history.
///
/// It is serde-friendly, one JSON object per line. A client that is killed leaves an invocation
/// without an answer, or a last line that was cut: drop that line, its call was never made or never
/// answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, by a clock all clients share. Equal stamps mean that the order is not known.
    pub at: u64,
    /// Whose.
    pub client: u32,
    /// The client's number for this call; the same for both of its events and for no other's.
    pub op: u64,
    /// What was asked or answered.
    #[serde(flatten)]
    pub note: Note,
}

/// Which side of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// Written before the call.
    Invoked(Call),
    /// Written after its answer. A call whose outcome the client does not know has none.
    Answered(Reply),
}

/// A call, as far as the promises depend on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Jobs handed over.
    Enqueue(Vec<Wanted>),
    /// Jobs asked for, under a name that only a repetition of this claim shares.
    Claim(String),
    /// Reports, and perhaps the next claim by its name.
    Settle {
        /// The reports.
        items: Vec<Report>,
        /// The claim that came along.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        claim: Option<String>,
    },
    /// Something written under leases that leaves the jobs running.
    Update(Vec<Hold>),
    /// Changes from outside.
    Change(Vec<(JobId, Wish)>),
}

/// An answer, item by item in the order of the call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// To an enqueue.
    Enqueued(Vec<Admission>),
    /// To a claim.
    Claimed(Vec<Start>),
    /// To a settle.
    Settled {
        /// What became of the reports.
        items: Vec<Receipt>,
        /// What the claim got, if one came along and did not fail.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        claimed: Vec<Start>,
    },
    /// To an update: whether each lease was honoured; `None` where that is not known.
    Updated(Vec<Option<bool>>),
    /// To a change.
    Changed(Vec<Effect>),
    /// The whole call was refused with this code, and nothing of it was done.
    Refused(String),
}

/// A job somebody wants done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Its id. The producer makes it: a job whose answer never came must still have a name.
    pub id: JobId,
    /// Its ordering key, with the queue it is scoped to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Whether it joins the line of its key when it is enqueued: it is due at once, and does not come
    /// through an outbox later on.
    pub in_line: bool,
    /// What its unique key does to others, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique: Option<OnConflict>,
    /// How many of its leases may be lost before it is dead.
    #[serde(default)]
    pub crashes_max: u32,
}

impl Wanted {
    /// The same, with this ordering key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The same, dead only after more lost leases than this.
    #[must_use]
    pub const fn crashes_max(mut self, crashes_max: u32) -> Self {
        self.crashes_max = crashes_max;
        self
    }

    /// A job of no key, due at once, dead with its first lost lease.
    pub const fn plain(id: JobId) -> Self {
        Self { id, key: None, in_line: true, unique: None, crashes_max: 0 }
    }

    /// What matters of `job`, known as `id`.
    pub fn of(id: JobId, job: &NewJob) -> Self {
        Self {
            id,
            key: job.key.as_ref().map(|key| format!("{}/{key}", job.queue)),
            in_line: job.due == Due::Now,
            unique: job.unique.as_ref().map(|unique| unique.on_conflict),
            crashes_max: job.policy.max_crashes,
        }
    }

    /// Whether it may take the place of another.
    pub(super) const fn replaces(&self) -> bool {
        matches!(self.unique, Some(OnConflict::Replace | OnConflict::Debounce))
    }
}

/// What became of a wanted job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Admission {
    /// It is stored under its own id, now or already before, and stands there.
    Stored {
        /// Where it stands.
        state: State,
        /// The job whose place it took.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaced: Option<JobId>,
    },
    /// Another job stands for it.
    StoodIn {
        /// Which.
        by: JobId,
        /// Where that one stands, if it still exists.
        state: Option<State>,
    },
    /// It is not stored.
    Refused,
    /// Nobody knows.
    Unclear,
}

/// A right to report on a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The job.
    pub id: JobId,
    /// The lease.
    pub lease: Lease,
}

/// A job as a claim handed it out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The job.
    pub id: JobId,
    /// The lease it came with.
    pub lease: Lease,
    /// Which start of the job it is.
    pub attempt: u32,
}

/// One report under a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The job.
    pub id: JobId,
    /// The lease.
    pub lease: Lease,
    /// How the attempt is to end.
    pub end: AttemptEnd,
    /// Jobs to create in the same step, known by their given or derived ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub follow_ups: Vec<Wanted>,
}

/// What became of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Receipt {
    /// This call ended the attempt.
    Applied {
        /// Where the job stands.
        state: State,
        /// What became of the follow-ups.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        follow_ups: Vec<Admission>,
    },
    /// The attempt had ended before; this call changed nothing.
    Already {
        /// How it had ended.
        end: AttemptEnd,
        /// Where the job stands.
        state: State,
    },
    /// Refused with this code; this call changed nothing.
    Refused(String),
    /// Nobody knows.
    Unclear,
}

/// A change from outside, as far as the promises depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wish {
    /// Call it off.
    Cancel,
    /// Another life.
    Replay,
    /// Throw it away.
    Discard,
    /// Throw it away if it is in this state.
    DiscardIf(State),
    /// Whatever may cost the job its place in line: pause, resume, reschedule.
    Move,
    /// Anything else.
    Other,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It is so; the job stands there, or is gone.
    Done(Option<State>),
    /// Refused; nothing changed.
    Refused,
    /// Nobody knows.
    Unclear,
}

/// What all clients wrote down, in any order: the stamps decide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The events.
    pub events: Vec<Event>,
}

impl History {
    /// Every job that somebody may have created, whatever the answers were.
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
