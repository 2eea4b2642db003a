//! `[store]`: where jobs are kept.

use super::Section;
use crate::config::field::field;
use crate::config::value::Kind;
use std::ops::RangeInclusive;
use windlass::Url;

/// Where jobs are unless somebody says otherwise.
const DIRECTORY_DEFAULT: &str = "./windlass-data";

/// Sizes of a store that somebody may have in mind.
const DISK_LIMIT: RangeInclusive<u64> = 1..=i64::MAX as u64;

pub(super) const SECTION: Section = Section {
    name: "store",
    doc: "Where jobs are kept.",
    fields: &[
        field!(
            "url",
            Kind::TEXT,
            Restart,
            store.url,
            "The store: file:DIR (durable, in one directory), postgres://USER@HOST/DATABASE (shared by any \
             number of processes) or memory: (nothing is kept).",
            Some("WINDLASS_STORE")
        ),
        field!(
            "migrate",
            Kind::FLAG,
            Restart,
            store.migrate,
            "Whether a start makes and updates the tables of a PostgreSQL store; without it, old ones are \
             refused."
        ),
        field!(
            "disk_limit",
            Kind::size(DISK_LIMIT).or_none(),
            Restart,
            store.disk_limit,
            "Warn when 80 % of so many bytes are used by the store. Without it, a directory is watched by what \
             is left on its file system, and a database not at all."
        ),
    ],
};

#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) url: Url,
    pub(crate) migrate: bool,
    pub(crate) disk_limit: Option<u64>,
}

impl Default for Store {
    fn default() -> Self {
        Self { url: Url::File(DIRECTORY_DEFAULT.into()), migrate: true, disk_limit: None }
    }
}
