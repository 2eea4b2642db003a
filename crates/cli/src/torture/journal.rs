//! Histories on disk: every process appends to its own file, and a kill loses at most the last line.

use anyhow::{Context as _, Result};
use rustix::time::{ClockId, clock_gettime};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;
use windlass_core::sync::lock;
use windlass_kit::history::{Event, History, Journal, Note};

/// Extension of the history files.
const EXTENSION: &str = "ndjson";

/// Writes events as lines of JSON. Each is written to the operating system before its call is made, so that a
/// killed process loses none. They are not synced to disk, because the machine keeps running.
pub(super) struct Lines(Mutex<File>);

impl Lines {
    /// Opens the file of the process called `name` in `dir`.
    pub(super) fn create(dir: &Path, name: &str) -> Result<Self> {
        let path = dir.join(format!("{name}.{EXTENSION}"));
        let file = OpenOptions::new().create(true).append(true).open(&path);
        Ok(Self(Mutex::new(file.with_context(|| format!("cannot write {}", path.display()))?)))
    }
}

impl Journal for Lines {
    /// # Panics
    ///
    /// If the event cannot be written: a call that is not recorded must not be made.
    fn note(&self, client: u32, op: u64, note: Note) {
        let file = lock(&self.0);
        let event = Event { at: machine_ns(), client, op, note };
        let mut line = serde_json::to_vec(&event).expect("an event is JSON");
        line.push(b'\n');
        (&*file).write_all(&line).expect("the journal can be written");
    }
}

/// Nanoseconds of the monotonic clock, which all processes of this machine share.
fn machine_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// Reads the histories of all clients in `dir`.
pub(super) fn read(dir: &Path) -> Result<History> {
    let mut events = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            read_file(&path, &mut events)?;
        }
    }
    Ok(events.into_iter().collect())
}

/// Reads one file. An incomplete last line is dropped: its call was never made, or never answered.
fn read_file(path: &Path, events: &mut Vec<Event>) -> Result<()> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the history in {}", path.display()))?;
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    for (number, line) in text[..whole].lines().enumerate() {
        let event = serde_json::from_str(line)
            .with_context(|| format!("{}:{}: not an event", path.display(), number + 1))?;
        events.push(event);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_kit::history::Call;

    #[test]
    fn written_lines_are_read_except_a_truncated_last_one() {
        let dir = tempfile::tempdir().unwrap();
        for (client, name) in ["a", "b"].into_iter().enumerate() {
            let journal = Lines::create(dir.path(), name).unwrap();
            for op in 0..3 {
                journal.note(client as u32, op, Note::Invoked(Call::Claim("c".into())));
            }
        }
        let path = dir.path().join("a.ndjson");
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        std::fs::write(dir.path().join("a.log"), "not a history").unwrap();
        let events = read(dir.path()).unwrap().events;
        assert_eq!(events.len(), 5);
        let of_b: Vec<u64> = events.iter().filter(|it| it.client == 1).map(|it| it.at).collect();
        assert!(of_b.is_sorted(), "{of_b:?}");
    }
}
