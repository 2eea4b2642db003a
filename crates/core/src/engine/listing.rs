//! The order of listings, and the position of a job in one.

use super::{Cursor, ListOrder};
use crate::error::{Error, Result};
use crate::id::JobId;
use crate::model::{Job, State};
use crate::time::Timestamp;
use std::cmp::Ordering;

/// The time by which a listing is sorted. It follows from the state that the listing asks for, because people read
/// such a list for that time. Jobs with the same time are sorted by id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortedBy {
    /// By id, i.e. by the time of the enqueue: lists of all states, and of blocked, available and paused jobs.
    Enqueued,
    /// By the time at which a job is due: lists of scheduled jobs.
    Due,
    /// By the start of the current attempt: lists of running jobs.
    Started,
    /// By the time of the end: lists of completed, dead, cancelled or expired jobs.
    Ended,
}

impl SortedBy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Enqueued, Self::Due, Self::Started, Self::Ended];

    /// The time by which a listing of jobs in this state is sorted; `None`: of jobs in any state.
    pub const fn of(state: Option<State>) -> Self {
        match state {
            Some(State::Scheduled) => Self::Due,
            Some(State::Running) => Self::Started,
            Some(State::Completed | State::Dead | State::Cancelled | State::Expired) => Self::Ended,
            Some(State::Blocked | State::Available | State::Paused) | None => Self::Enqueued,
        }
    }

    /// The usual direction: jobs that are due next, or the newest.
    pub const fn usual_order(self) -> ListOrder {
        match self {
            Self::Due => ListOrder::Oldest,
            Self::Enqueued | Self::Started | Self::Ended => ListOrder::Newest,
        }
    }

    /// The first part of cursors, so that the cursor of one listing is refused by another.
    const fn prefix(self) -> &'static str {
        match self {
            Self::Enqueued => "enqueued",
            Self::Due => "due",
            Self::Started => "started",
            Self::Ended => "ended",
        }
    }
}

/// The position of a job in a listing. It is the position of the job itself, not a number of rows: jobs that appear
/// or disappear elsewhere do not shift it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListPlace {
    /// The time by which the listing is sorted; 1970 for listings that are sorted by id alone.
    pub at: Timestamp,
    /// The job.
    pub id: JobId,
}

impl ListPlace {
    /// The position of a job in a listing sorted by `sorted_by`.
    pub fn of(job: &Job, sorted_by: SortedBy) -> Self {
        let at = match sorted_by {
            SortedBy::Enqueued => None,
            SortedBy::Due => Some(job.header.run_at),
            SortedBy::Started => job.started_at,
            SortedBy::Ended => job.finished_at,
        };
        Self { at: at.unwrap_or(Timestamp::EPOCH), id: job.header.id }
    }

    /// The position of an id in a listing sorted by id.
    pub const fn enqueued(id: JobId) -> Self {
        Self { at: Timestamp::EPOCH, id }
    }

    /// The cursor of the page that begins after this position.
    pub fn cursor(self, sorted_by: SortedBy) -> Cursor {
        Cursor::new(format!("{}:{}:{}", sorted_by.prefix(), self.at.as_millis(), self.id))
    }

    /// The position in a cursor. Refuses cursors of listings that are sorted by another time.
    pub fn read(cursor: &Cursor, sorted_by: SortedBy) -> Result<Self> {
        let read = || {
            let (prefix, place) = cursor.as_str().split_once(':')?;
            let (at, id) = place.split_once(':').filter(|_| prefix == sorted_by.prefix())?;
            let at = Timestamp::from_millis(at.parse().ok()?);
            Some(Self { at, id: id.parse().ok()? })
        };
        let expected = "use a cursor that an earlier page of the same listing returned";
        read().ok_or_else(|| Error::invalid("cursor", cursor, expected))
    }
}

impl ListOrder {
    /// Compares two positions: `Less` comes first.
    pub fn compare(self, one: &ListPlace, other: &ListPlace) -> Ordering {
        match self {
            Self::Newest => other.cmp(one),
            Self::Oldest => one.cmp(other),
        }
    }

    /// Whether `place` comes after `cursor`; every position comes after no cursor.
    pub fn is_after(self, place: &ListPlace, cursor: Option<&ListPlace>) -> bool {
        cursor.is_none_or(|cursor| self.compare(cursor, place) == Ordering::Less)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seeded;

    const AT: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    #[test]
    fn a_cursor_reads_back_and_only_in_its_own_listing() {
        let place = ListPlace { at: AT, id: JobId::new(AT, &Seeded::new(1)) };
        for sorted_by in SortedBy::ALL {
            let cursor = place.cursor(sorted_by);
            for other in SortedBy::ALL {
                let read = ListPlace::read(&cursor, other).ok();
                assert_eq!(read, (other == sorted_by).then_some(place), "{cursor} as {other:?}");
            }
        }
        for bad in ["", "due", "due:", "due:1:", "due:x:y", "due:1:y", "17", "enqueued:0:zz"] {
            let refused = ListPlace::read(&Cursor::new(bad), SortedBy::Due).unwrap_err();
            assert_eq!(refused.code(), "invalid", "{bad:?}");
        }
    }

    #[test]
    fn every_state_has_an_order_and_positions_follow_it() {
        for state in State::ALL {
            let expected = match state {
                State::Scheduled => (SortedBy::Due, ListOrder::Oldest),
                State::Running => (SortedBy::Started, ListOrder::Newest),
                state if state.is_terminal() => (SortedBy::Ended, ListOrder::Newest),
                _ => (SortedBy::Enqueued, ListOrder::Newest),
            };
            let sorted_by = SortedBy::of(Some(state));
            assert_eq!((sorted_by, sorted_by.usual_order()), expected, "{state}");
        }
        let id = JobId::new(AT, &Seeded::new(1));
        let (early, late) = (ListPlace { at: AT, id }, ListPlace { at: AT.plus(1), id });
        assert!(ListOrder::Oldest.is_after(&late, Some(&early)));
        assert!(ListOrder::Newest.is_after(&early, Some(&late)));
        assert!(!ListOrder::Newest.is_after(&early, Some(&early)), "not after itself");
        assert!(ListOrder::Newest.is_after(&early, None));
    }
}
