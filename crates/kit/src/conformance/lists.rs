//! Lists: their order, filled pages, bounded work, and cursors beside changes.

use crate::rig::{KIND, QUEUE, Rig, assert_refused};
use std::collections::HashSet;
use windlass_core::JobId;
use windlass_core::engine::{Change, Cursor, Filter, List, ListOrder, Outcome, Page, SettleItem};
use windlass_core::engine::{Settle, SortedBy};
use windlass_core::limits::{CLAIM_BATCH_MAX, LIST_EXAMINED_MAX, PAGE_MAX};
use windlass_core::model::{Due, Job, NewJob, State};
use windlass_core::policy::Retention;
use windlass_core::time::{HOUR_MS, MINUTE_MS, SECOND_MS};

/// Far more than one page examines.
const MANY: usize = 2 * LIST_EXAMINED_MAX;

pub(super) async fn scheduled_jobs_are_listed_by_when_they_are_due_next_first(rig: Rig) {
    let mut ids = Vec::new();
    for minutes in [30, 10, 20] {
        ids.push(rig.enqueue(Rig::job().due(Due::After(minutes * MINUTE_MS))).await);
    }
    ids.push(rig.enqueue(Rig::job().queue("other").due(Due::After(15 * MINUTE_MS))).await);
    let expected = [ids[1], ids[3], ids[2], ids[0]];
    assert_order(&rig, Filter::state(State::Scheduled), &expected, ListOrder::Oldest).await;
    let mine = Filter::state(State::Scheduled).queue(QUEUE);
    assert_order(&rig, mine, &[ids[1], ids[2], ids[0]], ListOrder::Oldest).await;
}

pub(super) async fn running_jobs_are_listed_by_their_start_latest_first(rig: Rig) {
    let session = rig.long_session().await;
    for priority in [3, 1, 2] {
        rig.enqueue(Rig::job().priority(priority)).await;
    }
    let mut started = Vec::new();
    for _ in 0..3 {
        rig.advance(SECOND_MS);
        started.push(rig.take_one(&session).await.header.id);
    }
    started.reverse();
    assert_order(&rig, Filter::state(State::Running), &started, ListOrder::Newest).await;
    assert_order(&rig, Filter::state(State::Running).kind(KIND), &started, ListOrder::Newest).await;
}

pub(super) async fn ended_jobs_are_listed_by_their_end_latest_first(rig: Rig) {
    let outcomes = [
        (State::Completed, Outcome::DONE),
        (State::Dead, Outcome::fail("bad", "for good")),
        (State::Cancelled, Outcome::Cancel),
    ];
    let session = rig.long_session().await;
    for (state, outcome) in outcomes {
        // The most urgent is enqueued last and ends first; one of them has a retention of its own.
        for priority in [3, 2, 1] {
            let mut job = Rig::job().priority(priority);
            job.policy.retention = (priority == 2).then(|| Retention::uniform_ms(HOUR_MS));
            rig.enqueue(job).await;
        }
        let mut ended = Vec::new();
        for _ in 0..3 {
            rig.advance(2 * SECOND_MS);
            let job = rig.take_one(&session).await;
            rig.settle(&job, outcome.clone()).await;
            ended.push(job.header.id);
        }
        ended.reverse();
        assert_order(&rig, Filter::state(state), &ended, ListOrder::Newest).await;
        assert_order(&rig, Filter::state(state).queue(QUEUE), &ended, ListOrder::Newest).await;
    }
    let late = rig.enqueue(Rig::job().max_wait_ms(MINUTE_MS)).await;
    let early = rig.enqueue(Rig::job().max_wait_ms(SECOND_MS)).await;
    rig.pass(2 * SECOND_MS).await;
    rig.pass(MINUTE_MS).await;
    assert_order(&rig, Filter::state(State::Expired), &[late, early], ListOrder::Newest).await;
}

