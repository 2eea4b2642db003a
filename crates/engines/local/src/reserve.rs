//! A file that reserves disk space for the time when the disk is full.
//!
//! It is released in steps, so that stored jobs can still be claimed, settled and removed, and a store can be
//! opened. It is filled again when there is space.

use crate::lock::unavailable;
use crate::private;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use windlass_core::{Error, Result};

/// Name of the reserve file in the directory.
const FILE_NAME: &str = "windlass.reserve";
/// Bytes released or allocated at a time. A step is small because other users of the disk may take the part that
/// the store does not use at once.
const STEP_BYTES: u64 = 2 * 1024 * 1024;
/// Size of the full reserve. A checkpoint may need as much space as the log has, 16 MiB (`wal_autocheckpoint`); the
/// rest is for the log of settles until then.
const RESERVE_BYTES: u64 = 10 * STEP_BYTES;
/// Bytes that must be free besides the reserve before new jobs are accepted again, so that the disk is not full
/// again at once.
const HEADROOM_BYTES: u64 = 2 * STEP_BYTES;

/// Whether a store has room for new jobs. Cheap to clone; does not keep the store open.
#[derive(Clone, Debug, Default)]
pub struct Space {
    /// Bytes that must become free before new jobs are accepted; 0 if they are accepted now.
    missing: Arc<AtomicU64>,
}

impl Space {
    /// The reason why new jobs are refused; `None` if they are accepted.
    pub fn shortage(&self) -> Option<String> {
        let missing = self.missing.load(Ordering::Acquire);
        (missing > 0).then(|| {
            let mib = missing.div_ceil(1024 * 1024);
            format!(
                "the disk is full; new jobs are accepted again when {mib} MiB are free on it, and stored \
                 ones are claimed, settled and removed meanwhile"
            )
        })
    }

    pub(crate) fn is_short(&self) -> bool {
        self.missing.load(Ordering::Acquire) > 0
    }

    /// The error for an enqueue while the disk is full.
    pub(crate) fn refusal(&self, dir: &Path) -> Error {
        let reason = self.shortage().unwrap_or_else(|| "the disk is full".to_owned());
        Error::StoreFull { store: dir.display().to_string(), reason }
    }
}

/// The reserve of one directory. New jobs are refused unless it has its full size.
pub(crate) struct Reserve {
    file: File,
    bytes: u64,
    space: Space,
}

impl Reserve {
    /// Opens the reserve with the size it was left with, or empty. [`Reserve::refill`] completes it.
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let open = || -> io::Result<(File, u64)> {
            let file = private::open_file(&dir.join(FILE_NAME))?;
            let mut bytes = file.metadata()?.len();
            if bytes > RESERVE_BYTES || !is_allocated(&file)? {
                // Written by another version, or a sparse copy, which reserves no space.
                bytes = 0;
                file.set_len(0)?;
            }
            Ok((file, bytes))
        };
        let failed = |error: io::Error| unavailable(dir, "its reserve cannot be written", &error);
        let (file, bytes) = open().map_err(failed)?;
        let reserve = Self { file, bytes, space: Space::default() };
        reserve.note(true);
        Ok(reserve)
    }

    /// A handle that reports whether new jobs are accepted.
    pub(crate) fn space(&self) -> Space {
        self.space.clone()
    }

    /// Refuses new jobs from now on.
    pub(crate) fn note_full(&self) {
        self.note(true);
    }

    /// Releases one step to the file system; returns false if the reserve is empty or cannot be shortened.
    pub(crate) fn release(&mut self) -> bool {
        let bytes = self.bytes.saturating_sub(STEP_BYTES);
        let released = self.bytes > 0 && self.file.set_len(bytes).is_ok();
        if released {
            self.bytes = bytes;
        }
        self.note(true);
        released
    }

    /// Allocates as many steps as the disk has room for, and accepts new jobs if the reserve is complete.
    pub(crate) fn refill(&mut self) {
        while self.bytes < RESERVE_BYTES && self.has_room(STEP_BYTES + HEADROOM_BYTES) {
            let step = STEP_BYTES.min(RESERVE_BYTES - self.bytes);
            if allocate(&self.file, self.bytes, step).is_err() {
                // Removes a partially allocated step: the space is needed elsewhere.
                let _ = self.file.set_len(self.bytes);
                break;
            }
            self.bytes += step;
        }
        self.note(self.bytes < RESERVE_BYTES || !self.has_room(HEADROOM_BYTES));
    }

    /// Whether new jobs could be accepted if `more` bytes became free.
    pub(crate) fn would_suffice(&self, more: u64) -> bool {
        self.has_room(self.missing().saturating_sub(more))
    }

    /// Whether `bytes` fit on the disk besides the reserve and the headroom.
    pub(crate) fn has_room_beside(&self, bytes: u64) -> bool {
        !self.space.is_short() && self.has_room(bytes + HEADROOM_BYTES)
    }

    /// Runs `act` and repeats it while it fails for lack of space and a step of the reserve can be released.
    pub(crate) fn spend<T>(&mut self, mut act: impl FnMut() -> Result<T>) -> Result<T> {
        loop {
            match act() {
                Err(Error::StoreFull { .. }) if self.release() => {}
                done => return done,
            }
        }
    }

    fn note(&self, full: bool) {
        let missing = if full { self.missing() } else { 0 };
        self.space.missing.store(missing, Ordering::Release);
    }

    /// Bytes that must be free before new jobs are accepted.
    const fn missing(&self) -> u64 {
        RESERVE_BYTES - self.bytes + HEADROOM_BYTES
    }

    fn has_room(&self, bytes: u64) -> bool {
        free_bytes(&self.file).is_none_or(|free| free >= bytes)
    }
}

