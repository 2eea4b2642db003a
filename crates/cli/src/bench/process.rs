//! What the system tells about a process: this one, or the server that does its work.

use super::clock;
use std::time::Duration;

/// The system counts the CPU time of other processes in this unit (`USER_HZ`, the same on every Linux).
const TICK: Duration = Duration::from_millis(10);

/// A process that does what is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Process {
    /// This one.
    #[default]
    This,
    /// A server that was started for the measurement.
    Other(u32),
    /// Somebody's server: its costs are not ours to see.
    Unknown,
}

impl Process {
    /// The CPU time so far, all threads together.
    pub(super) fn cpu(self) -> Option<Duration> {
        match self {
            Self::This => Some(clock::cpu()),
            _ => self.ticks().map(|ticks| TICK * ticks),
        }
    }

    /// The most memory it ever held.
    pub(super) fn peak_rss_mb(self) -> Option<f64> {
        self.field("status", "VmHWM:").map(|kb| kb as f64 / 1024.0)
    }

    /// Bytes it handed to the disk so far.
    pub(super) fn written_bytes(self) -> Option<u64> {
        self.field("io", "write_bytes:")
    }

    /// A file of it under `/proc`; `None` on systems without it.
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

    /// User and system time. The name of the program comes before them and may hold anything but `)`
    /// as its last.
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
