//! Reads jobs on a connection of its own, so that reads never block the writer.
//!
//! It sees committed rows only, adds the leases of running jobs, and changes nothing.

use super::lanes::Lanes;
use super::leases::{Leases, Stored, is_held};
use super::load::{self, Loaded, failed};
use super::{edges, records};
use rusqlite::Connection;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use windlass_core::engine::{Cursor, Get, List, Page, SessionId};
use windlass_core::model::Job;
use windlass_core::{Error, JobId, Result};
use windlass_executor::SessionEntry;

/// The connection for reads, with the names of the lanes.
pub(crate) struct Reader {
    conn: Connection,
    lanes: Lanes,
}

/// One read: all its rows are from the same snapshot.
pub(super) struct Snapshot<'a> {
    pub(super) conn: &'a Connection,
    pub(super) lanes: &'a Lanes,
    pub(super) leases: HashMap<JobId, Vec<Stored>>,
}

impl Reader {
    pub(crate) fn new(conn: Connection) -> Self {
        Self { conn, lanes: Lanes::default() }
    }

    /// Returns jobs by their ids.
    pub(crate) fn get(&mut self, request: &Get) -> Result<Vec<Option<Job>>> {
        self.read(|snapshot| {
            let sql = load::query(load::BY_ID);
            let mut by_id = snapshot.conn.prepare_cached(&sql).map_err(|error| failed(&error))?;
            let job = |id: &JobId| {
                let stored = load::by_id(snapshot.conn, &mut by_id, snapshot.lanes, *id)?;
                Ok(stored.map(|loaded| snapshot.as_it_is(loaded).entry.view(request.parts)))
            };
            let mut jobs: Vec<_> = request.ids.iter().map(job).collect::<Result<_>>()?;
            for job in jobs.iter_mut().flatten().filter(|job| job.dependencies.total > 0) {
                job.inputs = edges::inputs(snapshot.conn, job.header.id)?;
            }
            snapshot.show_running(jobs.iter_mut().flatten())?;
            Ok(jobs)
        })
    }

    /// Returns a page of jobs.
    pub(crate) fn list(&mut self, request: &List) -> Result<Page<Job>> {
        self.read(|snapshot| {
            let mut page = snapshot.page(request)?;
            snapshot.show_running(&mut page.rows)?;
            Ok(page)
        })
    }

    fn read<T>(&mut self, read: impl FnOnce(&Snapshot<'_>) -> Result<T>) -> Result<T> {
        let Self { conn, lanes } = self;
        let instant = conn.unchecked_transaction().map_err(|error| failed(&error))?;
        lanes.learn(&instant)?;
        let mut leases: HashMap<JobId, Vec<Stored>> = HashMap::new();
        for lease in Leases::default().read(&instant)? {
            leases.entry(lease.id).or_default().push(lease);
        }
        read(&Snapshot { conn: &instant, lanes, leases })
    }
}

impl Snapshot<'_> {
    /// Adds the lease to a job that is running.
    pub(super) fn as_it_is(&self, mut loaded: Loaded) -> Loaded {
        let leases = self.leases.get(&loaded.entry.id());
        let held = leases.and_then(|leases| leases.iter().find(|lease| is_held(lease, &loaded)));
        if let Some(lease) = held {
            load::add_lease(lease.clone(), &mut loaded);
        }
        loaded
    }

    /// Adds the host and the expiry of the lease to running jobs.
    fn show_running<'j>(&self, jobs: impl IntoIterator<Item = &'j mut Job>) -> Result<()> {
        let mut known: HashMap<SessionId, Option<SessionEntry>> = HashMap::new();
        for running in jobs.into_iter().filter_map(|job| job.running.as_mut()) {
            let session = match known.entry(running.session.clone()) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(records::session(self.conn, &running.session)?),
            };
            if let Some(session) = session {
                session.show_in(running);
            }
        }
        Ok(())
    }
}

/// The error for a cursor that this engine did not create.
pub(super) fn bad_cursor(cursor: &Cursor) -> Error {
    Error::invalid("cursor", cursor, "use a cursor that an earlier page returned")
}