pub(super) async fn other_lists_are_by_enqueueing_whatever_the_order_of_claims(rig: Rig) {
    let mut ids = Vec::new();
    for priority in [5, -5, 0] {
        ids.push(rig.enqueue(Rig::job().priority(priority)).await);
        rig.advance(SECOND_MS);
    }
    ids.reverse();
    for filter in [Filter::default(), Filter::default().queue(QUEUE)] {
        assert_order(&rig, filter, &ids, ListOrder::Newest).await;
    }
    assert_order(&rig, Filter::state(State::Available), &ids, ListOrder::Newest).await;
    for id in [ids[1], ids[0], ids[2]] {
        rig.change(id, Change::Pause).await;
    }
    assert_order(&rig, Filter::state(State::Paused), &ids, ListOrder::Newest).await;
}

pub(super) async fn jobs_that_ended_at_the_same_time_are_each_listed_once(rig: Rig) {
    let mut ids = rig.enqueue_all(vec![Rig::job(); 300]).await;
    let session = rig.session().await;
    let jobs = rig.take(&session, CLAIM_BATCH_MAX).await;
    let item = |job: &windlass_core::engine::ClaimedJob| {
        SettleItem::new(job.header.id, job.lease.clone(), Outcome::DONE)
    };
    rig.engine().settle(Settle::new(jobs.iter().map(item))).await.expect("settle");
    ids.sort_unstable();
    for order in [ListOrder::Oldest, ListOrder::Newest] {
        let mut listed = all(&rig, Filter::state(State::Completed).queue(QUEUE), order, 7).await;
        listed.sort_unstable();
        assert_eq!(listed, ids, "{order:?}");
    }
}

pub(super) async fn pages_are_filled_beside_the_jobs_of_others(rig: Rig) {
    for _ in 0..10 {
        rig.enqueue_all(vec![Rig::job(); 30]).await;
        rig.enqueue_all(vec![Rig::job().queue("other"); 300]).await;
        rig.advance(SECOND_MS);
    }
    let filters = [Filter::default().queue(QUEUE), Filter::state(State::Available).queue(QUEUE)];
    for filter in filters {
        let sizes = page_sizes(&rig, &filter, 100).await;
        assert_eq!(sizes, [100, 100, 100], "{filter:?}");
    }
    let tagged = rig.enqueue_all(vec![Rig::job().tag("rare"); 3]).await;
    rig.enqueue_all(vec![Rig::job(); 1_000]).await;
    let page = first(&rig, Filter::default().tag("rare"), 3).await;
    assert_eq!(ids_of(&page.rows).len(), tagged.len(), "a filter without an index scans on");
}

pub(super) async fn the_two_jobs_of_a_queue_are_found_at_once_among_thousands_of_another(rig: Rig) {
    let mine = rig.enqueue_all([Rig::job(), NewJob::new("rare").queue(QUEUE)]).await;
    rig.advance(MINUTE_MS);
    for _ in 0..MANY / 5_000 {
        rig.enqueue_all(vec![Rig::job().queue("other"); 5_000]).await;
    }
    let later = vec![Rig::job().queue("other").due(Due::After(HOUR_MS)); 5_000];
    rig.enqueue_all(later).await;
    let rare = mine[1];
    let both: HashSet<JobId> = mine.into_iter().collect();
    let queue = |state| {
        let mut filter = Filter::default().queue(QUEUE);
        filter.state = state;
        filter
    };
    for filter in [queue(None), queue(Some(State::Available))] {
        assert_few(&rig, filter, &both).await;
    }
    assert_few(&rig, Filter::default().kind("rare"), &HashSet::from([rare])).await;
    assert_few(&rig, queue(None).kind("rare"), &HashSet::from([rare])).await;
    let due = rig.enqueue(Rig::job().due(Due::After(2 * HOUR_MS))).await;
    assert_few(&rig, queue(Some(State::Scheduled)), &HashSet::from([due])).await;
    rig.change(rare, Change::Pause).await;
    assert_few(&rig, Filter::state(State::Paused), &HashSet::from([rare])).await;
    let done = rig.drain(1).await;
    assert_few(&rig, queue(Some(State::Completed)), &done.iter().copied().collect()).await;
    assert_few(&rig, Filter::state(State::Completed), &done.into_iter().collect()).await;
    assert_few(&rig, queue(None), &both.into_iter().chain([due]).collect()).await;
}

