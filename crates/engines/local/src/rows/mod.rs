//! Rows in SQLite: the executor's storage traits as statements on narrow tables.
//!
//! Running jobs are also kept in memory: they are few, and every settle needs one. After a restart they are loaded
//! through their leases. Lanes with their counts are kept in memory too, and so are list entries that a transaction
//! has not written yet ([`SqliteRows::flush`]). After a rollback, all of these are reloaded.

mod body;
mod check;
mod codec;
mod contract;
mod edges;
mod ended;
mod events;
mod groups;
mod key;
mod lanes;
mod leases;
mod listing;
mod load;
mod pack;
mod reader;
mod ready;
mod records;
mod removed;
mod save;

pub(crate) use load::failed;
pub(crate) use reader::Reader;

use ended::Ended;
use events::Events;
use groups::Groups;
use lanes::{EndedCounts, Lanes};
use leases::Leases;
use load::Loaded;
use ready::Ready;
use removed::Removed;
use rusqlite::{Connection, OptionalExtension as _, Params, Row, Statement};
use save::{Before, Origin, Saver};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use windlass_core::engine::SessionId;
use windlass_core::model::{
    KindSettings, Limit, Name, PartName, Parts, Placement, QueueSettings, State,
};
use windlass_core::{Error, JobId, Result};
use windlass_executor::{Entry, SessionEntry};

/// Maximum total size of the parts that a running job keeps in memory.
const HELD_BYTES_MAX: usize = 16 * 1024;

/// Maximum number of jobs that are kept in memory from enqueue to claim.
const LATELY_MAX: usize = 4_096;
/// Maximum payload size of such a job.
const LATELY_BYTES_MAX: usize = 2 * 1024;

/// A [`Saver`] for one job that borrows only the fields it needs.
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

/// A running job in memory.
struct Running {
    loaded: Loaded,
    /// Whether its parts were dropped from memory because of their size.
    light: bool,
}

/// The rows of one directory.
pub(crate) struct SqliteRows<'c> {
    pub(crate) conn: &'c Connection,
    /// Prepared statements that run at least once per job.
    hot: RefCell<Jobs<'c>>,
    lanes: Lanes,
    /// Number of the last lane that maintenance examined for idleness.
    lanes_looked: i64,
    running: HashMap<JobId, Running>,
    held: HashMap<SessionId, BTreeSet<JobId>>,
    /// Queues with a limit on the waiting time of jobs.
    aging: BTreeSet<Name>,
    /// The job that was taken and not yet put back.
    taken: Option<(JobId, Before)>,
    /// Recently enqueued jobs that wait for their claim, up to [`LATELY_MAX`]. Claiming them reads no rows.
    lately: HashMap<JobId, Loaded>,
    ready: Ready,
    leases: Leases,
    ended: Ended,
    groups: Groups,
    removed: Removed,
    events: Events,
    /// The first storage error in this transaction.
    failure: RefCell<Option<Error>>,
}

/// The statements of [`SqliteRows::hot`].
struct Jobs<'c> {
    by_id: Statement<'c>,
    insert_job: Statement<'c>,
    insert_life: Statement<'c>,
}

impl<'c> Jobs<'c> {
    fn prepare(conn: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            by_id: conn.prepare(&load::query(load::BY_ID))?,
            insert_job: conn.prepare(save::INSERT_JOB)?,
            insert_life: conn.prepare(save::INSERT_LIFE)?,
        })
    }
}

