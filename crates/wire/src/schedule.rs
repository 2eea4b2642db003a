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
use windlass_core::{Error, JobId, Result, Timestamp};

/// The recurrence of a schedule: `cron` in a `zone`, `every_ms` from an `anchor`, or `after_completion_ms`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// A cron expression: minute, hour, day, month, weekday; or a shorthand such as `@daily`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::CronLine>))]
    pub cron: Option<String>,
    /// Time zone of the cron expression; `UTC` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Zone>))]
    pub zone: Option<String>,
    /// A fixed interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::EveryMs>))]
    pub every_ms: Option<u64>,
    /// Time between the end of a job, however it ends, and the next run. Runs do not overlap; the first one counts from
    /// the creation of the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::EveryMs>))]
    pub after_completion_ms: Option<u64>,
    /// Start of the intervals; by default `start` or else the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Bound>))]
    pub anchor: Option<Timestamp>,
    /// Earliest time of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Bound>))]
    pub start: Option<Timestamp>,
    /// Latest time of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Bound>))]
    pub end: Option<Timestamp>,
    /// Total number of runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::FireLimit>))]
    pub limit: Option<u64>,
    /// How to handle missed runs: `skip`, `once` or `all`.
    #[serde(default, skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Missed))]
    pub missed: Missed,
}

impl Schedule {
    /// Converts to the core schedule.
    pub fn into_core(self) -> Result<policy::Schedule> {
        let mut schedule = match (self.cron, self.every_ms, self.after_completion_ms) {
            (Some(line), None, None) => {
                absent(&self.anchor, "schedule.anchor", "a cron expression has no anchor")?;
                policy::Schedule::cron(line, self.zone.unwrap_or_else(|| "UTC".to_owned()))
            }
            (None, Some(every_ms), None) => {
                absent(&self.zone, "schedule.zone", "only a cron expression has a zone")?;
                let mut schedule = policy::Schedule::every_ms(every_ms);
                schedule.timing = Timing::Every { every_ms, anchor: self.anchor };
                schedule
            }
            (None, None, Some(after_ms)) => {
                absent(&self.zone, "schedule.zone", "only a cron expression has a zone")?;
                let expected = "leave it out: runs count from the end of the previous job";
                absent(&self.anchor, "schedule.anchor", expected)?;
                policy::Schedule::after_completion_ms(after_ms)
            }
            (_, _, Some(after_ms)) => {
                let expected = "give `cron`, `every_ms` or `after_completion_ms`, not two of them";
                return Err(Error::invalid("schedule.after_completion_ms", after_ms, expected));
            }
            (Some(_), Some(every_ms), None) => {
                let expected = "give `cron` or `every_ms`, not both";
                return Err(Error::invalid("schedule.every_ms", every_ms, expected));
            }
            (None, None, None) => {
                let expected = "give `cron`, `every_ms` or `after_completion_ms`";
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
            Timing::AfterCompletion { after_ms } => request.after_completion_ms = Some(after_ms),
            // Core may add variants; one unknown here is shown without its recurrence.
            _ => {}
        }
        request
    }
}

/// A schedule to create or replace; its name is in the path.
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
    /// The recurrence.
    pub schedule: Schedule,
    /// The job to enqueue. Each run has its own id and due time.
    pub job: NewJob,
}

impl PutSchedule {
    /// Converts to the core schedule and job. Refuses fields of the job that each run sets itself.
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
        absent(&job.parts.checkpoint, "job.parts.checkpoint", own)?;
        let job = job.into_core().map_err(|error| error.within("job"))?;
        Ok((schedule.into_core()?, job))
    }
}

/// A change of a schedule.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SchedulePatch {
    /// Pauses or resumes the schedule.
    pub paused: bool,
}

/// Query for a page of schedules.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct ScheduleList {
    /// The `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Cursor, required = false))]
    pub after: Option<Cursor>,
    /// Maximum number of rows; 50 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::PageLimit, required = false))]
    pub limit: Option<u32>,
}

impl ScheduleList {
    /// The maximum number of rows, with its default.
    pub fn limit(&self) -> u32 {
        self.limit.unwrap_or(PAGE_DEFAULT)
    }
}

/// A page of schedules.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SchedulePage {
    /// The schedules, sorted by name.
    pub schedules: Vec<ScheduleView>,
    /// Names of schedules that cannot be read and do not run: replace or delete them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<String>,
    /// Cursor of the next page; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Cursor>))]
    pub next: Option<Cursor>,
}

/// A schedule and its status.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ScheduleView {
    /// Its name.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    pub name: String,
    /// The recurrence.
    pub schedule: Schedule,
    /// The job to enqueue.
    pub job: NewJob,
    /// Whether it is paused.
    pub paused: bool,
    /// Time of the next run; absent while paused, while a job is awaited, and after the last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Timestamp>))]
    pub next: Option<Timestamp>,
    /// The job that must end before the next run, with `after_completion_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::JobId>))]
    pub awaits: Option<JobId>,
    /// Time of the last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Timestamp>))]
    pub last_fire: Option<Timestamp>,
    /// Number of runs since it was created or its recurrence was changed.
    pub fired: u64,
    /// Number of these runs that the store refused permanently.
    pub refused: u64,
    /// The last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<ScheduleError>,
}

/// An error of a schedule.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ScheduleError {
    /// When it was noticed.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Timestamp))]
    pub at: Timestamp,
    /// Description of the problem and its solution.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_arrives_as_it_was_sent() {
        let at = Timestamp::from_millis(1_800_000_000_000);
        let cron = policy::Schedule::cron("0 6 * * *", "Europe/Berlin").start(at).limit(3);
        let every = policy::Schedule::every_ms(5_000).anchored(at).missed(Missed::All).end(at);
        let after = policy::Schedule::after_completion_ms(5_000).limit(2);
        for schedule in [cron, every, after] {
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
            (r#"{"cron": "@daily", "after_completion_ms": 5}"#, "schedule.after_completion_ms"),
            (r#"{"every_ms": 1000, "after_completion_ms": 5}"#, "schedule.after_completion_ms"),
            (r#"{"after_completion_ms": 5, "zone": "UTC"}"#, "schedule.zone"),
            (r#"{"after_completion_ms": 5, "anchor": 5}"#, "schedule.anchor"),
        ] {
            let schedule: Schedule = crate::read(text.as_bytes()).unwrap();
            assert_eq!(schedule.into_core().unwrap_err().field(), Some(field), "{text}");
        }
    }
}