pub(super) async fn a_deep_queue_behind_a_deeper_one_fills_its_pages(rig: Rig) {
    let deep = LIST_EXAMINED_MAX + 2_000;
    for _ in 0..deep / 2_000 {
        rig.enqueue_all(vec![Rig::job(); 2_000]).await;
    }
    rig.advance(MINUTE_MS);
    for _ in 0..deep / 2_000 {
        rig.enqueue_all(vec![Rig::job().queue("other"); 2_000]).await;
    }
    for state in [None, Some(State::Available)] {
        let mut filter = Filter::default().queue(QUEUE);
        filter.state = state;
        let page = first(&rig, filter.clone(), 50).await;
        assert_eq!((page.rows.len(), page.next.is_some()), (50, true), "{filter:?}");
        assert!(page.rows.iter().all(|job| &*job.header.queue == QUEUE));
        let list = List::new(filter.clone()).limit(50).after(page.next);
        let second = rig.engine().list(list).await.expect("list").value;
        let ids = [ids_of(&page.rows), ids_of(&second.rows)].concat();
        assert_eq!(ids.len(), 100, "{filter:?}");
        assert!(ids.is_sorted_by(|one, next| one > next), "newest first, each once");
    }
}

pub(super) async fn a_page_is_short_only_once_it_has_examined_its_share(rig: Rig) {
    rig.enqueue(Rig::job().tag("rare")).await;
    rig.advance(MINUTE_MS);
    rig.enqueue_all(vec![Rig::job(); LIST_EXAMINED_MAX / 2]).await;
    rig.enqueue_all(vec![Rig::job(); LIST_EXAMINED_MAX / 2]).await;
    rig.advance(MINUTE_MS);
    let newest = rig.enqueue(Rig::job().tag("rare")).await;
    let list = List::new(Filter::default().tag("rare")).limit(10);
    let page = rig.engine().list(list.clone()).await.expect("list").value;
    assert_eq!(ids_of(&page.rows), [newest]);
    assert_eq!(page.examined, LIST_EXAMINED_MAX as u64, "it stops there");
    assert!(page.cut_short, "and says that it goes on");
    let rest = rig.engine().list(list.after(page.next)).await.expect("list").value;
    assert_eq!((rest.rows.len(), rest.next), (1, None), "the second page has the other one");
}

pub(super) async fn a_list_by_end_goes_on_where_it_was_beside_replays_and_new_deaths(rig: Rig) {
    let mut stable = Vec::new();
    for _ in 0..12 {
        stable.push(rig.dead(Rig::job()).await);
        rig.advance(SECOND_MS);
    }
    let mut guests = stable.split_off(6).into_iter();
    for order in [ListOrder::Newest, ListOrder::Oldest] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let list = List::new(Filter::state(State::Dead)).order(order).limit(2).after(after);
            let page = rig.engine().list(list).await.expect("list").value;
            seen.extend(ids_of(&page.rows));
            after = page.next;
            if after.is_none() {
                break;
            }
            assert!(seen.len() < 100, "the list does not end");
            // One dead job is replayed and dies again, later; another one is discarded.
            if let Some(replayed) = guests.next() {
                rig.change(replayed, Change::replay()).await;
                let session = rig.session().await;
                rig.advance(SECOND_MS);
                let job = rig.take_one(&session).await;
                rig.settle(&job, Outcome::fail("bad", "again")).await;
            }
            if let Some(discarded) = guests.next() {
                rig.change(discarded, Change::Discard).await;
            }
        }
        for id in &stable {
            let times = seen.iter().filter(|seen| *seen == id).count();
            assert_eq!(times, 1, "{order:?}: job {id}, which did not move");
        }
    }
}

pub(super) async fn a_list_by_due_time_goes_on_where_it_was_beside_jobs_that_become_due(rig: Rig) {
    let mut later = Vec::new();
    for n in 0..20 {
        let due_ms = if n % 2 == 0 { MINUTE_MS } else { HOUR_MS };
        let id = rig.enqueue(Rig::job().due(Due::After(due_ms + n))).await;
        if n % 2 == 1 {
            later.push(id);
        }
    }
    let list = List::new(Filter::state(State::Scheduled)).limit(8);
    let page = rig.engine().list(list.clone()).await.expect("list").value;
    let mut seen: Vec<JobId> = ids_of(&page.rows);
    rig.pass(2 * MINUTE_MS).await;
    let mut after = page.next;
    while let Some(cursor) = after {
        let page = rig.engine().list(list.clone().after(Some(cursor))).await.expect("list").value;
        seen.extend(ids_of(&page.rows));
        after = page.next;
    }
    let still: Vec<JobId> = seen.into_iter().filter(|id| later.contains(id)).collect();
    assert_eq!(still, later, "every job that stayed, once, in order");
}

