//! The fires that a schedule owes at a given time. Independent of how fire times are computed; only asks for
//! the next one.

use super::progress::ScheduleProgress;
use super::{Fires, Missed, Rhythm, Schedule};
use crate::error::Result;
use crate::id::JobId;
use crate::limits::{FIRES_MAX, MISSED_FIRE_MAX_MS, ON_TIME_MS};
use crate::time::Timestamp;

/// The result of checking a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleDue {
    /// The fires to enqueue now, oldest first, at most [`FIRES_MAX`].
    pub fires: Vec<Timestamp>,
    /// The progress before these fires: as passed in, or started over because the store's clock went back.
    /// The ids of the fires are derived from it.
    pub from: ScheduleProgress,
    /// The progress after these fires; to be stored once they are enqueued, and also if there are none but it
    /// has changed.
    pub progress: ScheduleProgress,
    /// When to check again; not later than now if [`FIRES_MAX`] left some fires over, `None` if the schedule
    /// has ended or awaits the end of a job.
    pub next: Option<Timestamp>,
    /// The job whose end must be reported by [`ScheduleProgress::after_end`] before there is a next fire.
    pub awaits: Option<JobId>,
}

impl Schedule {
    /// The fires due at `now`, given the progress. Pure: enqueue the fires, then store the progress; if this
    /// is repeated, [`ScheduleProgress::fire_id`] makes the enqueues idempotent.
    pub fn due(&self, progress: ScheduleProgress, now: Timestamp) -> Result<ScheduleDue> {
        let (all, from) = self.fires_at(progress, now)?;
        if let Rhythm::AfterCompletion { after_ms } = all.rhythm {
            return Ok(self.due_after_completion(&all, after_ms, progress, from, now));
        }
        let decided = from.decided(self.start);
        let room = self.room(from);
        let fires = self.choose(&all, decided, now, room);
        let progress = from.with(&all, &fires);
        let looked = match fires.last() {
            // The batch is full: there may be more fires before `now`.
            Some(last) if fires.len() == room => *last,
            _ => decided.max(now),
        };
        let next = if self.room(progress) == 0 { None } else { all.after(looked) };
        Ok(ScheduleDue { fires, from, progress, next, awaits: None })
    }

    /// The progress after these fires, the first of the due ones.
    pub fn advanced(
        &self,
        from: ScheduleProgress,
        fires: &[Timestamp],
    ) -> Result<ScheduleProgress> {
        Ok(from.with(&self.fires()?, fires))
    }

    /// The next fire after `now`, given the progress; `None` if there is none.
    pub fn next_fire(
        &self,
        progress: ScheduleProgress,
        now: Timestamp,
    ) -> Result<Option<Timestamp>> {
        let (all, from) = self.fires_at(progress, now)?;
        if let Rhythm::AfterCompletion { after_ms } = all.rhythm {
            return Ok(self.next_after_completion(after_ms, from));
        }
        let over = self.room(from) == 0;
        Ok(if over { None } else { all.after(from.decided(self.start).max(now)) })
    }

    /// The fires that have not happened yet, and the progress adjusted to a clock at `now`.
    fn fires_at(
        &self,
        progress: ScheduleProgress,
        now: Timestamp,
    ) -> Result<(Fires, ScheduleProgress)> {
        let mut all = self.fires()?;
        let from = progress.at(&all.rhythm, now);
        all.given = from.given;
        Ok((all, from))
    }

