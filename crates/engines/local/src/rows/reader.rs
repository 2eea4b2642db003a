//! Reads jobs on a connection of its own, so that reads never block the writer.
//!
//! It sees committed rows only, adds the leases of running jobs, and changes nothing.

use super::key::keys;
use super::lanes::Lanes;
use super::leases::{Leases, Stored, is_held};
use super::load::{self, Loaded, failed};
use rusqlite::Connection;
use std::collections::HashMap;
use windlass_core::engine::{Cursor, Get, List, ListOrder, Page};
use windlass_core::model::{Job, State};
use windlass_core::{Error, JobId, Result};

/// Maximum number of jobs that one page examines. A filter that matches few jobs returns short pages instead of
/// taking long.
const SCAN_MAX: usize = 2_000;

/// Prefix of our cursors.
const CURSOR_PREFIX: &str = "n:";

/// The connection for reads, with the names of the lanes.
pub(crate) struct Reader {
    conn: Connection,
    lanes: Lanes,
}

/// One read: all its rows are from the same snapshot.
struct Look<'a> {
    conn: &'a Connection,
    lanes: &'a Lanes,
    leases: HashMap<JobId, Vec<Stored>>,
}

impl Reader {
    pub(crate) fn new(conn: Connection) -> Self {
        Self { conn, lanes: Lanes::default() }
    }

    /// Returns jobs by their ids.
    pub(crate) fn get(&mut self, request: &Get) -> Result<Vec<Option<Job>>> {
        self.look(|look| {
            let sql = load::query(load::BY_ID);
            let mut by_id = look.conn.prepare_cached(&sql).map_err(|error| failed(&error))?;
            let job = |id: &JobId| {
                let stored = load::by_id(look.conn, &mut by_id, look.lanes, *id)?;
                Ok(stored.map(|loaded| look.as_it_is(loaded).entry.view(request.parts)))
            };
            request.ids.iter().map(job).collect()
        })
    }

    /// Returns a page of jobs.
    pub(crate) fn list(&mut self, request: &List) -> Result<Page<Job>> {
        let after = request.after.as_ref().map(place).transpose()?;
        self.look(|look| look.page(request, after))
    }

    fn look<T>(&mut self, look: impl FnOnce(&Look<'_>) -> Result<T>) -> Result<T> {
        let Self { conn, lanes } = self;
        let instant = conn.unchecked_transaction().map_err(|error| failed(&error))?;
        lanes.learn(&instant)?;
        let mut leases: HashMap<JobId, Vec<Stored>> = HashMap::new();
        for lease in Leases::default().read(&instant)? {
            leases.entry(lease.id).or_default().push(lease);
        }
        look(&Look { conn: &instant, lanes, leases })
    }
}

impl Look<'_> {
    /// Adds the lease to a job that is running.
    fn as_it_is(&self, mut loaded: Loaded) -> Loaded {
        let leases = self.leases.get(&loaded.entry.id());
        let held = leases.and_then(|leases| leases.iter().find(|lease| is_held(lease, &loaded)));
        if let Some(lease) = held {
            load::add_lease(lease.clone(), &mut loaded);
        }
        loaded
    }

    fn page(&self, request: &List, after: Option<i64>) -> Result<Page<Job>> {
        let stretch = Stretch::of(request, after);
        let mut page = Gathered { request, rows: Vec::new(), last: None, looked_at: 0 };
        let more = match request.filter.state {
            Some(State::Running) => self.scan_running(&mut page, stretch)?,
            state => self.scan(&mut page, among(state), stretch)?,
        };
        let next = page.last.filter(|_| more);
        let next = next.map(|n| Cursor::new(format!("{CURSOR_PREFIX}{n}")));
        Ok(Page { rows: page.rows, next })
    }

