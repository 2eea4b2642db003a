//! `[log]`: log levels of the process.

use super::Section;
use crate::config::field::field;
use crate::config::held::Held;
use crate::config::value::{Kind, Value, Wrong};
use std::fmt;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

pub(super) const SECTION: Section = Section {
    name: "log",
    doc: "The log on stderr.",
    fields: &[field!(
        "level",
        Kind::TEXT,
        Live,
        log.level,
        "Log level: off, error, warn, info, debug or trace; also by module, e.g. \"warn,windlass_services=info\".",
        Some("WINDLASS_LOG")
    )],
};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Log {
    pub(crate) level: Levels,
}

/// Log levels, global or per module. Validated here, because the logging library would take a misspelt level
/// for the name of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Levels(String);

impl Default for Levels {
    fn default() -> Self {
        Self("warn".to_owned())
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Held for Levels {
    fn from_value(value: &Value) -> Result<Self, Wrong> {
        let text = String::from_value(value)?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_:".contains(c);
        let is_known = |part: &str| match part.trim().split_once('=') {
            None => LEVELS.contains(&part.trim()),
            Some((module, level)) => module.chars().all(is_name) && LEVELS.contains(&level),
        };
        match text.split(',').all(is_known) {
            true => Ok(Self(text)),
            false => Err(format!(
                "use one of {}, or levels by module, as in \"warn,windlass_services=info\"",
                LEVELS.join(", ")
            )
            .into()),
        }
    }

    fn value(&self) -> Value {
        Value::Text(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_level_is_not_taken_for_a_module() {
        let read = |text: &str| Levels::from_value(&Value::Text(text.to_owned()));
        for fine in ["off", "warn,windlass_services=debug", "info, windlass_server::accept=trace"] {
            assert!(read(fine).is_ok(), "{fine}");
        }
        for wrong in ["warm", "", "some_module", "warn,", "a-b=info", "x=loud"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
