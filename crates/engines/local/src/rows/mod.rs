//! The rows in SQLite: what the executor needs, as statements on narrow tables.
//!
//! Running jobs are also held in memory: they are few, every report asks for one, and after a restart
//! they are read back from their leases. Lanes and their counts are in memory too, and so is what a
//! transaction gathers to write together ([`SqliteRows::flush`]). If a transaction is rolled back, all
//! of that is read anew.

mod body;
mod check;
mod codec;
mod contract;
mod ended;
mod key;
mod lanes;
mod leases;
mod load;
mod pack;
mod reader;
mod ready;
mod records;
mod save;

pub(crate) use load::failed;
pub(crate) use reader::Reader;

use ended::Ended;
use lanes::Lanes;
use leases::Leases;
use load::Loaded;
use ready::Ready;
use rusqlite::{Connection, OptionalExtension as _, Params, Row, Statement};
use save::{Before, Saver};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use windlass_core::engine::SessionId;
use windlass_core::model::{KindSettings, Name, PartName, Parts, QueueSettings, State};
use windlass_core::{Error, JobId, Result};
use windlass_executor::{Entry, SessionEntry};

/// Bytes of parts up to which a running job keeps them in memory.
const HELD_BYTES_MAX: usize = 16 * 1024;

/// Jobs that are remembered from their enqueue until they are claimed.
const LATELY_MAX: usize = 4_096;
/// Bytes of payload up to which they are.
const LATELY_BYTES_MAX: usize = 2 * 1024;

/// A saver for one job, borrowing only the fields it needs.
macro_rules! saver {
    ($rows:ident, $entry:expr, $lane:expr) => {
        Saver {
            conn: $rows.conn,
            hot: $rows.hot.get_mut(),
            entry: $entry,
            lane: $lane,
            queue_ages: $rows.aging.contains(&$entry.job.header.queue),
            ready: &mut $rows.ready,
            ended: &mut $rows.ended,
        }
    };
}
use saver;

/// A job that runs, in memory.
struct Running {
    loaded: Loaded,
    /// Whether its parts were left behind because they are large.
    light: bool,
}

/// The rows of one directory.
pub(crate) struct SqliteRows<'c> {
    pub(crate) conn: &'c Connection,
    /// The statements that run once per job and more, kept prepared.
    hot: RefCell<Hot<'c>>,
    lanes: Lanes,
    /// The number of the lane up to which maintenance has looked for idle ones.
    lanes_looked: i64,
    running: HashMap<JobId, Running>,
    held: HashMap<SessionId, BTreeSet<JobId>>,
    /// Queues that limit how long jobs wait.
    aging: BTreeSet<Name>,
    /// The job that was taken and not yet put back.
    taken: Option<(JobId, Before)>,
    /// Jobs that were enqueued lately and wait to be claimed, as far as there is room: those need
    /// not be read again.
    lately: HashMap<JobId, Loaded>,
    ready: Ready,
    leases: Leases,
    ended: Ended,
    /// The first thing that went wrong in this transaction.
    failure: RefCell<Option<Error>>,
}

/// See [`SqliteRows::hot`].
struct Hot<'c> {
    by_id: Statement<'c>,
    insert_job: Statement<'c>,
    insert_life: Statement<'c>,
}

impl<'c> Hot<'c> {
    fn prepare(conn: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            by_id: conn.prepare(&load::query(load::BY_ID))?,
            insert_job: conn.prepare(save::INSERT_JOB)?,
            insert_life: conn.prepare(save::INSERT_LIFE)?,
        })
    }
}

impl<'c> SqliteRows<'c> {
    /// The rows behind a connection whose tables exist.
    pub(crate) fn open(conn: &'c Connection) -> Result<Self> {
        let lanes = Lanes::read(conn)?;
        let hot = Hot::prepare(conn).map_err(|error| failed(&error))?;
        let mut rows = Self {
            conn,
            hot: RefCell::new(hot),
            lanes,
            lanes_looked: 0,
            running: HashMap::new(),
            held: HashMap::new(),
            aging: BTreeSet::new(),
            taken: None,
            lately: HashMap::new(),
            ready: Ready::default(),
            leases: Leases::default(),
            ended: Ended::default(),
            failure: RefCell::default(),
        };
        rows.reload()?;
        Ok(rows)
    }

