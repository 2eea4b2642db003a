//! `[store]`: the database or directory that holds the jobs.

use super::Section;
use crate::config::field::field;
use crate::config::value::Kind;
use std::ops::RangeInclusive;
use windlass::{OpenOptions, Url};
use windlass_core::limits::PAYLOAD_BYTES_MAX;

/// Default directory of the store.
const DIRECTORY_DEFAULT: &str = "./windlass-data";

/// Accepted values of `disk_limit`: any positive TOML integer.
const DISK_LIMIT: RangeInclusive<u64> = 1..=i64::MAX as u64;

/// Accepted values of `payload_bytes_max`.
const PAYLOAD_BYTES: RangeInclusive<u64> = 1..=PAYLOAD_BYTES_MAX as u64;

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
            "payload_bytes_max",
            Kind::size(PAYLOAD_BYTES).or_none(),
            Restart,
            store.payload_bytes_max,
            "Maximum size of a payload, up to 16M. The store keeps it for other processes and later starts; if none, \
             it stays as it is in the store (64K in a new one)."
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
    pub(crate) payload_bytes_max: Option<usize>,
    pub(crate) disk_limit: Option<u64>,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            url: Url::File(DIRECTORY_DEFAULT.into()),
            migrate: true,
            payload_bytes_max: None,
            disk_limit: None,
        }
    }
}

impl Store {
    /// The options with which to open the store.
    pub(crate) fn open_options(&self) -> OpenOptions {
        let mut options = OpenOptions::default();
        options.payload_bytes_max = self.payload_bytes_max;
        options
    }
}
