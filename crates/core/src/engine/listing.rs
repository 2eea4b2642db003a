//! The order of listings, and the position of a job in one.

use super::{Cursor, Filter, ListOrder};
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
    /// Lower than the position of any job.
    pub const MIN: Self = Self { at: Timestamp::from_millis(i64::MIN), id: JobId::MIN };
    /// Higher than the position of any job.
    pub const MAX: Self = Self { at: Timestamp::MAX, id: JobId::MAX };

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

    /// Lower than the position of any job with this time, and higher than that of any earlier one.
    const fn before_all_at(at: Timestamp) -> Self {
        Self { at, id: JobId::MIN }
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
            // Positions by id have no time.
            let is_own = sorted_by != SortedBy::Enqueued || at == Timestamp::EPOCH;
            Some(Self { at, id: id.parse().ok()? }).filter(|_| is_own)
        };
        let expected = "use a cursor that an earlier page of the same listing returned";
        read().ok_or_else(|| Error::invalid("cursor", cursor, expected))
    }
}

/// The positions that a page may contain, in the direction of its listing; both ends are excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListSpan {
    order: ListOrder,
    /// All positions come after this one.
    pub start: ListPlace,
    /// All positions come before this one.
    pub end: ListPlace,
}

impl ListSpan {
    /// The positions after a cursor that the filter does not exclude by the time that the listing is sorted by.
    pub(super) fn of(filter: &Filter, order: ListOrder, after: Option<ListPlace>) -> Self {
        let from = |at: Option<Timestamp>| at.map_or(ListPlace::MIN, ListPlace::before_all_at);
        let until = |at: Option<Timestamp>| at.map_or(ListPlace::MAX, ListPlace::before_all_at);
        let (first, last) = match SortedBy::of(filter.state) {
            SortedBy::Enqueued => {
                let (first, last) = filter.ids();
                (ListPlace::enqueued(first.before()), ListPlace::enqueued(last.next()))
            }
            SortedBy::Due => (from(filter.due_from), until(filter.due_until)),
            SortedBy::Ended => (from(filter.ended_from), until(filter.ended_until)),
            SortedBy::Started => (ListPlace::MIN, ListPlace::MAX),
        };
        let (start, end) = match order {
            ListOrder::Newest => (last, first),
            ListOrder::Oldest => (first, last),
        };
        let later = after.filter(|after| order.is_after(after, Some(&start)));
        Self { order, start: later.unwrap_or(start), end }
    }

    /// Whether a position is one of them.
    pub fn includes(&self, place: &ListPlace) -> bool {
        self.order.is_after(place, Some(&self.start)) && !self.is_past(place)
    }

    /// Whether a position, and therefore every later one, is behind them.
    pub fn is_past(&self, place: &ListPlace) -> bool {
        self.order.compare(place, &self.end) != Ordering::Less
    }

    /// The lowest and the highest position, both excluded.
    pub const fn bounds(&self) -> (ListPlace, ListPlace) {
        match self.order {
            ListOrder::Newest => (self.end, self.start),
            ListOrder::Oldest => (self.start, self.end),
        }
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
    use crate::time::MINUTE_MS;

    const AT: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    #[test]
    fn a_cursor_reads_back_and_only_in_its_own_listing() {
        let id = JobId::new(AT, &Seeded::new(1));
        for sorted_by in SortedBy::ALL {
            let at = if sorted_by == SortedBy::Enqueued { Timestamp::EPOCH } else { AT };
            let place = ListPlace { at, id };
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
        let with_time = Cursor::new(format!("enqueued:1:{id}"));
        assert!(ListPlace::read(&with_time, SortedBy::Enqueued).is_err());
    }

    #[test]
    fn a_span_is_between_the_cursor_and_the_edges_of_the_window() {
        let place = |minutes: u64| {
            let at = AT.plus(minutes * MINUTE_MS);
            ListPlace { at, id: JobId::new(at, &Seeded::new(minutes)) }
        };
        let (from, until) = (AT.plus(2 * MINUTE_MS), AT.plus(5 * MINUTE_MS));
        let filter = Filter::state(State::Dead).ended_from(from).ended_until(until);
        let within = |order, after: Option<u64>| {
            let span = ListSpan::of(&filter, order, after.map(place));
            (0..8).filter(|minutes| span.includes(&place(*minutes))).collect::<Vec<_>>()
        };
        for order in [ListOrder::Newest, ListOrder::Oldest] {
            assert_eq!(within(order, None), [2, 3, 4], "{order:?}");
        }
        assert_eq!(within(ListOrder::Newest, Some(3)), [2]);
        assert_eq!(within(ListOrder::Oldest, Some(3)), [4]);
        assert_eq!(within(ListOrder::Newest, Some(7)), [2, 3, 4], "before the window");
        assert_eq!(within(ListOrder::Oldest, Some(7)), [0; 0], "behind the window");
        let id = place(1).id;
        let one = Filter::default().id(id.to_string().parse().unwrap());
        let span = ListSpan::of(&one, ListOrder::Oldest, None);
        assert!(span.includes(&ListPlace::enqueued(id)), "the ends of a prefix are included");
        assert!(!span.includes(&ListPlace::enqueued(place(2).id)));
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
