//! Queries: single jobs, pages of jobs, lane statistics.

use crate::rig::{KIND, QUEUE, Rig};
use std::collections::HashSet;
use windlass_core::engine::{
    Change, Configure, Filter, Gate, Get, LaneStats, List, ListOrder, Outcome, StatsRequest,
    UpdateItem,
};
use windlass_core::model::{Due, Job, KindPatch, NewJob, Part, PartEdit, Parts, QueuePatch, State};
use windlass_core::policy::Retention;
use windlass_core::time::{HOUR_MS, MINUTE_MS};
use windlass_core::{JobId, Timestamp};

pub(super) async fn jobs_are_read_in_the_requested_order_and_unknown_ids_are_none(rig: Rig) {
    let (a, b, unknown) = (rig.enqueue_one().await, rig.enqueue_one().await, Rig::fresh_id());
    let requested = [b, unknown, a, b];
    let read = rig.engine().get(Get::new(requested)).await.expect("get").value;
    let ids: Vec<_> = read.iter().map(|job| job.as_ref().map(|job| job.header.id)).collect();
    assert_eq!(ids, [Some(b), None, Some(a), Some(b)]);
    assert!(rig.engine().get(Get::new([])).await.expect("get").value.is_empty());
}

pub(super) async fn a_job_past_its_retention_is_unknown(rig: Rig) {
    let id = rig.enqueue_one().await;
    rig.drain(1).await;
    rig.change(id, Change::Discard).await;
    assert!(rig.find(id).await.is_none());
    assert!(all_pages(&rig, Filter::default(), ListOrder::Newest, 10).await.is_empty());
}

pub(super) async fn every_reply_carries_the_stores_time_and_epoch(rig: Rig) {
    let engine = rig.engine();
    let first = engine.health().await.expect("health");
    rig.advance(HOUR_MS);
    let stats = engine.stats(StatsRequest::default()).await.expect("stats");
    assert!(stats.now >= first.now.plus(HOUR_MS), "the store's clock was advanced");
    let get = engine.get(Get::new([Rig::fresh_id()])).await.expect("get");
    let list = engine.list(List::new(Filter::default())).await.expect("list");
    assert!(stats.now <= get.now && get.now <= list.now);
    assert!([&stats.epoch, &get.epoch, &list.epoch].iter().all(|epoch| **epoch == first.epoch));
}

pub(super) async fn stats_count_the_jobs_of_a_lane_by_state(rig: Rig) {
    one_in_each_state(&rig).await;
    let lane = lane(&rig, QUEUE, KIND).await;
    let counts = (lane.scheduled, lane.blocked, lane.available, lane.running, lane.paused);
    assert_eq!(counts, (1, 1, 1, 1, 1), "{lane:?}");
    let ended = (lane.completed, lane.dead, lane.cancelled, lane.expired);
    assert_eq!(ended, (1, 1, 1, 1), "{lane:?}");
    assert_eq!(lane.depth(), 4, "ended and running jobs do not count as depth");
    assert_eq!((lane.ended(), lane.total()), (4, 9));
    assert_eq!(lane.gate, None);
}

pub(super) async fn stats_follow_a_job_through_its_life(rig: Rig) {
    let id = rig.enqueue(Rig::job().due(Due::After(MINUTE_MS))).await;
    let counts = async || {
        let lane = lane(&rig, QUEUE, KIND).await;
        [lane.scheduled, lane.available, lane.running, lane.paused, lane.dead]
    };
    assert_eq!(counts().await, [1, 0, 0, 0, 0]);
    rig.change(id, Change::Pause).await;
    assert_eq!(counts().await, [0, 0, 0, 1, 0]);
    rig.change(id, Change::Resume).await;
    rig.pass(MINUTE_MS).await;
    assert_eq!(counts().await, [0, 1, 0, 0, 0]);
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    assert_eq!(counts().await, [0, 0, 1, 0, 0]);
    rig.settle(&claimed, Outcome::fail("code", "for good")).await;
    assert_eq!(counts().await, [0, 0, 0, 0, 1]);
    rig.change(id, Change::replay()).await;
    assert_eq!(counts().await, [0, 1, 0, 0, 0]);
    rig.drain(1).await;
    assert_eq!(counts().await, [0; 5]);
}

