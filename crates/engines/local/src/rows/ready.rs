//! Ready jobs, packed into runs: one row holds up to [`RUN_MAX`] consecutive jobs of a lane, so that enqueuing and
//! claiming a batch writes a few rows instead of one per job.
//!
//! Jobs that became ready in the current transaction, and the position up to which each lane was claimed, are kept
//! in memory until the commit. A job that becomes ready and is claimed within one transaction is never written
//! here.

use super::codec::corrupt;
use super::failed;
use super::pack::{Pack, Unpack};
use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use windlass_core::{JobId, Result};
use windlass_executor::Head;

/// Maximum number of jobs in a run. A row of this size still fits into its page without an overflow page.
const RUN_MAX: usize = 44;

/// Bytes per job in a run: its id, its sequence number relative to the run's, and whether it is suspect.
pub(super) const SLOT_BYTES: usize = 16 + 4 + 1;

/// Position of a job in its lane: rank and sequence number.
pub(super) type Place = (i64, u64);

/// The ready jobs of all lanes.
#[derive(Default)]
pub(super) struct Ready {
    /// Jobs that became ready in this transaction, by lane and position.
    fresh: BTreeMap<(i64, Place), Head>,
    /// Position up to which the stored jobs of each lane were claimed in this transaction. Claims take jobs from
    /// the front and skip none, so one position per lane is enough. A claim from a priority on removes its jobs one by
    /// one instead.
    claimed: HashMap<i64, Place>,
    /// The next stored jobs of each lane, read ahead for the claims of this transaction.
    next: RefCell<HashMap<i64, Next>>,
}

/// Stored jobs of a lane that were read ahead.
#[derive(Default)]
struct Next {
    heads: VecDeque<Head>,
    /// Whether `heads` includes the last stored job of the lane.
    all: bool,
}

impl Ready {
    pub(super) fn clear(&mut self) {
        self.fresh.clear();
        self.claimed.clear();
        self.next.get_mut().clear();
    }

    /// Adds a job. Its sequence number is above those of all other jobs of its rank.
    pub(super) fn add(&mut self, lane: i64, head: Head) {
        self.fresh.insert((lane, (head.rank, head.seq)), head);
    }

    /// Removes a job of a lane for a claim: mostly the first one.
    pub(super) fn claim(&mut self, conn: &Connection, lane: i64, place: Place) -> Result<()> {
        if self.fresh.remove(&(lane, place)).is_some() {
            return Ok(());
        }
        if self.first(conn, lane)? != Some(place) {
            return self.take_out(conn, lane, place);
        }
        self.claimed.insert(lane, place);
        if let Some(next) = self.next.get_mut().get_mut(&lane) {
            next.heads.pop_front();
        }
        Ok(())
    }

    /// The position of the first stored job of a lane.
    fn first(&self, conn: &Connection, lane: i64) -> Result<Option<Place>> {
        let place = |head: &Head| (head.rank, head.seq);
        if let Some(head) = self.next.borrow().get(&lane).and_then(|next| next.heads.front()) {
            return Ok(Some(place(head)));
        }
        Ok(self.read_ahead(conn, lane, 1)?.first().map(place))
    }

    /// Removes any job of a lane.
    pub(super) fn remove(&mut self, conn: &Connection, lane: i64, place: Place) -> Result<()> {
        if self.fresh.remove(&(lane, place)).is_some() {
            return Ok(());
        }
        self.take_out(conn, lane, place)
    }

    /// Removes a stored job from its run.
    fn take_out(&self, conn: &Connection, lane: i64, place: Place) -> Result<()> {
        self.next.borrow_mut().remove(&lane);
        let run = run_around(conn, lane, place)?;
        let index = |run: &Run| run.jobs.iter().position(|head| (head.rank, head.seq) == place);
        let Some((mut run, index)) = run.and_then(|run| index(&run).map(|index| (run, index)))
        else {
            return Err(corrupt(&format_args!("no ready job at {place:?} of lane {lane}")));
        };
        run.jobs.remove(index);
        run.save(conn)
    }