    /// Reads anew what is held in memory: after opening, and after a rollback.
    pub(crate) fn reload(&mut self) -> Result<()> {
        self.failure.take();
        self.lately.clear();
        self.ready.clear();
        self.ended.clear();
        self.taken = None;
        self.lanes = Lanes::read(self.conn)?;
        self.running.clear();
        self.held.clear();
        for loaded in self.stored_running()? {
            let header = &loaded.entry.job.header;
            let lane = self.lanes.known(&header.queue, &header.kind).unwrap_or_default();
            self.lanes.count(lane, State::Running, true)?;
            self.hold(loaded);
        }
        let limited = |(queue, settings): (Name, QueueSettings)| {
            settings.max_wait_ms.is_some().then_some(queue)
        };
        self.aging = self.queues()?.into_iter().filter_map(limited).collect();
        Ok(())
    }

    /// The first thing that went wrong since the last time somebody asked.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.failure.take()
    }

    /// Writes what the transaction gathered; before it commits, and before statements look at it.
    pub(crate) fn flush(&mut self) -> Result<()> {
        let Self { conn, running, ready, leases, ended, .. } = self;
        ready.flush(conn)?;
        ended.flush(conn)?;
        leases.flush(conn, running)
    }

    /// Settings of queues, as stored.
    pub(crate) fn queues(&self) -> Result<BTreeMap<Name, QueueSettings>> {
        self.named("SELECT name, settings FROM queue")
    }

    /// Settings of kinds, as stored.
    pub(crate) fn kinds(&self) -> Result<BTreeMap<Name, KindSettings>> {
        self.named("SELECT name, settings FROM kind")
    }

    /// Open sessions, as stored.
    pub(crate) fn sessions(&self) -> Result<BTreeMap<SessionId, SessionEntry>> {
        let stored: BTreeMap<Name, records::StoredSession> =
            self.named("SELECT id, entry FROM session")?;
        let open = stored.into_iter().map(|(id, entry)| (SessionId::new(id), entry.into()));
        Ok(open.collect())
    }

    fn named<T: for<'a> serde::Deserialize<'a> + Default>(
        &self,
        sql: &str,
    ) -> Result<BTreeMap<Name, T>> {
        let pair = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
        let rows = self.all(sql, [], pair)?;
        let read =
            |(name, text): (String, String)| Ok((name.into(), codec::from_text(Some(&text))?));
        rows.into_iter().map(read).collect()
    }

    /// Remembers what went wrong: whoever owns the transaction must roll it back.
    fn noted<T>(&self, answer: Result<T>) -> Result<T> {
        let lost = matches!(
            answer,
            Err(Error::Unavailable { .. } | Error::StoreFull { .. } | Error::Corrupt { .. })
        );
        if let (Err(error), true) = (&answer, lost) {
            self.failure.borrow_mut().get_or_insert_with(|| error.clone());
        }
        answer
    }

    fn run(&self, sql: &str, params: impl Params) -> Result<usize> {
        let act = || self.conn.prepare_cached(sql)?.execute(params);
        self.noted(act().map_err(|error| failed(&error)))
    }

    fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        let act = || self.conn.prepare_cached(sql)?.query_row(params, read).optional();
        self.noted(act().map_err(|error| failed(&error)))
    }

    fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let act = || -> rusqlite::Result<Vec<T>> {
            self.conn.prepare_cached(sql)?.query_map(params, read)?.collect()
        };
        self.noted(act().map_err(|error| failed(&error)))
    }

    /// Keeps a running job in memory.
    fn hold(&mut self, mut loaded: Loaded) {
        let (id, parts) = (loaded.entry.id(), &mut loaded.entry.job.parts);
        let size = PartName::ALL.iter().filter_map(|name| parts.get(*name));
        let light = size.map(|part| part.bytes.len()).sum::<usize>() > HELD_BYTES_MAX;
        if light {
            *parts = Parts::default();
        }
        if let Some(leased) = &loaded.entry.leased {
            self.held.entry(leased.session.clone()).or_default().insert(id);
        }
        self.running.insert(id, Running { loaded, light });
    }

    /// Takes a running job out of memory, its parts with it.
    fn unhold(&mut self, id: JobId) -> Result<Option<Loaded>> {
        let Some(mut running) = self.running.remove(&id) else { return Ok(None) };
        if let Some(leased) = &running.loaded.entry.leased
            && let Some(held) = self.held.get_mut(&leased.session)
        {
            held.remove(&id);
            if held.is_empty() {
                self.held.remove(&leased.session);
            }
        }
        if running.light {
            running.loaded.entry.job.parts = self.parts_of(id)?;
        }
        Ok(Some(running.loaded))
    }

    /// The running jobs, as the leases tell; notes which of those are over.
    fn stored_running(&mut self) -> Result<Vec<Loaded>> {
        let mut running = Vec::new();
        for lease in self.leases.read(self.conn)? {
            match self.stored(lease.id)?.filter(|loaded| leases::is_held(&lease, loaded)) {
                Some(mut loaded) => {
                    load::add_lease(lease, &mut loaded);
                    // In the order they were claimed, as it was before.
                    loaded.entry.seq = running.len() as u64;
                    running.push(loaded);
                }
                None => self.leases.end(Some(lease.row)),
            }
        }
        Ok(running)
    }

    /// A job as its rows tell it. Of a running one that is what was so when its lease was given.
    fn stored(&self, id: JobId) -> Result<Option<Loaded>> {
        load::by_id(self.conn, &mut self.hot.borrow_mut().by_id, &self.lanes, id)
    }

    fn parts_of(&self, id: JobId) -> Result<Parts> {
        let stored = self.noted(self.stored(id))?;
        Ok(stored.map(|loaded| loaded.entry.job.parts).unwrap_or_default())
    }

    /// Writes a job that was taken, or a new one.
    fn write(&mut self, entry: Box<Entry>) -> Result<()> {
        let (id, header) = (entry.id(), &entry.job.header);
        let lane = self.lanes.number(self.conn, &header.queue, &header.kind)?;
        let before = self.taken.take().filter(|(taken, _)| *taken == id).map(|(_, before)| before);
        let mut saver = saver!(self, &entry, lane);
        let (n, lived, side_parts) = match &before {
            None => saver.insert()?,
            Some(before) => {
                let (lived, side_parts) = saver.update(before)?;
                (before.n, lived, side_parts)
            }
        };
        if let Some(before) = &before {
            self.lanes.count(lane, before.place.state, false)?;
        }
        self.lanes.count(lane, entry.job.state, true)?;
        let lease_row = before.as_ref().and_then(|before| before.lease_row);
        let ran = before.as_ref().is_some_and(|before| before.place.state == State::Running);
        let loaded = Loaded { entry, n, lived, side_parts, lease_row };
        match loaded.entry.job.state {
            State::Running => {
                if !ran {
                    self.leases.give(id);
                }
                self.hold(loaded);
            }
            State::Available if before.is_none() => self.remember_lately(loaded),
            _ => self.leases.end(lease_row),
        }
        Ok(())
    }

    fn remember_lately(&mut self, loaded: Loaded) {
        let payload = loaded.entry.job.parts.payload.as_ref();
        let small = payload.is_none_or(|part| part.bytes.len() <= LATELY_BYTES_MAX);
        if small && !loaded.side_parts && self.lately.len() < LATELY_MAX {
            self.lately.insert(loaded.entry.id(), loaded);
        }
    }
}
