//! Sections that occur once per name, such as one per queue or schedule. It must not know what they configure.

use super::Field;
use crate::config::value::{Value, Wrong};
use std::fmt;

/// Something with a name and settings, such as a queue.
pub(crate) trait Named: Clone + Default + 'static {
    /// Name of the section.
    const SECTION: &'static str;
    /// Documentation of the section, for the example.
    const DOC: &'static str;
    /// Name used in the example.
    const EXAMPLE_NAME: &'static str;

    /// The settings of one entry.
    fn fields() -> &'static [Field<Self>];

    /// The entry shown in the example.
    fn example() -> Self {
        Self::default()
    }

    /// Validates the entry as a whole. Each error has the key (empty for the entry itself), its value, and the
    /// expected value.
    fn check(&self, name: &str) -> Vec<(&'static str, String, Wrong)>;
}

/// One named entry of a file; settings that it leaves out stay as they are.
pub(crate) struct Entry<T: 'static> {
    pub(crate) name: String,
    /// The settings in the file, with their line numbers.
    pub(crate) named: Vec<(&'static Field<T>, Value, usize)>,
}

impl<T: Named> Entry<T> {
    /// `base` with the settings of the file applied.
    pub(crate) fn over(&self, mut base: T) -> Result<T, Wrong> {
        for (field, value, _) in &self.named {
            (field.set)(&mut base, value)?;
        }
        Ok(base)
    }

    /// The full key, e.g. `queues.mail`.
    pub(crate) fn key(&self) -> String {
        format!("{}.{}", T::SECTION, self.name)
    }

    /// The differences between `before` and `after`, one line per setting.
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
