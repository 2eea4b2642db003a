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
use std::collections::HashMap;
use uuid::Uuid;
use windlass_core::engine::{Filter, List, ListPlace, ListSpan, Page, SortedBy, Stamped};
use windlass_core::limits::{LIST_EXAMINED_MAX, LIST_PASSED_MAX};
use windlass_core::model::{Job, PartName, PartSet};
use windlass_core::{JobId, Result};
use windlass_executor::Filling;

/// Number of candidates that are read at a time, after the first ones did not fill the page.
const CHUNK: usize = 1_000;
/// The same for ids of a walk, most of which belong to other lanes.
const WALK_CHUNK: usize = 5_000;

/// Bytes of the parts of jobs ($1) that $2 names by bits. The length of a stored value is known without reading it.
const SIZES: &str = "SELECT j.id,
    (CASE WHEN $2::integer & 1 <> 0 THEN coalesce(octet_length(j.payload), 0) ELSE 0 END)::bigint
        + coalesce((SELECT sum(octet_length(p.bytes)) FROM {s}.part p
            WHERE p.id = ANY(ARRAY[j.id]) AND (1 << p.name) & $2 <> 0), 0)::bigint
    FROM unnest($1::uuid[]) w (id) JOIN {s}.job j ON j.id = ANY(ARRAY[w.id])";

/// The position of a job, and whether the job must be read to know if it matches.
type Candidate = (ListPlace, bool);

/// Bytes of parts that are read at a time.
const CHUNK_BYTES: usize = 4 * 1024 * 1024;

/// Whether a job with this id may match.
fn may_fit(filter: &Filter, id: JobId) -> bool {
    let (first, last) = filter.ids();
    first <= id && id <= last
}

impl PostgresEngine {
    pub(crate) async fn list_jobs(&self, request: List) -> Result<Stamped<Page<Job>>> {
        request.check()?;
        let span = request.span()?;
        let conn = self.begin_look().await?;
        let looked = async {
            let mut page = fill(&conn, &request, span).await?;
            show_running(&conn, page.rows.iter_mut()).await?;
            Ok(page)
        };
        let looked = looked.await;
        self.end_look(conn, looked).await
    }
}