    /// How many fires are allowed now.
    pub(super) fn room(&self, progress: ScheduleProgress) -> usize {
        let left = self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(progress.fired));
        usize::try_from(left).unwrap_or(usize::MAX).min(FIRES_MAX)
    }

    fn choose(
        &self,
        all: &Fires,
        decided: Timestamp,
        now: Timestamp,
        room: usize,
    ) -> Vec<Timestamp> {
        if room == 0 {
            return Vec::new();
        }
        // One millisecond more, because a fire of exactly that age still counts and the search excludes its
        // start.
        let on_time = decided.max(now.minus(ON_TIME_MS + 1));
        let kept = decided.max(now.minus(MISSED_FIRE_MAX_MS + 1));
        match self.missed {
            Missed::Skip => all.between(on_time, now, room),
            Missed::All => all.between(kept, now, room),
            Missed::Once => {
                let fires = all.between(on_time, now, room);
                if fires.is_empty() { all.latest(kept, now).into_iter().collect() } else { fires }
            }
        }
    }
}

impl Fires {
    /// The first `count_max` fires after `after` and not after `until`.
    fn between(&self, after: Timestamp, until: Timestamp, count_max: usize) -> Vec<Timestamp> {
        let first = self.after(after);
        let fires = std::iter::successors(first, |at| self.after(*at));
        fires.take_while(|at| *at <= until).take(count_max).collect()
    }

