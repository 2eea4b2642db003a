//! One setting: its name, documentation, type, accessors, and whether it can change while the server runs.
//! Parsing, validation, the example, `show` and reload are all driven by it.

use super::value::{Kind, Value, Wrong};

/// A setting whose value is stored in a `T`.
pub(crate) struct Field<T: 'static> {
    /// Key within the section; may contain dots.
    pub(crate) name: &'static str,
    /// Documentation, one or two sentences.
    pub(crate) doc: &'static str,
    pub(crate) kind: Kind,
    pub(crate) reload: Reload,
    /// The environment variable that sets it, if it is not derived from the key.
    pub(crate) env: Option<&'static str>,
    pub(crate) get: fn(&T) -> Value,
    pub(crate) set: fn(&mut T, &Value) -> Result<(), Wrong>,
}

/// When a changed setting takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reload {
    /// On reload (SIGHUP).
    Live,
    /// At the next start of the server.
    Restart,
}

/// Builds a `Field`: `field!(NAME, KIND, RELOAD, PLACE, DOC)`, with `Some(VARIABLE)` as an additional
/// argument if its variable is not derived from the key.
macro_rules! field {
    ($name:expr, $kind:expr, $reload:ident, $($place:ident).+, $doc:expr) => {
        $crate::config::field::field!($name, $kind, $reload, $($place).+, $doc, None)
    };
    ($name:expr, $kind:expr, $reload:ident, $($place:ident).+, $doc:expr, $env:expr) => {
        $crate::config::field::Field {
            name: $name,
            doc: $doc,
            kind: $kind,
            reload: $crate::config::field::Reload::$reload,
            env: $env,
            get: |held| $crate::config::held::Held::value(&held.$($place).+),
            set: |held, value| {
                held.$($place).+ = $crate::config::held::Held::from_value(value)?;
                Ok(())
            },
        }
    };
}

pub(super) use field;