pub(super) async fn stats_count_ended_jobs_until_they_are_replayed_or_removed(rig: Rig) {
    let ended = async || {
        let lane = lane(&rig, QUEUE, KIND).await;
        [lane.completed, lane.dead, lane.cancelled, lane.expired]
    };
    let by_state = one_in_each_state(&rig).await;
    let of = |wanted| by_state.iter().find(|(state, _)| *state == wanted).expect("one").1;
    assert_eq!(ended().await, [1, 1, 1, 1]);
    rig.change(of(State::Cancelled), Change::replay()).await;
    assert_eq!(ended().await, [1, 1, 0, 1]);
    rig.change(of(State::Completed), Change::Discard).await;
    assert_eq!(ended().await, [0, 1, 0, 1]);
    rig.change(of(State::Cancelled), Change::Cancel).await;
    rig.change(of(State::Available), Change::Cancel).await;
    assert_eq!(ended().await, [0, 1, 2, 1]);
    let brief = Configure::queue(QUEUE, QueuePatch::retention(Retention::uniform_ms(MINUTE_MS)));
    rig.configure(brief).await;
    rig.pass(HOUR_MS).await;
    assert_eq!(ended().await, [0; 4], "retention has removed all of them");
}

pub(super) async fn stats_report_when_the_next_scheduled_job_of_a_lane_is_due(rig: Rig) {
    let next_due_at = async || lane(&rig, QUEUE, KIND).await.next_due_at;
    rig.enqueue_one().await;
    assert_eq!(next_due_at().await, None, "a ready job is due already");
    let mut ids = Vec::new();
    for hours in [3, 1, 2] {
        ids.push(rig.enqueue(Rig::job().due(Due::After(hours * HOUR_MS))).await);
    }
    rig.enqueue(Rig::job().queue("other").due(Due::After(MINUTE_MS))).await;
    let due_at = rig.get(ids[1]).await.header.run_at;
    assert_eq!(next_due_at().await, Some(due_at));
    rig.change(ids[1], Change::Pause).await;
    let due_at = rig.get(ids[2]).await.header.run_at;
    assert_eq!(next_due_at().await, Some(due_at), "the first one is paused");
    rig.pass(4 * HOUR_MS).await;
    assert_eq!(next_due_at().await, None, "all are ready");
}

pub(super) async fn paused_jobs_and_paused_queues_are_counted_apart(rig: Rig) {
    let ids = rig.enqueue_all(vec![Rig::job(); 3]).await;
    rig.change(ids[0], Change::Pause).await;
    let counts = async || {
        let lane = lane(&rig, QUEUE, KIND).await;
        (lane.paused, lane.blocked, lane.available, lane.gate)
    };
    assert_eq!(counts().await, (1, 0, 2, None), "one job is paused");
    rig.configure(Configure::queue(QUEUE, QueuePatch::paused(true))).await;
    let paused = Some(Gate::QueuePaused);
    assert_eq!(counts().await, (1, 0, 2, paused), "the jobs of a paused queue keep their states");
    rig.configure(Configure::queue(QUEUE, QueuePatch::paused(false))).await;
    rig.change(ids[0], Change::Resume).await;
    assert_eq!(counts().await, (0, 0, 3, None));
}

pub(super) async fn stats_are_grouped_by_queue_and_kind(rig: Rig) {
    for (queue, kind, count) in [("q1", "k1", 1), ("q1", "k2", 2), ("q2", "k1", 3)] {
        rig.enqueue_all(vec![NewJob::new(kind).queue(queue); count]).await;
    }
    let all = rig.engine().stats(StatsRequest::default()).await.expect("stats").value;
    let mut counts: Vec<_> =
        all.iter().map(|lane| (&*lane.queue, &*lane.kind, lane.available)).collect();
    counts.sort_unstable();
    assert_eq!(counts, [("q1", "k1", 1), ("q1", "k2", 2), ("q2", "k1", 3)]);
    let one = rig.engine().stats(StatsRequest::queue("q1")).await.expect("stats").value;
    let mut kinds: Vec<_> = one.iter().map(|lane| (&*lane.queue, &*lane.kind)).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, [("q1", "k1"), ("q1", "k2")]);
    assert!(rig.engine().stats(StatsRequest::queue("none")).await.expect("stats").value.is_empty());
}

pub(super) async fn stats_report_since_when_the_head_of_a_lane_is_ready(rig: Rig) {
    let mut ready = Vec::new();
    for _ in 0..2 {
        rig.pass(MINUTE_MS).await;
        let earliest = rig.now().await;
        rig.enqueue_one().await;
        ready.push(earliest..=rig.now().await);
    }
    let oldest = async || lane(&rig, QUEUE, KIND).await.head_ready_at;
    assert!(ready[0].contains(&oldest().await.expect("two jobs are ready")));
    rig.drain(1).await;
    assert!(ready[1].contains(&oldest().await.expect("one job is ready")));
    rig.drain(1).await;
    assert_eq!(oldest().await, None);
    rig.enqueue(Rig::job().due(Due::After(HOUR_MS))).await;
    assert_eq!(oldest().await, None, "a scheduled job has no ready time");
    let due = rig.now().await.plus(HOUR_MS);
    rig.pass(2 * HOUR_MS).await;
    let since: Timestamp = oldest().await.expect("it is ready");
    assert!(since >= due.minus(MINUTE_MS), "{since}: since it was due or promoted, not enqueued");
}

