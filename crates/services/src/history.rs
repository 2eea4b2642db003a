//! The history of removals and expiries: how many jobs of which queue, and when. For display only;
//! independent of why a job was removed.
//!
//! A row is written after the jobs are removed, because the contract has no operation that does both
//! atomically: a process killed in between leaves no row for that batch. A row that was written twice,
//! because the reply of the first write was lost, is returned once.

use crate::logs;
use crate::records::encode;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use windlass_core::engine::{Cursor, Engine, Tally};
use windlass_core::limits::{BATCH_MAX, LOG_KEEP_MAX};
use windlass_core::model::State;
use windlass_core::random::{Random, SystemRandom};
use windlass_core::{Error, Result, Timestamp};

/// The name of the log.
const LOG: &str = "history/retention";
/// Rows kept. A row is a batch of one queue and state, so this covers years for most stores.
const ROWS_KEPT: u32 = LOG_KEEP_MAX;
/// Number of writers that a reader remembers. A row is rewritten at once or never, so only recent writers
/// matter.
const WRITERS_MAX: usize = 32;

/// Number of writers that are encoded into a cursor.
const CURSOR_WRITERS_MAX: usize = 8;

/// A batch of jobs that were removed or expired.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryRow {
    /// Time of the step, by the store's clock.
    pub at: Timestamp,
    /// The queue of the jobs.
    pub queue: String,
    /// Their previous state.
    pub from: State,
    /// Their new state; `None` if they were removed.
    pub to: Option<State>,
    /// Number of jobs.
    pub count: u64,
}

/// The stored form of a row.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Stored {
    queue: String,
    from: State,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<State>,
    count: u64,
    /// The fencing token of the leader that made the change.
    term: u64,
    /// The writer (one name per process and service) and a sequence number of its rows.
    by: (String, u64),
}

/// Writes the history of one service.
#[derive(Debug)]
pub(crate) struct HistoryWriter {
    writer: String,
    number: u64,
    pending: Vec<Stored>,
}

impl HistoryWriter {
    pub(crate) fn new() -> Self {
        let writer = format!("{:016x}", SystemRandom.next_u64());
        Self { writer, number: 0, pending: Vec::new() }
    }

    /// Buffers the result of a step under `term`; [`HistoryWriter::write`] stores it.
    pub(crate) fn note(&mut self, tallies: &[Tally], term: u64) {
        for tally in tallies {
            self.number += 1;
            self.pending.push(Stored {
                queue: tally.queue.to_string(),
                from: tally.from,
                to: tally.to,
                count: tally.count,
                term,
                by: (self.writer.clone(), self.number),
            });
        }
    }

    /// Stores the buffered rows. They are kept and written again until the store has acknowledged them; every
    /// step begins with this, so the buffer never exceeds the rows of one step.
    pub(crate) async fn write(&mut self, engine: &dyn Engine) -> Result<()> {
        while !self.pending.is_empty() {
            let batch = self.pending.len().min(BATCH_MAX);
            let rows = self.pending[..batch].iter().map(encode).collect::<Result<_>>()?;
            logs::append(engine, LOG, rows, ROWS_KEPT).await?;
            self.pending.drain(..batch);
        }
        Ok(())
    }
}

/// A position in the history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryPlace {
    after: u64,
    /// The last row of each recent writer, to detect rows that were written twice.
    read: Vec<(String, u64)>,
}

impl HistoryPlace {
    /// Encodes the position as a cursor. Contains only the most recent writers.
    pub fn cursor(&self) -> Cursor {
        let mut text = self.after.to_string();
        let latest = self.read.iter().rev().take(CURSOR_WRITERS_MAX);
        for (writer, number) in latest {
            text.push_str(&format!(".{writer}.{number}"));
        }
        Cursor::new(text)
    }

    /// Decodes a position from a cursor.
    pub fn at(cursor: &Cursor) -> Result<Self> {
        let bad = || Error::invalid("after", cursor, "use the `next` of a page of this history");
        let mut parts = cursor.as_str().split('.');
        let number = |text: Option<&str>| text.and_then(|text| text.parse().ok()).ok_or_else(bad);
        let after = number(parts.next())?;
        let mut read = Vec::new();
        while let Some(writer) = parts.next() {
            read.push((writer.to_owned(), number(parts.next())?));
        }
        read.reverse();
        Ok(Self { after, read })
    }

