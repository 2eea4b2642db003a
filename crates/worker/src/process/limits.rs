//! Resource limits of a command, as the operating system counts them. Independent of how commands are
//! started.

use super::MEMORY_MIN;
use crate::error::BuildError;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::io;
use std::time::Duration;

/// Limits of a command. Each applies to every process separately, except the number of processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    /// Address space.
    pub(super) memory_bytes: Option<u64>,
    /// CPU time.
    pub(super) cpu_seconds: Option<u64>,
    /// Processes and threads at a time, in total.
    pub(super) processes: Option<u64>,
    /// Maximum size of a file that the command writes.
    pub(super) file_bytes: Option<u64>,
}

impl Limits {
    /// Validates the limits.
    pub(super) fn check(&self) -> Result<(), BuildError> {
        if let Some(bytes) = self.memory_bytes.filter(|bytes| *bytes < MEMORY_MIN) {
            let expected =
                format!("no shell starts with less than {MEMORY_MIN} bytes (8M); give it more");
            return Err(wrong("memory_max", bytes, &expected));
        }
        if self.cpu_seconds == Some(0) {
            let expected = "it is counted in whole seconds, use 1s or more";
            return Err(wrong("cpu_max", "0s", expected));
        }
        if self.processes == Some(0) {
            return Err(wrong("processes_max", 0, "a command is a process itself, use 1 or more"));
        }
        Ok(())
    }

    /// All limits by name, as used in the role variable.
    pub(super) const fn by_name(&mut self) -> [(&'static str, &mut Option<u64>); 4] {
        [
            ("memory", &mut self.memory_bytes),
            ("cpu", &mut self.cpu_seconds),
            ("processes", &mut self.processes),
            ("file", &mut self.file_bytes),
        ]
    }

    /// Applies the limits to the current process, irrevocably.
    pub(super) fn apply(&self) -> io::Result<()> {
        set("no core dump", Resource::Core, Some(0))?;
        set("file_size_max", Resource::Fsize, self.file_bytes)?;
        set("cpu_max", Resource::Cpu, self.cpu_seconds)?;
        set("processes_max", Resource::Nproc, self.processes)?;
        // Applied last: afterwards hardly any memory can be allocated.
        set("memory_max", Resource::As, self.memory_bytes)
    }
}

/// CPU time in the whole seconds that the system counts, rounded up.
pub(super) fn whole_seconds(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))
}

fn wrong(option: &'static str, value: impl ToString, expected: &str) -> BuildError {
    BuildError::Option { option, value: value.to_string(), expected: expected.to_owned() }
}

fn set(name: &str, resource: Resource, limit: Option<u64>) -> io::Result<()> {
    let Some(limit) = limit else { return Ok(()) };
    // Exceeding the soft CPU limit sends SIGXCPU, which identifies the cause; exceeding the hard one sends
    // SIGKILL.
    let maximum = if resource == Resource::Cpu { limit.saturating_add(1) } else { limit };
    let limits = Rlimit { current: Some(limit), maximum: Some(maximum) };
    setrlimit(resource, limits)
        .map_err(|error| io::Error::other(format!("cannot set {name} to {limit}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_under_which_nothing_runs_are_refused_by_name() {
        let refused = |limits: Limits| limits.check().unwrap_err().to_string();
        let memory = refused(Limits { memory_bytes: Some(1 << 20), ..Limits::default() });
        assert!(memory.starts_with("memory_max is 1048576: "), "{memory}");
        let cpu = refused(Limits { cpu_seconds: Some(0), ..Limits::default() });
        assert!(cpu.starts_with("cpu_max is 0s: "), "{cpu}");
        let processes = refused(Limits { processes: Some(0), ..Limits::default() });
        assert!(processes.starts_with("processes_max is 0: "), "{processes}");
    }

    #[test]
    fn part_of_a_second_is_rounded_up() {
        assert_eq!(whole_seconds(Duration::from_millis(1_500)), 2);
        assert_eq!(whole_seconds(Duration::from_secs(2)), 2);
        assert_eq!(whole_seconds(Duration::ZERO), 0);
    }
}
