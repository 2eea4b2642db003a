//! Leases in few rows: those given in one transaction are written together, and removed together once
//! the last of them has ended.
//!
//! So a row may list leases that are over. Which ones, the jobs tell: see [`is_held`].

use super::load::Loaded;
use super::pack::{Pack, Unpack};
use super::{Running, failed};
use rusqlite::{Connection, params};
use std::collections::HashMap;
use windlass_core::engine::{Lease, SessionId};
use windlass_core::model::State;
use windlass_core::{JobId, Result, Timestamp};
use windlass_executor::{Entry, Leased};

/// Leases in a row: bounds what a single long run keeps.
const ROW_MAX: usize = 64;

/// Which rows hold leases.
#[derive(Default)]
pub(super) struct Leases {
    /// Given in this transaction.
    fresh: Vec<JobId>,
    /// How many leases of each row are still held.
    held: HashMap<i64, u32>,
    /// Rows none of whose leases is held any more.
    over: Vec<i64>,
    /// The number of the latest row.
    last: i64,
}

/// A lease as it is written.
#[derive(Clone)]
pub(super) struct Stored {
    pub(super) id: JobId,
    pub(super) attempt: u32,
    pub(super) leased: Leased,
    pub(super) row: i64,
    /// The highest order of entry among the jobs of its row when the row was written: whatever happens to one of
    /// them afterwards gets a higher one.
    pub(super) seq: u64,
}

impl Leases {
    /// A lease was given; it gets its row when the transaction commits.
    pub(super) fn give(&mut self, id: JobId) {
        self.fresh.push(id);
    }

    /// A lease of this row ended, or was found to have ended.
    pub(super) fn end(&mut self, row: Option<i64>) {
        let Some(row) = row else { return };
        if let Some(held) = self.held.get_mut(&row) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(&row);
                self.over.push(row);
            }
        }
    }

    /// Writes down what happened in this transaction.
    pub(super) fn flush(
        &mut self,
        conn: &Connection,
        running: &mut HashMap<JobId, Running>,
    ) -> Result<()> {
        for ids in std::mem::take(&mut self.fresh).chunks(ROW_MAX) {
            let number = self.last + 1;
            let (mut pack, mut count, mut seq) = (Pack::default(), 0, 0);
            let mut before: Option<Leased> = None;
            for id in ids {
                // It may have ended already, or been given and written twice.
                let Some(Running { loaded, .. }) = running.get_mut(id) else { continue };
                let Some(leased) = &loaded.entry.leased else { continue };
                if loaded.lease_row.is_none() {
                    put(&mut pack, &loaded.entry, leased, before.as_ref());
                    before = Some(leased.clone());
                    loaded.lease_row = Some(number);
                    seq = seq.max(loaded.entry.seq);
                    count += 1;
                }
            }
            if count > 0 {
                let sql = "INSERT INTO lease (number, jobs, seq) VALUES (?1, ?2, ?3)";
                let row = params![number, pack.into_bytes(), seq.cast_signed()];
                let act = || conn.prepare_cached(sql)?.execute(row);
                act().map_err(|error| failed(&error))?;
                self.last = number;
                self.held.insert(number, count);
            }
        }
        for row in self.over.drain(..) {
            let act = || conn.prepare_cached("DELETE FROM lease WHERE number = ?1")?.execute([row]);
            act().map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    /// The leases that are written, whether held or not, in the order they were given.
    pub(super) fn read(&mut self, conn: &Connection) -> Result<Vec<Stored>> {
        *self = Self::default();
        let sql = "SELECT number, jobs, seq FROM lease ORDER BY number";
        let mut statement = conn.prepare(sql).map_err(|error| failed(&error))?;
        let mut rows = statement.query([]).map_err(|error| failed(&error))?;
        let mut stored = Vec::new();
        while let Some(row) = rows.next().map_err(|error| failed(&error))? {
            let number: i64 = super::load::get(row, 0)?;
            let bytes: Vec<u8> = super::load::get(row, 1)?;
            let seq: i64 = super::load::get(row, 2)?;
            let before = stored.len();
            unpack(&bytes, (number, seq.cast_unsigned()), &mut stored)?;
            self.held.insert(number, (stored.len() - before) as u32);
            self.last = number;
        }
        Ok(stored)
    }
}

/// One lease; what it shares with the one before it is not written again.
fn put(pack: &mut Pack, entry: &Entry, leased: &Leased, before: Option<&Leased>) {
    let shares = before.is_some_and(|before| {
        let of = |leased: &Leased| (leased.claim_no, leased.started_at);
        of(before) == of(leased) && before.session == leased.session
    });
    pack.u8(shares.into());
    if !shares {
        pack.token(leased.session.as_str());
        pack.text(&leased.worker);
        pack.int(leased.claim_no.cast_signed());
        pack.int(leased.started_at.as_millis());
    }
    pack.id(entry.id());
    pack.int(entry.job.header.counters.attempt.into());
    pack.token(leased.lease.as_str());
}

fn unpack(bytes: &[u8], (row, seq): (i64, u64), stored: &mut Vec<Stored>) -> Result<()> {
    let mut list = Unpack(bytes);
    while !list.is_empty() {
        let shares = list.u8()? != 0;
        let before = stored.last().filter(|_| shares).map(|before: &Stored| before.leased.clone());
        let mut leased = match before {
            Some(leased) => leased,
            None => Leased {
                lease: Lease::from(String::new()),
                session: SessionId::from(list.token()?),
                worker: list.text()?,
                claim_no: list.int()?.cast_unsigned(),
                started_at: Timestamp::from_millis(list.int()?),
            },
        };
        let (id, attempt) = (list.id()?, list.int()? as u32);
        leased.lease = Lease::from(list.token()?);
        stored.push(Stored { id, attempt, leased, row, seq });
    }
    Ok(())
}

/// Whether a written lease is held: since it was given, nothing was written about its job but updates from the same
/// attempt. The order of entry tells a later job with the same id, whose attempts start at zero again, and the end of
/// the attempt; the attempt alone tells its end in rows of format 1, whose order of entry is only an upper bound.
pub(super) fn is_held(stored: &Stored, loaded: &Loaded) -> bool {
    let Entry { job, seq, .. } = &*loaded.entry;
    let written = job.header.counters.attempt;
    let same_attempt = written == stored.attempt && job.state == State::Running;
    *seq <= stored.seq && (written < stored.attempt || same_attempt)
}
