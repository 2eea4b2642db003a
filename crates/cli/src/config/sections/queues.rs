//! `[queues.NAME]`: settings of queues. Excludes `paused`: operators pause queues by hand, and a restart must
//! not undo that.

use super::{Field, Named};
use crate::config::field::{Reload, field};
use crate::config::held::Held as _;
use crate::config::value::{Kind, Value, Wrong};
use std::ops::RangeInclusive;
use windlass_core::Result;
use windlass_core::check_name;
use windlass_core::limits::{
    AGE_MAX_MS, EVENTS_AGE_DEFAULT_MS, EVENTS_AGE_MAX_MS, EVENTS_AGE_MIN_MS, EVENTS_KEPT_MAX,
    KEEP_MAX_MAX,
};
use windlass_core::model::{QueuePatch, QueueSettings};

/// Accepted depths: any positive TOML integer.
const DEPTH: RangeInclusive<u64> = 1..=i64::MAX as u64;
/// Accepted sizes: any positive TOML integer.
const BYTES: RangeInclusive<u64> = 1..=i64::MAX as u64;
const KEPT: RangeInclusive<u64> = 0..=KEEP_MAX_MAX;
const RETENTION_MS: RangeInclusive<u64> = 0..=AGE_MAX_MS;
const EVENTS: RangeInclusive<u64> = 1..=EVENTS_KEPT_MAX;
const EVENTS_AGE_MS: RangeInclusive<u64> = EVENTS_AGE_MIN_MS..=EVENTS_AGE_MAX_MS;
const MAX_WAIT_MS: RangeInclusive<u64> = 1..=AGE_MAX_MS;

static FIELDS: &[Field<QueueSettings>] = &[
    field!(
        "max_depth",
        Kind::count(DEPTH).or_none(),
        Live,
        max_depth,
        "Maximum number of waiting jobs; further jobs are refused."
    ),
    field!(
        "max_wait",
        Kind::time(MAX_WAIT_MS).or_none(),
        Live,
        max_wait_ms,
        "Maximum wait before a due job expires, for jobs that do not set their own."
    ),
    field!(
        "order",
        Kind::TEXT,
        Live,
        order,
        "Order of ready jobs: strict (by priority), lifo, fair (round-robin over tenants), or ageing=TIME \
         (the waiting time that outweighs one step of priority)."
    ),
    field!(
        "retention.finished",
        Kind::time(RETENTION_MS),
        Live,
        retention.finished_ms,
        "Retention of completed and cancelled jobs that do not set their own."
    ),
    field!(
        "retention.dead",
        Kind::time(RETENTION_MS),
        Live,
        retention.dead_ms,
        "Retention of dead jobs: the time that operators have to inspect them."
    ),
    field!(
        "retention.expired",
        Kind::time(RETENTION_MS),
        Live,
        retention.expired_ms,
        "Retention of expired jobs."
    ),
    field!(
        "keep_max.completed",
        Kind::count(KEPT).or_none(),
        Live,
        keep_max.completed,
        "Maximum number of completed jobs. Beyond it the oldest are removed before their retention ends."
    ),
    field!(
        "keep_max.cancelled",
        Kind::count(KEPT).or_none(),
        Live,
        keep_max.cancelled,
        "Maximum number of cancelled jobs."
    ),
    field!(
        "keep_max.dead",
        Kind::count(KEPT).or_none(),
        Live,
        keep_max.dead,
        "Maximum number of dead jobs."
    ),
    field!(
        "keep_max.expired",
        Kind::count(KEPT).or_none(),
        Live,
        keep_max.expired,
        "Maximum number of expired jobs."
    ),
    field!(
        "dead_bytes_max",
        Kind::size(BYTES).or_none(),
        Live,
        dead_bytes_max,
        "Maximum total size of dead jobs. Beyond it the oldest are removed before their retention ends."
    ),
    Field {
        name: "events",
        doc: "Number of events to keep: the transitions of its jobs, the latest ones. Off by default.",
        kind: Kind::count(EVENTS).or_none(),
        reload: Reload::Live,
        env: None,
        get: |held| held.events.map_or(Value::None, |events| Value::Number(events.max)),
        set: |held, value| {
            held.events = Option::<u64>::from_value(value)?
                .map(|max| held.events.unwrap_or_default().with_max(max));
            Ok(())
        },
    },
    Field {
        name: "events_max_age",
        doc: "Maximum age of its events, if `events` is set; `none` stands for a day.",
        kind: Kind::time(EVENTS_AGE_MS).or_none(),
        reload: Reload::Live,
        env: None,
        get: |held| held.events.map_or(Value::None, |events| Value::Number(events.max_age_ms)),
        set: |held, value| {
            match (&mut held.events, Option::<u64>::from_value(value)?) {
                (Some(events), ms) => events.max_age_ms = ms.unwrap_or(EVENTS_AGE_DEFAULT_MS),
                (None, None) => {}
                (None, Some(_)) => {
                    return Err("set `events` in a line before it: how many to keep".into());
                }
            }
            Ok(())
        },
    },
    field!("limits", Kind::LIST, Live, limits, "Names of the limits that its jobs run under."),
];

impl Named for QueueSettings {
    const SECTION: &'static str = "queues";
    const DOC: &'static str =
        "Settings of a queue. Settings that are left out stay as they are in the store.";
    const EXAMPLE_NAME: &'static str = "mail";

    fn fields() -> &'static [Field<Self>] {
        FIELDS
    }

    fn check(&self, name: &str) -> Vec<(&'static str, String, Wrong)> {
        let limits = QueuePatch::limits(self.limits.iter().cloned()).check();
        let wrong = |key, given, checked: Result<()>| {
            checked.err().map(|error| (key, given, Wrong::from(error)))
        };
        let name = wrong("", name.to_owned(), check_name("queue", name));
        name.into_iter().chain(wrong("limits", self.limits.join(", "), limits)).collect()
    }
}
