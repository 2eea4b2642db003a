//! Schedules: recurring jobs by name.

use crate::is_default;
use crate::new_job::NewJob;
#[cfg(feature = "openapi")]
use crate::openapi;
use crate::part::absent;
use serde::{Deserialize, Serialize};
use windlass_core::engine::Cursor;
use windlass_core::limits::PAGE_DEFAULT;
use windlass_core::model;
use windlass_core::policy::{self, Missed, Timing};
use windlass_core::{Error, Result, Timestamp};

/// When a schedule fires: `cron` in a `zone`, or `every_ms` from an `anchor`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// At the times of this cron line: minute, hour, day, month, weekday; or `@daily` and the like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::CronLine>))]
    pub cron: Option<String>,
    /// The time zone of the cron line; `UTC` unless named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Zone>))]
    pub zone: Option<String>,
    /// At this interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::EveryMs>))]
    pub every_ms: Option<u64>,
    /// What intervals are counted from; `start`, else the Unix epoch, unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Bound>))]
    pub anchor: Option<Timestamp>,
    /// Not before this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Bound>))]
    pub start: Option<Timestamp>,
    /// Not after this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Bound>))]
    pub end: Option<Timestamp>,
    /// So often in total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::FireLimit>))]
    pub limit: Option<u64>,
    /// What becomes of fires nobody was there to see: `skip`, `once` or `all`.
    #[serde(default, skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Missed))]
    pub missed: Missed,
}

impl Schedule {
    /// The schedule as core knows it.
    pub fn into_core(self) -> Result<policy::Schedule> {
        let mut schedule = match (self.cron, self.every_ms) {
            (Some(line), None) => {
                absent(&self.anchor, "schedule.anchor", "a cron line counts from nothing")?;
                policy::Schedule::cron(line, self.zone.unwrap_or_else(|| "UTC".to_owned()))
            }
            (None, Some(every_ms)) => {
                absent(&self.zone, "schedule.zone", "only a cron line has a zone")?;
                let mut schedule = policy::Schedule::every(every_ms);
                schedule.timing = Timing::Every { every_ms, anchor: self.anchor };
                schedule
            }
            (Some(_), Some(every_ms)) => {
                let expected = "give `cron` or `every_ms`, not both";
                return Err(Error::invalid("schedule.every_ms", every_ms, expected));
            }
            (None, None) => {
                let expected = "say when: give `cron` or `every_ms`";
                return Err(Error::invalid("schedule.cron", "missing", expected));
            }
        };
        (schedule.start, schedule.end) = (self.start, self.end);
        (schedule.limit, schedule.missed) = (self.limit, self.missed);
        Ok(schedule)
    }
}

impl From<policy::Schedule> for Schedule {
    fn from(schedule: policy::Schedule) -> Self {
        let mut request = Self {
            start: schedule.start,
            end: schedule.end,
            limit: schedule.limit,
            missed: schedule.missed,
            ..Self::default()
        };
        match schedule.timing {
            Timing::Cron { line, zone } => {
                (request.cron, request.zone) = (Some(line), Some(zone));
            }
            Timing::Every { every_ms, anchor } => {
                (request.every_ms, request.anchor) = (Some(every_ms), anchor);
            }
            // Core's list may grow: a rhythm that has no word here yet is shown without one.
            _ => {}
        }
        request
    }
}

/// A schedule to create or replace; the path names it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(
    feature = "openapi",
    derive(utoipa::ToSchema),
    schema(examples(json!({
        "schedule": {"cron": "0 6 * * *", "zone": "Europe/Berlin"},
        "job": {"kind": "daily_report"}
    })))
)]
#[serde(deny_unknown_fields)]
pub struct PutSchedule {
    /// When it fires.
    pub schedule: Schedule,
    /// What it enqueues. Each fire has an id and a time of its own.
    pub job: NewJob,
}

impl PutSchedule {
    /// The schedule and its job as core knows them. What each fire decides for itself is refused.
    pub fn into_core(self) -> Result<(policy::Schedule, model::NewJob)> {
        let Self { schedule, job } = self;
        let when = "leave it out: the schedule says when";
        absent(&job.delay_ms, "job.delay_ms", when)?;
        absent(&job.run_at, "job.run_at", when)?;
        absent(&job.id, "job.id", "leave it out: each fire has an id of its own")?;
        absent(&job.parent, "job.parent", "leave it out: a fire comes from its schedule")?;
        let small = "leave it out: schedules are small; name its place in the payload";
        absent(&job.parts.blob, "job.parts.blob", small)?;
        let own = "leave it out: a checkpoint belongs to one job";
        absent(&job.parts.state, "job.parts.state", own)?;
        let job = job.into_core().map_err(|error| error.within("job"))?;
        Ok((schedule.into_core()?, job))
    }
}

/// A change of a schedule.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SchedulePatch {
    /// Set it aside, or take it back.
    pub paused: bool,
}

/// A page of schedules, as a query.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct ScheduleList {
    /// After this place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Cursor, required = false))]
    pub after: Option<Cursor>,
    /// At most so many; 50 unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::PageLimit, required = false))]
    pub limit: Option<u32>,
}

impl ScheduleList {
    /// How many at most.
    pub fn limit(&self) -> u32 {
        self.limit.unwrap_or(PAGE_DEFAULT)
    }
}

/// A page of schedules.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SchedulePage {
    /// By name.
    pub schedules: Vec<ScheduleView>,
    /// Names of those that cannot be read and do not fire: put them again, or delete them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<String>,
    /// Where to go on; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Cursor>))]
    pub next: Option<Cursor>,
}

/// A schedule and how it is doing.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ScheduleView {
    /// Its name.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    pub name: String,
    /// When it fires.
    pub schedule: Schedule,
    /// What it enqueues.
    pub job: NewJob,
    /// Whether it is set aside.
    pub paused: bool,
    /// When it fires next; absent while paused, or when it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Timestamp>))]
    pub next: Option<Timestamp>,
    /// When it fired last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Timestamp>))]
    pub last_fire: Option<Timestamp>,
    /// How often it fired since it was made or its rhythm was changed.
    pub fired: u64,
    /// How many of these fires the store refused for good.
    pub refused: u64,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<ScheduleError>,
}

/// What went wrong with a schedule.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ScheduleError {
    /// When it was noticed.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Timestamp))]
    pub at: Timestamp,
    /// What was wrong, and the way out.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_arrives_as_it_was_sent() {
        let at = Timestamp::from_millis(1_800_000_000_000);
        let cron = policy::Schedule::cron("0 6 * * *", "Europe/Berlin").start(at).limit(3);
        let every = policy::Schedule::every(5_000).anchored(at).missed(Missed::All).end(at);
        for schedule in [cron, every] {
            let text = crate::write(&Schedule::from(schedule.clone()));
            assert_eq!(crate::read::<Schedule>(&text).unwrap().into_core().unwrap(), schedule);
        }
    }

    #[test]
    fn a_rhythm_is_said_in_one_way() {
        for (text, field) in [
            ("{}", "schedule.cron"),
            (r#"{"cron": "@daily", "every_ms": 1000}"#, "schedule.every_ms"),
            (r#"{"every_ms": 1000, "zone": "UTC"}"#, "schedule.zone"),
            (r#"{"cron": "@daily", "anchor": 5}"#, "schedule.anchor"),
        ] {
            let schedule: Schedule = crate::read(text.as_bytes()).unwrap();
            assert_eq!(schedule.into_core().unwrap_err().field(), Some(field), "{text}");
        }
    }
}