/// Bytes that this user may still write to the file system; `None` if the system does not report them.
#[cfg(unix)]
fn free_bytes(file: &File) -> Option<u64> {
    let seen = rustix::fs::fstatvfs(file).ok()?;
    Some(seen.f_bavail.saturating_mul(seen.f_frsize))
}

#[cfg(not(unix))]
fn free_bytes(_: &File) -> Option<u64> {
    None
}

/// Whether all bytes of a file are allocated on the disk (no holes).
#[cfg(unix)]
fn is_allocated(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let seen = file.metadata()?;
    Ok(seen.blocks().saturating_mul(512) >= seen.len())
}

#[cfg(not(unix))]
fn is_allocated(_: &File) -> io::Result<bool> {
    Ok(true)
}

/// Extends a file by bytes that are allocated on the disk.
fn allocate(file: &File, from: u64, bytes: u64) -> io::Result<()> {
    match preallocate(file, from, bytes) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => write(file, from, bytes),
        done => done,
    }
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "macos"))]
fn preallocate(file: &File, from: u64, bytes: u64) -> io::Result<()> {
    let flags = rustix::fs::FallocateFlags::empty();
    rustix::fs::fallocate(file, flags, from, bytes).map_err(|error| match error {
        rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS | rustix::io::Errno::INVAL => {
            io::ErrorKind::Unsupported.into()
        }
        other => other.into(),
    })
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "macos")))]
fn preallocate(_: &File, _: u64, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Writes pseudo-random bytes, which no file system can compress or deduplicate.
fn write(mut file: &File, from: u64, bytes: u64) -> io::Result<()> {
    use std::io::{Seek as _, Write as _};
    file.seek(io::SeekFrom::Start(from))?;
    let (mut word, mut block) = (from | 1, [0; 64 * 1024]);
    for _ in 0..bytes.div_ceil(block.len() as u64) {
        for chunk in block.chunks_exact_mut(8) {
            // Xorshift generator.
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        file.write_all(&block)?;
    }
    file.set_len(from + bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(dir: &Path) -> u64 {
        std::fs::metadata(dir.join(FILE_NAME)).unwrap().len()
    }

    #[test]
    fn a_reserve_is_filled_given_up_in_steps_and_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut reserve = Reserve::open(dir.path()).unwrap();
        let space = reserve.space();
        assert!(space.shortage().unwrap().contains("24 MiB"), "not before it is whole");
        reserve.refill();
        assert_eq!((space.shortage(), length(dir.path())), (None, RESERVE_BYTES));
        assert!(is_allocated(&reserve.file).unwrap());
        let mut steps = 0;
        while reserve.release() {
            steps += 1;
            assert_eq!(length(dir.path()), RESERVE_BYTES - steps * STEP_BYTES);
            assert!(space.is_short());
        }
        assert_eq!(steps, RESERVE_BYTES / STEP_BYTES);
        // Opened again, the reserve has the size it was left with.
        drop(reserve);
        let mut reserve = Reserve::open(dir.path()).unwrap();
        reserve.refill();
        assert!(!reserve.space().is_short());
        drop(reserve);
        let reserve = Reserve::open(dir.path()).unwrap();
        assert_eq!(reserve.bytes, RESERVE_BYTES);
    }

    #[test]
    fn a_copy_with_holes_holds_no_space_and_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        File::create(dir.path().join(FILE_NAME)).unwrap().set_len(RESERVE_BYTES).unwrap();
        let mut reserve = Reserve::open(dir.path()).unwrap();
        assert_eq!((reserve.bytes, length(dir.path())), (0, 0));
        reserve.refill();
        assert!(is_allocated(&reserve.file).unwrap() && !reserve.space().is_short());
    }

    #[test]
    fn where_space_cannot_be_preallocated_it_is_written() {
        let file = tempfile::tempfile().unwrap();
        write(&file, 0, STEP_BYTES).unwrap();
        write(&file, STEP_BYTES, 1_000).unwrap();
        assert_eq!(file.metadata().unwrap().len(), STEP_BYTES + 1_000);
        file.sync_all().unwrap();
        assert!(is_allocated(&file).unwrap());
    }

    #[test]
    fn writes_without_space_are_repeated_until_the_reserve_is_used_up() {
        let dir = tempfile::tempdir().unwrap();
        let mut reserve = Reserve::open(dir.path()).unwrap();
        reserve.refill();
        let full = || Error::StoreFull { store: "s".into(), reason: "r".into() };
        let mut tries = 0;
        let mut act = |works_at| {
            tries += 1;
            if tries == works_at { Ok(tries) } else { Err(full()) }
        };
        assert_eq!(reserve.spend(|| act(3)), Ok(3));
        assert_eq!(reserve.bytes, RESERVE_BYTES - 2 * STEP_BYTES);
        assert_eq!(reserve.spend(|| act(0)), Err(full()));
        assert_eq!((tries, reserve.bytes), (3 + 9, 0));
    }
}
