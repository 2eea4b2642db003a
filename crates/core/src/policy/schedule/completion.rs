//! Schedules whose fires count from the end of the previous job. Independent of how that end is noticed.

use super::{Fires, Schedule, ScheduleDue, ScheduleProgress};
use crate::limits::MISSED_FIRE_MAX_MS;
use crate::time::Timestamp;

impl Schedule {
    /// What a schedule after completion owes at `now`. It fires nothing while `from` differs from the stored
    /// `progress`: the time of a fire is part of its id, so schedulers must agree on it first.
    pub(super) fn due_after_completion(
        &self,
        all: &Fires,
        after_ms: u64,
        progress: ScheduleProgress,
        from: ScheduleProgress,
        now: Timestamp,
    ) -> ScheduleDue {
        let next = self.next_after_completion(after_ms, from);
        let is_over = self.room(from) == 0 || self.end.is_some_and(|end| end < now);
        let awaits = from.awaits.filter(|_| !is_over);
        match next.filter(|at| *at <= now && from == progress) {
            Some(at) => {
                let fires = vec![at];
                let progress = from.with(all, &fires);
                let next = self.next_after_completion(after_ms, progress);
                ScheduleDue { fires, from, progress, next, awaits }
            }
            None => ScheduleDue { fires: Vec::new(), from, progress: from, next, awaits },
        }
    }

    /// The time of the next fire; `None` if there is none, or a job must end first.
    pub(super) fn next_after_completion(
        &self,
        after_ms: u64,
        progress: ScheduleProgress,
    ) -> Option<Timestamp> {
        let at = progress.since.plus(after_ms);
        let at = self.start.map_or(at, |start| at.max(start));
        let is_open = progress.awaits.is_none() && self.room(progress) > 0;
        Some(at).filter(|at| is_open && self.end.is_none_or(|end| *at <= end))
    }
}

