//! Resource usage of a process: this one, or the server that does the work.

use super::clock;
use std::time::Duration;

/// Unit of CPU times in `/proc` (`USER_HZ`, the same on every Linux).
const TICK: Duration = Duration::from_millis(10);

/// The process whose resources are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Process {
    /// This process.
    #[default]
    This,
    /// A server that was started for the measurement.
    Other(u32),
    /// A server whose process is not accessible.
    Unknown,
}

impl Process {
    /// The CPU time of all threads so far.
    pub(super) fn cpu(self) -> Option<Duration> {
        match self {
            Self::This => Some(clock::cpu()),
            _ => self.ticks().map(|ticks| TICK * ticks),
        }
    }

    /// The peak resident memory.
    pub(super) fn peak_rss_mb(self) -> Option<f64> {
        self.field("status", "VmHWM:").map(|kb| kb as f64 / 1024.0)
    }

    /// The number of bytes written to disk so far.
    pub(super) fn written_bytes(self) -> Option<u64> {
        self.field("io", "write_bytes:")
    }

    /// Reads a file of the process in `/proc`; `None` on systems without it.
    fn file(self, name: &str) -> Option<String> {
        let process = match self {
            Self::This => "self".to_owned(),
            Self::Other(pid) => pid.to_string(),
            Self::Unknown => return None,
        };
        std::fs::read_to_string(format!("/proc/{process}/{name}")).ok()
    }

    fn field(self, file: &str, field: &str) -> Option<u64> {
        let text = self.file(file)?;
        let line = text.lines().find_map(|line| line.strip_prefix(field))?;
        line.split_whitespace().next()?.parse().ok()
    }

    /// User and system time, in ticks. They follow the name of the program, which may contain any character, so
    /// parsing starts after the last `)`.
    fn ticks(self) -> Option<u32> {
        let stat = self.file("stat")?;
        let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
        let time = |at: usize| fields.get(at).and_then(|it| it.parse::<u32>().ok());
        Some(time(11)? + time(12)?)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_system_says_what_a_process_takes() {
        let other = Process::Other(std::process::id());
        for process in [Process::This, other] {
            assert!(process.peak_rss_mb().unwrap() > 0.0);
            assert_eq!(process.field("status", "NoSuchField:"), None);
        }
        assert!(other.ticks().is_some());
        assert_eq!(Process::Unknown.peak_rss_mb(), None);
    }
}