    /// Whether this row has not been read before.
    fn is_new(&mut self, by: &(String, u64)) -> bool {
        if let Some((_, last)) = self.read.iter_mut().find(|read| read.0 == by.0) {
            return by.1 > std::mem::replace(last, by.1.max(*last));
        }
        if self.read.len() == WRITERS_MAX {
            self.read.remove(0);
        }
        self.read.push(by.clone());
        true
    }
}

/// A page of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryPage {
    /// The rows, oldest first.
    pub rows: Vec<HistoryRow>,
    /// The position of the next page; `None` means that there are no more rows for now.
    pub next: Option<HistoryPlace>,
}

/// Reads the history of removals and expiries.
///
/// ```
/// # use std::sync::Arc;
/// # use windlass_core::Timestamp;
/// # use windlass_memory::MemoryEngine;
/// use windlass_services::History;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let history = History::new(Arc::new(MemoryEngine::new()));
/// let mut place = Some(history.since(Timestamp::EPOCH).await?);
/// while let Some(after) = place {
///     let page = history.read(after, 100).await?;
///     for row in &page.rows {
///         println!("{}: {} {} jobs of {}", row.at, row.count, row.from, row.queue);
///     }
///     place = page.next;
/// }
/// # Ok::<(), windlass_core::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct History {
    engine: Arc<dyn Engine>,
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("History")
    }
}

impl History {
    /// The history of this store.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine }
    }

    /// The position of the first row written at `from` or later.
    pub async fn since(&self, from: Timestamp) -> Result<HistoryPlace> {
        let after = logs::seek(&*self.engine, LOG, ROWS_KEPT, from).await?;
        Ok(HistoryPlace { after, read: Vec::new() })
    }

    /// Returns up to `limit` rows from this position, at most [`PAGE_MAX`](windlass_core::limits::PAGE_MAX).
    pub async fn read(&self, mut place: HistoryPlace, limit: u32) -> Result<HistoryPage> {
        let entries = logs::read(&*self.engine, LOG, place.after, limit).await?;
        let more = entries.len() == limit as usize;
        let mut rows = Vec::with_capacity(entries.len());
        for entry in entries {
            place.after = entry.number;
            // Rows of a later version that cannot be parsed are skipped.
            let Ok(row) = serde_json::from_slice::<Stored>(&entry.value) else { continue };
            if place.is_new(&row.by) {
                let Stored { queue, from, to, count, .. } = row;
                rows.push(HistoryRow { at: entry.at, queue, from, to, count });
            }
        }
        Ok(HistoryPage { rows, next: more.then_some(place) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_memory::MemoryEngine;

    fn tally(count: u64) -> Tally {
        Tally { queue: "mail".into(), from: State::Completed, to: None, count }
    }

    #[tokio::test]
    async fn a_row_written_twice_is_read_once_even_across_pages() {
        let engine = Arc::new(MemoryEngine::new());
        let (mut one, mut two) = (HistoryWriter::new(), HistoryWriter::new());
        one.note(&[tally(1), tally(2)], 1);
        // Stored, but the reply was lost: the rows are still buffered.
        let rows = one.pending.iter().map(encode).collect::<Result<_>>().unwrap();
        logs::append(&*engine, LOG, rows, ROWS_KEPT).await.unwrap();
        two.note(&[tally(3)], 2);
        two.write(&*engine).await.unwrap();
        one.write(&*engine).await.unwrap();
        one.note(&[tally(4)], 3);
        one.write(&*engine).await.unwrap();

        let history = History::new(engine);
        for limit in [1, 2, 3, 100] {
            let mut place = Some(HistoryPlace::default());
            let mut counts = Vec::new();
            while let Some(after) = place {
                let page = history.read(after, limit).await.unwrap();
                counts.extend(page.rows.iter().map(|row| row.count));
                // A reader that resumes from the cursor gets the same rows.
                place = page.next.map(|place| HistoryPlace::at(&place.cursor()).unwrap());
            }
            assert_eq!(counts, [1, 2, 3, 4], "in pages of {limit}");
        }
    }
}
