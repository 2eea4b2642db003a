//! Pages of jobs. Every listing is read in its order from a table that has it, so that a page costs what it contains.
//!
//! Listings by a time read the tables of that state, lane by lane. Listings by id read the ids of the selected lanes and
//! sort them, if they are few; otherwise they walk through all jobs by their row keys.

use super::ended;
use super::key::{PROBES, first_key, keys};
use super::load::{self, Loaded, failed, get};
use super::reader::Snapshot;
use super::ready;
use rusqlite::{OptionalExtension as _, Params, Row, params};
use std::collections::{BTreeMap, HashSet};
use windlass_core::engine::{List, ListOrder, ListPlace, Page, SortedBy};
use windlass_core::limits::{LIST_EXAMINED_MAX, LIST_PASSED_MAX};
use windlass_core::model::{Job, PartSet, State};
use windlass_core::{JobId, Result};
use windlass_executor::Filling;

/// Number of candidates that are read at a time, after the first ones did not fill the page.
const CHUNK: usize = 500;

impl Snapshot<'_> {
    /// Returns a page of jobs.
    pub(super) fn page(&self, request: &List) -> Result<Page<Job>> {
        let mut page = Filling::new(request, request.span()?);
        let lanes = self.lanes.selected(&request.filter);
        let is_end = match request.sorted_by() {
            SortedBy::Enqueued => self.fill_by_id(&mut page, request, &lanes)?,
            SortedBy::Started => {
                let leased = self.leases.values().flatten();
                let place = |it: &super::leases::Stored| (it.leased.started_at, it.id);
                let places = leased.map(place).map(|(at, id)| ListPlace { at, id });
                self.fill_from(&mut page, request, places.collect())?
            }
            SortedBy::Due | SortedBy::Ended => self.fill_by_time(&mut page, request, &lanes)?,
        };
        Ok(page.finish(is_end))
    }

    /// Fills a page with the next jobs of several lanes; returns whether there are no more.
    fn fill_by_time(&self, page: &mut Filling<'_>, request: &List, lanes: &[i64]) -> Result<bool> {
        let mut limit = page.wanted() + 1;
        loop {
            let mut places = Vec::new();
            for lane in lanes {
                places.extend(self.places_of(*lane, request, page.last(), limit)?);
            }
            ended::sort(&mut places, request.order, limit);
            let is_last = places.len() < limit;
            for place in places {
                if page.span().is_past(&place) {
                    return Ok(true);
                }
                if page.is_over() {
                    return Ok(false);
                }
                self.offer(page, request, place)?;
            }
            if is_last {
                return Ok(true);
            }
            limit = limit.max(CHUNK);
        }
    }

    /// The first positions of a lane after another one.
    fn places_of(
        &self,
        lane: i64,
        request: &List,
        after: ListPlace,
        limit: usize,
    ) -> Result<Vec<ListPlace>> {
        let state = request.filter.state.unwrap_or(State::Scheduled);
        if state != State::Scheduled {
            return ended::listed(self.conn, (lane, state as i64), request.order, after, limit);
        }
        let sql = match request.order {
            ListOrder::Newest => {
                "SELECT run_at, id FROM scheduled WHERE lane = ?1 AND (run_at, id) < (?2, ?3)
                    ORDER BY run_at DESC, id DESC LIMIT ?4"
            }
            ListOrder::Oldest => {
                "SELECT run_at, id FROM scheduled WHERE lane = ?1 AND (run_at, id) > (?2, ?3)
                    ORDER BY run_at, id LIMIT ?4"
            }
        };
        let ListPlace { at, id } = after;
        let params = params![lane, at.as_millis(), id.as_bytes(), limit as i64];
        ended::places(self.conn, sql, params)
    }

    /// Fills a page from positions in any order; returns whether there are no more.
    fn fill_from(
        &self,
        page: &mut Filling<'_>,
        request: &List,
        mut places: Vec<ListPlace>,
    ) -> Result<bool> {
        let span = page.span();
        places.retain(|place| span.includes(place));
        ended::sort(&mut places, request.order, usize::MAX);
        for place in places {
            if page.is_over() {
                return Ok(false);
            }
            self.offer(page, request, place)?;
        }
        Ok(true)
    }

    /// Examines the job at a position, unless it has moved since it was listed there.
    fn offer(&self, page: &mut Filling<'_>, request: &List, place: ListPlace) -> Result<()> {
        let (first, last) = request.filter.ids();
        let is_wanted = first <= place.id && place.id <= last;
        let found = if is_wanted { self.candidate(place.id, page.parts())? } else { None };
        match found {
            Some(found) if ListPlace::of(&found.entry.job, request.sorted_by()) == place => {
                page.examine(&found.entry);
            }
            _ => page.pass(place),
        }
        Ok(())
    }

    /// Loads a job with the parts that the filter reads.
    fn candidate(&self, id: JobId, parts: PartSet) -> Result<Option<Loaded>> {
        let sql = load::query_of_pages(load::BY_ID, parts);
        let mut statement = self.conn.prepare_cached(&sql).map_err(|error| failed(&error))?;
        let first = first_key(id);
        let found = statement
            .query_row(params![first, first + PROBES, id.as_bytes()], |row| {
                Ok(load::read(row, self.lanes))
            })
            .optional()
            .map_err(|error| failed(&error))?;
        let Some(mut loaded) = found.transpose()? else { return Ok(None) };
        load::add_some_parts(self.conn, &mut loaded, parts)?;
        Ok(Some(self.as_it_is(loaded)))
    }

    /// Fills a page that is sorted by id; returns whether there are no more jobs.
    fn fill_by_id<'a>(
        &self,
        page: &mut Filling<'a>,
        request: &'a List,
        lanes: &[i64],
    ) -> Result<bool> {
        let filter = &request.filter;
        let is_selective =
            filter.state.is_some() || filter.queue.is_some() || filter.kind.is_some();
        if !is_selective {
            return self.walk(page, request, None);
        }
        if let Some(places) = self.places_by_id(lanes, filter.state, LIST_EXAMINED_MAX)? {
            return self.fill_from(page, request, places);
        }
        let is_end = self.walk(page, request, Some(&lanes.iter().copied().collect()))?;
        if page.wanted() == 0 || !page.is_exhausted() {
            return Ok(is_end);
        }
        // The lanes have many jobs, and others have even more.
        match self.places_by_id(lanes, filter.state, LIST_PASSED_MAX)? {
            Some(places) => {
                *page = Filling::new(request, page.span());
                self.fill_from(page, request, places)
            }
            None => Ok(is_end),
        }
    }

    /// The jobs of these lanes that are or were in a state, in any order; `None` if they are more than `most`.
    fn places_by_id(
        &self,
        lanes: &[i64],
        state: Option<State>,
        most: usize,
    ) -> Result<Option<Vec<ListPlace>>> {
        let is = |wanted: State| state.is_none_or(|state| state == wanted);
        let mut ids: Vec<JobId> = Vec::new();
        if state.is_none() {
            ids.extend(self.leases.keys());
        }
        for lane in lanes {
            let limit = most + 1;
            if is(State::Available) {
                ids.extend(ready::first(self.conn, *lane, limit)?);
            }
            for aside in [State::Blocked, State::Paused].into_iter().filter(|state| is(*state)) {
                let sql = "SELECT j.id FROM aside a CROSS JOIN job j ON j.n = a.n
                    WHERE a.lane = ?1 AND a.state = ?2 LIMIT ?3";
                ids.extend(self.ids(sql, [*lane, aside as i64, limit as i64])?);
            }
            if state.is_none() {
                let scheduled = "SELECT id FROM scheduled WHERE lane = ?1 LIMIT ?2";
                ids.extend(self.ids(scheduled, [*lane, limit as i64])?);
                let own = "SELECT id FROM ended_own WHERE lane = ?1 LIMIT ?2";
                ids.extend(self.ids(own, [*lane, limit as i64])?);
                ids.extend(ended::ids(self.conn, *lane, limit)?);
            }
            if ids.len() > most {
                return Ok(None);
            }
        }
        Ok(Some(ids.into_iter().map(ListPlace::enqueued).collect()))
    }

    fn ids(&self, sql: &str, params: impl Params) -> Result<Vec<JobId>> {
        let id = |row: &Row<'_>| row.get(0).map(JobId::from_bytes);
        let read = || -> rusqlite::Result<Vec<JobId>> {
            self.conn.prepare_cached(sql)?.query_map(params, id)?.collect()
        };
        read().map_err(|error| failed(&error))
    }

    /// Fills a page from all jobs, by their row keys; returns whether there are no more. Jobs of other lanes than these
    /// are passed without being decoded.
    fn walk(
        &self,
        page: &mut Filling<'_>,
        request: &List,
        lanes: Option<&HashSet<i64>>,
    ) -> Result<bool> {
        let (span, order) = (page.span(), request.order);
        let (lowest, highest) = span.bounds();
        let (first, last) = keys((lowest.id, highest.id));
        let direction = match order {
            ListOrder::Newest => "DESC",
            ListOrder::Oldest => "ASC",
        };
        let sql = load::query_of_pages("j.n BETWEEN ?1 AND ?2", page.parts());
        let sql = format!("{sql} ORDER BY j.n {direction}");
        let sqlite = |error: rusqlite::Error| failed(&error);
        let mut statement = self.conn.prepare_cached(&sql).map_err(sqlite)?;
        let mut rows = statement.query([first, last]).map_err(sqlite)?;
        let mut waiting = Reordered { order, jobs: BTreeMap::new() };
        // Reads row by row: a page of 50 must not load thousands.
        while let Some(row) = rows.next().map_err(sqlite)? {
            if !self.release(page, &mut waiting, get(row, 0)?) {
                return Ok(false);
            }
            let id = JobId::from_bytes(get(row, 1)?);
            if !span.includes(&ListPlace::enqueued(id)) {
                continue;
            }
            let is_wanted = match lanes {
                Some(lanes) => lanes.contains(&get(row, 2)?),
                None => true,
            };
            let mut job = if is_wanted { Some(load::read(row, self.lanes)?) } else { None };
            if let Some(job) = &mut job {
                load::add_some_parts(self.conn, job, page.parts())?;
            }
            waiting.jobs.insert(id, job);
        }
        let end = match order {
            ListOrder::Newest => i64::MIN,
            ListOrder::Oldest => i64::MAX,
        };
        Ok(self.release(page, &mut waiting, end))
    }

    /// Examines the jobs whose order is known once the walk has reached `key`; returns false if the page is complete and
    /// jobs are left.
    fn release(&self, page: &mut Filling<'_>, waiting: &mut Reordered, key: i64) -> bool {
        while let Some((id, job)) = waiting.next(key) {
            if page.is_over() {
                return false;
            }
            match job {
                Some(job) => page.examine(&self.as_it_is(job).entry),
                None => page.pass(ListPlace::enqueued(id)),
            }
        }
        true
    }
}

/// Jobs whose row keys were read, until it is certain which of them comes next. A job whose first key was taken is
/// stored up to [`PROBES`] keys later, so the order of row keys is not quite the order of ids.
struct Reordered {
    order: ListOrder,
    jobs: BTreeMap<JobId, Option<Loaded>>,
}

impl Reordered {
    /// The next job, if no row from `key` on can come before it.
    fn next(&mut self, key: i64) -> Option<(JobId, Option<Loaded>)> {
        match self.order {
            ListOrder::Newest => {
                let last = self.jobs.last_entry().filter(|job| first_key(*job.key()) > key)?;
                Some(last.remove_entry())
            }
            ListOrder::Oldest => {
                let is_certain = |id: JobId| first_key(id).saturating_add(PROBES) <= key;
                let first = self.jobs.first_entry().filter(|job| is_certain(*job.key()))?;
                Some(first.remove_entry())
            }
        }
    }
}
