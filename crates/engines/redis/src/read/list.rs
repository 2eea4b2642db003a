//! Pages of jobs: the ids come from the indexes that have the order of the listing, then the jobs are read by id.

use super::{read_jobs, show_running};
use crate::conn::error::{Trouble, Try};
use crate::conn::script::Reads;
use crate::engine::RedisEngine;
use crate::rows::places::indexes;
use crate::rows::small;
use crate::slow::transaction::{Loaded, Transaction};
use windlass_core::engine::{Filter, List, ListOrder, ListPlace, ListSpan, Page, Stamped};
use windlass_core::limits::LIST_EXAMINED_MAX;
use windlass_core::model::{Job, PartSet, State};
use windlass_core::{JobId, Result};
use windlass_executor::{Filling, LaneKey};

/// Indexes that are read in one call.
const INDEXES_MAX: usize = 500;
/// Entries that are read of each index at least.
const ENTRIES_MIN: usize = 16;
/// Jobs that are read at a time with parts, which may be large.
const WITH_PARTS: usize = 16;
/// Entries that are read in all indexes together, after the first ones did not fill the page.
const CHUNK: usize = 1_000;

/// Whether a job with this id may match.
fn may_fit(filter: &Filter, id: JobId) -> bool {
    let (first, last) = filter.ids();
    first <= id && id <= last
}

impl RedisEngine {
    pub(crate) async fn list_jobs(&self, request: List) -> Result<Stamped<Page<Job>>> {
        request.check()?;
        let span = request.span()?;
        let (transaction, mut loaded) = self.inner.shared.look().await?;
        let read = async {
            let (transaction, loaded) = (&transaction, &mut loaded);
            let mut page = fill(transaction, &request, span, loaded).await?;
            show_running(transaction, page.rows.iter_mut(), loaded).await?;
            Ok::<_, Trouble>(page)
        };
        let value = read.await.map_err(Trouble::into_error)?;
        Ok(transaction.stamp(&loaded, value))
    }
}

async fn fill(
    transaction: &Transaction<'_>,
    request: &List,
    span: ListSpan,
    loaded: &mut Loaded,
) -> Try<Page<Job>> {
    let filter = &request.filter;
    let wanted = |lane: &&LaneKey| {
        filter.queue.as_ref().is_none_or(|queue| *queue == lane.0)
            && filter.kind.as_ref().is_none_or(|kind| *kind == lane.1)
    };
    let lanes: Vec<&LaneKey> = transaction.settings.lanes.iter().filter(wanted).collect();
    let mut page = Filling::new(request, span);
    if filter.state == Some(State::Available)
        && let Some(ids) = ready_ids(transaction, &lanes, loaded).await?
    {
        let is_end = fill_from(transaction, &mut page, request, ids, loaded).await?;
        return Ok(page.finish(is_end));
    }
    let sources: Vec<Vec<u8>> = match filter.state.filter(|state| *state != State::Available) {
        Some(state) => {
            lanes.iter().flat_map(|lane| indexes(transaction.keys, state, lane)).collect()
        }
        None => lanes.iter().map(|lane| transaction.keys.all(lane)).collect(),
    };
    let mut chunk = page.wanted() + 1;
    let is_end = loop {
        let (mut places, mut is_end) =
            next(transaction, request, page.last(), &sources, chunk, loaded).await?;
        if let Some(past) = places.iter().position(|place| span.is_past(place)) {
            places.truncate(past);
            is_end = true;
        }
        if !offer(transaction, &mut page, request, &places, loaded).await? {
            break false;
        }
        if is_end {
            break true;
        }
        if page.is_over() {
            break false;
        }
        chunk = chunk.max(CHUNK);
    };
    Ok(page.finish(is_end))
}

