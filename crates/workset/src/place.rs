//! The place of a job: the columns by which stores find it.

use windlass_core::model::State;
use windlass_executor::Entry;

/// The time at which a job expires or is removed by a limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// The time at which a waiting job expires, in milliseconds.
    Expires(i64),
    /// The time at which an ended job is removed, in milliseconds.
    Removed(i64),
}

/// The place of a job before or after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The state.
    pub state: State,
    /// The rank among ready jobs.
    pub rank: i64,
    /// The order of entry.
    pub seq: u64,
    /// The time at which the job may run, in milliseconds.
    pub run_at: i64,
    /// Whether the job is handed out alone, because it may crash its worker.
    pub suspect: bool,
    /// Whether the job holds its ordering key.
    pub holds_key: bool,
    /// Whether the job is in line for its ordering key.
    pub in_line: bool,
    /// The deadline that the job's own limits set.
    pub deadline: Option<Deadline>,
    /// Whether the queue's waiting limit applies: the job is due, waits, and has no limit of its own.
    pub ages: bool,
}

impl Place {
    /// The place of a job.
    pub fn of(entry: &Entry) -> Self {
        let (header, state) = (&entry.job.header, entry.job.state);
        let waits = matches!(state, State::Blocked | State::Available | State::Paused);
        let expires = header.policy.max_wait_ms.filter(|_| waits);
        let expires = expires.map(|ms| Deadline::Expires(header.run_at.plus(ms).as_millis()));
        // Nothing removes a job while dependents read its result.
        let ends = state.is_terminal() && !entry.job.is_read();
        let own = header.policy.retention.filter(|_| ends);
        let removed = own.zip(entry.job.finished_at);
        let removed =
            removed.map(|(own, at)| Deadline::Removed(at.plus(own.of(state)).as_millis()));
        Self {
            state,
            rank: entry.rank,
            seq: entry.seq,
            run_at: header.run_at.as_millis(),
            suspect: header.counters.is_suspect(),
            holds_key: entry.holds_key,
            in_line: entry.in_line(),
            deadline: expires.or(removed),
            ages: waits && header.policy.max_wait_ms.is_none(),
        }
    }
}