    /// Returns the first `limit` jobs of a lane after a position.
    pub(super) fn heads(
        &self,
        conn: &Connection,
        lane: i64,
        after: Option<Place>,
        limit: usize,
    ) -> Result<Vec<Head>> {
        let mut heads = match after {
            None => self.read_ahead(conn, lane, limit)?,
            Some(_) => self.stored(conn, lane, after, limit)?,
        };
        let fresh = self.fresh.range((lane, after.unwrap_or(FIRST))..(lane + 1, FIRST));
        let fresh = fresh.filter(|((_, place), _)| after.is_none_or(|after| *place > after));
        let stored = heads.len();
        heads.extend(fresh.take(limit).map(|(_, head)| *head));
        if stored > 0 && heads.len() > stored {
            heads.sort_unstable();
        }
        heads.truncate(limit);
        Ok(heads)
    }

    /// Returns the first stored jobs of a lane. A transaction may contain many small claims, and one run is enough
    /// for dozens of them.
    fn read_ahead(&self, conn: &Connection, lane: i64, limit: usize) -> Result<Vec<Head>> {
        let mut ahead = self.next.borrow_mut();
        let next = ahead.entry(lane).or_default();
        if next.heads.len() < limit && !next.all {
            let wanted = limit.max(RUN_MAX);
            next.heads = self.stored(conn, lane, None, wanted)?.into();
            next.all = next.heads.len() < wanted;
        }
        Ok(next.heads.iter().take(limit).copied().collect())
    }

    /// Returns the highest rank among the jobs of a lane.
    pub(super) fn last_rank(&self, conn: &Connection, lane: i64) -> Result<Option<i64>> {
        let fresh = self.fresh.range((lane, FIRST)..(lane + 1, FIRST)).next_back();
        let sql = "SELECT rank, seq, jobs FROM ready WHERE lane = ?1
            ORDER BY rank DESC, seq DESC LIMIT 1";
        let mut statement = conn.prepare_cached(sql).map_err(|error| failed(&error))?;
        let last = statement
            .query_row([lane], |row| Ok(Run::read(lane, row)))
            .optional()
            .map_err(|error| failed(&error))?;
        let last = last.transpose()?.and_then(|run| run.jobs.last().copied());
        let claimed = self.claimed.get(&lane).copied();
        let stored = last.filter(|last| claimed.is_none_or(|upto| (last.rank, last.seq) > upto));
        Ok(stored.map(|head| head.rank).max(fresh.map(|((_, (rank, _)), _)| *rank)))
    }

    fn stored(
        &self,
        conn: &Connection,
        lane: i64,
        after: Option<Place>,
        limit: usize,
    ) -> Result<Vec<Head>> {
        let after = after.max(self.claimed.get(&lane).copied());
        let mut heads = Vec::new();
        if let Some(place) = after
            && let Some(run) = run_around(conn, lane, place)?
        {
            heads.extend(run.jobs.into_iter().filter(|head| (head.rank, head.seq) > place));
        }
        let (rank, seq) = after.unwrap_or(FIRST);
        let sql = "SELECT rank, seq, jobs FROM ready WHERE lane = ?1 AND (rank, seq) > (?2, ?3)
            ORDER BY rank, seq";
        let mut statement = conn.prepare_cached(sql).map_err(|error| failed(&error))?;
        let mut rows =
            statement.query(params![lane, rank, signed(seq)]).map_err(|error| failed(&error))?;
        while heads.len() < limit
            && let Some(row) = rows.next().map_err(|error| failed(&error))?
        {
            heads.extend(Run::read(lane, row)?.jobs);
        }
        Ok(heads)
    }

    /// Writes the changes of this transaction.
    pub(super) fn flush(&mut self, conn: &Connection) -> Result<()> {
        self.next.get_mut().clear();
        for (lane, place) in self.claimed.drain() {
            let rest = run_around(conn, lane, place)?;
            let sql = "DELETE FROM ready WHERE lane = ?1 AND (rank, seq) <= (?2, ?3)";
            run(conn, sql, params![lane, place.0, signed(place.1)])?;
            if let Some(mut rest) = rest {
                rest.jobs.retain(|head| (head.rank, head.seq) > place);
                Run::insert(conn, lane, &rest.jobs)?;
            }
        }
        let mut run: Vec<Head> = Vec::new();
        let mut run_lane = 0;
        for ((lane, _), head) in std::mem::take(&mut self.fresh) {
            let fits = run.len() < RUN_MAX
                && run_lane == lane
                && run.first().is_some_and(|first| {
                    first.rank == head.rank && head.seq - first.seq <= u32::MAX.into()
                });
            if !fits {
                Run::insert(conn, run_lane, &run)?;
                run.clear();
            }
            run_lane = lane;
            run.push(head);
        }
        Run::insert(conn, run_lane, &run)
    }
}

