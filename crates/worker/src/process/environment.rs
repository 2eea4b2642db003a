//! The environment of a command: a few variables of the host, and those that the user names. Other variables
//! are not passed on, because the output of a command becomes the result of its job.

use super::role::ROLE_VARIABLE;
use crate::error::BuildError;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;

/// Host variables that every command gets: paths, user, locale and time zone. None of them contains a secret
/// by convention. The library path is included because the supervisor is the host's own program.
const PASSED: [&str; 9] =
    ["PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH"];
/// Prefix of the remaining locale variables.
const PASSED_PREFIX: &str = "LC_";
/// Prefix of the variables that describe the job.
const JOB_PREFIX: &str = "WINDLASS_JOB_";
/// The variable that contains the trace context of the job.
pub(super) const TRACE_VARIABLE: &str = "TRACEPARENT";

/// The variables of a command. `Debug` prints names only, because values may be secrets.
#[derive(Clone, Default)]
pub(super) struct Environment {
    set: Vec<(OsString, OsString)>,
    passed: Vec<OsString>,
}

impl Environment {
    /// Sets a variable.
    pub(super) fn set(&mut self, name: OsString, value: OsString) {
        self.set.push((name, value));
    }

    /// Passes on a variable of the host, if the host has it.
    pub(super) fn pass(&mut self, name: OsString) {
        self.passed.push(name);
    }

    /// Checks that all names are valid and that none is a variable set for each job.
    pub(super) fn check(&self) -> Result<(), BuildError> {
        let set = self.set.iter().map(|(name, value)| ("env", name, value.as_os_str()));
        let passed = self.passed.iter().map(|name| ("pass_env", name, OsStr::new("")));
        set.chain(passed).try_for_each(|(option, name, value)| check(option, name, value))
    }

    /// The variables with their current values. A variable set by name overrides one that is passed on.
    pub(super) fn variables(&self) -> impl Iterator<Item = (OsString, OsString)> {
        let base = std::env::vars_os().filter(|(name, _)| is_passed(name));
        let passed = self.passed.iter();
        let passed = passed.filter_map(|name| Some((name.clone(), std::env::var_os(name)?)));
        base.chain(passed).chain(self.set.iter().cloned())
    }
}

fn is_passed(name: &OsStr) -> bool {
    PASSED.iter().any(|passed| *passed == name)
        || name.as_bytes().starts_with(PASSED_PREFIX.as_bytes())
}

fn check(option: &'static str, name: &OsStr, value: &OsStr) -> Result<(), BuildError> {
    let wrong = |expected: &str| {
        let value = name.to_string_lossy().into_owned();
        Err(BuildError::Option { option, value, expected: expected.to_owned() })
    };
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.contains(&b'=') || bytes.contains(&0) {
        return wrong("use the name of a variable: not empty, without `=` and NUL");
    }
    if value.as_bytes().contains(&0) {
        return wrong("its value must not contain NUL");
    }
    let reserved = name == TRACE_VARIABLE || name == ROLE_VARIABLE;
    if reserved || bytes.starts_with(JOB_PREFIX.as_bytes()) {
        return wrong("this variable is set for each job; use another name");
    }
    Ok(())
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.set.iter().map(|(name, _)| name)).entries(&self.passed).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(name: &str, value: &str) -> String {
        let mut environment = Environment::default();
        environment.set(name.into(), value.into());
        environment.check().unwrap_err().to_string()
    }

    #[test]
    fn a_name_that_cannot_be_one_or_is_taken_is_refused() {
        for name in ["", "A=B", "A\0"] {
            assert!(refusal(name, "x").contains("name of a variable"), "{name:?}");
        }
        for name in ["WINDLASS_JOB_ID", "WINDLASS_PROCESS_ROLE", "TRACEPARENT"] {
            assert!(refusal(name, "x").contains("set for each job"), "{name:?}");
        }
        assert!(refusal("A", "s3cr3t\0").contains("NUL"));
        assert!(!refusal("A", "s3cr3t\0").contains("s3cr3t"));
    }

    #[test]
    fn debug_shows_names_and_no_values() {
        let mut environment = Environment::default();
        environment.set("TOKEN".into(), "s3cr3t".into());
        environment.pass("OTHER".into());
        assert_eq!(format!("{environment:?}"), r#"["TOKEN", "OTHER"]"#);
    }
}
