//! The tables and keys under which a job is stored.

use crate::slow::load::{EXPIRES, REMOVED};
use uuid::Uuid;
use windlass_core::model::{Name, State};
use windlass_executor::Entry;

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
}

impl Place {
    pub(crate) fn of(entry: &Entry) -> Self {
        let (header, state) = (&entry.job.header, entry.job.state);
        let waits = matches!(state, State::Blocked | State::Available | State::Paused);
        let expires = header.policy.max_wait_ms.filter(|_| waits);
        let expires = expires.map(|ms| (EXPIRES, header.run_at.plus(ms).as_millis()));
        let own = header.policy.retention.filter(|_| state.is_terminal());
        let removed = own.zip(entry.job.finished_at);
        let removed = removed.map(|(own, at)| (REMOVED, at.plus(own.of(state)).as_millis()));
        let seq = entry.seq.cast_signed();
        let key = header.key.clone().filter(|_| entry.in_line());
        let token =
            entry.leased.as_ref().and_then(|leased| crate::rows::codec::token(&leased.lease));
        Self {
            state,
            rank: entry.rank,
            seq,
            run_at: header.run_at.as_millis(),
            token: token.filter(|_| state == State::Running),
            deadline: expires.or(removed),
            ages: waits && header.policy.max_wait_ms.is_none(),
            in_line: key.map(|key| (header.queue.clone(), key, seq)),
        }
    }
}
