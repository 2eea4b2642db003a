//! Cron lines on the wall clock of a time zone. The only file that uses croner; independent of starts, ends
//! and progress.

use crate::error::{Error, Result};
use crate::limits::{CRON_LINE_BYTES_MAX, ZONE_BYTES_MAX};
use crate::name::check_text;
use crate::time::Timestamp;
use chrono::{DateTime, Datelike as _, NaiveDate, NaiveDateTime, TimeZone as _};
use chrono_tz::{GapInfo, TZ_VARIANTS, Tz};
use croner::parser::{CronParser, Seconds, Year};
use croner::{Cron, CronComponent, CronPattern, Weekday};

/// Beyond the life of any schedule (the year 4000), and within the range of chrono and croner.
const CALENDAR_END: Timestamp = Timestamp::from_millis(64_060_588_800_000);
/// Within 28 years of one century every date falls on every weekday, leap days included: a line without a
/// matching day in this period never matches.
const ALL_KINDS_OF_YEARS_DAYS: usize = 28 * 366;

/// A parsed cron line with its time zone, known to fire.
pub(super) struct CronLine {
    cron: Cron,
    zone: Tz,
    /// Whether it has fixed times; see [`Timing::Cron`](super::Timing::Cron).
    fixed: bool,
}

impl CronLine {
    pub(super) fn parse(line: &str, zone: &str) -> Result<Self> {
        let zone = parse_zone(zone)?;
        check_text("schedule.cron", line, CRON_LINE_BYTES_MAX)?;
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed);
        let cron = parser.build().parse(line).map_err(|error| {
            let form = "use `minute hour day month weekday`, e.g. `30 2 * * MON-FRI`";
            Error::invalid("schedule.cron", line, format!("{error}; {form}"))
        })?;
        if !fires_ever(&cron.pattern) {
            let expected =
                "it would never fire, as no date or time fits it; check its day and month";
            return Err(Error::invalid("schedule.cron", line, expected));
        }
        let fixed = times_of_day(&cron.pattern).into_iter().all(is_fixed);
        Ok(Self { cron, zone, fixed })
    }

    /// The first fire after `after`; `None` beyond the end of the calendar.
    pub(super) fn after(&self, after: Timestamp) -> Option<Timestamp> {
        if after >= CALENDAR_END {
            return None;
        }
        // No fires before the epoch, when time zones had odd offsets in seconds.
        let after = after.max(Timestamp::EPOCH.minus(1));
        let after = DateTime::from_timestamp_millis(after.as_millis())?.with_timezone(&self.zone);
        let at = if self.fixed { self.fixed_after(&after) } else { self.rhythm_after(&after) };
        at.map(|at| Timestamp::from_millis(at.timestamp_millis()))
    }

    /// Searches the wall clock as if the zone had no changes, then converts the result with the zone. Croner
    /// (4.0) can search with the zone, but treats a list of times as a rhythm: `0 2,14 * * *` loses a fire
    /// every spring, and where clocks go from 2:00 to 3:00 it fires `30 1 * * *` at 1:30 and again at 3:00.
    fn fixed_after(&self, after: &DateTime<Tz>) -> Option<DateTime<Tz>> {
        let mut wall = after.naive_local();
        // Only times within a repeated hour can be in the past, so this ends soon.
        loop {
            wall = self.cron.find_next_occurrence(&wall, false).ok()?;
            if let Some(at) = self.instant_of(&wall).filter(|at| at > after) {
                return Some(at);
            }
        }
    }

    /// Croner searches both passes of a repeated hour and skips a gap. It can fail only beyond its last year,
    /// because the line is known to fire.
    fn rhythm_after(&self, after: &DateTime<Tz>) -> Option<DateTime<Tz>> {
        self.cron.find_next_occurrence(after, false).ok()
    }

    /// When the wall clock first shows `wall` or, if it never does, when it first shows a later time.
    fn instant_of(&self, wall: &NaiveDateTime) -> Option<DateTime<Tz>> {
        let shown = self.zone.from_local_datetime(wall).earliest();
        shown.or_else(|| GapInfo::new(wall, &self.zone)?.end)
    }
}

fn times_of_day(pattern: &CronPattern) -> [&CronComponent; 3] {
    [&pattern.seconds, &pattern.minutes, &pattern.hours]
}

fn is_fixed(field: &CronComponent) -> bool {
    !field.from_wildcard && field.step == 1
}

/// Whether any time matches. Croner would search until the year 5000, or practically forever if a field is
/// empty (`,`).
fn fires_ever(pattern: &CronPattern) -> bool {
    let some_time = times_of_day(pattern).into_iter().all(|field| !field.values().is_empty());
    let first = NaiveDate::from_ymd_opt(2000, 1, 1).unwrap_or_default();
    some_time && first.iter_days().take(ALL_KINDS_OF_YEARS_DAYS).any(|day| fits(pattern, day))
}

fn fits(pattern: &CronPattern, date: NaiveDate) -> bool {
    let weekday = Weekday::from_days_from_sunday(date.weekday().num_days_from_sunday());
    let fits_month = pattern.month_match(date.month());
    let fits_day = || pattern.day_match(date.year(), date.month(), date.day(), weekday);
    matches!(fits_month, Ok(true)) && matches!(fits_day(), Ok(true))
}

