//! A journal that survives the death of its process, and whose stamps hold across processes: a line of
//! JSON per event, written at once, with the time of the machine's monotonic clock.

use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;
use windlass_core::sync::lock;
use windlass_kit::history::{Event, Journal, Note};

/// A journal in a file.
pub(crate) struct Lines(Mutex<File>);

impl Lines {
    /// A new file.
    pub(crate) fn create(path: &Path) -> Self {
        Self(Mutex::new(File::create_new(path).expect("a new journal")))
    }
}

/// Nanoseconds since the machine started.
pub(crate) fn stamp() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Journal for Lines {
    fn note(&self, client: u32, op: u64, note: Note) {
        let mut file = lock(&self.0);
        let mut line =
            serde_json::to_vec(&Event { at: stamp(), client, op, note }).expect("an event is JSON");
        line.push(b'\n');
        // Unbuffered: what was handed to the operating system outlives us.
        file.write_all(&line).expect("the journal takes it");
    }
}

/// The events in a file; a last line that was cut is dropped: its call was never made or never
/// answered.
pub(crate) fn read(path: &Path) -> Vec<Event> {
    let Ok(text) = std::fs::read_to_string(path) else { return Vec::new() };
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let lines = text[..whole].lines();
    lines.map(|line| serde_json::from_str(line).expect("a whole line is an event")).collect()
}