    /// The latest fire after `after` and not after `until`, by bisection: there may be a fire every second
    /// for half a day.
    fn latest(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        let within = |after| self.after(after).filter(|at| *at <= until);
        let mut latest = within(after)?;
        let mut none_after = until;
        while latest < none_after {
            let middle = latest.plus(none_after.since(latest) / 2);
            match within(middle) {
                Some(later) => latest = later,
                None => none_after = middle,
            }
        }
        Some(latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::MINUTE_MS;
    use crate::time::{DAY_MS, HOUR_MS, SECOND_MS};
    use proptest::prelude::*;

    /// A full hour.
    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn hourly(missed: Missed) -> Schedule {
        Schedule::cron("0 * * * *", "UTC").missed(missed)
    }

    fn hours(hours: u64) -> Timestamp {
        NOW.plus(hours * HOUR_MS)
    }

    #[test]
    fn a_fresh_schedule_owes_nothing_until_its_first_fire() {
        let due = hourly(Missed::All).due(ScheduleProgress::new(NOW), NOW.plus(5)).unwrap();
        assert_eq!((due.fires.len(), due.next), (0, Some(hours(1))));
        assert_eq!(due.progress, ScheduleProgress::new(NOW));

        let on_time = hourly(Missed::Skip).due(due.progress, hours(1).plus(9)).unwrap();
        assert_eq!((&on_time.fires[..], on_time.next), (&[hours(1)][..], Some(hours(2))));
        assert_eq!((on_time.progress.last, on_time.progress.fired), (Some(hours(1)), 1));
    }

    #[test]
    fn a_start_at_the_moment_of_creation_fires() {
        let due = hourly(Missed::Skip).start(NOW).due(ScheduleProgress::new(NOW), NOW).unwrap();
        assert_eq!(due.fires, [NOW]);
        let later =
            hourly(Missed::Skip).start(hours(5)).due(ScheduleProgress::new(NOW), NOW).unwrap();
        assert_eq!((later.fires.len(), later.next), (0, Some(hours(5))));
        // A start before the creation owes no fires.
        let past =
            hourly(Missed::All).start(NOW).due(ScheduleProgress::new(hours(2)), hours(3)).unwrap();
        assert_eq!(past.fires, [hours(3)]);
    }

    #[test]
    fn missed_fires_are_skipped_made_up_once_or_all_given() {
        let (progress, half_past) = (ScheduleProgress::new(NOW), hours(4).plus(HOUR_MS / 2));
        let due = |missed| hourly(missed).due(progress, half_past).unwrap();
        assert_eq!(due(Missed::Skip).fires, []);
        assert_eq!(due(Missed::Once).fires, [hours(4)]);
        assert_eq!(due(Missed::All).fires, [1, 2, 3, 4].map(hours));
        for missed in [Missed::Skip, Missed::Once, Missed::All] {
            let first = due(missed);
            assert_eq!(first.next, Some(hours(5)));
            let again = hourly(missed).due(first.progress, half_past.plus(1)).unwrap();
            assert_eq!(again.fires, [], "{missed:?}");
        }
    }

    #[test]
    fn a_fire_up_to_a_minute_late_is_on_time_and_makes_up_for_the_missed() {
        let progress = ScheduleProgress::new(NOW);
        let due = |missed, late_ms| hourly(missed).due(progress, hours(4).plus(late_ms)).unwrap();
        assert_eq!(due(Missed::Skip, ON_TIME_MS).fires, [hours(4)]);
        assert_eq!(due(Missed::Once, ON_TIME_MS).fires, [hours(4)]);
        assert_eq!(due(Missed::Skip, ON_TIME_MS + 1).fires, []);
        assert_eq!(due(Missed::Once, ON_TIME_MS + 1).fires, [hours(4)]);
    }

    #[test]
    fn fires_older_than_the_window_are_never_caught_up() {
        let progress = ScheduleProgress::new(NOW);
        let all = hourly(Missed::All).due(progress, hours(48)).unwrap();
        assert_eq!(all.fires, (36..=48).map(hours).collect::<Vec<_>>());
        let daily = Schedule::every_ms(DAY_MS).anchored(NOW).missed(Missed::Once);
        assert_eq!(daily.due(progress, hours(24 + 12)).unwrap().fires, [hours(24)]);
        let late = daily.due(progress, hours(24 + 12).plus(1)).unwrap();
        assert_eq!((late.fires.len(), late.next), (0, Some(hours(48))));
    }

    #[test]
    fn one_call_returns_a_bounded_number_of_fires_and_the_next_continues() {
        let busy = Schedule::every_ms(SECOND_MS).missed(Missed::All);
        let first = busy.due(ScheduleProgress::new(NOW), hours(1)).unwrap();
        assert_eq!(first.fires.len(), FIRES_MAX);
        let left_off = NOW.plus((FIRES_MAX as u64 + 1) * SECOND_MS);
        assert_eq!(first.next, Some(left_off));
        let second = busy.due(first.progress, hours(1)).unwrap();
        assert_eq!(second.fires[0], left_off);

        let once = busy.missed(Missed::Once).end(hours(1).minus(DAY_MS / 2 + 500));
        let due = once.due(ScheduleProgress::new(NOW.minus(DAY_MS)), hours(1)).unwrap();
        assert_eq!((due.fires.len(), due.next), (0, None));
    }

    #[test]
    fn the_limit_ends_it_for_good() {
        let thrice = hourly(Missed::All).limit(3);
        let first = thrice.due(ScheduleProgress::new(NOW), hours(2)).unwrap();
        assert_eq!((first.fires.len(), first.next), (2, Some(hours(3))));
        let last = thrice.due(first.progress, hours(9)).unwrap();
        assert_eq!((&last.fires[..], last.next), (&[hours(3)][..], None));
        let over = thrice.due(last.progress, hours(10)).unwrap();
        assert_eq!((over.fires.len(), over.next, over.progress.fired), (0, None, 3));
    }

    #[test]
    fn after_the_end_the_last_fire_is_still_made_up() {
        let ended = hourly(Missed::Once).end(hours(2).plus(1));
        let due = ended.due(ScheduleProgress::new(NOW), hours(7)).unwrap();
        assert_eq!((&due.fires[..], due.next), (&[hours(2)][..], None));
    }

    #[test]
    fn looking_late_does_not_shift_an_interval() {
        let every = Schedule::every_ms(7 * SECOND_MS).anchored(NOW).missed(Missed::Skip);
        let mut progress = ScheduleProgress::new(NOW);
        let mut now = NOW;
        for look in 0..1_000 {
            now = now.plus(7 * SECOND_MS + look % 13);
            let due = every.due(progress, now).unwrap();
            assert!(due.fires.iter().all(|at| at.since(NOW) % (7 * SECOND_MS) == 0));
            progress = due.progress;
        }
        assert_eq!(progress.fired, now.since(NOW) / (7 * SECOND_MS));
    }

    /// Checks the schedule `looks` times, every `step_ms` from `now` on.
    fn follow(
        schedule: &Schedule,
        progress: &mut ScheduleProgress,
        now: Timestamp,
        step_ms: u64,
        looks: u64,
    ) -> Vec<Timestamp> {
        let mut fired = Vec::new();
        for look in 0..looks {
            let now = now.plus(look * step_ms);
            let expected = schedule.next_fire(*progress, now).unwrap();
            let due = schedule.due(*progress, now).unwrap();
            fired.extend(due.fires);
            *progress = due.progress;
            assert_eq!(due.next, expected, "what is shown is what happens");
        }
        fired
    }

    #[test]
    fn a_cron_line_gives_no_instant_twice_when_the_clock_goes_back_and_goes_on_after_it() {
        for missed in [Missed::Skip, Missed::Once, Missed::All] {
            let (schedule, mut progress) = (hourly(missed), ScheduleProgress::new(NOW));
            assert_eq!(
                follow(&schedule, &mut progress, hours(1), HOUR_MS, 4),
                [1, 2, 3, 4].map(hours)
            );
            let again = follow(&schedule, &mut progress, hours(2).plus(1), HOUR_MS / 2, 10);
            assert_eq!(again, [5, 6].map(hours), "{missed:?}");
            assert_eq!(progress.fired, 6);
        }
    }

    #[test]
    fn a_clock_that_was_far_ahead_does_not_stop_a_cron_line() {
        for missed in [Missed::Skip, Missed::Once, Missed::All] {
            let (schedule, mut progress) = (hourly(missed), ScheduleProgress::new(NOW));
            follow(&schedule, &mut progress, hours(1), HOUR_MS, 3);
            let ahead = NOW.plus(3_653 * DAY_MS);
            assert!(!follow(&schedule, &mut progress, ahead, HOUR_MS, 2).is_empty());
            let back = follow(&schedule, &mut progress, hours(3).plus(1), HOUR_MS, 4);
            assert_eq!(back, [4, 5, 6].map(hours), "{missed:?}");
        }
    }

    #[test]
    fn a_clock_that_goes_back_an_hour_does_not_stop_an_interval() {
        for missed in [Missed::Skip, Missed::Once, Missed::All] {
            let schedule = Schedule::every_ms(SECOND_MS).missed(missed);
            let mut progress = ScheduleProgress::new(hours(2));
            let before = follow(&schedule, &mut progress, hours(2), SECOND_MS, 10);
            let first = progress;
            let back = hours(1).plus(1);
            let after = follow(&schedule, &mut progress, back, SECOND_MS, 10);
            assert_eq!(after, (1..10).map(|n| hours(1).plus(n * SECOND_MS)).collect::<Vec<_>>());
            assert_eq!((progress.rewinds, first.rewinds), (1, 0));
            // Forward again: the same times are different fires.
            let last = before[before.len() - 1];
            assert_ne!(first.fire_id("s", last), progress.fire_id("s", last));
        }
    }

    #[test]
    fn a_small_step_back_repeats_no_fire_of_an_interval() {
        let schedule = Schedule::every_ms(10 * SECOND_MS);
        let due = schedule.due(ScheduleProgress::new(NOW), NOW.plus(10 * SECOND_MS)).unwrap();
        let back = schedule.due(due.progress, NOW.plus(10 * SECOND_MS - 3)).unwrap();
        assert_eq!((back.fires.len(), back.progress), (0, due.progress));
        assert_eq!(back.next, Some(NOW.plus(20 * SECOND_MS)));
    }

    #[test]
    fn a_schedule_made_while_the_clock_was_ahead_starts_when_it_is_right_again() {
        for schedule in [hourly(Missed::Skip), Schedule::every_ms(HOUR_MS)] {
            let mut progress = ScheduleProgress::new(hours(9_000));
            assert_eq!(
                follow(&schedule, &mut progress, NOW.plus(1), HOUR_MS / 2, 5),
                [1, 2].map(hours)
            );
        }
        // A start in the future is respected, whatever the clock does.
        let later = hourly(Missed::Skip).start(hours(5));
        let mut progress = ScheduleProgress::new(NOW);
        assert_eq!(follow(&later, &mut progress, NOW, HOUR_MS, 7), [5, 6].map(hours));
    }

    fn schedules() -> impl Strategy<Value = Schedule> {
        let lines = vec!["*/7 * * * *", "30 2 * * *", "0 2,14 * * *", "15 */10 1-3 * * *"];
        let zones = vec!["UTC", "Europe/Berlin", "America/New_York"];
        let cron = (prop::sample::select(lines), prop::sample::select(zones))
            .prop_map(|(line, zone)| Schedule::cron(line, zone));
        let every = (5 * MINUTE_MS..DAY_MS, 0..DAY_MS)
            .prop_map(|(every_ms, offset)| Schedule::every_ms(every_ms).anchored(NOW.plus(offset)));
        prop_oneof![cron, every]
    }

    /// Timestamps from some day of the year on, never further apart than missed fires are kept.
    fn looks() -> impl Strategy<Value = Vec<Timestamp>> {
        let gaps = prop::collection::vec(0..=MISSED_FIRE_MAX_MS, 1..12);
        (0..365 * DAY_MS, gaps).prop_map(|(first, gaps)| {
            let later = |at: &mut Timestamp, gap| {
                *at = at.plus(gap);
                Some(*at)
            };
            gaps.into_iter().scan(NOW.plus(first), later).collect()
        })
    }

    /// Checks the schedule at each timestamp, and again while fires are left over, as a scheduler does.
    fn run(schedule: &Schedule, looks: &[Timestamp]) -> Vec<Timestamp> {
        let mut progress = ScheduleProgress::new(looks[0]);
        let mut fired = Vec::new();
        for now in looks {
            loop {
                let due = schedule.due(progress, *now).unwrap();
                fired.extend(due.fires);
                progress = due.progress;
                if due.next.is_none_or(|next| next > *now) {
                    break;
                }
            }
        }
        assert_eq!(progress.fired, fired.len() as u64);
        fired
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn catching_up_returns_every_fire_once_at_any_polling_times(
            schedule in schedules(), looks in looks(),
        ) {
            let last = looks[looks.len() - 1];
            let next = |at: &Timestamp| schedule.next_after(*at).unwrap();
            let every: Vec<_> = std::iter::successors(next(&looks[0]), next)
                .take_while(|at| *at <= last)
                .collect();
            prop_assert_eq!(run(&schedule.missed(Missed::All), &looks), every);
        }

        #[test]
        fn no_policy_repeats_or_invents_a_fire_at_any_polling_times(
            schedule in schedules(), looks in looks(),
        ) {
            let every = run(&schedule.clone().missed(Missed::All), &looks);
            let once = run(&schedule.clone().missed(Missed::Once), &looks);
            let skip = run(&schedule.missed(Missed::Skip), &looks);
            for fires in [&once, &skip] {
                prop_assert!(fires.is_sorted_by(|one, two| one < two));
                prop_assert!(fires.iter().all(|at| every.contains(at)));
            }
            prop_assert!(skip.iter().all(|at| once.contains(at)));
            // Even with few fires, making up once leaves no period between checks without its fire.
            prop_assert_eq!(once.last(), every.last());
        }

        #[test]
        fn bisection_finds_what_counting_finds(schedule in schedules(), window in looks()) {
            let all = schedule.fires().unwrap();
            let (after, until) = (window[0], window[window.len() - 1]);
            let counted = all.between(after, until, usize::MAX);
            prop_assert_eq!(all.latest(after, until), counted.last().copied());
        }
    }
}
