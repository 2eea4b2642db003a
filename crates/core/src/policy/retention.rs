//! How long ended jobs are kept, and how long waiting ones may wait.

use crate::error::{Result, within_range};
use crate::growing::growing;
use crate::limits;
use crate::model::State;
use crate::time::{Timestamp, millis};
use serde::{Deserialize, Serialize};
use std::time::Duration;

growing! {
    /// How long an ended job is kept. Never removed earlier, and at most one maintenance run later.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Retention as RetentionFields {
        /// Completed and cancelled jobs.
        pub finished_ms: u64,
        /// Dead jobs: an operator should have seen them by then.
        pub dead_ms: u64,
        /// Expired jobs.
        pub expired_ms: u64,
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            finished_ms: limits::RETENTION_FINISHED_DEFAULT_MS,
            dead_ms: limits::RETENTION_DEAD_DEFAULT_MS,
            expired_ms: limits::RETENTION_EXPIRED_DEFAULT_MS,
        }
    }
}

impl Retention {
    /// The same retention for every final state.
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass_core::policy::Retention;
    ///
    /// let day = Duration::from_secs(24 * 3_600);
    /// let retention = Retention::uniform(day).with_dead(30 * day);
    /// assert_eq!((retention.finished(), retention.dead()), (day, 30 * day));
    /// ```
    pub const fn uniform(time: Duration) -> Self {
        Self::uniform_ms(millis(time))
    }

    /// The same retention in milliseconds, as in the wire format, for every final state.
    pub const fn uniform_ms(ms: u64) -> Self {
        Self { finished_ms: ms, dead_ms: ms, expired_ms: ms }
    }

    /// Sets how long completed and cancelled jobs are kept.
    #[must_use]
    pub const fn with_finished(mut self, time: Duration) -> Self {
        self.finished_ms = millis(time);
        self
    }

    /// Sets how long dead jobs are kept.
    #[must_use]
    pub const fn with_dead(mut self, time: Duration) -> Self {
        self.dead_ms = millis(time);
        self
    }

    /// Sets how long expired jobs are kept.
    #[must_use]
    pub const fn with_expired(mut self, time: Duration) -> Self {
        self.expired_ms = millis(time);
        self
    }

    /// How long completed and cancelled jobs are kept.
    pub const fn finished(self) -> Duration {
        Duration::from_millis(self.finished_ms)
    }

    /// How long dead jobs are kept.
    pub const fn dead(self) -> Duration {
        Duration::from_millis(self.dead_ms)
    }

    /// How long expired jobs are kept.
    pub const fn expired(self) -> Duration {
        Duration::from_millis(self.expired_ms)
    }

    /// How long a job that ended in `state` is kept, in milliseconds.
    pub const fn of(self, state: State) -> u64 {
        match state {
            State::Dead => self.dead_ms,
            State::Expired => self.expired_ms,
            _ => self.finished_ms,
        }
    }

    /// Checks that every value is within its limits.
    pub fn check(self) -> Result<()> {
        within_range("retention.finished_ms", self.finished_ms, 0..=limits::AGE_MAX_MS)?;
        within_range("retention.dead_ms", self.dead_ms, 0..=limits::AGE_MAX_MS)?;
        within_range("retention.expired_ms", self.expired_ms, 0..=limits::AGE_MAX_MS)
    }
}

growing! {
    /// How many ended jobs of a queue are kept, by the state in which they ended; `None` is unlimited. Beyond the number,
    /// those that ended first are removed, even if their retention is not over. Jobs with a retention of their own are
    /// neither counted nor removed.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct KeepMax as KeepMaxFields {
        /// Completed jobs.
        pub completed: Option<u64>,
        /// Cancelled jobs.
        pub cancelled: Option<u64>,
        /// Dead jobs.
        pub dead: Option<u64>,
        /// Expired jobs.
        pub expired: Option<u64>,
    }
}

impl KeepMax {
    /// Sets how many completed jobs are kept.
    ///
    /// ```
    /// use windlass_core::policy::KeepMax;
    ///
    /// let keep_max = KeepMax::default().with_completed(1_000);
    /// assert_eq!((keep_max.completed, keep_max.dead), (Some(1_000), None));
    /// ```
    #[must_use]
    pub const fn with_completed(mut self, number: u64) -> Self {
        self.completed = Some(number);
        self
    }

    /// Sets how many cancelled jobs are kept.
    #[must_use]
    pub const fn with_cancelled(mut self, number: u64) -> Self {
        self.cancelled = Some(number);
        self
    }

    /// Sets how many dead jobs are kept.
    #[must_use]
    pub const fn with_dead(mut self, number: u64) -> Self {
        self.dead = Some(number);
        self
    }

    /// Sets how many expired jobs are kept.
    #[must_use]
    pub const fn with_expired(mut self, number: u64) -> Self {
        self.expired = Some(number);
        self
    }

    /// How many jobs that ended in `state` are kept.
    pub const fn of(self, state: State) -> Option<u64> {
        match state {
            State::Completed => self.completed,
            State::Cancelled => self.cancelled,
            State::Dead => self.dead,
            State::Expired => self.expired,
            _ => None,
        }
    }

    /// The limited states.
    pub fn limits(self) -> impl Iterator<Item = (State, u64)> {
        State::ALL.into_iter().filter_map(move |state| Some((state, self.of(state)?)))
    }

    /// Checks that every value is within its limits.
    pub fn check(self) -> Result<()> {
        let fields = [
            ("keep_max.completed", self.completed),
            ("keep_max.cancelled", self.cancelled),
            ("keep_max.dead", self.dead),
            ("keep_max.expired", self.expired),
        ];
        for (field, number) in fields {
            within_range(field, number.unwrap_or(0), 0..=limits::KEEP_MAX_MAX)?;
        }
        Ok(())
    }
}

/// When a job that ended in `state` at `finished_at` may be removed, by its own retention or its queue's.
pub fn keep_until(
    state: State,
    finished_at: Timestamp,
    own: Option<Retention>,
    queue: Retention,
) -> Timestamp {
    finished_at.plus(own.unwrap_or(queue).of(state))
}

/// When a job that has been due since `due_at` expires, by its own limit or its queue's.
pub fn expires_at(due_at: Timestamp, own: Option<u64>, queue: Option<u64>) -> Option<Timestamp> {
    own.or(queue).map(|ms| due_at.plus(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_has_its_own_retention_and_a_jobs_retention_overrides_its_queues() {
        let at = Timestamp::from_millis(100);
        let queue = Retention { finished_ms: 1, dead_ms: 2, expired_ms: 3 };
        let until = |state, own| keep_until(state, at, own, queue).as_millis();
        let ends = [State::Completed, State::Cancelled, State::Dead, State::Expired];
        assert_eq!(ends.map(|state| until(state, None)), [101, 101, 102, 103]);
        assert_eq!(until(State::Dead, Some(Retention::uniform_ms(50))), 150);
        assert!(Retention::uniform_ms(u64::MAX).check().is_err());
    }

    #[test]
    fn waiting_is_limited_only_by_explicit_settings() {
        let at = Timestamp::from_millis(100);
        assert_eq!(expires_at(at, None, None), None);
        assert_eq!(expires_at(at, None, Some(5)), Some(Timestamp::from_millis(105)));
        assert_eq!(expires_at(at, Some(9), Some(5)), Some(Timestamp::from_millis(109)));
    }
}
