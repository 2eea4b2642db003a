//! `[store]`: the database or directory that holds the jobs.

use super::Section;
use crate::config::field::field;
use crate::config::value::Kind;
use std::ops::RangeInclusive;
use windlass::Url;

/// Default directory of the store.
const DIRECTORY_DEFAULT: &str = "./windlass-data";

/// Accepted values of `disk_limit`: any positive TOML integer.
const DISK_LIMIT: RangeInclusive<u64> = 1..=i64::MAX as u64;

pub(super) const SECTION: Section = Section {
    name: "store",
    doc: "The database or directory that holds the jobs.",
    fields: &[
        field!(
            "url",
            Kind::TEXT,
            Restart,
            store.url,
            "The store: file:DIR (durable, in one directory), postgres://USER@HOST/DATABASE (shared by any \
             number of processes) or memory: (not persistent).",
            Some("WINDLASS_STORE")
        ),
        field!(
            "migrate",
            Kind::FLAG,
            Restart,
            store.migrate,
            "Create and upgrade the tables of a PostgreSQL store at the start; if false, the server refuses to \
             start with outdated tables."
        ),
        field!(
            "disk_limit",
            Kind::size(DISK_LIMIT).or_none(),
            Restart,
            store.disk_limit,
            "Disk limit of the store: warns when 80 % of it is used. Without a limit, a directory is measured by \
             its file system, and a database is not measured."
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