impl ScheduleProgress {
    /// Moves a fire to `now` that was missed for so long that its id would be too old.
    pub(super) fn in_time(self, after_ms: u64, now: Timestamp) -> Self {
        let late_ms = now.since(self.since.plus(after_ms));
        match self.awaits.is_none() && late_ms > MISSED_FIRE_MAX_MS {
            true => Self { since: now.minus(after_ms), ..self },
            false => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::JobId;
    use crate::time::{DAY_MS, HOUR_MS, MINUTE_MS};

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
    const AFTER_MS: u64 = 5 * MINUTE_MS;

    fn minutes(minutes: u64) -> Timestamp {
        NOW.plus(minutes * MINUTE_MS)
    }

    fn schedule() -> Schedule {
        Schedule::after_completion_ms(AFTER_MS)
    }

    fn job(progress: ScheduleProgress, at: Timestamp) -> JobId {
        progress.fire_id("s", at)
    }

    /// Fires what is due, and awaits its job.
    fn fire(schedule: &Schedule, progress: &mut ScheduleProgress, now: Timestamp) -> JobId {
        let due = schedule.due(*progress, now).unwrap();
        let [at] = due.fires[..] else { panic!("nothing is due: {due:?}") };
        let id = job(due.from, at);
        *progress = due.progress.awaiting(id);
        id
    }

    #[test]
    fn a_fire_counts_from_the_end_of_the_previous_job() {
        let (schedule, mut progress) = (schedule(), ScheduleProgress::new(NOW));
        let fresh = schedule.due(progress, minutes(5).minus(1)).unwrap();
        assert_eq!((fresh.fires.len(), fresh.next), (0, Some(minutes(5))));
        let id = fire(&schedule, &mut progress, minutes(5));

        // The job takes an hour: nothing is due meanwhile.
        let running = schedule.due(progress, minutes(60)).unwrap();
        assert_eq!((running.fires.len(), running.next, running.awaits), (0, None, Some(id)));
        assert_eq!(schedule.next_fire(progress, minutes(60)).unwrap(), None);

        progress = progress.after_end(minutes(65));
        let ended = schedule.due(progress, minutes(66)).unwrap();
        assert_eq!((ended.fires.len(), ended.next, ended.awaits), (0, Some(minutes(70)), None));
        assert_eq!(schedule.due(progress, minutes(71)).unwrap().fires, [minutes(70)]);
    }

    #[test]
    fn a_fire_that_the_store_refused_is_followed_by_another() {
        let due = schedule().due(ScheduleProgress::new(NOW), minutes(5)).unwrap();
        // No job came of it, so nothing is awaited.
        assert_eq!((due.progress.awaits, due.next), (None, Some(minutes(10))));
    }

    #[test]
    fn start_end_and_limit_bound_it() {
        let progress = ScheduleProgress::new(NOW);
        let later = schedule().start(minutes(30)).due(progress, minutes(29)).unwrap();
        assert_eq!((later.fires.len(), later.next), (0, Some(minutes(30))));
        let ended = schedule().end(minutes(4)).due(progress, minutes(3)).unwrap();
        assert_eq!((ended.fires.len(), ended.next), (0, None));

        let (once, mut progress) = (schedule().limit(1), progress);
        fire(&once, &mut progress, minutes(5));
        let over = once.due(progress, minutes(6)).unwrap();
        assert_eq!((over.next, over.awaits), (None, None), "its job need not be watched");
        let (bounded, mut progress) = (schedule().end(minutes(8)), ScheduleProgress::new(NOW));
        fire(&bounded, &mut progress, minutes(5));
        assert!(bounded.due(progress, minutes(8)).unwrap().awaits.is_some());
        assert_eq!(bounded.due(progress, minutes(9)).unwrap().awaits, None);
    }

    #[test]
    fn a_resumed_schedule_counts_from_its_resumption_or_the_end_of_its_job() {
        let (schedule, mut progress) = (schedule(), ScheduleProgress::new(NOW));
        fire(&schedule, &mut progress, minutes(5));
        let resumed = progress.resumed(minutes(60));
        let ended_before = resumed.after_end(minutes(10));
        assert_eq!(schedule.next_fire(ended_before, minutes(61)).unwrap(), Some(minutes(65)));
        let ended_after = resumed.after_end(minutes(70));
        assert_eq!(schedule.next_fire(ended_after, minutes(71)).unwrap(), Some(minutes(75)));
        assert!(progress.restarted(minutes(60)).awaits.is_some(), "jobs do not overlap");
    }

    #[test]
    fn a_fire_that_was_missed_for_days_is_moved_first_and_then_given_once() {
        let (schedule, progress) = (schedule(), ScheduleProgress::new(NOW));
        let now = NOW.plus(3 * DAY_MS);
        let moved = schedule.due(progress, now).unwrap();
        assert_eq!((moved.fires.len(), moved.next), (0, Some(now)), "to be stored first");
        assert_ne!(moved.progress, progress);
        assert_eq!(schedule.due(moved.progress, now.plus(9)).unwrap().fires, [now]);
    }

    #[test]
    fn a_clock_that_goes_back_neither_stops_it_nor_repeats_an_id() {
        let (schedule, mut progress) = (schedule(), ScheduleProgress::new(NOW));
        let first = fire(&schedule, &mut progress, minutes(5));
        let back = NOW.minus(HOUR_MS);
        progress = schedule.due(progress, back).unwrap().progress;
        assert_eq!(progress.awaits, Some(first));
        progress = progress.after_end(back.plus(1));
        let next = schedule.due(progress, back.plus(1)).unwrap();
        assert_eq!(next.next, Some(back.plus(1 + AFTER_MS)));
        let mut progress = ScheduleProgress { since: NOW, ..progress };
        assert_ne!(
            fire(&schedule, &mut progress, minutes(5)),
            first,
            "the same time, another fire"
        );
    }
}
