//! Leases, packed into few rows: leases granted in one transaction share a row, which is deleted once the last of
//! them has ended.
//!
//! A row may therefore list leases that have ended; [`is_held`] decides by the rows of the job.

use super::load::Loaded;
use super::pack::{Pack, Unpack};
use super::{Running, failed};
use rusqlite::{Connection, params};
use std::collections::HashMap;
use windlass_core::engine::{Lease, SessionId};
use windlass_core::model::State;
use windlass_core::{JobId, Result, Timestamp};
use windlass_executor::{Entry, Leased};

/// Maximum number of leases in a row. Bounds the ended leases that one long-running job keeps stored.
const ROW_MAX: usize = 64;

/// The rows of `lease`, and the number of held leases in each.
#[derive(Default)]
pub(super) struct Leases {
    /// Jobs leased in this transaction.
    fresh: Vec<JobId>,
    /// Number of leases in each row that are still held.
    held: HashMap<i64, u32>,
    /// Rows whose leases have all ended.
    over: Vec<i64>,
    /// Number of the latest row.
    last: i64,
}

/// A lease as stored.
#[derive(Clone)]
pub(super) struct Stored {
    pub(super) id: JobId,
    pub(super) attempt: u32,
    pub(super) leased: Leased,
    pub(super) row: i64,
    /// Highest sequence number among the jobs of the row when it was written. Any later change of one of these
    /// jobs, other than updates from the same attempt, assigns a higher one.
    pub(super) seq: u64,
}

impl Leases {
    /// Adds a new lease, which is assigned to a row when the transaction commits.
    pub(super) fn give(&mut self, id: JobId) {
        self.fresh.push(id);
    }

    /// Counts a lease of this row as ended.
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

    /// Writes the changes of this transaction.
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
                // The lease may have ended in this transaction, or have a row already.
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

    /// Returns all stored leases in the order in which they were granted, held or not.
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

/// Encodes one lease, without the fields that equal those of the lease before it.
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

/// Whether a stored lease is still held, i.e. nothing was written about its job since the claim, other than updates
/// from the same attempt.
///
/// A higher sequence number means that the attempt has ended, or that the job is a later one with the same id,
/// whose attempts start at zero again. The attempt number is compared too, because the sequence number of a row is
/// only an upper bound for most of its jobs.
pub(super) fn is_held(stored: &Stored, loaded: &Loaded) -> bool {
    let Entry { job, seq, .. } = &*loaded.entry;
    let written = job.header.counters.attempt;
    let same_attempt = written == stored.attempt && job.state == State::Running;
    *seq <= stored.seq && (written < stored.attempt || same_attempt)
}