impl<'c> SqliteRows<'c> {
    /// Opens the rows of a database whose tables exist.
    pub(crate) fn open(conn: &'c Connection) -> Result<Self> {
        let lanes = Lanes::read(conn, EndedCounts::Stored)?;
        let hot = Jobs::prepare(conn).map_err(|error| failed(&error))?;
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
            groups: Groups::default(),
            removed: Removed::default(),
            events: Events::default(),
            failure: RefCell::default(),
        };
        rows.reload()?;
        Ok(rows)
    }

    /// Reloads the rows in memory from the tables, on opening and after a rollback.
    pub(crate) fn reload(&mut self) -> Result<()> {
        self.failure.take();
        self.lately.clear();
        self.ready.clear();
        self.ended.clear();
        self.removed.clear();
        self.events = Events::read(self.conn)?;
        self.taken = None;
        self.lanes = Lanes::read(self.conn, EndedCounts::Stored)?;
        self.groups = Groups::read(self.conn, &|lane| self.lanes.key(lane))?;
        self.running.clear();
        self.held.clear();
        let (queues, kinds) = (self.queues()?, self.kinds()?);
        for mut loaded in self.stored_running()? {
            let header = &loaded.entry.job.header;
            let lane = self.lanes.known(&header.queue, &header.kind).unwrap_or_default();
            self.lanes.count(lane, State::Running, true)?;
            // A lease does not record limits: the job counts under those that its lane has now.
            let of_queue = queues.get(&header.queue).map_or(&[][..], |settings| &settings.limits);
            let of_kind = kinds.get(&header.kind).map_or(&[][..], |settings| &settings.limits);
            let more = of_kind.iter().filter(|name| !of_queue.contains(name));
            loaded.entry.job.limits = of_queue.iter().chain(more).cloned().collect();
            self.hold(loaded);
        }
        let limited = |(queue, settings): (Name, QueueSettings)| {
            settings.max_wait_ms.is_some().then_some(queue)
        };
        self.aging = queues.into_iter().filter_map(limited).collect();
        Ok(())
    }

    /// Takes the first storage error since the last call of this function.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.failure.take()
    }

    /// Writes the pending list entries of the transaction. Runs before the commit, and before statements that read
    /// the lists.
    pub(crate) fn flush(&mut self) -> Result<()> {
        let Self { conn, lanes, running, ready, leases, ended, removed, events, .. } = self;
        lanes.flush(conn)?;
        ready.flush(conn)?;
        ended.flush(conn)?;
        removed.flush(conn)?;
        events.flush(conn)?;
        leases.flush(conn, running)
    }

    /// Stored settings of queues.
    pub(crate) fn queues(&self) -> Result<BTreeMap<Name, QueueSettings>> {
        self.named("SELECT name, settings FROM queue")
    }

    /// Stored settings of kinds.
    pub(crate) fn kinds(&self) -> Result<BTreeMap<Name, KindSettings>> {
        self.named("SELECT name, settings FROM kind")
    }

    /// Stored limits.
    pub(crate) fn limits(&self) -> Result<BTreeMap<Name, Limit>> {
        self.named("SELECT name, settings FROM limit_rule")
    }

    /// Stored sessions.
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

    /// Remembers a storage error, so that the owner of the transaction rolls it back.
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
        self.groups.count_running(&loaded.entry, true);
        self.running.insert(id, Running { loaded, light });
    }

    /// Removes a running job from memory and returns it with all its parts.
    fn unhold(&mut self, id: JobId) -> Result<Option<Loaded>> {
        let Some(mut running) = self.running.remove(&id) else { return Ok(None) };
        self.groups.count_running(&running.loaded.entry, false);
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

    /// Loads the running jobs through their leases, and notes the leases that have ended.
    fn stored_running(&mut self) -> Result<Vec<Loaded>> {
        let mut running = Vec::new();
        for lease in self.leases.read(self.conn)? {
            match self.stored(lease.id)?.filter(|loaded| leases::is_held(&lease, loaded)) {
                Some(mut loaded) => {
                    load::add_lease(lease, &mut loaded);
                    // Restores the order of the claims.
                    loaded.entry.seq = running.len() as u64;
                    running.push(loaded);
                }
                None => self.leases.end(Some(lease.row)),
            }
        }
        Ok(running)
    }

    /// Loads a job from its rows. A claim is recorded by the lease alone, so the rows of a running job may be older
    /// than its claim.
    fn stored(&self, id: JobId) -> Result<Option<Loaded>> {
        load::by_id(self.conn, &mut self.hot.borrow_mut().by_id, &self.lanes, id)
    }

    fn parts_of(&self, id: JobId) -> Result<Parts> {
        let stored = self.noted(self.stored(id))?;
        Ok(stored.map(|loaded| loaded.entry.job.parts).unwrap_or_default())
    }

    /// Writes a new job, or one that was taken.
    fn write(&mut self, entry: Box<Entry>) -> Result<()> {
        let (id, header) = (entry.id(), &entry.job.header);
        let lane = self.lanes.number(self.conn, &header.queue, &header.kind)?;
        let before = self.taken.take().filter(|(taken, _)| *taken == id).map(|(_, before)| before);
        let was_in = match &before {
            Some(before) if before.queue != header.queue => {
                self.lanes.known(&before.queue, &header.kind).unwrap_or_default()
            }
            _ => lane,
        };
        let aged = before.as_ref().is_some_and(|before| self.aging.contains(&before.queue));
        let mut saver = saver!(self, &entry, lane);
        let (n, lived, side_parts) = match &before {
            None => saver.insert()?,
            Some(before) => {
                let from = Origin { lane: was_in, queue: &before.queue, ages: aged };
                let (lived, side_parts) = saver.update(before, from)?;
                (before.n, lived, side_parts)
            }
        };
        if let Some(before) = &before {
            self.lanes.count(was_in, before.place.state, false)?;
        }
        self.lanes.count(lane, entry.job.state, true)?;
        self.groups.enter(&entry);
        let lease_row = before.as_ref().and_then(|before| before.lease_row);
        let ran = before.as_ref().is_some_and(|before| before.place.state == State::Running);
        let loaded = Loaded { entry, n, lived, side_parts, lease_row };
        match loaded.entry.job.state.placement() {
            Placement::Leased => {
                if !ran {
                    self.leases.give(id);
                }
                self.hold(loaded);
            }
            Placement::Ready if before.is_none() => self.remember_lately(loaded),
            Placement::Ready | Placement::Scheduled | Placement::Aside | Placement::Ended => {
                self.leases.end(lease_row);
            }
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
