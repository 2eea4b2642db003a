//! CPU time and memory of this process, as counted by Linux; zero on other systems.

use std::fs;

/// Linux counts CPU time in hundredths of a second on all machines.
const TICKS_PER_S: f64 = 100.0;

/// User and system CPU time so far, in seconds.
pub(crate) fn cpu_s() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name may contain spaces; it ends at the last parenthesis.
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let fields = after_name.split_whitespace().skip(11).take(2);
    fields.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_S
}

/// Peak memory.
pub(crate) fn rss_mb() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kb.unwrap_or_default() / 1024.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_works_has_used_something() {
        while cpu_s() == 0.0 {
            std::hint::black_box((0..1_000_000_u64).map(std::hint::black_box).sum::<u64>());
        }
        assert!(rss_mb() > 1.0);
    }
}
