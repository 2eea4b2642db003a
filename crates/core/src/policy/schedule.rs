//! Schedules: when a recurring job fires. Pure arithmetic on timestamps; independent of where schedules are
//! stored, who fires them, and what a fire enqueues.

mod completion;
mod cron;
mod due;
mod progress;

pub use due::ScheduleDue;
pub use progress::ScheduleProgress;

use self::cron::CronLine;
use self::progress::Spans;
use crate::error::{Error, Result, within_range};
use crate::id::{JobId, derived};
use crate::limits::{DELAY_MAX_MS, EVERY_MIN_MS};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The definition of a recurring schedule, stored in a record.
///
/// ```
/// use windlass_core::policy::{Missed, ScheduleProgress, Schedule};
/// use windlass_core::time::{HOUR_MS, Timestamp};
///
/// let hourly = Schedule::cron("0 * * * *", "Europe/Berlin").missed(Missed::All);
/// hourly.check()?;
///
/// let created = Timestamp::from_millis(1_800_000_000_000);
/// let due = hourly.due(ScheduleProgress::new(created), created.plus(3 * HOUR_MS))?;
/// assert_eq!(due.fires.len(), 3);
/// # Ok::<(), windlass_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Schedule {
    /// The fire times.
    pub timing: Timing,
    /// No fire before this time (inclusive).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Timestamp>,
    /// No fire after this time (inclusive).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Timestamp>,
    /// Total number of fires; skipped ones are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// How to handle missed fires.
    #[serde(default)]
    pub missed: Missed,
}

/// The fire times of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Timing {
    /// At the times of a cron line on the wall clock of a time zone.
    ///
    /// A line without `*` and `/` in its seconds, minutes and hours has *fixed times* (`30 2 * * *`,
    /// `0 2,14 * * *`); any other is a *rhythm* (`*/15 * * * *`). When clocks go forward, fixed times that do not
    /// exist fire once, right after the gap; a rhythm skips them, because no time passes there. When clocks
    /// go back, a fixed time fires only at its first occurrence; a rhythm fires during both.
    Cron {
        /// Five fields (minute, hour, day, month, weekday), six with seconds first, or a nickname
        /// such as `@daily`.
        line: String,
        /// A name from the IANA time zone database.
        #[serde(default = "utc")]
        zone: String,
    },
    /// At `anchor + n × every_ms`, for every integer `n`: a late fire never shifts the next one.
    Every {
        /// The interval.
        every_ms: u64,
        /// The origin of the multiples: by default `start`, otherwise the Unix epoch, which aligns an
        /// interval of 15 minutes with the quarters of the hour.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        anchor: Option<Timestamp>,
    },
    /// A time after the end of the job of the previous fire, however it ended or was removed; the first time, after the
    /// creation of the schedule. So its jobs never overlap, however long one takes.
    AfterCompletion {
        /// The time between the end of a job and the next fire.
        after_ms: u64,
    },
}

fn utc() -> String {
    "UTC".to_owned()
}

/// How to handle missed fires, i.e. those noticed more than a minute late
/// ([`ON_TIME_MS`](crate::limits::ON_TIME_MS)). Fires noticed earlier are on time and always happen.
///
/// Fires older than [`MISSED_FIRE_MAX_MS`](crate::limits::MISSED_FIRE_MAX_MS) are skipped in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Missed {
    /// Skip them.
    Skip,
    /// Fire once for all of them: with the fire that is on time, otherwise with the latest missed one.
    #[default]
    Once,
    /// Fire each of them, oldest first.
    All,
}

impl Missed {
    /// As in the wire format.
    const fn word(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Once => "once",
            Self::All => "all",
        }
    }
}

impl Schedule {
    /// Fires at the times of a cron `line` on the wall clock of `zone`, e.g. `Europe/Berlin`.
    pub fn cron(line: impl Into<String>, zone: impl Into<String>) -> Self {
        Self::new(Timing::Cron { line: line.into(), zone: zone.into() })
    }

