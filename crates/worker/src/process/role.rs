//! The role of a re-executed program, passed in one environment variable; the command itself is passed as
//! arguments. Only encodes and decodes roles.

use super::limits::Limits;
use std::fmt;
use std::str::FromStr;

/// Contains the role. Not set in hosts and commands.
pub(super) const ROLE_VARIABLE: &str = "WINDLASS_PROCESS_ROLE";

/// Why a host executed its own program again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// To supervise a command for the host.
    Supervisor(Limits),
    /// To become the command.
    Command {
        /// Process id of the supervisor: if it is gone, the command must not start.
        supervisor: i32,
        limits: Limits,
    },
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut limits = match self {
            Self::Supervisor(limits) => {
                f.write_str("supervisor")?;
                *limits
            }
            Self::Command { supervisor, limits } => {
                write!(f, "command of={supervisor}")?;
                *limits
            }
        };
        let mut set = limits.by_name().into_iter().filter_map(|(name, it)| Some((name, (*it)?)));
        set.try_for_each(|(name, limit)| write!(f, " {name}={limit}"))
    }
}

/// The role variable has an invalid value.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{ROLE_VARIABLE} is {0:?}, which is not a valid role: only Windlass may set this variable")]
pub(super) struct NoRole(String);

impl FromStr for Role {
    type Err = NoRole;

    fn from_str(text: &str) -> Result<Self, NoRole> {
        read(text).ok_or_else(|| NoRole(text.to_owned()))
    }
}

fn read(text: &str) -> Option<Role> {
    let mut words = text.split(' ');
    let (name, mut supervisor, mut limits) = (words.next()?, None, Limits::default());
    for word in words {
        let (key, value) = word.split_once('=')?;
        let limit = limits.by_name().into_iter().find(|(name, _)| *name == key);
        let slot = match limit {
            Some((_, limit)) => limit,
            None if key == "of" => &mut supervisor,
            None => return None,
        };
        if slot.replace(value.parse().ok()?).is_some() {
            return None; // duplicate
        }
    }
    match (name, supervisor) {
        ("supervisor", None) => Some(Role::Supervisor(limits)),
        ("command", Some(of)) => Some(Role::Command { supervisor: of.try_into().ok()?, limits }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_read_as_it_was_said() {
        let some = Limits { cpu_seconds: Some(30), ..Limits::default() };
        let all = Limits {
            memory_bytes: Some(1),
            cpu_seconds: Some(2),
            processes: Some(3),
            file_bytes: Some(u64::MAX),
        };
        for limits in [Limits::default(), some, all] {
            for role in [Role::Supervisor(limits), Role::Command { supervisor: 7, limits }] {
                assert_eq!(role.to_string().parse(), Ok(role), "{role}");
            }
        }
    }

    #[test]
    fn anything_else_is_no_role() {
        let wrong = [
            "",
            "supervisor ",
            "supervisor of=1",
            "supervisor cpu",
            "supervisor cpu=",
            "supervisor cpu=-1",
            "supervisor cpu=1 cpu=1",
            "supervisor luck=1",
            "command",
            "command of=x",
            "command of=99999999999",
            "host",
        ];
        for text in wrong {
            let error = text.parse::<Role>().unwrap_err().to_string();
            assert!(error.contains(ROLE_VARIABLE) && error.contains(&format!("{text:?}")));
        }
    }
}
