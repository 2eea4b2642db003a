//! The progress of a schedule, and how it handles a store clock that goes back. Independent of fire times.

use super::{Fires, Rhythm, fire_id};
use crate::id::{JobId, derived};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// The progress of a schedule, stored with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ScheduleProgress {
    /// When it was created, or when the store's clock was found to have gone back. It owes no fires up to
    /// then, except at its `start`.
    pub since: Timestamp,
    /// The latest fire. Everything up to it is decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
    /// Number of fires so far, compared with the limit.
    #[serde(default)]
    pub fired: u64,
    /// How often an interval started over because the store's clock went back. Part of the ids of its fires,
    /// because the same times occur again and are different fires.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rewinds: u32,
    /// Periods in which all fires of a cron line have happened: none is repeated, whatever the clock does.
    #[serde(default, skip_serializing_if = "Spans::is_empty")]
    pub(super) given: Spans,
    /// The job that must end before the next fire is due, of a schedule after completion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaits: Option<JobId>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl ScheduleProgress {
    /// The progress of a schedule created at `since`.
    pub const fn new(since: Timestamp) -> Self {
        Self { since, last: None, fired: 0, rewinds: 0, given: Spans::NONE, awaits: None }
    }

    /// Continues from `now` on: fires due up to then are no longer owed.
    #[must_use]
    pub const fn resumed(self, now: Timestamp) -> Self {
        Self { since: now, last: None, ..self }
    }

    /// Starts over at `now`, with another rhythm. A job that has not ended is still awaited.
    #[must_use]
    pub const fn restarted(self, now: Timestamp) -> Self {
        Self { rewinds: self.rewinds, awaits: self.awaits, ..Self::new(now) }
    }

    /// Awaits the end of this job before the next fire.
    #[must_use]
    pub const fn awaiting(self, job: JobId) -> Self {
        Self { awaits: Some(job), ..self }
    }

    /// The awaited job ended at `ended`: the next fire counts from there. To be stored before anything fires, so that
    /// all schedulers count from the same time.
    #[must_use]
    pub fn after_end(self, ended: Timestamp) -> Self {
        Self { since: self.since.max(ended), awaits: None, ..self }
    }

    /// The id of the job that the schedule `name` fires at `at`: the same in every scheduler.
    pub fn fire_id(&self, name: &str, at: Timestamp) -> JobId {
        match self.rewinds {
            0 => fire_id(name, at),
            rewinds => {
                let (name, ms) = (name.as_bytes(), at.as_millis().to_be_bytes());
                derived(at, &[b"schedule", name, &ms, &rewinds.to_be_bytes()])
            }
        }
    }

    /// The time up to which everything is decided.
    pub(super) fn decided(self, start: Option<Timestamp>) -> Timestamp {
        let start = start.filter(|start| *start >= self.since);
        let fresh = start.map_or(self.since, |start| start.minus(1));
        self.last.unwrap_or(fresh)
    }

    /// The progress at `now`: started over if the store's clock went back.
    ///
    /// An interval continues from the new time with new fires once the clock went back by at least one
    /// interval: for a smaller step it would repeat the latest fire. A cron line also continues from the new
    /// time, but leaves out fires that have already happened. A schedule after completion counts from the new time.
    pub(super) fn at(self, rhythm: &Rhythm, now: Timestamp) -> Self {
        let back_ms = self.last.unwrap_or(self.since).since(now);
        match rhythm {
            Rhythm::Cron(_) if back_ms > 0 => self.resumed(now),
            Rhythm::Every { every_ms, .. } if back_ms >= *every_ms => {
                Self { rewinds: self.rewinds.saturating_add(1), ..self.resumed(now) }
            }
            Rhythm::AfterCompletion { .. } if self.since > now => {
                Self { rewinds: self.rewinds.saturating_add(1), ..self.resumed(now) }
            }
            Rhythm::AfterCompletion { after_ms } => self.in_time(*after_ms, now),
            Rhythm::Cron(_) | Rhythm::Every { .. } => self,
        }
    }

    /// The progress after these fires, oldest first.
    pub(super) fn with(mut self, all: &Fires, fires: &[Timestamp]) -> Self {
        self.fired = self.fired.saturating_add(fires.len() as u64);
        self.last = fires.last().copied().or(self.last);
        match all.rhythm {
            Rhythm::Cron(_) => {
                fires.iter().for_each(|at| self.given.add(*at, |after| all.listed_after(after)));
            }
            // Counts from the fire itself if no job came of it.
            Rhythm::AfterCompletion { .. } => self.since = self.last.unwrap_or(self.since),
            Rhythm::Every { .. } => {}
        }
        self
    }
}

