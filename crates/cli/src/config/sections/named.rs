//! Sections that there are many of, by name: what a file says of one queue, one schedule. It must not know
//! what they are for.

use super::Field;
use crate::config::value::{Value, Wrong};
use std::fmt;

/// Something with a name and settings, such as a queue.
pub(crate) trait Named: Clone + Default + 'static {
    /// How the section is called.
    const SECTION: &'static str;
    /// What it is for.
    const DOC: &'static str;
    /// A name for the example.
    const EXAMPLE_NAME: &'static str;

    /// Its settings.
    fn fields() -> &'static [Field<Self>];

    /// One that can stand in the example.
    fn example() -> Self {
        Self::default()
    }

    /// What is wrong with it as a whole: the key (empty: the name), what it holds, and the way out.
    fn check(&self, name: &str) -> Vec<(&'static str, String, Wrong)>;
}

/// What a file says of one of them; what it does not name stays as it is.
pub(crate) struct Entry<T: 'static> {
    pub(crate) name: String,
    /// The settings it names, with their lines.
    pub(crate) named: Vec<(&'static Field<T>, Value, usize)>,
}

impl<T: Named> Entry<T> {
    /// `base` with everything that the file names.
    pub(crate) fn over(&self, mut base: T) -> Result<T, Wrong> {
        for (field, value, _) in &self.named {
            (field.set)(&mut base, value)?;
        }
        Ok(base)
    }

    /// Its whole key.
    pub(crate) fn key(&self) -> String {
        format!("{}.{}", T::SECTION, self.name)
    }

    /// What carrying out `after` changes of `before`, one line for each setting.
    pub(crate) fn changes(&self, before: &T, after: &T) -> Vec<String> {
        let change = |field: &Field<T>| {
            let (old, new) = ((field.get)(before), (field.get)(after));
            let written = |value: &Value| field.kind.written(value);
            let line = || {
                format!(
                    "{}.{}: {} becomes {}",
                    self.key(),
                    field.name,
                    written(&old),
                    written(&new)
                )
            };
            (old != new).then(line)
        };
        T::fields().iter().filter_map(change).collect()
    }
}

impl<T: Named> fmt::Debug for Entry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.named.iter().map(|(field, value, _)| (field.name, value));
        f.debug_map().entries(named).finish()
    }
}