    /// Fires at this interval.
    pub fn every(interval: Duration) -> Self {
        Self::every_ms(u64::try_from(interval.as_millis()).unwrap_or(u64::MAX))
    }

    /// Fires every `every_ms` milliseconds, as in the wire format.
    pub fn every_ms(every_ms: u64) -> Self {
        Self::new(Timing::Every { every_ms, anchor: None })
    }

    /// Fires this time after the end of the previous job. There is no next fire while that job has not ended.
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass_core::policy::{Schedule, ScheduleProgress};
    /// use windlass_core::time::Timestamp;
    ///
    /// let poll = Schedule::after_completion(Duration::from_secs(60));
    /// let created = Timestamp::from_millis(1_800_000_000_000);
    /// assert_eq!(poll.next_fire(ScheduleProgress::new(created), created)?, Some(created.plus(60_000)));
    /// # Ok::<(), windlass_core::Error>(())
    /// ```
    pub fn after_completion(pause: Duration) -> Self {
        Self::after_completion_ms(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX))
    }

    /// Fires `after_ms` milliseconds after the end of the previous job, as in the wire format.
    pub const fn after_completion_ms(after_ms: u64) -> Self {
        Self::new(Timing::AfterCompletion { after_ms })
    }

    const fn new(timing: Timing) -> Self {
        Self { timing, start: None, end: None, limit: None, missed: Missed::Once }
    }

    /// Sets the anchor of an interval to `at`, unless it has an anchor or a start. Call it with the creation
    /// time of a new schedule if intervals are to be counted from there. Has no effect on a cron line.
    #[must_use]
    pub fn anchored(mut self, at: Timestamp) -> Self {
        if let Timing::Every { anchor: anchor @ None, .. } = &mut self.timing {
            *anchor = self.start.or(Some(at));
        }
        self
    }

    /// Fires no earlier than `at`.
    #[must_use]
    pub fn start(mut self, at: Timestamp) -> Self {
        self.start = Some(at);
        self
    }

    /// Fires no later than `at`.
    #[must_use]
    pub fn end(mut self, at: Timestamp) -> Self {
        self.end = Some(at);
        self
    }

    /// Limits the total number of fires.
    #[must_use]
    pub fn limit(mut self, fires: u64) -> Self {
        self.limit = Some(fires);
        self
    }

    /// Sets how to handle missed fires.
    #[must_use]
    pub fn missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    /// Checks that the schedule is valid: it can be parsed, is within the limits, and fires at least once.
    pub fn check(&self) -> Result<()> {
        let fires = self.fires()?;
        if self.limit == Some(0) {
            return Err(Error::invalid("schedule.limit", 0, "use 1 or more, or leave it out"));
        }
        let counts_from_end = matches!(fires.rhythm, Rhythm::AfterCompletion { .. });
        if counts_from_end && self.missed != Missed::Once {
            let expected = "leave it out: a schedule after completion has one fire at a time, which may be late";
            return Err(Error::invalid("schedule.missed", self.missed.word(), expected));
        }
        let Some((start, end)) = self.start.zip(self.end) else {
            return Ok(());
        };
        if end < start {
            let expected = format!("it must not be before the start, {start}");
            return Err(Error::invalid("schedule.end", end, expected));
        }
        if !counts_from_end && fires.after(start.minus(1)).is_none() {
            let expected = format!("there is no fire between the start, {start}, and then");
            return Err(Error::invalid("schedule.end", end, expected));
        }
        Ok(())
    }

    /// The first fire after `after`; `None` if there is none until its end. Ignores the limit, which requires
    /// [`ScheduleProgress`].
    pub fn next_after(&self, after: Timestamp) -> Result<Option<Timestamp>> {
        Ok(self.fires()?.after(after))
    }

    /// The parsed schedule, because parsing a cron line is more expensive than computing a fire.
    fn fires(&self) -> Result<Fires> {
        let rhythm = match &self.timing {
            Timing::Cron { line, zone } => Rhythm::Cron(Box::new(CronLine::parse(line, zone)?)),
            Timing::Every { every_ms, anchor } => {
                within_range("schedule.every_ms", *every_ms, EVERY_MIN_MS..=DELAY_MAX_MS)?;
                let anchor = anchor.or(self.start).unwrap_or(Timestamp::EPOCH);
                Rhythm::Every { every_ms: *every_ms, anchor }
            }
            Timing::AfterCompletion { after_ms } => {
                let range = EVERY_MIN_MS..=DELAY_MAX_MS;
                within_range("schedule.after_completion_ms", *after_ms, range)?;
                Rhythm::AfterCompletion { after_ms: *after_ms }
            }
        };
        Ok(Fires { rhythm, start: self.start, end: self.end, given: Spans::NONE })
    }
}