pub(super) async fn stats_report_why_a_lane_is_not_claimed(rig: Rig) {
    rig.enqueue_one().await;
    rig.enqueue(Rig::job().queue("other")).await;
    let gate = async |queue| lane(&rig, queue, KIND).await.gate;
    rig.configure(Configure::queue(QUEUE, QueuePatch::paused(true))).await;
    assert_eq!((gate(QUEUE).await, gate("other").await), (Some(Gate::QueuePaused), None));
    rig.configure(Configure::queue(QUEUE, QueuePatch::paused(false))).await;
    rig.configure(Configure::kind(KIND, KindPatch::paused(true))).await;
    let paused = Some(Gate::KindPaused);
    assert_eq!((gate(QUEUE).await, gate("other").await), (paused, paused));
    rig.configure(Configure::kind(KIND, KindPatch::paused(false))).await;
    rig.configure(Configure::kind(KIND, KindPatch::permits(Some(0)))).await;
    assert_eq!(gate(QUEUE).await, Some(Gate::NoPermits));
    rig.configure(Configure::kind(KIND, KindPatch::permits(Some(1)))).await;
    assert_eq!(gate(QUEUE).await, None);
    rig.drain(1).await;
    assert_eq!(gate("other").await, Some(Gate::NoPermits), "the one permit is taken");
}

pub(super) async fn a_listing_shows_the_jobs_that_pass_its_filter(rig: Rig) {
    let by_state = one_in_each_state(&rig).await;
    let other_kind = rig.enqueue(NewJob::new("other").queue(QUEUE)).await;
    let other_queue = rig.enqueue(Rig::job().queue("other")).await;
    for (state, id) in &by_state {
        let filter = Filter::state(*state).queue(QUEUE).kind(KIND);
        let jobs = all_pages(&rig, filter, ListOrder::Newest, 10).await;
        assert_eq!(ids_of(&jobs), [*id], "{state}");
        assert_eq!(jobs[0].state, *state);
    }
    let ids = async |filter| {
        let jobs = all_pages(&rig, filter, ListOrder::Newest, 10).await;
        jobs.iter().map(|job| job.header.id).collect::<HashSet<_>>()
    };
    assert_eq!(ids(Filter::default().kind("other")).await, HashSet::from([other_kind]));
    assert_eq!(ids(Filter::default().queue("other")).await, HashSet::from([other_queue]));
    let available = by_state.iter().find(|(state, _)| *state == State::Available);
    let available = HashSet::from([available.expect("one").1, other_kind, other_queue]);
    assert_eq!(ids(Filter::state(State::Available)).await, available);
    assert!(ids(Filter::default().queue("none")).await.is_empty());
    assert_eq!(ids(Filter::default()).await.len(), by_state.len() + 2);
}

pub(super) async fn a_list_returns_the_fields_of_a_read_without_parts_and_history(rig: Rig) {
    let id = rig.enqueue(Rig::job().tag("t").json("1")).await;
    let session = rig.session().await;
    rig.settle(&rig.take_one(&session).await, Outcome::Release).await;
    let claimed = rig.take_one(&session).await;
    let update = UpdateItem::new(id, claimed.lease.clone()).log("line").progress(1, None, "n");
    rig.update(update.checkpoint(PartEdit::Set(Part::new("s")))).await.expect("update");
    let mut expected = rig.get(id).await;
    assert!(!expected.history.is_empty() && !expected.log.is_empty());
    (expected.parts, expected.history, expected.log) = (Parts::default(), vec![], vec![]);
    let listed = all_pages(&rig, Filter::default(), ListOrder::Newest, 10).await;
    assert_eq!(listed, [expected]);
}

pub(super) async fn a_listing_is_ordered_by_id_either_way(rig: Rig) {
    let mut ids = Vec::new();
    for priority in [5, 0, -5, 3] {
        ids.push(rig.enqueue(Rig::job().priority(priority)).await);
        rig.advance(MINUTE_MS);
    }
    let oldest = all_pages(&rig, Filter::default(), ListOrder::Oldest, 3).await;
    assert_eq!(ids_of(&oldest), ids, "by creation time");
    ids.reverse();
    let newest = all_pages(&rig, Filter::default(), ListOrder::Newest, 3).await;
    assert_eq!(ids_of(&newest), ids);
}