fn parse_zone(name: &str) -> Result<Tz> {
    check_text("schedule.zone", name, ZONE_BYTES_MAX)?;
    name.parse().map_err(|_| {
        let like = similar_zone(name).unwrap_or("Europe/Berlin");
        let expected = format!("use a name of the time zone database, such as {like}, or UTC");
        Error::invalid("schedule.zone", name, expected)
    })
}

/// The time zone that was probably meant by `berlin` or `EUROPE/BERLIN`.
fn similar_zone(name: &str) -> Option<&'static str> {
    let city = |zone: &'static str| zone.rsplit('/').next().unwrap_or(zone);
    let mut names = TZ_VARIANTS.iter().map(|zone| zone.name());
    names.find(|zone| zone.eq_ignore_ascii_case(name) || city(zone).eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{HOUR_MS, MINUTE_MS};
    use chrono::SecondsFormat::Secs;
    use proptest::prelude::*;

    fn instant(text: &str) -> Timestamp {
        let at: DateTime<chrono::FixedOffset> = text.parse().unwrap();
        Timestamp::from_millis(at.timestamp_millis())
    }

    /// The next `count` fires after `after`, on the zone's wall clock.
    fn fires(line: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
        let cron = CronLine::parse(line, zone).unwrap();
        let next = |at: &Timestamp| cron.after(*at);
        let fires = std::iter::successors(cron.after(instant(after)), next).take(count);
        let local = |at: Timestamp| DateTime::from_timestamp_millis(at.as_millis()).unwrap();
        fires.map(|at| local(at).with_timezone(&cron.zone).to_rfc3339_opts(Secs, false)).collect()
    }

    const BERLIN: &str = "Europe/Berlin";
    const NEW_YORK: &str = "America/New_York";

    #[test]
    fn a_fixed_time_lost_in_spring_fires_once_right_after_the_gap() {
        assert_eq!(
            fires("30 2 * * *", BERLIN, "2027-03-27T12:00:00+01:00", 2),
            ["2027-03-28T03:00:00+02:00", "2027-03-29T02:30:00+02:00"]
        );
        assert_eq!(
            fires("15 30 2 * * *", NEW_YORK, "2027-03-13T12:00:00-05:00", 2),
            ["2027-03-14T03:00:00-04:00", "2027-03-15T02:30:15-04:00"]
        );
    }

    #[test]
    fn a_list_of_fixed_times_loses_none_in_spring_and_doubles_none_in_autumn() {
        assert_eq!(
            fires("0,30 2,3 * * *", BERLIN, "2027-03-28T01:00:00+01:00", 3),
            ["2027-03-28T03:00:00+02:00", "2027-03-28T03:30:00+02:00", "2027-03-29T02:00:00+02:00"]
        );
        assert_eq!(
            fires("0,30 2,3 * * *", BERLIN, "2027-10-31T00:00:00+02:00", 4),
            [
                "2027-10-31T02:00:00+02:00",
                "2027-10-31T02:30:00+02:00",
                "2027-10-31T03:00:00+01:00",
                "2027-10-31T03:30:00+01:00",
            ]
        );
    }

    #[test]
    fn a_fixed_time_shown_twice_in_autumn_fires_at_the_first() {
        assert_eq!(
            fires("30 2 * * *", BERLIN, "2027-10-31T00:00:00+02:00", 2),
            ["2027-10-31T02:30:00+02:00", "2027-11-01T02:30:00+01:00"]
        );
        assert_eq!(
            fires("30 1 * * *", NEW_YORK, "2027-11-07T00:00:00-04:00", 2),
            ["2027-11-07T01:30:00-04:00", "2027-11-08T01:30:00-05:00"]
        );
        // A search that starts during the second occurrence does not return the first.
        assert_eq!(
            fires("30 2 * * *", BERLIN, "2027-10-31T02:10:00+01:00", 1),
            ["2027-11-01T02:30:00+01:00"]
        );
    }

    #[test]
    fn a_rhythm_keeps_its_pace_through_both_changes() {
        assert_eq!(
            fires("*/30 * * * *", BERLIN, "2027-03-28T01:00:00+01:00", 2),
            ["2027-03-28T01:30:00+01:00", "2027-03-28T03:00:00+02:00"]
        );
        assert_eq!(
            fires("*/30 * * * *", NEW_YORK, "2027-11-07T01:00:00-04:00", 4),
            [
                "2027-11-07T01:30:00-04:00",
                "2027-11-07T01:00:00-05:00",
                "2027-11-07T01:30:00-05:00",
                "2027-11-07T02:00:00-05:00",
            ]
        );
    }

    #[test]
    fn a_rhythm_fires_in_exactly_the_minutes_that_fit_whatever_clocks_do() {
        let changes = [
            (BERLIN, "2027-03-27T23:00:00Z"),
            (BERLIN, "2027-10-30T22:00:00Z"),
            (NEW_YORK, "2027-03-14T05:00:00Z"),
            (NEW_YORK, "2027-11-07T04:00:00Z"),
            ("Australia/Lord_Howe", "2027-04-03T13:00:00Z"),
            ("Australia/Lord_Howe", "2027-10-02T13:00:00Z"),
        ];
        for (zone, from) in changes {
            for line in
                ["* * * * *", "30 * * * *", "*/20 1-3 * * *", "0-59/15 2 * * *", "0 */2 * * *"]
            {
                let cron = CronLine::parse(line, zone).unwrap();
                let until = instant(from).plus(6 * HOUR_MS);
                let fires = std::iter::successors(cron.after(instant(from)), |at| cron.after(*at));
                let minutes = (1..=360).map(|minute| instant(from).plus(minute * MINUTE_MS));
                let fits = |at: &Timestamp| {
                    let at = DateTime::from_timestamp_millis(at.as_millis()).unwrap();
                    cron.cron.is_time_matching(&at.with_timezone(&cron.zone)).unwrap()
                };
                let fires: Vec<_> = fires.take_while(|at| *at <= until).collect();
                assert_eq!(fires, minutes.filter(fits).collect::<Vec<_>>(), "{line} {zone} {from}");
            }
        }
    }

    #[test]
    fn a_midnight_that_does_not_exist_fires_on_the_same_day() {
        assert_eq!(
            fires("0 0 * * *", "Africa/Cairo", "2027-04-29T12:00:00+02:00", 2),
            ["2027-04-30T01:00:00+03:00", "2027-05-01T00:00:00+03:00"]
        );
    }

    #[test]
    fn a_daily_time_fires_once_on_every_day_of_the_year() {
        let zones = [BERLIN, NEW_YORK, "Australia/Lord_Howe", "Africa/Cairo", "America/Santiago"];
        for zone in zones {
            // Before, within and after the hours that change.
            for line in ["30 0 * * *", "30 1 * * *", "15 2 * * *", "0 3 * * *", "30 23 * * *"] {
                let fires = fires(line, zone, "2027-01-01T12:00:00Z", 365);
                let mut days = NaiveDate::from_ymd_opt(2027, 1, 1).unwrap().iter_days();
                let first = days.find(|day| fires[0].starts_with(&day.to_string())).unwrap();
                for (fire, day) in fires.iter().zip(first.iter_days()) {
                    assert!(fire.starts_with(&day.to_string()), "{line} {zone} {day}: {fire}");
                }
            }
        }
    }

    #[test]
    fn the_next_fire_is_always_later_than_the_given_time() {
        let cron = CronLine::parse("* * * * * *", "UTC").unwrap();
        let at = instant("2027-01-01T00:00:00Z");
        assert_eq!(cron.after(at), Some(at.plus(1_000)));
        assert_eq!(cron.after(at.plus(1)), Some(at.plus(1_000)));
        assert_eq!(cron.after(at.minus(1)), Some(at));
    }

    #[test]
    fn rare_days_are_found_and_impossible_ones_refused() {
        assert_eq!(
            fires("0 0 29 2 +MON", "UTC", "2027-01-01T00:00:00Z", 2),
            ["2044-02-29T00:00:00+00:00", "2072-02-29T00:00:00+00:00"]
        );
        // Around a year like 2100, without a leap day, the wait is longest.
        assert_eq!(
            fires("0 0 29 2 +MON", "UTC", "2072-03-01T00:00:00Z", 1),
            ["2112-02-29T00:00:00+00:00"]
        );
        for line in
            ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 1 * +MON#2", "0 , * * *", ", * * * * *"]
        {
            let error = CronLine::parse(line, "UTC").err().unwrap();
            assert!(error.to_string().contains("it would never fire"), "{line}: {error}");
        }
    }

    #[test]
    fn a_bad_line_or_zone_is_refused_with_the_way_out() {
        for line in ["", "* * * *", "* * * * * * 2027", "60 * * * *", "@reboot", "x * * * *"] {
            let error = CronLine::parse(line, "UTC").err().unwrap();
            assert_eq!(error.field(), Some("schedule.cron"), "{line}: {error}");
        }
        let too_long = format!("0 {} * * *", "1,".repeat(CRON_LINE_BYTES_MAX));
        assert!(CronLine::parse(&too_long, "UTC").is_err());
        for (zone, hint) in [
            ("berlin", BERLIN),
            ("europe/berlin", BERLIN),
            ("CEST", BERLIN),
            ("tokyo", "Asia/Tokyo"),
        ] {
            let error = CronLine::parse("@daily", zone).err().unwrap();
            assert_eq!(error.field(), Some("schedule.zone"));
            assert!(error.to_string().contains(hint), "{error}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn every_cron_line_is_refused_or_fires(
            fields in prop::collection::vec("[0-9*/,#LW?+-]{1,4}|[0-9]|\\*|MON|JAN|@daily", 5..=6),
            after_ms in 0..4_000_000_000_000_i64,
        ) {
            let after = Timestamp::from_millis(after_ms);
            if let Ok(cron) = CronLine::parse(&fields.join(" "), BERLIN) {
                prop_assert!(cron.after(after).is_some_and(|at| at > after));
            }
        }
    }
}
