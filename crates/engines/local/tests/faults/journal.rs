//! A journal that survives the death of its process: one line of JSON per event, written immediately.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;
use windlass_core::sync::lock;
use windlass_kit::history::{Event, Journal, Note};

/// Difference between the first timestamps of two consecutive rounds.
const STAMPS_PER_ROUND: u64 = 1 << 32;

/// A journal in a file. Timestamps are consecutive numbers, higher in each round.
pub(crate) struct Lines(Mutex<(File, u64)>);

impl Lines {
    /// Creates the file for the events of `round`.
    pub(crate) fn create(path: &Path, round: u64) -> Self {
        let file = File::create_new(path).expect("a new journal");
        Self(Mutex::new((file, round * STAMPS_PER_ROUND)))
    }
}

impl Journal for Lines {
    fn note(&self, client: u32, op: u64, note: Note) {
        let mut lines = lock(&self.0);
        let (file, next) = &mut *lines;
        let event = Event { at: *next, client, op, note };
        let mut line = serde_json::to_vec(&event).expect("an event is JSON");
        line.push(b'\n');
        // Unbuffered: the operating system keeps the line after the process has died.
        file.write_all(&line).expect("the journal takes it");
        *next += 1;
    }
}

/// Reads the events of a file. An incomplete last line is dropped: its call was never made, or never answered.
pub(crate) fn read(path: &Path) -> Vec<Event> {
    let Ok(text) = std::fs::read_to_string(path) else { return Vec::new() };
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let lines = text[..whole].lines();
    lines.map(|line| serde_json::from_str(line).expect("a whole line is an event")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_kit::history::Call;

    #[test]
    fn a_cut_last_line_is_dropped_and_rounds_are_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let paths = [dir.path().join("0"), dir.path().join("1")];
        for (round, path) in paths.iter().enumerate() {
            let journal = Lines::create(path, round as u64);
            for op in 0..3 {
                journal.note(1, op, Note::Invoked(Call::Claim("c".into())));
            }
        }
        let bytes = std::fs::read(&paths[0]).unwrap();
        std::fs::write(&paths[0], &bytes[..bytes.len() - 1]).unwrap();
        let (first, second) = (read(&paths[0]), read(&paths[1]));
        assert_eq!((first.len(), second.len()), (2, 3));
        assert!(first[1].at < second[0].at);
        assert!(read(&dir.path().join("none")).is_empty());
    }
}
