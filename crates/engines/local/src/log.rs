//! SQLite's write-ahead log: syncing it, and allocating its space in advance.
//!
//! Syncing a file that has grown also writes its metadata (length and block map), which doubles the cost. So once a
//! store is in use, its log is filled with zeros up to the length that it reaches between checkpoints, and commits
//! only overwrite it. SQLite reads zeros at the start of the log as an empty log, and zeros after a commit as the
//! end of the log.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Arc;

/// Bytes per write. Larger writes are not faster.
const CHUNK_BYTES: usize = 64 * 1024;
/// Length of a filled log: the 4,000 pages between checkpoints (`wal_autocheckpoint`), each with a header of 24
/// bytes, and room for the transaction that exceeds this number, rounded to chunks.
const FILLED_BYTES: u64 = 260 * CHUNK_BYTES as u64;

/// A handle to the log file, which exists as long as the SQLite connection. SQLite holds no `fcntl` locks on the
/// log, so closing this handle releases none.
#[derive(Clone)]
pub(crate) struct Log(Arc<File>);

impl Log {
    /// Opens the log of an open database.
    pub(crate) fn of_database(database: &Path) -> io::Result<Self> {
        let mut path = database.as_os_str().to_owned();
        path.push("-wal");
        Self::of_file(path)
    }

    pub(crate) fn of_file(path: impl AsRef<Path>) -> io::Result<Self> {
        File::options().read(true).write(true).open(path).map(|file| Self(Arc::new(file)))
    }

    /// Current length in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.metadata().map_or(0, |log| log.len())
    }

    /// Number of bytes that [`Log::fill`] would add.
    pub(crate) fn missing(&self) -> u64 {
        FILLED_BYTES.saturating_sub(self.bytes())
    }

    /// Waits until everything written to the log is on the disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    /// Appends zeros up to the full length and syncs; on an error, restores the length from before. The caller must
    /// hold SQLite's write lock, so that no commit is appended at the same time.
    pub(crate) fn fill(&self) -> io::Result<()> {
        let end = self.0.metadata()?.len();
        let filled = self.write_zeros(end).and_then(|()| self.sync());
        if filled.is_err() {
            self.0.set_len(end)?;
        }
        filled
    }

    fn write_zeros(&self, from: u64) -> io::Result<()> {
        let (mut file, zeros) = (&*self.0, [0; CHUNK_BYTES]);
        let mut at = file.seek(SeekFrom::Start(from))?;
        while at < FILLED_BYTES {
            let length = zeros.len().min((FILLED_BYTES - at) as usize);
            file.write_all(&zeros[..length])?;
            at += length as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_filled_behind_its_end_and_only_once() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"commits").unwrap();
        let log = Log::of_file(file.path()).unwrap();
        assert_eq!(log.missing(), FILLED_BYTES - 7);
        for _ in 0..2 {
            log.fill().unwrap();
            assert_eq!((log.missing(), log.bytes()), (0, FILLED_BYTES));
        }
        let bytes = std::fs::read(file.path()).unwrap();
        assert!(bytes.starts_with(b"commits") && bytes[7..].iter().all(|byte| *byte == 0));
        // A longer log is left unchanged.
        file.as_file().set_len(FILLED_BYTES + 1).unwrap();
        log.fill().unwrap();
        assert_eq!((log.missing(), log.bytes()), (0, FILLED_BYTES + 1));
    }
}
