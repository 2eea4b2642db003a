//! Pages of jobs. The ids of the next jobs come from the table that has the order of the listing, then the jobs are read
//! by id.
//!
//! Listings by a time read the tables of that state, lane by lane. Listings by id read the ids of the selected lanes and
//! sort them, if they are few; otherwise they walk through all jobs by id.

use crate::conn::Lent;
use crate::conn::error::Try;
use crate::conn::row::Row;
use crate::engine::PostgresEngine;
use crate::read::{candidates, show_running};
use crate::rows::entries::{self, at, job_id};
use uuid::Uuid;
use windlass_core::engine::{IdTimes, List, ListOrder, ListPlace, Page, SortedBy, Stamped};
use windlass_core::limits::{LIST_EXAMINED_MAX, LIST_PASSED_MAX};
use windlass_core::model::Job;
use windlass_core::{JobId, Result};
use windlass_executor::Filling;

/// Number of candidates that are read at a time, after the first ones did not fill the page.
const CHUNK: usize = 1_000;
/// The same for ids of a walk, most of which belong to other lanes.
const WALK_CHUNK: usize = 5_000;

/// The position of a job, and whether the job must be read to know if it matches.
type Candidate = (ListPlace, bool);

/// Whether jobs with the time of this id may match.
fn times_include(times: &IdTimes, id: JobId) -> bool {
    let time = id.time();
    times.from.is_none_or(|from| time >= from) && times.until.is_none_or(|until| time <= until)
}

/// The position before all others of a direction.
const fn before_all(order: ListOrder) -> (i64, Uuid) {
    match order {
        ListOrder::Newest => (i64::MAX, Uuid::max()),
        ListOrder::Oldest => (i64::MIN, Uuid::nil()),
    }
}

impl PostgresEngine {
    pub(crate) async fn list_jobs(&self, request: List) -> Result<Stamped<Page<Job>>> {
        request.check()?;
        let after = request.place()?;
        let conn = self.begin_look().await?;
        let looked = async {
            let mut page = fill(&conn, &request, after).await?;
            show_running(&conn, page.rows.iter_mut()).await?;
            Ok(page)
        };
        let looked = looked.await;
        self.end_look(conn, looked).await
    }
}

async fn fill(conn: &Lent, request: &List, after: Option<ListPlace>) -> Try<Page<Job>> {
    let mut page = Filling::new(request, after);
    let filter = &request.filter;
    let is_selective = filter.state.is_some() || filter.queue.is_some() || filter.kind.is_some();
    let lanes = match is_selective {
        true => Some(candidates::lanes(conn, filter).await?),
        false => None,
    };
    let is_end = match (&lanes, request.sorted_by()) {
        (None, _) => walk(conn, &mut page, request, None).await?,
        (Some(lanes), SortedBy::Enqueued) => fill_by_id(conn, &mut page, request, lanes).await?,
        (Some(lanes), _) => fill_by_time(conn, &mut page, request, lanes).await?,
    };
    Ok(page.finish(is_end))
}

/// Fills a page of some lanes that is sorted by id; returns whether there are no more jobs.
async fn fill_by_id<'a>(
    conn: &Lent,
    page: &mut Filling<'a>,
    request: &'a List,
    lanes: &[i32],
) -> Try<bool> {
    let state = request.filter.state;
    if let Some(ids) = candidates::ids_of(conn, lanes, state, LIST_EXAMINED_MAX).await? {
        return fill_from(conn, page, request, ids).await;
    }
    let after = page.last();
    let is_end = walk(conn, page, request, Some(lanes)).await?;
    if page.wanted() == 0 || !page.is_exhausted() {
        return Ok(is_end);
    }
    // The lanes have many jobs, and others have even more.
    match candidates::ids_of(conn, lanes, state, LIST_PASSED_MAX).await? {
        Some(ids) => {
            *page = Filling::new(request, after);
            fill_from(conn, page, request, ids).await
        }
        None => Ok(is_end),
    }
}

/// Fills a page with the next jobs of several lanes; returns whether there are no more.
async fn fill_by_time(
    conn: &Lent,
    page: &mut Filling<'_>,
    request: &List,
    lanes: &[i32],
) -> Try<bool> {
    let mut limit = page.wanted() + 1;
    loop {
        let (at_ms, id) = page
            .last()
            .map_or(before_all(request.order), |place| (place.at.as_millis(), place.id.as_uuid()));
        let rows = candidates::positions(conn, request, lanes, (at_ms, id), limit).await?;
        let candidate = |row: &Row| {
            let place = ListPlace { at: at(row.get(0)), id: job_id(row.get(1)) };
            (place, times_include(&request.filter.id_times(), place.id))
        };
        let candidates: Vec<Candidate> = rows.iter().map(candidate).collect();
        if !offer(conn, page, request, &candidates).await? {
            return Ok(false);
        }
        if candidates.len() < limit {
            return Ok(true);
        }
        limit = limit.max(CHUNK);
    }
}

