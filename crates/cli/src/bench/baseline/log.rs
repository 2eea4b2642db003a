//! The upper bound for any engine: an append-only log, with everything else in memory.
//!
//! One frame per commit: length, CRC-32, records. Space is allocated ahead, so that a sync rarely has to update
//! the file size as well.

use super::{LEASE_MS, Op, Store, Taken, now_ms};
use anyhow::{Context as _, Result, bail};
use std::collections::{BTreeSet, HashMap};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Space allocated ahead, in bytes.
const AHEAD_BYTES: u64 = 64 << 20;
/// Size of a frame's header: length and checksum.
const FRAME_HEAD_BYTES: usize = 8;

const ENQUEUED: u8 = 1;
const CLAIMED: u8 = 2;
const COMPLETED: u8 = 3;

/// A job in the index.
struct Entry {
    priority: i16,
    run_at: i64,
    running: bool,
    payload: Box<[u8]>,
}

/// The log and its in-memory index.
pub(in crate::bench) struct Log {
    file: File,
    jobs: HashMap<u128, Entry>,
    /// Ready jobs, in the order in which they are claimed.
    ready: BTreeSet<(i16, i64, u128)>,
    /// Number of the next job, and the low half of its id.
    next: u64,
    /// The frame under construction; reused to avoid allocations.
    frame: Vec<u8>,
    length: u64,
    allocated: u64,
}

impl Log {
    /// Creates a log in `dir`.
    pub(in crate::bench) fn create(dir: &Path) -> Result<Self> {
        let file = OpenOptions::new()
            .create_new(true)
            .read(true)
            .write(true)
            .open(dir.join("log"))
            .with_context(|| format!("cannot create a log in {}", dir.display()))?;
        Ok(Self {
            file,
            jobs: HashMap::new(),
            ready: BTreeSet::new(),
            next: 0,
            frame: Vec::new(),
            length: 0,
            allocated: 0,
        })
    }

    fn enqueue(&mut self, payload: &[u8], now: i64) {
        // A timestamp prefix and an increasing number, like real job ids.
        let id = u128::from(now.cast_unsigned()) << 80 | u128::from(self.next);
        self.next += 1;
        let entry = Entry { priority: 0, run_at: now, running: false, payload: payload.into() };
        self.frame.push(ENQUEUED);
        self.frame.extend_from_slice(&id.to_le_bytes());
        self.frame.extend_from_slice(&entry.priority.to_le_bytes());
        self.frame.extend_from_slice(&entry.run_at.to_le_bytes());
        self.frame.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        self.frame.extend_from_slice(payload);
        self.ready.insert((entry.priority, entry.run_at, id));
        self.jobs.insert(id, entry);
    }

    fn take(&mut self, now: i64) -> Option<Taken> {
        let (_, _, id) = self.ready.pop_first()?;
        let entry = self.jobs.get_mut(&id)?;
        entry.running = true;
        self.frame.push(CLAIMED);
        self.frame.extend_from_slice(&id.to_le_bytes());
        self.frame.extend_from_slice(&(now + LEASE_MS).to_le_bytes());
        Some(Taken { id, payload: entry.payload.to_vec() })
    }

    fn complete(&mut self, id: u128, now: i64) -> Result<()> {
        match self.jobs.get_mut(&id) {
            Some(entry) if entry.running => {
                entry.running = false;
                entry.payload = Box::default();
            }
            _ => bail!("job {id:032x} is not running"),
        }
        self.frame.push(COMPLETED);
        self.frame.extend_from_slice(&id.to_le_bytes());
        self.frame.extend_from_slice(&now.to_le_bytes());
        Ok(())
    }

    /// Completes the frame and appends it.
    fn append(&mut self, durable: bool) -> Result<()> {
        let records = &self.frame[FRAME_HEAD_BYTES..];
        if records.is_empty() {
            return Ok(());
        }
        let (length, checksum) = (records.len() as u32, crc32fast::hash(records));
        self.frame[..4].copy_from_slice(&length.to_le_bytes());
        self.frame[4..FRAME_HEAD_BYTES].copy_from_slice(&checksum.to_le_bytes());
        let end = self.length + self.frame.len() as u64;
        if end > self.allocated {
            self.allocated = end + AHEAD_BYTES;
            let mode = rustix::fs::FallocateFlags::empty();
            rustix::fs::fallocate(&self.file, mode, self.length, self.allocated - self.length)
                .context("cannot allocate space for the log")?;
            self.file.sync_all()?;
        }
        self.file.write_all_at(&self.frame, self.length)?;
        self.length = end;
        if durable {
            self.file.sync_data()?;
        }
        Ok(())
    }
}

impl Store for Log {
    fn commit(&mut self, ops: &mut [Op], durable: bool) -> Result<()> {
        let now = now_ms();
        self.frame.clear();
        self.frame.resize(FRAME_HEAD_BYTES, 0);
        for op in ops {
            match op {
                Op::Enqueue(payloads) => {
                    payloads.iter().for_each(|payload| self.enqueue(payload, now));
                }
                Op::Next { done, want, taken } => {
                    done.iter().try_for_each(|id| self.complete(*id, now))?;
                    taken.extend(std::iter::from_fn(|| self.take(now)).take(*want));
                }
            }
        }
        self.append(durable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// The last record of each job, read as after a restart.
    fn replay(bytes: &[u8]) -> HashMap<u128, u8> {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let (mut at, mut last) = (0, HashMap::new());
        while at + FRAME_HEAD_BYTES < bytes.len() && word(at) > 0 {
            let end = at + FRAME_HEAD_BYTES + word(at) as usize;
            let records = &bytes[at + FRAME_HEAD_BYTES..end];
            assert_eq!(crc32fast::hash(records), word(at + 4), "frame at {at}");
            let mut record = at + FRAME_HEAD_BYTES;
            while record < end {
                let id = u128::from_le_bytes(bytes[record + 1..record + 17].try_into().unwrap());
                last.insert(id, bytes[record]);
                record += match bytes[record] {
                    ENQUEUED => 31 + word(record + 27) as usize,
                    _ => 25,
                };
            }
            at = end;
        }
        last
    }

    #[test]
    fn acknowledged_entries_can_be_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Log::create(dir.path()).unwrap();
        assert_eq!(super::super::tests::exercise(&mut log), [0, 1]);
        drop(log);
        let last = replay(&std::fs::read(dir.path().join("log")).unwrap());
        let mut states: Vec<u8> = last.into_values().collect();
        states.sort_unstable();
        assert_eq!(states, [ENQUEUED, CLAIMED, COMPLETED]);
    }
}