async fn fill(conn: &Lent, request: &List, span: ListSpan) -> Try<Page<Job>> {
    let mut page = Filling::new(request, span);
    let filter = &request.filter;
    if let Some(ids) = candidates::by_field(conn, filter).await? {
        let is_end = fill_from_index(conn, &mut page, request, ids).await?;
        return Ok(page.finish(is_end));
    }
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
    let is_end = walk(conn, page, request, Some(lanes)).await?;
    if page.wanted() == 0 || !page.is_exhausted() {
        return Ok(is_end);
    }
    // The lanes have many jobs, and others have even more.
    match candidates::ids_of(conn, lanes, state, LIST_PASSED_MAX).await? {
        Some(ids) => {
            *page = Filling::new(request, page.span());
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
        let rows = candidates::positions(conn, request, lanes, page.last(), limit).await?;
        let span = page.span();
        let place = |row: &Row| ListPlace { at: at(row.get(0)), id: job_id(row.get(1)) };
        let places = rows.iter().map(place).take_while(|place| !span.is_past(place));
        let candidate = |place: ListPlace| (place, may_fit(&request.filter, place.id));
        let candidates: Vec<Candidate> = places.map(candidate).collect();
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
    let places = ids.into_iter().map(ListPlace::enqueued).collect();
    fill_from_places(conn, page, request, places).await
}

/// Fills a page from the jobs that an index of a field selects; returns whether there are no more.
async fn fill_from_index(
    conn: &Lent,
    page: &mut Filling<'_>,
    request: &List,
    ids: Vec<JobId>,
) -> Try<bool> {
    if request.sorted_by() == SortedBy::Enqueued {
        return fill_from(conn, page, request, ids).await;
    }
    let mut places = Vec::new();
    for ids in ids.chunks(CHUNK) {
        let found = jobs(conn, ids, PartSet::NONE).await?;
        let of_state = |job: &&entries::Found| Some(job.entry.job.state) == request.filter.state;
        let place = |job: &entries::Found| ListPlace::of(&job.entry.job, request.sorted_by());
        places.extend(found.values().filter(of_state).map(place));
    }
    fill_from_places(conn, page, request, places).await
}

/// Fills a page from positions in any order; returns whether there are no more.
async fn fill_from_places(
    conn: &Lent,
    page: &mut Filling<'_>,
    request: &List,
    places: Vec<ListPlace>,
) -> Try<bool> {
    let (order, span) = (request.order, page.span());
    let mut candidates: Vec<Candidate> = places.into_iter().map(|place| (place, true)).collect();
    candidates.retain(|(place, _)| span.includes(place));
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
    let span = page.span();
    let mut last = span.start.id.as_uuid();
    let mut limit = page.wanted() + 1;
    loop {
        let rows = candidates::walk(conn, request.order, last, lanes, limit).await?;
        let candidate = |row: &Row| (ListPlace::enqueued(job_id(row.get(0))), row.get(1));
        let within = |(place, _): &Candidate| !span.is_past(place);
        let candidates: Vec<Candidate> = rows.iter().map(candidate).take_while(within).collect();
        if !offer(conn, page, request, &candidates).await? {
            return Ok(false);
        }
        if candidates.len() < limit {
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
        let sizes = sizes(conn, &wanted, page.parts()).await?;
        let mut rest = candidates;
        while !rest.is_empty() {
            let (next, later) = rest.split_at(fitting(rest, &sizes));
            if !offer_some(conn, page, request, next).await? {
                return Ok(false);
            }
            rest = later;
        }
    }
    Ok(true)
}

/// The number of candidates whose parts are read at a time; at least one.
fn fitting(candidates: &[Candidate], sizes: &HashMap<JobId, usize>) -> usize {
    let mut bytes = 0_usize;
    let size = |place: &ListPlace| sizes.get(&place.id).copied().unwrap_or_default();
    let fits = |(place, _): &&Candidate| {
        bytes = bytes.saturating_add(size(place));
        bytes <= CHUNK_BYTES
    };
    candidates.iter().take_while(fits).count().max(1).min(candidates.len())
}

async fn offer_some(
    conn: &Lent,
    page: &mut Filling<'_>,
    request: &List,
    candidates: &[Candidate],
) -> Try<bool> {
    if page.is_over() {
        return Ok(false);
    }
    let wanted = candidates.iter().filter(|(_, is_wanted)| *is_wanted);
    let wanted: Vec<JobId> = wanted.map(|(place, _)| place.id).collect();
    let mut found = jobs(conn, &wanted, page.parts()).await?;
    for (place, _) in candidates {
        if page.is_over() {
            return Ok(false);
        }
        examine(page, request, *place, found.remove(&place.id));
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

/// The sizes of the parts in `set`, so that a read of many large parts can be divided.
async fn sizes(conn: &Lent, ids: &[JobId], set: PartSet) -> Try<HashMap<JobId, usize>> {
    if ids.is_empty() || set == PartSet::NONE {
        return Ok(HashMap::new());
    }
    let ids: Vec<Uuid> = ids.iter().map(|id| id.as_uuid()).collect();
    let rows = conn.query(SIZES, &[&ids, &entries::part_bits(set)]).await?;
    let size = |row: &Row| usize::try_from(row.get::<_, i64>(1)).unwrap_or_default();
    Ok(rows.iter().map(|row| (job_id(row.get(0)), size(row))).collect())
}

/// Reads jobs with the parts in `set`.
async fn jobs(conn: &Lent, ids: &[JobId], set: PartSet) -> Try<HashMap<JobId, entries::Found>> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let ids: Vec<Uuid> = ids.iter().map(|id| id.as_uuid()).collect();
    let rows = conn.query(entries::BY_ID, &[&ids, &set.has(PartName::Payload)]).await?;
    let parts = match set == PartSet::NONE {
        true => Vec::new(),
        false => conn.query(entries::PARTS, &[&ids, &entries::part_bits(set)]).await?,
    };
    entries::found(conn, &rows, &parts).await
}