/// The next positions of all sources in order, and whether there are no more behind them.
async fn next(
    transaction: &Transaction<'_>,
    request: &List,
    after: ListPlace,
    sources: &[Vec<u8>],
    chunk: usize,
    loaded: &mut Loaded,
) -> Try<(Vec<ListPlace>, bool)> {
    let order = request.order;
    let most = (chunk / sources.len().max(1)).max(ENTRIES_MIN).min(chunk);
    let (score, member) = (after.at.as_millis().to_string(), after.id);
    let most_text = most.to_string();
    let direction: &[u8] = match order {
        ListOrder::Newest => b"REV",
        ListOrder::Oldest => b"",
    };
    let args: [&[u8]; 4] = [score.as_bytes(), member.as_bytes(), most_text.as_bytes(), direction];
    let (mut places, mut horizon): (Vec<ListPlace>, Option<ListPlace>) = (Vec::new(), None);
    for sources in sources.chunks(INDEXES_MAX) {
        let mut reads = Reads::default();
        for source in sources {
            reads.peek("PAGE", source, &args);
        }
        let replies = transaction.read(reads, loaded).await?;
        for at in 0..sources.len() {
            let entries = replies.scores(at)?;
            let full = entries.len() == most;
            for (member, score) in entries {
                places.push(ListPlace { at: small::at(score), id: small::id(member)? });
            }
            // Behind the last entry of an index that has more, the order is not known.
            if let Some(last) = places.last().filter(|_| full) {
                horizon = Some(match horizon {
                    Some(nearest) if order.compare(&nearest, last).is_lt() => nearest,
                    _ => *last,
                });
            }
        }
    }
    places.sort_unstable_by(|one, other| order.compare(one, other));
    if let Some(horizon) = horizon {
        places.retain(|place| order.compare(place, &horizon).is_le());
    }
    Ok((places, horizon.is_none()))
}

/// The ids of all ready jobs of these lanes, if they are not too many to be sorted.
async fn ready_ids(
    transaction: &Transaction<'_>,
    lanes: &[&LaneKey],
    loaded: &mut Loaded,
) -> Try<Option<Vec<JobId>>> {
    let mut ids = Vec::new();
    for lanes in lanes.chunks(INDEXES_MAX) {
        let (mut reads, most) = (Reads::default(), LIST_EXAMINED_MAX.to_string());
        for lane in lanes {
            reads.peek("ZRANGE", &transaction.keys.ready(lane), &[b"0", most.as_bytes()]);
        }
        let replies = transaction.read(reads, loaded).await?;
        for at in 0..lanes.len() {
            for member in replies.members(at)? {
                ids.push(small::read_entered(member)?.1);
            }
            if ids.len() > LIST_EXAMINED_MAX {
                return Ok(None);
            }
        }
    }
    Ok(Some(ids))
}

/// Fills a page from ids in any order; returns whether there are no more.
async fn fill_from(
    transaction: &Transaction<'_>,
    page: &mut Filling<'_>,
    request: &List,
    ids: Vec<JobId>,
    loaded: &mut Loaded,
) -> Try<bool> {
    let (order, span) = (request.order, page.span());
    let mut places: Vec<ListPlace> = ids.into_iter().map(ListPlace::enqueued).collect();
    places.retain(|place| span.includes(place));
    places.sort_unstable_by(|one, other| order.compare(one, other));
    let mut rest = places.as_slice();
    while !rest.is_empty() {
        let (now, later) = rest.split_at(rest.len().min(CHUNK));
        if !offer(transaction, page, request, now, loaded).await? {
            return Ok(false);
        }
        rest = later;
    }
    Ok(true)
}

/// Offers candidates in order; returns whether the page took all of them.
async fn offer(
    transaction: &Transaction<'_>,
    page: &mut Filling<'_>,
    request: &List,
    places: &[ListPlace],
    loaded: &mut Loaded,
) -> Try<bool> {
    let (filter, parts) = (&request.filter, page.parts());
    let wanted: Vec<JobId> =
        places.iter().filter(|place| may_fit(filter, place.id)).map(|place| place.id).collect();
    // Read in steps: a page rarely needs all of them.
    let mut found = std::collections::HashMap::new();
    let mut unread = wanted.as_slice();
    for place in places {
        if page.is_over() {
            return Ok(false);
        }
        if !may_fit(filter, place.id) {
            page.pass(*place);
            continue;
        }
        if !found.contains_key(&place.id) {
            let step = match parts == PartSet::NONE {
                true => page.wanted().max(ENTRIES_MIN),
                false => WITH_PARTS,
            };
            let (now, later) = unread.split_at(unread.len().min(step));
            let jobs = read_jobs(transaction, now, parts, loaded).await?;
            found.extend(now.iter().copied().zip(jobs));
            unread = later;
        }
        match found.get(&place.id).and_then(Option::as_ref) {
            // It may have moved meanwhile.
            Some(job) if ListPlace::of(&job.entry.job, request.sorted_by()) == *place => {
                page.examine(&job.entry);
            }
            _ => page.pass(*place),
        }
    }
    Ok(true)
}