pub(super) async fn pages_cover_every_job_once(rig: Rig) {
    let mut ids = rig.enqueue_all(vec![Rig::job(); 100]).await;
    rig.enqueue_all(vec![Rig::job().queue("other"); 100]).await;
    ids.sort_unstable();
    for limit in [1, 7, 50, 100, 1_000] {
        let filter = Filter::state(State::Available).queue(QUEUE);
        let listed = all_pages(&rig, filter, ListOrder::Oldest, limit).await;
        assert_eq!(ids_of(&listed), ids, "in pages of {limit}");
    }
    ids.reverse();
    let listed = all_pages(&rig, Filter::default().queue(QUEUE), ListOrder::Newest, 9).await;
    assert_eq!(ids_of(&listed), ids);
}

pub(super) async fn pages_cover_every_job_once_while_others_come_and_go(rig: Rig) {
    for order in [ListOrder::Oldest, ListOrder::Newest] {
        let stable = rig.enqueue_all(vec![Rig::job(); 30]).await;
        let (mut seen, mut after) = (Vec::new(), None);
        let mut guest = None;
        loop {
            let list = List::new(Filter::state(State::Available)).order(order).limit(7);
            let page = rig.engine().list(list.after(after)).await.expect("list").value;
            seen.extend(ids_of(&page.rows));
            after = page.next;
            if after.is_none() {
                break;
            }
            assert!(seen.len() < 1_000, "the listing does not end");
            let newcomer = rig.enqueue_one().await;
            if let Some(leaving) = guest.replace(newcomer) {
                rig.change(leaving, Change::Cancel).await;
            }
        }
        for id in stable {
            let times = seen.iter().filter(|seen| **seen == id).count();
            assert_eq!(times, 1, "{order:?}: job {id}");
            rig.change(id, Change::Cancel).await;
        }
    }
}

pub(super) async fn a_listing_finds_the_one_job_among_many_others(rig: Rig) {
    let ids = [rig.enqueue_one().await];
    rig.advance(MINUTE_MS);
    for _ in 0..3 {
        rig.enqueue_all(vec![Rig::job().queue("other"); 5_000]).await;
    }
    let filter = Filter::state(State::Available).queue(QUEUE);
    for order in [ListOrder::Newest, ListOrder::Oldest] {
        let listed = all_pages(&rig, filter.clone(), order, 1_000).await;
        assert_eq!(ids_of(&listed), ids, "however far away it is, {order:?} first");
    }
}

/// The statistics of a lane; an empty one may be missing from the reply.
async fn lane(rig: &Rig, queue: &str, kind: &str) -> LaneStats {
    let lanes = rig.engine().stats(StatsRequest::queue(queue)).await.expect("stats").value;
    let found = lanes.into_iter().find(|lane| &*lane.kind == kind);
    found.unwrap_or_else(|| LaneStats::empty(queue.into(), kind.into()))
}

/// All rows of a listing, page by page; no page may exceed its limit.
async fn all_pages(rig: &Rig, filter: Filter, order: ListOrder, limit: u32) -> Vec<Job> {
    let (mut rows, mut after) = (Vec::new(), None);
    loop {
        let list = List::new(filter.clone()).order(order).limit(limit).after(after);
        let page = rig.engine().list(list).await.expect("list").value;
        assert!(page.rows.len() <= limit as usize && rows.len() < 10_000, "it does not end");
        rows.extend(page.rows);
        after = page.next;
        if after.is_none() {
            return rows;
        }
    }
}

fn ids_of(jobs: &[Job]) -> Vec<JobId> {
    jobs.iter().map(|job| job.header.id).collect()
}

/// One job of the default lane in each state.
async fn one_in_each_state(rig: &Rig) -> Vec<(State, JobId)> {
    let expired = rig.enqueue(Rig::job().max_wait_ms(1)).await;
    rig.pass(1).await;
    let session = rig.session().await;
    let mut ids = vec![(State::Expired, expired)];
    let ends = [(State::Completed, Outcome::DONE), (State::Dead, Outcome::fail("code", "end"))];
    for (state, outcome) in ends {
        ids.push((state, rig.enqueue_one().await));
        rig.settle(&rig.take_one(&session).await, outcome).await;
    }
    ids.push((State::Running, rig.enqueue(Rig::job().key("line")).await));
    rig.take_one(&session).await;
    ids.push((State::Blocked, rig.enqueue(Rig::job().key("line")).await));
    ids.push((State::Scheduled, rig.enqueue(Rig::job().due(Due::After(HOUR_MS))).await));
    for (state, change) in [(State::Paused, Change::Pause), (State::Cancelled, Change::Cancel)] {
        let id = rig.enqueue_one().await;
        rig.change(id, change).await;
        ids.push((state, id));
    }
    ids.push((State::Available, rig.enqueue_one().await));
    for (state, id) in &ids {
        rig.assert_state(*id, *state).await;
    }
    ids
}
