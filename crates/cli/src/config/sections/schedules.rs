//! `[schedules.NAME]`: recurring jobs.

use super::{Field, Named};
use crate::config::field::field;
use crate::config::held::Json;
use crate::config::value::{Kind, Wrong};
use std::ops::RangeInclusive;
use windlass_core::limits::{
    DELAY_MAX_MS, EVERY_MIN_MS, MAX_ATTEMPTS_DEFAULT, MAX_ATTEMPTS_MAX, PAYLOAD_BYTES_DEFAULT,
    TIMEOUT_MAX_MS,
};
use windlass_core::model::{DEFAULT_QUEUE, NewJob};
use windlass_core::policy::{Missed, Schedule, Unique};
use windlass_core::{Timestamp, check_name};

const EVERY_MS: RangeInclusive<u64> = EVERY_MIN_MS..=DELAY_MAX_MS;
const ATTEMPTS: RangeInclusive<u64> = 1..=MAX_ATTEMPTS_MAX as u64;
const TIMEOUT_MS: RangeInclusive<u64> = 1..=TIMEOUT_MAX_MS;

/// A schedule, and what it enqueues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recurring {
    cron: Option<String>,
    zone: String,
    every_ms: Option<u64>,
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
        "At the times of this cron line: minute, hour, day, month, weekday; or @daily and the like."
    ),
    field!("zone", Kind::TEXT, Live, zone, "The time zone of the cron line."),
    field!(
        "every",
        Kind::time(EVERY_MS),
        Live,
        every_ms,
        "At this interval, in place of a cron line."
    ),
    field!(
        "missed",
        Kind::words(&["skip", "once", "all"]),
        Live,
        missed,
        "What becomes of fires nobody was there to see: they are passed over, one stands for all of them, or \
         each is given."
    ),
    field!("kind", Kind::TEXT, Live, kind, "The kind of the job it enqueues."),
    field!("queue", Kind::TEXT, Live, queue, "The queue of the job."),
    field!(
        "payload",
        Kind::JSON,
        Live,
        payload,
        "The payload of the job; any value, stored as JSON."
    ),
    field!(
        "max_attempts",
        Kind::count(ATTEMPTS),
        Live,
        max_attempts,
        "The job is dead after this many failed attempts."
    ),
    field!(
        "timeout",
        Kind::time(TIMEOUT_MS).or_none(),
        Live,
        timeout_ms,
        "The job is stopped, and failed, when it runs longer than this."
    ),
    field!("unique", Kind::TEXT, Live, unique, "A key: no fire while a job with it has not ended."),
];

impl Default for Recurring {
    fn default() -> Self {
        Self {
            cron: None,
            zone: "UTC".to_owned(),
            every_ms: None,
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
    /// When it fires.
    pub(crate) fn schedule(&self) -> Schedule {
        let schedule = match (&self.cron, self.every_ms) {
            (Some(line), _) => Schedule::cron(line, &self.zone),
            (None, every_ms) => Schedule::every(every_ms.unwrap_or_default()),
        };
        schedule.missed(self.missed)
    }

    /// What it enqueues.
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

    /// The key that a field of core's errors is called here, and what it holds.
    fn blamed(&self, field: &str) -> (&'static str, String) {
        match field {
            "kind" => ("kind", self.kind.clone()),
            "queue" => ("queue", self.queue.clone()),
            "schedule.zone" => ("zone", self.zone.clone()),
            "schedule.every_ms" => ("every", String::new()),
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
    const DOC: &'static str = "A recurring job. A schedule that is taken out of the file stays in the store; \
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
        match (&self.cron, self.every_ms) {
            (None, None) => {
                let expected = "say when it fires: cron = \"0 6 * * *\", or every = \"15m\"";
                wrong.push(("cron", "not set".to_owned(), expected.into()));
            }
            (Some(_), Some(_)) => {
                wrong.push(("every", "set beside cron".to_owned(), "keep one of the two".into()));
            }
            _ => {}
        }
        if !wrong.is_empty() {
            return wrong;
        }
        let named = check_name("name", name);
        let timed = self.schedule().check();
        let jobbed = self.job().check(Timestamp::EPOCH, PAYLOAD_BYTES_DEFAULT);
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