pub(super) async fn a_cursor_belongs_to_lists_of_the_same_order(rig: Rig) {
    for _ in 0..3 {
        rig.dead(Rig::job()).await;
    }
    let page = first(&rig, Filter::state(State::Dead), 1).await;
    let by_end = page.next.expect("more");
    for filter in [Filter::default(), Filter::state(State::Scheduled)] {
        let list = List::new(filter).after(Some(by_end.clone()));
        assert_refused(rig.engine().list(list).await, "invalid", "cursor");
    }
    let list = List::new(Filter::state(State::Completed)).after(Some(by_end));
    assert!(rig.engine().list(list).await.is_ok(), "completed jobs are listed by end, too");
    for bad in ["x", "ended:1", "ended:1:2"] {
        let list = List::new(Filter::state(State::Dead)).after(Some(Cursor::new(bad)));
        assert_refused(rig.engine().list(list).await, "invalid", "cursor");
    }
}

/// Asserts the order of a list: `expected` by default and in the direction `usual`, and the reverse the other way.
async fn assert_order(rig: &Rig, filter: Filter, expected: &[JobId], usual: ListOrder) {
    assert_eq!(SortedBy::of(filter.state).usual_order(), usual);
    let page = first(rig, filter.clone(), PAGE_MAX).await;
    assert_eq!(ids_of(&page.rows), expected, "{filter:?} by default");
    assert_eq!(all(rig, filter.clone(), usual, 2).await, expected, "{filter:?} in pages");
    let other = match usual {
        ListOrder::Newest => ListOrder::Oldest,
        ListOrder::Oldest => ListOrder::Newest,
    };
    let reversed: Vec<JobId> = expected.iter().rev().copied().collect();
    assert_eq!(all(rig, filter.clone(), other, 1).await, reversed, "{filter:?} the other way");
}

/// Asserts that the first page has all jobs of the filter, and that few others were examined.
async fn assert_few(rig: &Rig, filter: Filter, expected: &HashSet<JobId>) {
    for order in [ListOrder::Newest, ListOrder::Oldest] {
        let list = List::new(filter.clone()).order(order).limit(10);
        let page = rig.engine().list(list).await.expect("list").value;
        let found: HashSet<JobId> = ids_of(&page.rows).into_iter().collect();
        assert_eq!((&found, &page.next), (expected, &None), "{filter:?} {order:?}");
        assert!(page.examined <= 20, "{filter:?} {order:?} examined {} jobs", page.examined);
    }
}

async fn first(rig: &Rig, filter: Filter, limit: u32) -> Page<Job> {
    rig.engine().list(List::new(filter).limit(limit)).await.expect("list").value
}

/// The sizes of all pages.
async fn page_sizes(rig: &Rig, filter: &Filter, limit: u32) -> Vec<usize> {
    let (mut sizes, mut after) = (Vec::new(), None);
    loop {
        let list = List::new(filter.clone()).limit(limit).after(after);
        let page = rig.engine().list(list).await.expect("list").value;
        sizes.push(page.rows.len());
        after = page.next;
        if after.is_none() || sizes.len() > 100 {
            return sizes;
        }
    }
}

/// The ids of all pages, in order. Every page but the last one is full.
async fn all(rig: &Rig, filter: Filter, order: ListOrder, limit: u32) -> Vec<JobId> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let list = List::new(filter.clone()).order(order).limit(limit).after(after);
        let page = rig.engine().list(list).await.expect("list").value;
        assert!(!page.cut_short, "a short page before the end: {filter:?}");
        assert!(ids.len() < 10_000, "the list does not end");
        ids.extend(ids_of(&page.rows));
        after = page.next;
        if after.is_none() {
            return ids;
        }
    }
}

fn ids_of(jobs: &[Job]) -> Vec<JobId> {
    jobs.iter().map(|job| job.header.id).collect()
}
