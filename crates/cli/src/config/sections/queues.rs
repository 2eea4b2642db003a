//! `[queues.NAME]`: settings of queues. Not whether they are paused: people pause queues, and a restart must
//! not undo that.

use super::{Field, Named};
use crate::config::field::field;
use crate::config::value::{Kind, Wrong};
use std::ops::RangeInclusive;
use windlass_core::check_name;
use windlass_core::limits::AGE_MAX_MS;
use windlass_core::model::QueueSettings;

/// Depths, as far as a file can write them.
const DEPTH: RangeInclusive<u64> = 1..=i64::MAX as u64;
const RETENTION_MS: RangeInclusive<u64> = 0..=AGE_MAX_MS;
const MAX_WAIT_MS: RangeInclusive<u64> = 1..=AGE_MAX_MS;

static FIELDS: &[Field<QueueSettings>] = &[
    field!(
        "max_depth",
        Kind::count(DEPTH).or_none(),
        Live,
        max_depth,
        "Jobs are refused when this many wait."
    ),
    field!(
        "max_wait",
        Kind::time(MAX_WAIT_MS).or_none(),
        Live,
        max_wait_ms,
        "Jobs expire that wait longer for their start, unless they say otherwise."
    ),
    field!(
        "order",
        Kind::TEXT,
        Live,
        order,
        "How ready jobs are ordered: strict (by priority), lifo, fair (tenants take turns), or ageing=TIME \
         (how much waiting a step of priority is worth)."
    ),
    field!(
        "retention.finished",
        Kind::time(RETENTION_MS),
        Live,
        retention.finished_ms,
        "How long completed and cancelled jobs are kept, unless they say otherwise."
    ),
    field!(
        "retention.dead",
        Kind::time(RETENTION_MS),
        Live,
        retention.dead_ms,
        "How long dead jobs are kept: somebody should have looked at them by then."
    ),
    field!(
        "retention.expired",
        Kind::time(RETENTION_MS),
        Live,
        retention.expired_ms,
        "How long expired jobs are kept."
    ),
];

impl Named for QueueSettings {
    const SECTION: &'static str = "queues";
    const DOC: &'static str =
        "Settings of a queue. What is not named here stays as it is in the store.";
    const EXAMPLE_NAME: &'static str = "mail";

    fn fields() -> &'static [Field<Self>] {
        FIELDS
    }

    fn check(&self, name: &str) -> Vec<(&'static str, String, Wrong)> {
        let wrong = check_name("queue", name).err();
        wrong.into_iter().map(|error| ("", name.to_owned(), error.into())).collect()
    }
}
