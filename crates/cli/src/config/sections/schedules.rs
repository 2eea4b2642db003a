//! `[schedules.NAME]`: recurring jobs.

use super::{Field, Named};
use crate::config::field::field;
use crate::config::held::Json;
use crate::config::value::{Kind, Wrong};
use std::ops::RangeInclusive;
use windlass_core::limits::{
    DELAY_MAX_MS, EVERY_MIN_MS, MAX_ATTEMPTS_DEFAULT, MAX_ATTEMPTS_MAX, PAYLOAD_BYTES_MAX,
    TIMEOUT_MAX_MS,
};
use windlass_core::model::{DEFAULT_QUEUE, NewJob};
use windlass_core::policy::{Missed, Schedule, Unique};
use windlass_core::{Timestamp, check_name};

const EVERY_MS: RangeInclusive<u64> = EVERY_MIN_MS..=DELAY_MAX_MS;
const ATTEMPTS: RangeInclusive<u64> = 1..=MAX_ATTEMPTS_MAX as u64;
const TIMEOUT_MS: RangeInclusive<u64> = 1..=TIMEOUT_MAX_MS;

/// The settings of one schedule and of the jobs it enqueues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recurring {
    cron: Option<String>,
    zone: String,
    every_ms: Option<u64>,
    after_completion_ms: Option<u64>,
    missed: Missed,
    kind: String,
    queue: String,
    payload: Option<Json>,
    max_attempts: u32,
    timeout_ms: Option<u64>,
    unique: Option<String>,
}

static FIELDS: &[Field<Recurring>] = &[
    field!(
        "cron",
        Kind::TEXT,
        Live,
        cron,
        "Cron line: minute, hour, day, month, weekday; or @daily and similar."
    ),
    field!("zone", Kind::TEXT, Live, zone, "Time zone of the cron line."),
    field!(
        "every",
        Kind::time(EVERY_MS),
        Live,
        every_ms,
        "Interval between runs, instead of a cron line."
    ),
    field!(
        "after_completion",
        Kind::time(EVERY_MS),
        Live,
        after_completion_ms,
        "Time between the end of a job and the next run, instead of a cron line: runs do not overlap."
    ),
    field!(
        "missed",
        Kind::words(&["skip", "once", "all"]),
        Live,
        missed,
        "How to handle missed runs: skip all of them, make up for all of them with one run, or make up for \
         each."
    ),
    field!("kind", Kind::TEXT, Live, kind, "Kind of the jobs."),
    field!("queue", Kind::TEXT, Live, queue, "Queue of the jobs."),
    field!("payload", Kind::JSON, Live, payload, "Payload of the jobs: any value, stored as JSON."),
    field!(
        "max_attempts",
        Kind::count(ATTEMPTS),
        Live,
        max_attempts,
        "Number of failed attempts after which a job is dead."
    ),
    field!(
        "timeout",
        Kind::time(TIMEOUT_MS).or_none(),
        Live,
        timeout_ms,
        "Timeout of an attempt; one that runs longer is stopped and fails."
    ),
    field!(
        "unique",
        Kind::TEXT,
        Live,
        unique,
        "Unique key: no further job is enqueued while one with this key has not ended."
    ),
];

impl Default for Recurring {
    fn default() -> Self {
        Self {
            cron: None,
            zone: "UTC".to_owned(),
            every_ms: None,
            after_completion_ms: None,
            missed: Missed::default(),
            kind: String::new(),
            queue: DEFAULT_QUEUE.to_owned(),
            payload: None,
            max_attempts: MAX_ATTEMPTS_DEFAULT,
            timeout_ms: None,
            unique: None,
        }
    }
}

impl Recurring {
    /// The timing of the schedule.
    pub(crate) fn schedule(&self) -> Schedule {
        let schedule = match (&self.cron, self.every_ms, self.after_completion_ms) {
            (Some(line), _, _) => Schedule::cron(line, &self.zone),
            (None, None, Some(after_ms)) => Schedule::after_completion_ms(after_ms),
            (None, every_ms, _) => Schedule::every_ms(every_ms.unwrap_or_default()),
        };
        schedule.missed(self.missed)
    }

    /// The job that the schedule enqueues.
    pub(crate) fn job(&self) -> NewJob {
        let mut job = NewJob::new(self.kind.as_str()).queue(self.queue.as_str());
        if let Some(payload) = &self.payload {
            job = job.json(payload.0.clone());
        }
        job.policy.max_attempts = self.max_attempts;
        job.policy.timeout_ms = self.timeout_ms;
        job.unique = self.unique.as_ref().map(Unique::by);
        job
    }

    /// Maps the field of an error of core to the setting's key, with its value.
    fn blamed(&self, field: &str) -> (&'static str, String) {
        match field {
            "kind" => ("kind", self.kind.clone()),
            "queue" => ("queue", self.queue.clone()),
            "schedule.zone" => ("zone", self.zone.clone()),
            "schedule.every_ms" => ("every", String::new()),
            "schedule.after_completion_ms" => ("after_completion", String::new()),
            "schedule.missed" => ("missed", format!("{:?}", self.missed).to_lowercase()),
            field if field.starts_with("payload") => ("payload", "too large".to_owned()),
            field if field.starts_with("unique") => {
                ("unique", self.unique.clone().unwrap_or_default())
            }
            _ => ("cron", self.cron.clone().unwrap_or_default()),
        }
    }
}

impl Named for Recurring {
    const SECTION: &'static str = "schedules";
    const DOC: &'static str = "A recurring job. A schedule that is removed from the file stays in the store; \
                               `windlass schedules remove` removes it.";
    const EXAMPLE_NAME: &'static str = "report";

    fn fields() -> &'static [Field<Self>] {
        FIELDS
    }

    fn example() -> Self {
        Self {
            cron: Some("0 6 * * *".to_owned()),
            zone: "Europe/Berlin".to_owned(),
            kind: "send_report".to_owned(),
            payload: Some(Json(r#"{"to":"ada"}"#.to_owned())),
            unique: Some("report".to_owned()),
            ..Self::default()
        }
    }

    fn check(&self, name: &str) -> Vec<(&'static str, String, Wrong)> {
        let mut wrong = Vec::new();
        if self.kind.is_empty() {
            wrong.push(("kind", "not set".to_owned(), "name the kind of the job".into()));
        }
        match (&self.cron, self.every_ms, self.after_completion_ms) {
            (None, None, None) => {
                let expected = "set the timing: cron = \"0 6 * * *\", every = \"15m\" or after_completion = \"15m\"";
                wrong.push(("cron", "not set".to_owned(), expected.into()));
            }
            (Some(_), _, Some(_)) | (_, Some(_), Some(_)) => {
                let given = "set beside cron or every".to_owned();
                wrong.push(("after_completion", given, "keep one of them".into()));
            }
            (Some(_), Some(_), None) => {
                wrong.push(("every", "set beside cron".to_owned(), "keep one of the two".into()));
            }
            _ => {}
        }
        if !wrong.is_empty() {
            return wrong;
        }
        let named = check_name("name", name);
        let timed = self.schedule().check();
        let jobbed = self.job().check(Timestamp::EPOCH, PAYLOAD_BYTES_MAX);
        for error in [named, timed, jobbed].into_iter().filter_map(Result::err) {
            let (key, given) = match error.field() {
                Some("name") | None => ("", name.to_owned()),
                Some(field) => self.blamed(field),
            };
            wrong.push((key, given, error.into()));
        }
        wrong
    }
}
