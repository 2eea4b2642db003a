//! Stored form and display form of a schedule. Independent of who reads or fires it.

use super::template::Template;
use crate::records::encode;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use windlass_core::engine::Record;
use windlass_core::limits::{NAME_BYTES_MAX, RECORD_BYTES_MAX};
use windlass_core::model::NewJob;
use windlass_core::policy::{Schedule, ScheduleProgress, Timing};
use windlass_core::{Error, JobId, Result, Timestamp, check_name};

/// Key prefix of the records.
pub(crate) const PREFIX: &str = "schedule/";
/// The change marker: a record written with every change by people, so that schedulers notice changes
/// cheaply.
pub(crate) const CHANGES_KEY: &str = "schedule-changes";

/// Bytes of a record reserved for its progress and its latest error.
const PROGRESS_BYTES_MAX: usize = 4 * 1024;

/// The content of a schedule record for the audit log, without the input of its jobs.
pub(crate) fn shown(value: &[u8]) -> serde_json::Value {
    let Ok(stored) = serde_json::from_slice::<Stored>(value) else {
        return serde_json::json!("unreadable");
    };
    let job = stored.job.job();
    serde_json::json!({
        "schedule": stored.schedule, "paused": stored.paused,
        "kind": &*job.kind, "queue": &*job.queue,
    })
}

/// The latest error of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ScheduleError {
    /// Time of the error, by the store's clock.
    pub at: Timestamp,
    /// What is wrong, and the way out.
    pub message: String,
}

/// The stored form of a schedule.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Stored {
    pub(super) schedule: Schedule,
    pub(super) job: Template,
    pub(super) progress: ScheduleProgress,
    #[serde(default)]
    pub(super) paused: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_fire: Option<Timestamp>,
    #[serde(default)]
    pub(super) refused: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_error: Option<ScheduleError>,
    /// Unknown fields of a later version, preserved when this version saves progress.
    #[serde(flatten)]
    later: serde_json::Map<String, serde_json::Value>,
}

impl Stored {
    /// A schedule created at `now`.
    pub(super) fn new(schedule: Schedule, job: Template, now: Timestamp) -> Self {
        Self {
            schedule,
            job,
            progress: ScheduleProgress::new(now),
            paused: false,
            last_fire: None,
            refused: 0,
            last_error: None,
            later: serde_json::Map::new(),
        }
    }

    pub(super) fn read(record: &Record) -> Result<Self> {
        serde_json::from_slice(&record.value).map_err(|error| Error::Corrupt {
            store: format!("record {:?}", record.key),
            reason: format!("invalid schedule record: {error}; put it again or remove it"),
        })
    }

    /// Serializes it; refused if it is so large that its progress might not fit later.
    pub(super) fn encode(&self) -> Result<Bytes> {
        let (value, limit) = (encode(self)?, RECORD_BYTES_MAX - PROGRESS_BYTES_MAX);
        if value.len() <= limit {
            return Ok(value);
        }
        let hint = "a schedule is kept as JSON; keep large input elsewhere and name its place";
        let (size, limit) = (value.len() as u64, limit as u64);
        Err(Error::TooLarge { field: "job.payload".into(), size, limit, hint })
    }

    /// Counts decided fires, oldest first, of which `refused` were refused.
    pub(super) fn advance(
        &mut self,
        progress: ScheduleProgress,
        decided: &[Timestamp],
        refused: u64,
    ) {
        self.progress = progress;
        self.last_fire = decided.last().copied().or(self.last_fire);
        self.refused = self.refused.saturating_add(refused);
    }

    /// The job that must end before the next fire, of a schedule after completion.
    pub(super) fn awaits(&self) -> Option<JobId> {
        let counts_from_end = matches!(self.schedule.timing, Timing::AfterCompletion { .. });
        self.progress.awaits.filter(|_| counts_from_end)
    }

    /// The display form at `now`.
    pub(super) fn view(self, name: &str, now: Timestamp) -> ScheduleView {
        let next = match self.paused {
            true => None,
            // An unreadable rhythm is reported in `last_error` once the scheduler has seen it.
            false => self.schedule.next_fire(self.progress, now).unwrap_or(None),
        };
        // After its last fire, nothing depends on the end of the job.
        let is_due_then =
            |_: &JobId| self.schedule.due(self.progress, now).is_ok_and(|due| due.awaits.is_some());
        let awaits = self.awaits().filter(is_due_then);
        ScheduleView {
            name: name.to_owned(),
            job: self.job.job(),
            schedule: self.schedule,
            paused: self.paused,
            next,
            awaits,
            last_fire: self.last_fire,
            fired: self.progress.fired,
            refused: self.refused,
            last_error: self.last_error,
        }
    }
}

/// The display form of a schedule, with its progress.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleView {
    /// Its name.
    pub name: String,
    /// The fire times.
    pub schedule: Schedule,
    /// The job that it enqueues.
    pub job: NewJob,
    /// Whether it is paused.
    pub paused: bool,
    /// The next fire; `None` while paused, while a job is awaited, or when over.
    pub next: Option<Timestamp>,
    /// The job that must end before the next fire, of a schedule after completion.
    pub awaits: Option<JobId>,
    /// The latest fire.
    pub last_fire: Option<Timestamp>,
    /// Number of fires since it was created or its rhythm was changed.
    pub fired: u64,
    /// Number of these fires that the store refused permanently; `last_error` has the reason.
    pub refused: u64,
    /// The latest error; cleared by a successful fire.
    pub last_error: Option<ScheduleError>,
}

/// The key of a schedule's record.
pub(super) fn key(name: &str) -> Result<String> {
    check_name("name", name)?;
    let max = NAME_BYTES_MAX - PREFIX.len();
    if name.len() > max {
        return Err(Error::invalid("name", name, format!("use at most {max} bytes")));
    }
    Ok(format!("{PREFIX}{name}"))
}

/// The name of a schedule, from the key of its record.
pub(super) fn name(key: &str) -> &str {
    key.strip_prefix(PREFIX).unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_later_version_survive_a_save_by_an_earlier_one() {
        let text = r#"{"schedule":{"timing":{"cron":{"line":"@daily"}}},"overlap":{"allow":false},
            "job":{"queue":"mail","kind":"report"},"progress":{"since":1800000000000}}"#;
        let updated_at = Timestamp::EPOCH;
        let record =
            Record { key: "schedule/s".into(), version: 1, value: text.into(), updated_at };
        let mut stored = Stored::read(&record).unwrap();
        let fires = [Timestamp::from_millis(1_800_057_600_000)];
        let progress = stored.schedule.advanced(stored.progress, &fires).unwrap();
        stored.advance(progress, &fires, 0);
        let saved = String::from_utf8(stored.encode().unwrap().to_vec()).unwrap();
        assert!(saved.contains(r#""overlap":{"allow":false}"#), "{saved}");
        assert!(saved.contains(r#""fired":1"#), "{saved}");
    }
}