/// The id of the job that the schedule `name` fires at `at`. The same in every scheduler, so that ten
/// schedulers fire once.
pub fn fire_id(name: &str, at: Timestamp) -> JobId {
    derived(at, &[b"schedule", name.as_bytes(), &at.as_millis().to_be_bytes()])
}

/// A parsed schedule.
struct Fires {
    rhythm: Rhythm,
    start: Option<Timestamp>,
    end: Option<Timestamp>,
    /// Fires to leave out, because they have already happened.
    given: Spans,
}

enum Rhythm {
    Cron(Box<CronLine>),
    Every { every_ms: u64, anchor: Timestamp },
    AfterCompletion { after_ms: u64 },
}

impl Fires {
    /// The first fire after `after` that has not happened yet.
    fn after(&self, after: Timestamp) -> Option<Timestamp> {
        let mut at = self.listed_after(after)?;
        while let Some(until) = self.given.until(at) {
            at = self.listed_after(until)?;
        }
        Some(at)
    }

    /// The first fire after `after`, between the start and the end.
    fn listed_after(&self, after: Timestamp) -> Option<Timestamp> {
        let after = self.start.map_or(after, |start| after.max(start.minus(1)));
        let at = match &self.rhythm {
            Rhythm::Cron(line) => line.after(after),
            Rhythm::Every { every_ms, anchor } => multiple_after(*anchor, *every_ms, after),
            // As if a job ended at this time.
            Rhythm::AfterCompletion { after_ms } => Some(after.plus(*after_ms)),
        };
        at.filter(|at| self.end.is_none_or(|end| *at <= end))
    }
}

