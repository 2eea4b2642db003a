//! The tables and keys under which a job is stored.

use crate::rows::codec;
use crate::slow::load::{EXPIRES, REMOVED};
use uuid::Uuid;
use windlass_core::model::{Name, State};
use windlass_executor::Entry;
use windlass_workset::Deadline;

/// The place of a job.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) state: State,
    pub(crate) rank: i64,
    pub(crate) seq: i64,
    pub(crate) run_at: i64,
    /// The token of its lease.
    pub(crate) token: Option<Uuid>,
    /// When it expires or is removed by its own limit.
    pub(crate) deadline: Option<(i16, i64)>,
    /// Whether the queue's age limit applies: it is due, waits, and has no limit of its own.
    pub(crate) ages: bool,
    /// Its position in the line of its ordering key.
    pub(crate) in_line: Option<(Name, String, i64)>,
    /// Its position in the line of its group.
    pub(crate) in_group: Option<InGroup>,
    /// Whether it has not ended and others depend on it, so that its row says that it is not plain.
    pub(crate) followed: bool,
    /// Whether it has ended and maintenance has work with its dependencies.
    pub(crate) unresolved: bool,
    /// Whether it has ended and stays beyond its retention.
    pub(crate) read: bool,
}

/// The position of a job in the line of its group.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InGroup {
    pub(crate) group: String,
    pub(crate) priority: i32,
    pub(crate) run_at: i64,
    pub(crate) seq: i64,
    pub(crate) cost: i64,
    /// The limit that it waits for.
    pub(crate) limit: String,
}

impl InGroup {
    fn of(entry: &Entry) -> Option<Self> {
        let limit = entry.job.limits.first().filter(|_| entry.in_group_line())?;
        let (header, place) = (&entry.job.header, entry.line_place());
        Some(Self {
            group: header.limit_group().to_owned(),
            priority: place.priority,
            run_at: place.run_at.as_millis(),
            seq: place.seq.cast_signed(),
            cost: header.cost.into(),
            limit: limit.to_string(),
        })
    }
}

impl Place {
    pub(crate) fn of(entry: &Entry) -> Self {
        let place = windlass_workset::Place::of(entry);
        let header = &entry.job.header;
        let seq = place.seq.cast_signed();
        let key = header.key.clone().filter(|_| place.in_line);
        let token = entry.leased.as_ref().and_then(|leased| codec::token(&leased.lease));
        let deadline = place.deadline.map(|deadline| match deadline {
            Deadline::Expires(at) => (EXPIRES, at),
            Deadline::Removed(at) => (REMOVED, at),
        });
        Self {
            state: place.state,
            rank: place.rank,
            seq,
            run_at: place.run_at,
            token: token.filter(|_| place.state == State::Running),
            deadline,
            ages: place.ages,
            in_line: key.map(|key| (header.queue.clone(), key, seq)),
            in_group: InGroup::of(entry),
            followed: entry.job.followed && !place.state.is_terminal(),
            unresolved: entry.job.is_unresolved(),
            read: entry.job.is_read(),
        }
    }
}