/// Fills a page from ids in any order; returns whether there are no more.
async fn fill_from(
    conn: &Lent,
    page: &mut Filling<'_>,
    request: &List,
    ids: Vec<JobId>,
) -> Try<bool> {
    let (order, after) = (request.order, page.last());
    let is_within = |id: JobId| times_include(&request.filter.id_times(), id);
    let candidate = |id: JobId| (ListPlace::enqueued(id), is_within(id));
    let mut candidates: Vec<Candidate> = ids.into_iter().map(candidate).collect();
    candidates.retain(|(place, _)| order.is_after(place, after.as_ref()));
    candidates.sort_unstable_by(|(one, _), (other, _)| order.compare(one, other));
    let (mut rest, mut limit) = (candidates.as_slice(), page.wanted() + 1);
    while !rest.is_empty() {
        let (next, later) = rest.split_at(limit.min(rest.len()));
        if !offer(conn, page, request, next).await? {
            return Ok(false);
        }
        (rest, limit) = (later, limit.max(CHUNK));
    }
    Ok(true)
}

/// Fills a page from all jobs by id; returns whether there are no more. Jobs of other lanes than these are passed
/// without being read.
async fn walk(
    conn: &Lent,
    page: &mut Filling<'_>,
    request: &List,
    lanes: Option<&[i32]>,
) -> Try<bool> {
    let (start, end) = bounds(request, page.last().map(|place| place.id));
    let mut last = start.map_or(before_all(request.order).1, JobId::as_uuid);
    let mut limit = page.wanted() + 1;
    loop {
        let rows = candidates::walk(conn, request.order, last, lanes, limit).await?;
        let within = |row: &&Row| end.is_none_or(|end| !is_past(row.get(0), end, request.order));
        let seen = rows.iter().take_while(within).count();
        let seen_rows = rows.iter().take(seen);
        let candidate = |row: &Row| (ListPlace::enqueued(job_id(row.get(0))), row.get(1));
        let candidates: Vec<Candidate> = seen_rows.map(candidate).collect();
        if !offer(conn, page, request, &candidates).await? {
            return Ok(false);
        }
        if seen < limit {
            return Ok(true);
        }
        last = rows.last().map_or(last, |row| row.get(0));
        limit = limit.max(if lanes.is_some() { WALK_CHUNK } else { CHUNK });
    }
}

/// Examines the wanted candidates and passes the others, in order; returns false if the page is complete and candidates
/// are left.
async fn offer(
    conn: &Lent,
    page: &mut Filling<'_>,
    request: &List,
    candidates: &[Candidate],
) -> Try<bool> {
    for candidates in candidates.chunks(CHUNK) {
        if page.is_over() {
            return Ok(false);
        }
        let wanted = candidates.iter().filter(|(_, is_wanted)| *is_wanted);
        let wanted: Vec<JobId> = wanted.map(|(place, _)| place.id).collect();
        let mut found = jobs(conn, &wanted).await?;
        for (place, _) in candidates {
            if page.is_over() {
                return Ok(false);
            }
            examine(page, request, *place, found.remove(&place.id));
        }
    }
    Ok(true)
}

fn examine(page: &mut Filling<'_>, request: &List, place: ListPlace, job: Option<entries::Found>) {
    match job {
        Some(job) if ListPlace::of(&job.entry.job, request.sorted_by()) == place => {
            page.examine(&job.entry);
        }
        _ => page.pass(place),
    }
}

/// Reads jobs without their parts.
async fn jobs(conn: &Lent, ids: &[JobId]) -> Try<std::collections::HashMap<JobId, entries::Found>> {
    if ids.is_empty() {
        return Ok(Default::default());
    }
    let ids: Vec<Uuid> = ids.iter().map(|id| id.as_uuid()).collect();
    let rows = conn.query(entries::BY_ID, &[&ids, &false]).await?;
    entries::found(conn, &rows, &[]).await
}

/// The ids between which a walk reads, both excluded: from its cursor, and within the times that the filter allows.
fn bounds(request: &List, after: Option<JobId>) -> (Option<JobId>, Option<JobId>) {
    let IdTimes { from, until } = request.filter.id_times();
    let (first, last) = (from.map(JobId::first_at), until.map(JobId::last_at));
    match request.order {
        ListOrder::Newest => (after.into_iter().chain(last).min(), first),
        ListOrder::Oldest => (after.into_iter().chain(first).max(), last),
    }
}

fn is_past(id: Uuid, end: JobId, order: ListOrder) -> bool {
    match order {
        ListOrder::Newest => id < end.as_uuid(),
        ListOrder::Oldest => id > end.as_uuid(),
    }
}
