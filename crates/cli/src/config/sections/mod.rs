//! All settings, one file per section. A new setting is one entry in a table here; a new section is a file with
//! its table, and an entry in [`SECTIONS`] or among the named ones.

mod kinds;
mod limits;
mod log;
mod named;
mod queues;
mod schedules;
mod server;
mod services;
mod store;
mod traces;

pub(crate) use kinds::Registered;
pub(crate) use limits::LimitRules;
pub(crate) use log::Levels;
pub(crate) use named::{Entry, Named};
pub(crate) use schedules::Recurring;
pub(crate) use traces::Traces;

use super::field::Field;
use log::Log;
use server::Server;
use services::Services;
use store::Store;

/// The settings that exist once per process, by section.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fixed {
    pub(crate) log: Log,
    pub(crate) store: Store,
    pub(crate) server: Server,
    pub(crate) services: Services,
    pub(crate) traces: Traces,
}

/// A section that exists once per file.
pub(crate) struct Section {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) fields: &'static [Field<Fixed>],
}

/// All sections, in the order of the example.
pub(crate) static SECTIONS: &[Section] =
    &[store::SECTION, server::SECTION, services::SECTION, log::SECTION, traces::SECTION];

/// All settings with their full keys.
pub(crate) fn keys() -> impl Iterator<Item = (String, &'static Field<Fixed>)> {
    let of = |section: &'static Section| {
        section.fields.iter().map(|field| (format!("{}.{}", section.name, field.name), field))
    };
    SECTIONS.iter().flat_map(of)
}

/// The environment variable that sets a key.
pub(crate) fn variable(key: &str, field: &Field<Fixed>) -> String {
    let by_key = || format!("WINDLASS_{}", key.replace('.', "_").to_uppercase());
    field.env.map_or_else(by_key, str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_default_is_within_its_range_and_held_as_it_is_written() {
        for (key, field) in keys() {
            let mut fixed = Fixed::default();
            let default = (field.get)(&fixed);
            let written = field.kind.written(&default);
            let table = super::super::tree::read(&format!("it = {written}\n")).unwrap();
            let read = field.kind.read(&table[0].raw).unwrap_or_else(|it| panic!("{key}: {it:?}"));
            (field.set)(&mut fixed, &read).unwrap_or_else(|it| panic!("{key}: {it:?}"));
            assert_eq!((field.get)(&fixed), default, "{key} = {written}");
        }
    }

    #[test]
    fn every_key_and_every_variable_is_there_once_and_says_what_it_is_for() {
        let (mut seen, mut variables) = (HashSet::new(), HashSet::new());
        for (key, field) in keys() {
            assert!(seen.insert(key.clone()), "{key}");
            assert!(variables.insert(variable(&key, field)), "{key}");
            assert!(field.doc.ends_with('.') && field.doc.len() > 10, "{key}: {:?}", field.doc);
        }
    }
}
