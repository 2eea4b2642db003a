//! What a schedule owes at a given moment. It must not know how fires are computed, only that the
//! next one can be asked for.

use super::{Fires, Missed, Schedule};
use crate::error::Result;
use crate::limits::{FIRES_MAX, MISSED_FIRE_MAX_MS, ON_TIME_MS};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// How far a schedule got, stored beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ScheduleProgress {
    /// When it was first seen; it owes nothing up to then, except at its `start`.
    pub since: Timestamp,
    /// The last fire given out. Everything up to it is decided, so a clock that goes back repeats
    /// nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
    /// Fires given out so far, compared with the limit.
    #[serde(default)]
    pub fired: u64,
}

/// What a look at a schedule found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleDue {
    /// The fires to enqueue now, oldest first, at most [`FIRES_MAX`].
    pub fires: Vec<Timestamp>,
    /// How far it got with them; to be stored once they are enqueued.
    pub progress: ScheduleProgress,
    /// When to look again; not later than now if [`FIRES_MAX`] left some over, `None` if it is
    /// over for good.
    pub next: Option<Timestamp>,
}

impl ScheduleProgress {
    /// The progress of a schedule first seen at `since`.
    pub const fn new(since: Timestamp) -> Self {
        Self { since, last: None, fired: 0 }
    }

    /// Everything up to this instant is decided.
    fn decided(self, start: Option<Timestamp>) -> Timestamp {
        let start = start.filter(|start| *start >= self.since);
        let fresh = start.map_or(self.since, |start| start.minus(1));
        self.last.unwrap_or(fresh)
    }

    fn with(self, fires: &[Timestamp]) -> Self {
        let fired = self.fired.saturating_add(fires.len() as u64);
        Self { last: fires.last().copied().or(self.last), fired, ..self }
    }
}

impl Schedule {
    /// What to fire at `now`, given how far it got. Pure: enqueue the fires, then store the
    /// progress; if that happens twice, [`fire_id`](super::fire_id) makes it once.
    pub fn due(&self, progress: ScheduleProgress, now: Timestamp) -> Result<ScheduleDue> {
        let all = self.fires()?;
        let decided = progress.decided(self.start);
        let room = self.room(progress);
        let fires = self.choose(&all, decided, now, room);
        let progress = progress.with(&fires);
        let looked = match fires.last() {
            // Full: there may be more before now.
            Some(last) if fires.len() == room => *last,
            _ => decided.max(now),
        };
        let next = if self.room(progress) == 0 { None } else { all.after(looked) };
        Ok(ScheduleDue { fires, progress, next })
    }

    /// How many fires may be given out now.
    fn room(&self, progress: ScheduleProgress) -> usize {
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
        // One more, as a fire exactly that old still counts and the search excludes its start.
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
    /// The first `count_max` fires later than `after` and not later than `until`.
    fn between(&self, after: Timestamp, until: Timestamp, count_max: usize) -> Vec<Timestamp> {
        let first = self.after(after);
        let fires = std::iter::successors(first, |at| self.after(*at));
        fires.take_while(|at| *at <= until).take(count_max).collect()
    }

    /// The latest fire later than `after` and not later than `until`, by bisection: there may be
    /// a fire each second of half a day.
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
        // A start before creation is no debt.
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
        let daily = Schedule::every(DAY_MS).anchored(NOW).missed(Missed::Once);
        assert_eq!(daily.due(progress, hours(24 + 12)).unwrap().fires, [hours(24)]);
        let late = daily.due(progress, hours(24 + 12).plus(1)).unwrap();
        assert_eq!((late.fires.len(), late.next), (0, Some(hours(48))));
    }

    #[test]
    fn a_look_gives_a_bounded_number_and_the_next_goes_on() {
        let busy = Schedule::every(SECOND_MS).missed(Missed::All);
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
        let every = Schedule::every(7 * SECOND_MS).anchored(NOW).missed(Missed::Skip);
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

    #[test]
    fn a_clock_that_goes_back_repeats_nothing() {
        for missed in [Missed::Skip, Missed::Once, Missed::All] {
            let due = hourly(missed).due(ScheduleProgress::new(NOW), hours(3)).unwrap();
            let back = hourly(missed).due(due.progress, hours(1)).unwrap();
            assert_eq!((back.fires.len(), back.progress), (0, due.progress));
            assert_eq!(back.next, Some(hours(4)));
        }
    }

    fn schedules() -> impl Strategy<Value = Schedule> {
        let lines = vec!["*/7 * * * *", "30 2 * * *", "0 2,14 * * *", "15 */10 1-3 * * *"];
        let zones = vec!["UTC", "Europe/Berlin", "America/New_York"];
        let cron = (prop::sample::select(lines), prop::sample::select(zones))
            .prop_map(|(line, zone)| Schedule::cron(line, zone));
        let every = (5 * MINUTE_MS..DAY_MS, 0..DAY_MS)
            .prop_map(|(every_ms, offset)| Schedule::every(every_ms).anchored(NOW.plus(offset)));
        prop_oneof![cron, every]
    }

    /// Moments from some day of the year on, never further apart than missed fires are kept.
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

    /// Looks at each moment, and on as long as some are left over, as a scheduler does.
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
        fn whenever_one_looks_all_gives_every_fire_once(
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
        fn whenever_one_looks_no_policy_repeats_a_fire_or_invents_one(
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
            // However few it gives, making up once leaves no stretch of looking without its fire.
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
