//! `[store]`: where jobs are kept.

use super::Section;
use crate::config::field::field;
use crate::config::value::Kind;
use windlass::Url;

/// Where jobs are unless somebody says otherwise.
const DIRECTORY_DEFAULT: &str = "./windlass-data";

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
    ],
};

#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) url: Url,
    pub(crate) migrate: bool,
}

impl Default for Store {
    fn default() -> Self {
        Self { url: Url::File(DIRECTORY_DEFAULT.into()), migrate: true }
    }
}