/// Maximum number of remembered periods. Each outage that skips fires starts another one; when there are too
/// many, the two oldest are merged, as if nothing had been skipped between them.
const SPANS_MAX: usize = 8;

/// From one fire to another, both included, with all fires between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Span {
    from: Timestamp,
    until: Timestamp,
}

/// Disjoint spans, ordered by time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Span>", into = "Vec<Span>")]
pub(super) struct Spans([Option<Span>; SPANS_MAX]);

impl From<Vec<Span>> for Spans {
    fn from(spans: Vec<Span>) -> Self {
        let mut array = [None; SPANS_MAX];
        // Keeps the latest ones if a later version has stored more.
        let skipped = spans.len().saturating_sub(SPANS_MAX);
        for (slot, span) in array.iter_mut().zip(spans.into_iter().skip(skipped)) {
            *slot = Some(span);
        }
        Self(array)
    }
}

impl From<Spans> for Vec<Span> {
    fn from(spans: Spans) -> Self {
        spans.0.into_iter().flatten().collect()
    }
}

impl Spans {
    pub(super) const NONE: Self = Self([None; SPANS_MAX]);

    fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }

    /// The end of the span that contains a timestamp.
    pub(super) fn until(&self, at: Timestamp) -> Option<Timestamp> {
        let spans = self.0.iter().flatten();
        spans.filter(|span| (span.from..=span.until).contains(&at)).map(|span| span.until).next()
    }

    /// Adds a fire; `next` returns the fire after a timestamp.
    fn add(&mut self, at: Timestamp, next: impl Fn(Timestamp) -> Option<Timestamp>) {
        let mut spans = Vec::from(*self);
        let index = spans.partition_point(|span| span.until < at);
        if spans.get(index).is_some_and(|span| span.from <= at) {
            return;
        }
        let joins_before = index > 0 && next(spans[index - 1].until) == Some(at);
        let joins_after = spans.get(index).is_some_and(|after| next(at) == Some(after.from));
        match (joins_before, joins_after) {
            (true, true) => spans[index - 1].until = spans.remove(index).until,
            (true, false) => spans[index - 1].until = at,
            (false, true) => spans[index].from = at,
            (false, false) => spans.insert(index, Span { from: at, until: at }),
        }
        if spans.len() > SPANS_MAX {
            spans[0].until = spans.remove(1).until;
        }
        *self = Self::from(spans);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(n: i64) -> Timestamp {
        Timestamp::from_millis(n)
    }

    fn given(fires: &[i64]) -> Spans {
        let mut spans = Spans::default();
        // A fire every 10 ms.
        fires.iter().for_each(|n| spans.add(at(*n), |after| Some(after.plus(10))));
        spans
    }

    fn bounds(spans: Spans) -> Vec<(i64, i64)> {
        let bound = |span: Span| (span.from.as_millis(), span.until.as_millis());
        Vec::from(spans).into_iter().map(bound).collect()
    }

    #[test]
    fn neighbours_become_one_span_in_whatever_order_they_come() {
        assert_eq!(bounds(given(&[10, 20, 30])), [(10, 30)]);
        assert_eq!(bounds(given(&[10, 30, 20, 20])), [(10, 30)]);
        assert_eq!(bounds(given(&[50, 10, 20, 40])), [(10, 20), (40, 50)]);
        assert_eq!(given(&[10, 20, 40]).until(at(10)), Some(at(20)));
        assert_eq!(given(&[10, 20, 40]).until(at(30)), None);
    }

    #[test]
    fn of_too_many_spans_the_oldest_become_one() {
        let apart: Vec<i64> = (0..12).map(|n| n * 100).collect();
        let spans = bounds(given(&apart));
        assert_eq!((spans.len(), spans[0], spans[7]), (SPANS_MAX, (0, 400), (1_100, 1_100)));
    }

    #[test]
    fn progress_reads_back_and_may_leave_out_what_is_usual() {
        let usual = serde_json::to_string(&ScheduleProgress::new(at(5))).unwrap();
        assert_eq!(usual, r#"{"since":"1970-01-01T00:00:00.005Z","fired":0}"#);
        let full = ScheduleProgress {
            given: given(&[10, 40]),
            rewinds: 2,
            ..ScheduleProgress::new(at(5))
        };
        let text = serde_json::to_string(&full).unwrap();
        assert_eq!(serde_json::from_str::<ScheduleProgress>(&text).unwrap(), full);
    }
}
