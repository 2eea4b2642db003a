//! The rows in SQLite: what the executor needs, as statements on narrow tables.
//!
//! Running jobs are also held in memory: they are few, every report asks for one, and after a restart
//! they are read back from their leases. Lanes and their counts are in memory too. If a transaction is
//! rolled back, all of that is read anew.

mod check;
mod codec;
mod contract;
mod key;
mod lanes;
mod load;
mod records;
mod save;

pub(crate) use load::failed;

use lanes::Lanes;
use load::Loaded;
use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};
use save::{Before, Saver};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use windlass_core::engine::SessionId;
use windlass_core::model::{KindSettings, Name, PartName, Parts, QueueSettings, State};
use windlass_core::{Error, JobId, Result};
use windlass_executor::{Entry, LaneKey, SessionEntry};

/// Bytes of parts up to which a running job keeps them in memory.
const HELD_BYTES_MAX: usize = 16 * 1024;

/// A job that runs, in memory.
struct Running {
    loaded: Loaded,
    /// Whether its parts were left behind because they are large.
    light: bool,
}

/// The rows of one directory.
pub(crate) struct SqliteRows {
    pub(crate) conn: Connection,
    lanes: Lanes,
    running: HashMap<JobId, Running>,
    held: HashMap<SessionId, BTreeSet<JobId>>,
    /// Queues that limit how long jobs wait.
    aging: BTreeSet<Name>,
    /// The job that was taken and not yet put back.
    taken: Option<(JobId, Before)>,
    /// Jobs that a look at the heads of a lane brought along, until they are taken.
    ahead: RefCell<HashMap<JobId, Loaded>>,
    /// Lanes whose heads were claimed, up to where; see [`Self::settle_heads`].
    claimed: RefCell<HashMap<i64, (i64, u64)>>,
    /// The first thing that went wrong in this transaction.
    failure: RefCell<Option<Error>>,
}

impl SqliteRows {
    /// The rows behind a connection whose tables exist.
    pub(crate) fn open(conn: Connection) -> Result<Self> {
        let lanes = Lanes::read(&conn)?;
        let mut rows = Self {
            conn,
            lanes,
            running: HashMap::new(),
            held: HashMap::new(),
            aging: BTreeSet::new(),
            taken: None,
            ahead: RefCell::default(),
            claimed: RefCell::default(),
            failure: RefCell::default(),
        };
        rows.reload()?;
        Ok(rows)
    }

    /// Reads anew what is held in memory: after opening, and after a rollback.
    pub(crate) fn reload(&mut self) -> Result<()> {
        self.failure.take();
        self.ahead.take();
        self.claimed.take();
        self.taken = None;
        self.lanes = Lanes::read(&self.conn)?;
        self.running.clear();
        self.held.clear();
        for loaded in load::leases(&self.conn, &self.lanes)? {
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

    /// Removes the heads that were claimed from their lanes.
    ///
    /// A claim takes a lane's jobs from its head and skips none, so that one statement removes them
    /// all. It must come before anything else enters or looks at the lane, and before the commit.
    pub(crate) fn settle_heads(&self) -> Result<()> {
        if self.claimed.borrow().is_empty() {
            return Ok(());
        }
        for (lane, (rank, seq)) in self.claimed.take() {
            let sql = "DELETE FROM ready WHERE lane = ?1 AND (rank, seq) <= (?2, ?3)";
            self.run(sql, params![lane, rank, seq.cast_signed()])?;
        }
        Ok(())
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
        if let Err(error @ (Error::Unavailable { .. } | Error::Corrupt { .. })) = &answer {
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

    fn parts_of(&self, id: JobId) -> Result<Parts> {
        let stored = self.noted(load::by_id(&self.conn, &self.lanes, id))?;
        Ok(stored.map(|loaded| loaded.entry.job.parts).unwrap_or_default())
    }

    fn saver<'a>(&'a self, entry: &'a Entry, lane: i64) -> Saver<'a> {
        let queue_ages = self.aging.contains(&entry.job.header.queue);
        Saver { conn: &self.conn, entry, lane, queue_ages }
    }

    /// Writes a job that was taken, or a new one.
    fn write(&mut self, entry: Box<Entry>) -> Result<()> {
        let (id, header) = (entry.id(), &entry.job.header);
        let key: LaneKey = (header.queue.clone(), header.kind.clone());
        let lane = self.lanes.number(&self.conn, &key.0, &key.1)?;
        let before = self.taken.take().filter(|(taken, _)| *taken == id).map(|(_, before)| before);
        let claims = before.as_ref().is_some_and(|before| {
            before.place.state == State::Available && entry.job.state == State::Running
        });
        if let Some(before) = before.as_ref().filter(|_| claims) {
            let head = (before.place.rank, before.place.seq);
            self.claimed.borrow_mut().insert(lane, head);
        } else {
            self.settle_heads()?;
        }
        let saver = self.saver(&entry, lane);
        let (n, lived, side_parts) = match &before {
            None => saver.insert()?,
            Some(before) => {
                let (lived, side_parts) = saver.update(before)?;
                (before.n, lived, side_parts)
            }
        };
        if let Some(before) = &before {
            self.lanes.count(&key, before.place.state, false)?;
        }
        self.lanes.count(&key, entry.job.state, true)?;
        if entry.job.state == State::Running {
            self.hold(Loaded { entry, n, lived, side_parts });
        }
        Ok(())
    }
}