    /// Adds jobs to the page in key order until it is full; returns whether there are more.
    fn scan(
        &self,
        page: &mut Gathered<'_>,
        (from, key): (&str, &str),
        stretch: Stretch,
    ) -> Result<bool> {
        let order = if stretch.newest { "DESC" } else { "ASC" };
        let columns = load::COLUMNS_OF_PAGES;
        let sql = format!(
            "SELECT {columns} FROM {from} WHERE {key} BETWEEN ?1 AND ?2 ORDER BY {key} {order}"
        );
        let sqlite = |error: rusqlite::Error| failed(&error);
        let mut statement = self.conn.prepare_cached(&sql).map_err(sqlite)?;
        let mut scan = statement.query([stretch.first, stretch.last]).map_err(sqlite)?;
        // Reads row by row: a page of 50 must not load thousands.
        while let Some(row) = scan.next().map_err(sqlite)? {
            if page.is_full() {
                return Ok(true);
            }
            page.add(&self.as_it_is(load::read(row, self.lanes)?));
        }
        Ok(false)
    }

    /// Like [`Look::scan`] for running jobs, which are found through their leases.
    fn scan_running(&self, page: &mut Gathered<'_>, stretch: Stretch) -> Result<bool> {
        let mut leased: Vec<JobId> = self.leases.keys().copied().collect();
        leased.sort_unstable();
        if stretch.newest {
            leased.reverse();
        }
        let sql = load::query(load::BY_ID);
        let mut by_id = self.conn.prepare_cached(&sql).map_err(|error| failed(&error))?;
        for id in leased {
            let Some(loaded) = load::by_id(self.conn, &mut by_id, self.lanes, id)? else {
                continue;
            };
            if (stretch.first..=stretch.last).contains(&loaded.n) {
                if page.is_full() {
                    return Ok(true);
                }
                page.add(&self.as_it_is(loaded));
            }
        }
        Ok(false)
    }
}

/// The range of row keys that a page may examine, inclusive, and its direction.
#[derive(Clone, Copy)]
struct Stretch {
    first: i64,
    last: i64,
    newest: bool,
}

impl Stretch {
    /// The rows of the request's time range after the last row of the previous page.
    fn of(request: &List, after: Option<i64>) -> Self {
        let newest = request.order == ListOrder::Newest;
        let (mut first, mut last) = keys(request.filter.id_times());
        match after {
            Some(n) if newest => last = last.min(n.saturating_sub(1)),
            Some(n) => first = first.max(n.saturating_add(1)),
            None => {}
        }
        Self { first, last, newest }
    }
}

/// A page while it is being filled.
struct Gathered<'a> {
    request: &'a List,
    rows: Vec<Job>,
    last: Option<i64>,
    looked_at: usize,
}

impl Gathered<'_> {
    fn is_full(&self) -> bool {
        self.rows.len() == self.request.limit as usize || self.looked_at == SCAN_MAX
    }

    fn add(&mut self, loaded: &Loaded) {
        self.looked_at += 1;
        self.last = Some(loaded.n);
        if self.request.filter.fits(&loaded.entry.job.header, loaded.entry.job.state) {
            self.rows.push(loaded.entry.summary());
        }
    }
}

/// The tables with the jobs in a state, and the column that orders them. States with few jobs have a table or index
/// of their own, so that a page need not scan all jobs. `CROSS JOIN` fixes the join order in SQLite.
const fn among(state: Option<State>) -> (&'static str, &'static str) {
    match state {
        // The condition matches the partial index `life_dead`.
        Some(State::Dead) => {
            ("(SELECT * FROM life WHERE state = 6) l CROSS JOIN job j ON j.n = l.n", "l.n")
        }
        Some(State::Blocked | State::Paused) => {
            ("aside a CROSS JOIN job j ON j.n = a.n LEFT JOIN life l ON l.n = j.n", "a.n")
        }
        _ => ("job j LEFT JOIN life l ON l.n = j.n", "j.n"),
    }
}

/// Decodes the row key with which the previous page ended.
fn place(cursor: &Cursor) -> Result<i64> {
    let n = cursor.as_str().strip_prefix(CURSOR_PREFIX).and_then(|n| n.parse().ok());
    n.ok_or_else(|| bad_cursor(cursor))
}

/// The error for a cursor that this engine did not create.
pub(super) fn bad_cursor(cursor: &Cursor) -> Error {
    Error::invalid("cursor", cursor, "use a cursor that an earlier page returned")
}
