//! Uniqueness: at most one job per key, and what becomes of the next one.

use crate::error::{Error, Result, within_range};
use crate::id::JobId;
use crate::limits;
use crate::name::check_text;
use serde::{Deserialize, Serialize};

/// How a job is unique.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Unique {
    /// The key, for example `invoice:42`.
    pub key: String,
    /// Among which jobs.
    #[serde(default)]
    pub scope: UniqueScope,
    /// How long the key is held.
    #[serde(default)]
    pub until: Until,
    /// What becomes of a job that finds the key held.
    #[serde(default)]
    pub on_conflict: OnConflict,
}

/// Among which jobs a key is unique.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UniqueScope {
    /// Jobs of the same queue and kind.
    #[default]
    Lane,
    /// Jobs of the same queue.
    Queue,
    /// All jobs of the store; needs [`Capability::GlobalUnique`](crate::engine::Capability).
    Global,
}

/// How long a key is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// Until the job ends, however it ends. Replay takes the key again.
    #[default]
    Finished,
    /// For this many milliseconds from the enqueue (or the replay), whatever becomes of the job.
    Window(u64),
}

/// What becomes of a job that finds its key held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnConflict {
    /// It is not stored; the answer names the job that is there.
    #[default]
    Existing,
    /// It is stored in place of the one that waits, which is cancelled. It keeps that one's place
    /// in time if that was earlier, so that a stream of replacements does not starve the work; and
    /// as it adds nothing, a full queue takes it.
    Replace,
    /// The same with its own time: the work happens once things are quiet.
    Debounce,
    /// It is dropped on purpose: at most one job per window. Needs [`Until::Window`].
    Throttle,
    /// It is refused with an error.
    Reject,
}

impl Unique {
    /// Unique by `key` in its lane until finished; the next one is answered with the first.
    pub fn by(key: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            scope: UniqueScope::default(),
            until: Until::default(),
            on_conflict: OnConflict::default(),
        }
    }

    /// Among these jobs.
    #[must_use]
    pub const fn scope(mut self, scope: UniqueScope) -> Self {
        self.scope = scope;
        self
    }

    /// Held so long.
    #[must_use]
    pub const fn until(mut self, until: Until) -> Self {
        self.until = until;
        self
    }

    /// With this answer to a conflict.
    #[must_use]
    pub const fn on_conflict(mut self, on_conflict: OnConflict) -> Self {
        self.on_conflict = on_conflict;
        self
    }

    /// Whether it makes sense.
    pub fn check(&self) -> Result<()> {
        check_text("unique.key", &self.key, limits::KEY_BYTES_MAX)?;
        match (self.until, self.on_conflict) {
            (Until::Window(ms), _) => within_range("unique.until", ms, 1..=limits::AGE_MAX_MS),
            (Until::Finished, OnConflict::Throttle) => Err(Error::invalid(
                "unique.until",
                "finished",
                "throttle needs a window: say for how long one job is enough",
            )),
            (Until::Finished, _) => Ok(()),
        }
    }
}

/// The job that holds a key, as far as the decision goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Which job.
    pub id: JobId,
    /// Whether it still waits and can be replaced; a running or ended one cannot.
    pub waiting: bool,
}

/// What becomes of the newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UniqueVerdict {
    /// Store it; it takes the key, from a running or ended holder if need be.
    Create,
    /// Store it, cancel the holder as replaced by it.
    Replace {
        /// Whether it takes over the holder's time if that is earlier.
        keeps_time: bool,
    },
    /// Do not store it; answer with the holder.
    Existing,
    /// Do not store it; say that it was dropped on purpose.
    Throttled,
    /// Refuse it.
    Reject,
}

impl OnConflict {
    /// The decision, given who holds the key.
    pub const fn decide(self, holder: Option<Holder>) -> UniqueVerdict {
        let Some(holder) = holder else {
            return UniqueVerdict::Create;
        };
        match self {
            Self::Existing => UniqueVerdict::Existing,
            Self::Throttle => UniqueVerdict::Throttled,
            Self::Reject => UniqueVerdict::Reject,
            Self::Replace if holder.waiting => UniqueVerdict::Replace { keeps_time: true },
            Self::Debounce if holder.waiting => UniqueVerdict::Replace { keeps_time: false },
            // What runs cannot be taken back: the newcomer is its successor.
            Self::Replace | Self::Debounce => UniqueVerdict::Create,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seeded;
    use crate::time::Timestamp;

    #[test]
    fn a_free_key_is_taken_whatever_the_answer_to_conflicts() {
        assert_eq!(OnConflict::Reject.decide(None), UniqueVerdict::Create);
    }

    #[test]
    fn a_running_holder_gets_a_successor_and_a_waiting_one_is_replaced() {
        let id = JobId::new(Timestamp::EPOCH, &Seeded::new(1));
        let decide = |on: OnConflict, waiting| on.decide(Some(Holder { id, waiting }));
        assert_eq!(decide(OnConflict::Replace, false), UniqueVerdict::Create);
        assert_eq!(decide(OnConflict::Replace, true), UniqueVerdict::Replace { keeps_time: true });
        assert_eq!(
            decide(OnConflict::Debounce, true),
            UniqueVerdict::Replace { keeps_time: false }
        );
        assert_eq!(decide(OnConflict::Existing, true), UniqueVerdict::Existing);
    }

    #[test]
    fn throttle_without_a_window_is_refused() {
        let unique = Unique::by("k").on_conflict(OnConflict::Throttle);
        assert_eq!(unique.check().unwrap_err().field(), Some("unique.until"));
        unique.until(Until::Window(1_000)).check().unwrap();
        assert_eq!(Unique::by("").check().unwrap_err().field(), Some("unique.key"));
    }
}
