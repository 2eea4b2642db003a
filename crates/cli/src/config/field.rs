//! One setting: its name, what it is for, how it is written, where it is held, and whether it can change
//! while the server runs. Everything else (reading, checking, the example, `show`, reload) goes by it.

use super::value::{Kind, Value, Wrong};

/// A setting of a section that is held in a `T`.
pub(crate) struct Field<T: 'static> {
    /// Its key within its section; may have dots.
    pub(crate) name: &'static str,
    /// What it is for, in one or two sentences.
    pub(crate) doc: &'static str,
    pub(crate) kind: Kind,
    pub(crate) reload: Reload,
    /// The variable that sets it, where that is not named after the key.
    pub(crate) env: Option<&'static str>,
    pub(crate) get: fn(&T) -> Value,
    pub(crate) set: fn(&mut T, &Value) -> Result<(), Wrong>,
}

/// When a change of a setting takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reload {
    /// On SIGHUP.
    Live,
    /// When the server starts.
    Restart,
}

/// A setting, whole: `field!(NAME, KIND, RELOAD, PLACE, DOC)`, and `Some(VARIABLE)` where its variable is not
/// named after the key.
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
