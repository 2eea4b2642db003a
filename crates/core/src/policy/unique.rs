//! Uniqueness: at most one job per key, and how to handle conflicts.

use crate::error::{Error, Result, within_time};
use crate::growing::growing;
use crate::id::JobId;
use crate::limits;
use crate::name::check_text;
use crate::time::{Timestamp, millis};
use serde::{Deserialize, Serialize};
use std::time::Duration;

growing! {
    /// The uniqueness rule of a job.
    #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub struct Unique as UniqueFields {
        /// The key, for example `invoice:42`.
        pub key: String,
        /// The scope of the key.
        #[serde(default)]
        pub scope: UniqueScope,
        /// How long the job holds the key.
        #[serde(default)]
        pub until: Until,
        /// What to do with a new job whose key is held.
        #[serde(default)]
        pub on_conflict: OnConflict,
    }
}

/// The scope of a unique key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UniqueScope {
    /// Jobs of the same queue and kind.
    #[default]
    Lane,
    /// Jobs of the same queue.
    Queue,
    /// Jobs of the same kind in all queues; needs [`Capability::GlobalUnique`](crate::engine::Capability).
    Kind,
    /// All jobs of the store; needs [`Capability::GlobalUnique`](crate::engine::Capability).
    Global,
}

impl UniqueScope {
    /// The queue and the kind that a job's key is unique in; `""` for all of them.
    pub const fn of<'a>(self, queue: &'a str, kind: &'a str) -> (&'a str, &'a str) {
        match self {
            Self::Lane => (queue, kind),
            Self::Queue => (queue, ""),
            Self::Kind => ("", kind),
            Self::Global => ("", ""),
        }
    }

    /// Whether the scope spans several queues.
    pub const fn spans_queues(self) -> bool {
        match self {
            Self::Lane | Self::Queue => false,
            Self::Kind | Self::Global => true,
        }
    }
}

/// How long a key is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Until {
    /// Until the job ends, in whichever state. A replay acquires the key again.
    #[default]
    Finished,
    /// For this long from the enqueue (or the replay), whatever state the job is in. In whole milliseconds.
    #[serde(rename = "window_ms", with = "crate::time::as_millis")]
    Window(Duration),
    /// Until the job is removed, by its retention or a discard. An idempotency key that lives as long as the record
    /// of its job; a replay keeps it.
    Removed,
}

impl Until {
    /// Until when a key is held that is taken at `now`: `None` until the job ends, [`Timestamp::MAX`] until it is
    /// removed.
    pub fn taken_at(self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Finished => None,
            Self::Window(period) => Some(now + period),
            Self::Removed => Some(Timestamp::MAX),
        }
    }

    /// For this many milliseconds from the enqueue, as in the wire format.
    pub const fn window_ms(ms: u64) -> Self {
        Self::Window(Duration::from_millis(ms))
    }

    /// The name of the variant.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Window(_) => "window",
            Self::Removed => "removed",
        }
    }
}

/// What to do with a new job whose key is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnConflict {
    /// Do not store it; return the existing job.
    #[default]
    Existing,
    /// Store it and cancel the waiting job that holds the key. It inherits that job's run time if earlier,
    /// so that a stream of replacements does not starve the work; and because it adds no depth, a full queue
    /// accepts it.
    Replace,
    /// Like `Replace`, but with its own run time: the job runs once no new one has been enqueued for its
    /// delay.
    Debounce,
    /// Drop it: at most one job per window. Requires [`Until::Window`].
    Throttle,
    /// Refuse it with an error.
    Reject,
}

impl Unique {
    /// Unique by `key` in its lane until it ends; a duplicate returns the existing job.
    pub fn by(key: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            scope: UniqueScope::default(),
            until: Until::default(),
            on_conflict: OnConflict::default(),
        }
    }

    /// Sets the scope.
    #[must_use]
    pub const fn scope(mut self, scope: UniqueScope) -> Self {
        self.scope = scope;
        self
    }

    /// Sets how long the key is held.
    #[must_use]
    pub const fn until(mut self, until: Until) -> Self {
        self.until = until;
        self
    }

    /// Holds the key for this time from the enqueue, rounded up to whole milliseconds, whatever state the job is in.
    #[must_use]
    pub fn within(self, period: Duration) -> Self {
        self.until(Until::Window(Duration::from_millis(millis(period))))
    }

    /// Sets how to handle conflicts.
    #[must_use]
    pub const fn on_conflict(mut self, on_conflict: OnConflict) -> Self {
        self.on_conflict = on_conflict;
        self
    }

    /// Validates the rule.
    pub fn check(&self) -> Result<()> {
        check_text("unique.key", &self.key, limits::KEY_BYTES_MAX)?;
        match (self.until, self.on_conflict) {
            (Until::Window(period), _) if period != Duration::from_millis(millis(period)) => {
                let expected = "use whole milliseconds, the precision of stores";
                Err(Error::invalid("unique.until", format_args!("{period:?}"), expected))
            }
            (Until::Window(period), _) => {
                within_time("unique.until", period, 1..=limits::AGE_MAX_MS)
            }
            (until @ (Until::Finished | Until::Removed), OnConflict::Throttle) => {
                Err(Error::invalid("unique.until", until.as_str(), "throttle needs a window"))
            }
            (Until::Finished | Until::Removed, _) => Ok(()),
        }
    }
}

/// The job that holds a key, as input of the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The job.
    pub id: JobId,
    /// Whether it is still waiting and can be replaced; a running or ended one cannot.
    pub waiting: bool,
}

/// What to do with a new job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UniqueVerdict {
    /// Store it; it acquires the key, from a running or ended holder if necessary.
    Create,
    /// Store it and cancel the holder as replaced by it.
    Replace {
        /// Whether it inherits the holder's run time if that is earlier.
        keeps_time: bool,
    },
    /// Do not store it; return the holder.
    Existing,
    /// Do not store it; report that it was throttled.
    Throttled,
    /// Refuse it.
    Reject,
}

impl OnConflict {
    /// Decides, given the holder of the key.
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
            // A running job cannot be replaced: the new job becomes its successor.
            Self::Replace | Self::Debounce => UniqueVerdict::Create,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seeded;

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
        let removed = unique.clone().until(Until::Removed);
        assert_eq!(removed.check().unwrap_err().field(), Some("unique.until"));
        let window = |period| unique.clone().until(Until::Window(period)).check();
        window(Duration::from_secs(1)).unwrap();
        for wrong in [Duration::ZERO, Duration::from_micros(1_500), Duration::MAX] {
            assert_eq!(window(wrong).unwrap_err().field(), Some("unique.until"), "{wrong:?}");
        }
        assert_eq!(Unique::by("").check().unwrap_err().field(), Some("unique.key"));
    }
}
