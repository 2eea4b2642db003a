//! Matches the tables of a file with the tables of settings: stores known keys, and reports unknown ones with
//! their line. It must not know the precedence of sources.

use super::field::Field;
use super::mistake::{Mistake, Source, nearest};
use super::sections::{Entry, Named, Recurring, Registered, SECTIONS, keys};
use super::tree::{Raw, Table};
use super::value::{Value, Wrong};
use windlass_core::model::QueueSettings;

/// A file being read, and the errors found so far.
pub(super) struct Reading<'a> {
    pub(super) path: &'a str,
    pub(super) mistakes: &'a mut Vec<Mistake>,
}

pub(super) type Assigned<T> = (&'static Field<T>, Raw, usize);

impl Reading<'_> {
    pub(super) fn at(&self, line: usize) -> Source {
        Source::File { path: self.path.to_owned(), line }
    }

    fn wrong(&mut self, line: usize, key: &str, given: &str, wrong: impl Into<Wrong>) {
        let mistake = Mistake::value(self.at(line), key, given, wrong.into());
        self.mistakes.push(mistake);
    }

    /// The settings in a table and its subtables; `above` is the path from the section to the table.
    pub(super) fn assigned<T>(
        &mut self,
        table: &Table,
        section: &str,
        above: &str,
        fields: &'static [Field<T>],
    ) -> Vec<Assigned<T>> {
        let mut assigned = Vec::new();
        for entry in table {
            let name =
                if above.is_empty() { entry.key.clone() } else { format!("{above}.{}", entry.key) };
            let key = format!("{section}.{name}");
            let is_above = |field: &Field<T>| {
                field.name.strip_prefix(&*name).is_some_and(|it| it.starts_with('.'))
            };
            if let Some(field) = fields.iter().find(|field| field.name == name) {
                assigned.push((field, entry.raw.clone(), entry.line));
            } else if !fields.iter().any(is_above) {
                let known: Vec<_> =
                    fields.iter().map(|field| format!("{section}.{}", field.name)).collect();
                let known = known.iter().map(String::as_str);
                let mistake = Mistake::unknown(self.at(entry.line), &key, known);
                self.mistakes.push(mistake);
            } else if let Raw::Table(table) = &entry.raw {
                assigned.extend(self.assigned(table, section, &name, fields));
            } else {
                let below: Vec<_> = fields.iter().filter(|field| is_above(field)).collect();
                let names = below.iter().map(|field| format!("{section}.{}", field.name));
                let expected = format!("set {}", names.collect::<Vec<_>>().join(", "));
                self.wrong(entry.line, &key, &entry.raw.shown(), expected);
            }
        }
        assigned
    }

    /// Stores the value of a setting if it is valid; returns whether it is.
    pub(super) fn put<T>(
        &mut self,
        held: &mut T,
        field: &Field<T>,
        key: &str,
        raw: &Raw,
        line: usize,
    ) -> bool {
        let put = field.kind.read(raw).and_then(|value| (field.set)(held, &value));
        put.map_err(|wrong| self.wrong(line, key, &raw.shown(), wrong)).is_ok()
    }

    /// Reads all entries of a section of named ones.
    pub(super) fn named<T: Named>(&mut self, table: &Table) -> Vec<Entry<T>> {
        let mut entries = Vec::new();
        for one in table {
            let key = format!("{}.{}", T::SECTION, one.key);
            let Raw::Table(settings) = &one.raw else {
                let expected = format!("write [{key}], and its settings below");
                self.wrong(one.line, &key, &one.raw.shown(), expected);
                continue;
            };
            let before = self.mistakes.len();
            let (mut whole, mut named) = (T::default(), Vec::new());
            for (field, raw, line) in self.assigned(settings, &key, "", T::fields()) {
                if self.put(&mut whole, field, &format!("{key}.{}", field.name), &raw, line) {
                    let value: Value = (field.get)(&whole);
                    named.push((field, value, line));
                }
            }
            // The whole is checked only if all its settings are valid, so that no error is reported twice.
            let wrong =
                if self.mistakes.len() == before { whole.check(&one.key) } else { Vec::new() };
            for (name, given, wrong) in wrong {
                let said = named.iter().find(|(field, ..)| field.name == name);
                let line = said.map_or(one.line, |(_, _, line)| *line);
                let key = if name.is_empty() { key.clone() } else { format!("{key}.{name}") };
                self.wrong(line, &key, &given, wrong);
            }
            entries.push(Entry { name: one.key.clone(), named });
        }
        entries
    }

    /// Reports a top-level key that is not a section, or a section that is not a table.
    pub(super) fn stray(&mut self, key: &str, line: usize, raw: &Raw) {
        let named = [QueueSettings::SECTION, Registered::SECTION, Recurring::SECTION];
        let sections: Vec<&str> = SECTIONS.iter().map(|it| it.name).chain(named).collect();
        if sections.contains(&key) {
            let expected = format!("it is a section: write [{key}], and its settings below");
            return self.wrong(line, key, &raw.shown(), expected);
        }
        let settings: Vec<_> = keys().map(|(key, _)| key).collect();
        let settings =
            settings.iter().map(String::as_str).filter(|_| !matches!(raw, Raw::Table(_)));
        let mistake = match nearest(key, settings) {
            Some(near) => {
                Mistake::new(self.at(line), format!("{key} is not a setting; did you mean {near}?"))
            }
            None => Mistake::unknown(self.at(line), key, sections.iter().copied()),
        };
        self.mistakes.push(mistake);
    }
}
