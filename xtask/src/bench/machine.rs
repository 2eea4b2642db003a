//! Describes the machine of a run: processors, memory, sync latency of the disk, servers and their settings.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::Result;

use super::now;
use super::store::{POSTGRES_SETTINGS, Stores};
use crate::process;

/// Number of timed appends with sync.
const SYNCS: usize = 200;

/// The description, one line per fact.
pub(super) fn describe(stores: &Stores) -> Result<Vec<String>> {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory =
        memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next());
    let gib = memory.and_then(|kb| kb.parse::<f64>().ok()).unwrap_or_default() / 1024.0 / 1024.0;
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor =
        processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let processor = processor.map_or("unknown processor", |(_, name)| name);
    let mut lines = vec![
        format!(
            "{cores} cores ({processor}), {gib:.0} GiB; clients, workers and stores share them"
        ),
        format!(
            "disk: appending 4 KiB and syncing takes {:.2} ms (median)",
            sync_ms(stores.directory())?
        ),
        format!("{}: {}", stores.postgres_version()?, POSTGRES_SETTINGS.join(", ")),
    ];
    for (program, flag) in [("redis-server", "--version"), ("beanstalkd", "-v")] {
        lines.extend(
            process::capture(Command::new(program).arg(flag)).map(|it| it.trim().to_owned()),
        );
    }
    lines.push(process::capture(Command::new("rustc").arg("--version"))?.trim().to_owned());
    Ok(lines)
}

fn sync_ms(directory: &Path) -> Result<f64> {
    let path = directory.join("sync");
    let mut file = File::create(&path)?;
    let mut times = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let began = now();
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    fs::remove_file(path)?;
    times.sort_unstable_by(f64::total_cmp);
    Ok(times[SYNCS / 2])
}