/// The lowest position.
const FIRST: Place = (i64::MIN, 0);

/// One row of `ready`.
struct Run {
    lane: i64,
    /// Key of the row: the position of its first job at the time of writing.
    place: Place,
    jobs: Vec<Head>,
}

impl Run {
    fn read(lane: i64, row: &Row<'_>) -> Result<Self> {
        let read = || -> rusqlite::Result<(i64, i64, Vec<u8>)> {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        };
        let (rank, seq, bytes) = read().map_err(|error| failed(&error))?;
        let place = (rank, seq.cast_unsigned());
        let mut list = Unpack(&bytes);
        let mut jobs = Vec::with_capacity(bytes.len() / SLOT_BYTES);
        while !list.is_empty() {
            let (id, seq) = (list.id()?, place.1 + u64::from(list.u32()?));
            jobs.push(Head { rank, seq, id, suspect: list.u8()? != 0 });
        }
        Ok(Self { lane, place, jobs })
    }

    fn pack(first: u64, jobs: &[Head]) -> Result<Vec<u8>> {
        let mut pack = Pack::default();
        for head in jobs {
            pack.id(head.id);
            let after = head.seq.checked_sub(first).and_then(|after| u32::try_from(after).ok());
            pack.u32(after.ok_or_else(|| corrupt(&"a job before the run it is in"))?);
            pack.u8(head.suspect.into());
        }
        Ok(pack.into_bytes())
    }

    fn insert(conn: &Connection, lane: i64, jobs: &[Head]) -> Result<()> {
        let Some(first) = jobs.first() else { return Ok(()) };
        let sql = "INSERT INTO ready (lane, rank, seq, jobs) VALUES (?1, ?2, ?3, ?4)";
        let bytes = Self::pack(first.seq, jobs)?;
        run(conn, sql, params![lane, first.rank, signed(first.seq), bytes])
    }

    /// Updates the row to its remaining jobs; deletes it if none remain.
    fn save(&self, conn: &Connection) -> Result<()> {
        let (rank, seq) = (self.place.0, signed(self.place.1));
        if self.jobs.is_empty() {
            let sql = "DELETE FROM ready WHERE lane = ?1 AND rank = ?2 AND seq = ?3";
            return run(conn, sql, params![self.lane, rank, seq]);
        }
        let sql = "UPDATE ready SET jobs = ?4 WHERE lane = ?1 AND rank = ?2 AND seq = ?3";
        run(conn, sql, params![self.lane, rank, seq, Self::pack(self.place.1, &self.jobs)?])
    }
}

/// Returns the stored run whose range includes a position.
fn run_around(conn: &Connection, lane: i64, (rank, seq): Place) -> Result<Option<Run>> {
    let sql = "SELECT rank, seq, jobs FROM ready WHERE lane = ?1 AND rank = ?2 AND seq <= ?3
        ORDER BY seq DESC LIMIT 1";
    let mut statement = conn.prepare_cached(sql).map_err(|error| failed(&error))?;
    let found = statement
        .query_row(params![lane, rank, signed(seq)], |row| Ok(Run::read(lane, row)))
        .optional()
        .map_err(|error| failed(&error))?;
    found.transpose()
}

/// Returns all stored jobs of a lane.
pub(super) fn all(conn: &Connection, lane: i64) -> Result<Vec<Head>> {
    Ready::default().stored(conn, lane, None, usize::MAX)
}

/// Returns the ids of the first stored jobs of a lane.
pub(super) fn first(conn: &Connection, lane: i64, limit: usize) -> Result<Vec<JobId>> {
    let heads = Ready::default().stored(conn, lane, None, limit)?;
    Ok(heads.into_iter().map(|head| head.id).collect())
}

fn run(conn: &Connection, sql: &str, params: impl Params) -> Result<()> {
    let act = || conn.prepare_cached(sql)?.execute(params);
    act().map(|_| ()).map_err(|error| failed(&error))
}

const fn signed(seq: u64) -> i64 {
    seq.cast_signed()
}