/// The first `anchor + n × every_ms` after `after`; `None` beyond the maximum timestamp.
fn multiple_after(anchor: Timestamp, every_ms: u64, after: Timestamp) -> Option<Timestamp> {
    // 128 bits for the difference of any two timestamps, so that no anchor can overflow.
    let (anchor, every) = (i128::from(anchor.as_millis()), i128::from(every_ms));
    let n = (i128::from(after.as_millis()) - anchor).div_euclid(every) + 1;
    i64::try_from(anchor + n * every).ok().map(Timestamp::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SECOND_MS;
    use crate::time::{DAY_MS, HOUR_MS, MINUTE_MS};

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn refused(schedule: &Schedule) -> (String, String) {
        let error = schedule.check().unwrap_err();
        assert_eq!(error.code(), "invalid");
        (error.field().unwrap().to_owned(), error.to_string())
    }

    #[test]
    fn a_schedule_that_cannot_work_is_refused_by_field() {
        let hourly = || Schedule::cron("0 * * * *", "UTC");
        for (schedule, field) in [
            (Schedule::cron("61 * * * *", "UTC"), "schedule.cron"),
            (Schedule::cron("0 0 30 2 *", "UTC"), "schedule.cron"),
            (Schedule::cron("0 0 * * *", "Mars/Olympus"), "schedule.zone"),
            (Schedule::every_ms(999), "schedule.every_ms"),
            (Schedule::every_ms(DELAY_MAX_MS + 1), "schedule.every_ms"),
            (hourly().start(NOW).end(NOW.minus(1)), "schedule.end"),
            (hourly().start(NOW.plus(1)).end(NOW.plus(2)), "schedule.end"),
            (hourly().limit(0), "schedule.limit"),
            (Schedule::after_completion_ms(999), "schedule.after_completion_ms"),
            (Schedule::after_completion_ms(DELAY_MAX_MS + 1), "schedule.after_completion_ms"),
            (Schedule::after_completion_ms(5_000).missed(Missed::All), "schedule.missed"),
            (Schedule::after_completion_ms(5_000).start(NOW).end(NOW.minus(1)), "schedule.end"),
        ] {
            assert_eq!(refused(&schedule).0, field, "{schedule:?}");
        }
        hourly().start(NOW).end(NOW).limit(1).check().unwrap();
        Schedule::every_ms(SECOND_MS).check().unwrap();
        Schedule::every_ms(DELAY_MAX_MS).check().unwrap();
        Schedule::after_completion_ms(DELAY_MAX_MS).start(NOW).end(NOW).check().unwrap();
    }

    #[test]
    fn start_and_end_are_both_included() {
        let hourly = Schedule::cron("0 * * * *", "UTC").start(NOW).end(NOW.plus(HOUR_MS));
        assert_eq!(hourly.next_after(Timestamp::EPOCH).unwrap(), Some(NOW));
        assert_eq!(hourly.next_after(NOW).unwrap(), Some(NOW.plus(HOUR_MS)));
        assert_eq!(hourly.next_after(NOW.plus(HOUR_MS)).unwrap(), None);
    }

    #[test]
    fn an_interval_counts_from_its_anchor_its_start_or_the_epoch() {
        let odd = NOW.plus(7);
        let every = Schedule::every_ms(15 * MINUTE_MS);
        let next = |schedule: Schedule| schedule.next_after(odd.plus(1)).unwrap().unwrap();
        assert_eq!(next(every.clone()), NOW.plus(15 * MINUTE_MS));
        assert_eq!(next(every.clone().anchored(odd)), odd.plus(15 * MINUTE_MS));
        assert_eq!(next(every.clone().start(odd).anchored(NOW)), odd.plus(15 * MINUTE_MS));
        assert_eq!(next(every.anchored(odd.plus(DAY_MS)).anchored(NOW)), odd.plus(15 * MINUTE_MS));
    }

    #[test]
    fn the_ends_of_time_are_not_crossed() {
        let (first, last) = (Timestamp::from_millis(i64::MIN), Timestamp::MAX);
        let every = Schedule::every_ms(DAY_MS);
        assert_eq!(every.next_after(last).unwrap(), None);
        assert_eq!(every.clone().anchored(last).next_after(last.minus(1)).unwrap(), Some(last));
        assert!(every.anchored(last).next_after(first).unwrap().is_some());
        let cron = Schedule::cron("* * * * *", "Europe/Berlin");
        assert_eq!(cron.next_after(last).unwrap(), None);
        assert_eq!(cron.next_after(first).unwrap(), Some(Timestamp::EPOCH));
    }

    #[test]
    fn the_same_fire_has_the_same_id_wherever_it_is_computed() {
        let id = fire_id("nightly", NOW);
        assert_eq!(id, fire_id("nightly", NOW));
        assert_ne!(id, fire_id("nightly", NOW.plus(1)));
        assert_ne!(id, fire_id("weekly", NOW));
    }

    #[test]
    fn a_record_reads_back_and_may_leave_out_what_has_a_default() {
        let full = Schedule::cron("0 2 * * *", "Europe/Berlin").start(NOW).limit(3);
        let json = serde_json::to_string(&full).unwrap();
        assert_eq!(serde_json::from_str::<Schedule>(&json).unwrap(), full);

        let brief = r#"{"timing":{"cron":{"line":"@daily"}}}"#;
        let read: Schedule = serde_json::from_str(brief).unwrap();
        assert_eq!(read, Schedule::cron("@daily", "UTC"));
        let both = r#"{"timing":{"cron":{"line":"@daily"},"every":{"every_ms":1000}}}"#;
        assert!(serde_json::from_str::<Schedule>(both).is_err());
    }
}
