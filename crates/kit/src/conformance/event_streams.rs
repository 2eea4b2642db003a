//! Streams of events: cursors, bounds and gaps, waiting, and readers beside writers.

use super::events::{OTHER, jobs, on, read, switch_on, try_read};
use crate::rig::{QUEUE, Rig, assert_refused};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use windlass_core::JobId;
use windlass_core::engine::{
    Capability, Configure, Cursor, EventEntry, EventsFrom, EventsRequest, Outcome, Settle,
    SettleItem, Work,
};
use windlass_core::limits::{
    EVENTS_AGE_MAX_MS, EVENTS_AGE_MIN_MS, EVENTS_KEPT_MAX, PAGE_MAX, WAIT_MAX_MS,
};
use windlass_core::model::{EventBounds, NewJob, QueuePatch};
use windlass_core::time::MINUTE_MS;

/// Pause of a writer between two batches.
const PAUSE: Duration = Duration::from_millis(1);
/// Longer than any engine should need to notice an event.
const LONG_MS: u64 = 30_000;

/// Long enough to be sure that nothing happens.
const BRIEF_MS: u64 = 20;

pub(super) async fn a_reader_continues_after_its_cursor(rig: Rig) {
    if !on(&rig).await {
        return;
    }
    let start = read(&rig, EventsRequest::new(QUEUE)).await;
    assert_eq!((start.events.len(), start.gap), (0, false));
    let ids = rig.enqueue_all((0..5).map(|_| Rig::job())).await;
    let mut cursor = start.next;
    let (mut seen, mut each) = (Vec::new(), Vec::new());
    for expected in [2, 2, 1, 0] {
        let page = read(&rig, EventsRequest::new(QUEUE).after(cursor).limit(2)).await;
        assert_eq!((page.events.len(), page.gap), (expected, false));
        if let Some(last) = page.events.last() {
            assert_eq!(page.next, last.cursor);
        }
        seen.extend(jobs(&page.events));
        each.extend(page.events);
        cursor = page.next;
    }
    assert_eq!(seen, ids);
    for (index, entry) in each.iter().enumerate() {
        let rest = read(&rig, EventsRequest::new(QUEUE).after(entry.cursor.clone())).await;
        assert_eq!(jobs(&rest.events), ids[index + 1..], "a position in the middle of a page");
    }
    let latest = EventsRequest::new(QUEUE).from(EventsFrom::Latest);
    let end = read(&rig, latest).await;
    assert_eq!((end.events.len(), end.gap, &end.next), (0, false, &cursor));
    let next = rig.enqueue_one().await;
    let page = read(&rig, EventsRequest::new(QUEUE).after(end.next)).await;
    assert_eq!(jobs(&page.events), [next]);
}

pub(super) async fn events_beyond_their_number_are_dropped_and_leave_a_gap(rig: Rig) {
    if !rig.has(Capability::Events) {
        return;
    }
    switch_on(&rig, QUEUE, EventBounds::default().with_max(3)).await;
    let start = read(&rig, EventsRequest::new(QUEUE)).await.next;
    let mut ids = rig.enqueue_all((0..3).map(|_| Rig::job())).await;
    let page = read(&rig, EventsRequest::new(QUEUE).after(start.clone())).await;
    assert_eq!((jobs(&page.events), page.gap), (ids.clone(), false));
    let first = page.events[0].cursor.clone();
    ids.push(rig.enqueue_one().await);
    let page = read(&rig, EventsRequest::new(QUEUE).after(start.clone())).await;
    assert_eq!((jobs(&page.events), page.gap), (ids[1..].to_vec(), true), "the first is dropped");
    let page = read(&rig, EventsRequest::new(QUEUE).after(first)).await;
    assert_eq!((jobs(&page.events), page.gap), (ids[1..].to_vec(), false), "it has seen the first");
    let page = read(&rig, EventsRequest::new(QUEUE)).await;
    assert_eq!((jobs(&page.events), page.gap), (ids[1..].to_vec(), false));
    let ids = rig.enqueue_all((0..2_000).map(|_| Rig::job())).await;
    let page = read(&rig, EventsRequest::new(QUEUE).after(page.next).limit(2)).await;
    assert_eq!((jobs(&page.events), page.gap), (ids[1_997..1_999].to_vec(), true));
    let page = read(&rig, EventsRequest::new(QUEUE).after(page.next)).await;
    assert_eq!((jobs(&page.events), page.gap), (ids[1_999..].to_vec(), false), "once per gap");
    // Another number holds at once for new events, and for old ones with the next maintenance.
    switch_on(&rig, QUEUE, EventBounds::default().with_max(1)).await;
    rig.maintain(Work::Compact).await;
    let page = read(&rig, EventsRequest::new(QUEUE).after(start)).await;
    assert_eq!((jobs(&page.events), page.gap), (ids[1_999..].to_vec(), true));
    rig.assert_sound().await;
}

pub(super) async fn events_beyond_their_age_are_dropped_and_leave_a_gap(rig: Rig) {
    if !rig.has(Capability::Events) {
        return;
    }
    let bounds = EventBounds::default().with_max_age_ms(MINUTE_MS);
    switch_on(&rig, QUEUE, bounds).await;
    let start = read(&rig, EventsRequest::new(QUEUE)).await.next;
    rig.enqueue_all([Rig::job(), Rig::job()]).await;
    rig.pass(MINUTE_MS).await;
    let young = rig.enqueue_one().await;
    let page = read(&rig, EventsRequest::new(QUEUE).after(start.clone())).await;
    assert_eq!((page.events.len(), page.gap), (3, false), "kept for a minute");
    rig.advance(1);
    let step = rig.maintain_step(Work::Compact, 1).await;
    assert!(step.more, "a step drops as many as its budget");
    rig.maintain(Work::Compact).await;
    let page = read(&rig, EventsRequest::new(QUEUE).after(start)).await;
    assert_eq!((jobs(&page.events), page.gap), (vec![young], true));
    rig.pass(MINUTE_MS).await;
    let end = read(&rig, EventsRequest::new(QUEUE).after(page.next)).await;
    assert_eq!((end.events.len(), end.gap), (0, false), "it has seen all that were dropped");
}

pub(super) async fn two_queues_have_streams_of_their_own(rig: Rig) {
    if !on(&rig).await {
        return;
    }
    switch_on(&rig, OTHER, EventBounds::default()).await;
    let here = rig.enqueue_one().await;
    let there = rig.enqueue(NewJob::new("k").queue(OTHER)).await;
    rig.enqueue(NewJob::new("k").queue("silent")).await;
    let [ours, theirs] = [QUEUE, OTHER].map(EventsRequest::new);
    let (ours, theirs) = (read(&rig, ours).await, read(&rig, theirs).await);
    assert_eq!((jobs(&ours.events), jobs(&theirs.events)), (vec![here], vec![there]));
    let request = EventsRequest::new(QUEUE).after(theirs.next);
    assert_refused(try_read(&rig, request).await, "invalid", "after");
}

pub(super) async fn switching_events_off_and_on_begins_a_new_stream(rig: Rig) {
    if !on(&rig).await {
        return;
    }
    rig.enqueue_all([Rig::job(), Rig::job()]).await;
    let old = read(&rig, EventsRequest::new(QUEUE).limit(1)).await.next;
    on(&rig).await;
    let page = read(&rig, EventsRequest::new(QUEUE).after(old.clone())).await;
    assert_eq!((page.events.len(), page.gap), (1, false), "they were on");
    rig.configure(Configure::queue(QUEUE, QueuePatch::events(None))).await;
    let missed = rig.enqueue_one().await;
    on(&rig).await;
    let seen = rig.enqueue_one().await;
    for _ in 0..2 {
        let page = read(&rig, EventsRequest::new(QUEUE).after(old.clone())).await;
        assert_eq!((jobs(&page.events), page.gap), (vec![seen], true), "without {missed}");
        rig.maintain(Work::Compact).await;
    }
}

pub(super) async fn a_reader_waits_for_the_next_event_and_no_longer_than_asked(rig: Rig) {
    if !on(&rig).await {
        return;
    }
    let request = EventsRequest::new(QUEUE).from(EventsFrom::Latest);
    let nothing = read(&rig, request.clone().wait_ms(BRIEF_MS)).await;
    assert_eq!((nothing.events.len(), nothing.gap), (0, false));
    let tasks: Vec<_> = (0..2)
        .map(|_| {
            let (rig, request) = (rig.clone(), request.clone().wait_ms(LONG_MS));
            tokio::spawn(async move { read(&rig, request).await })
        })
        .collect();
    // Gives the readers a moment to begin.
    read(&rig, request.wait_ms(BRIEF_MS)).await;
    let id = rig.enqueue_one().await;
    for task in tasks {
        let page = task.await.expect("a reader");
        assert_eq!(page.events.first().map(|entry| entry.event.job), Some(id));
    }
    let there = read(&rig, EventsRequest::new(QUEUE).wait_ms(LONG_MS)).await;
    assert_eq!(jobs(&there.events), [id], "at once");
}

/// A reader that keeps its position, and what it has learned.
struct Reader {
    request: EventsRequest,
    /// The number of the last event of each job, and the number of gaps before it.
    seen: BTreeMap<JobId, (u32, u32)>,
    gaps: u32,
}

impl Reader {
    async fn new(rig: &Rig) -> Self {
        let start = read(rig, EventsRequest::new(QUEUE)).await.next;
        let request = EventsRequest::new(QUEUE).after(start).limit(7).wait_ms(BRIEF_MS);
        Self { request, seen: BTreeMap::new(), gaps: 0 }
    }

    /// Reads the next page; returns whether it has events. Dropped before its end, it has read nothing.
    async fn step(&mut self, rig: &Rig) -> bool {
        let page = read(rig, self.request.clone()).await;
        self.gaps += u32::from(page.gap);
        let has_events = !page.events.is_empty();
        for EventEntry { event, .. } in page.events {
            let (last, gaps) = self.seen.get(&event.job).copied().unwrap_or_default();
            let is_next = event.number == last + 1;
            let is_after_gap = event.number > last && self.gaps > gaps;
            assert!(is_next || is_after_gap, "after {last} came {event:?}, and no gap before it");
            self.seen.insert(event.job, (event.number, self.gaps));
        }
        self.request = self.request.clone().after(page.next);
        has_events
    }
}

/// Enqueues, claims, completes and releases jobs until `stop` is set; returns the ids of its jobs.
async fn write_until(rig: Rig, stop: Arc<AtomicBool>) -> Vec<JobId> {
    let session = rig.long_session().await;
    let mut ids = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        // An engine that never waits, such as the one in memory, lets no other task run.
        tokio::time::sleep(PAUSE).await;
        ids.extend(rig.enqueue_all([Rig::job(), Rig::job()]).await);
        let claimed = rig.take(&session, 2).await;
        let outcomes = [Outcome::DONE, Outcome::Release];
        let items = claimed.into_iter().zip(outcomes);
        let items = items.map(|(job, end)| SettleItem::new(job.header.id, job.lease, end));
        let items: Vec<_> = items.collect();
        if !items.is_empty() {
            rig.engine().settle(Settle::new(items)).await.expect("settle");
        }
    }
    ids
}

/// Drops a reader 50 times beside four writers, and continues from its last cursor each time.
async fn drop_and_resume(rig: &Rig, bounds: EventBounds) -> Reader {
    switch_on(rig, QUEUE, bounds).await;
    let mut reader = Reader::new(rig).await;
    let stop = Arc::new(AtomicBool::new(false));
    let writers = (0..4).map(|_| tokio::spawn(write_until(rig.clone(), stop.clone())));
    let writers: Vec<_> = writers.collect();
    for round in 0..50 {
        let reads = async {
            loop {
                reader.step(rig).await;
                tokio::task::yield_now().await;
            }
        };
        drop(tokio::time::timeout(Duration::from_millis(round % 10), reads).await);
    }
    stop.store(true, Ordering::SeqCst);
    let mut ids = Vec::new();
    for writer in writers {
        ids.extend(writer.await.expect("a writer"));
    }
    while reader.step(rig).await {}
    for id in ids {
        let transitions = rig.get(id).await.transitions;
        let (last, gaps) = reader.seen.get(&id).copied().unwrap_or_default();
        assert!(last == transitions || reader.gaps > gaps, "job {id}: {last} of {transitions}");
    }
    reader
}

pub(super) async fn a_reader_that_is_dropped_fifty_times_misses_no_event(rig: Rig) {
    if !rig.has(Capability::Events) {
        return;
    }
    let reader = drop_and_resume(&rig, EventBounds::default().with_max(EVENTS_KEPT_MAX)).await;
    assert_eq!(reader.gaps, 0);
    assert!(!reader.seen.is_empty());
}

pub(super) async fn a_reader_that_is_too_slow_learns_of_every_gap(rig: Rig) {
    if !rig.has(Capability::Events) {
        return;
    }
    drop_and_resume(&rig, EventBounds::default().with_max(10)).await;
}

pub(super) async fn bad_requests_and_bounds_are_refused_by_field(rig: Rig) {
    if !on(&rig).await {
        return;
    }
    let request = EventsRequest::new(QUEUE);
    let bad = [
        (EventsRequest::new(""), "queue"),
        (request.clone().limit(0), "limit"),
        (request.clone().limit(PAGE_MAX + 1), "limit"),
        (request.clone().wait_ms(WAIT_MAX_MS + 1), "wait_ms"),
        (request.after(Cursor::new("yesterday")), "after"),
    ];
    for (request, field) in bad {
        assert_refused(try_read(&rig, request).await, "invalid", field);
    }
    let usual = EventBounds::default();
    let bad = [
        (usual.with_max(0), "events.max"),
        (usual.with_max(EVENTS_KEPT_MAX + 1), "events.max"),
        (usual.with_max_age_ms(EVENTS_AGE_MIN_MS - 1), "events.max_age_ms"),
        (usual.with_max_age_ms(EVENTS_AGE_MAX_MS + 1), "events.max_age_ms"),
    ];
    let before = rig.engine().settings().await.expect("settings").value;
    for (bounds, field) in bad {
        let change = Configure::queue(QUEUE, QueuePatch::events(Some(bounds)));
        assert_refused(rig.try_configure(change).await, "invalid", field);
    }
    assert_eq!(rig.engine().settings().await.expect("settings").value, before);
}

pub(super) async fn events_of_many_queues_are_paged_and_numbered_apart(rig: Rig) {
    if !rig.has(Capability::Events) {
        return;
    }
    let queues: Vec<String> = (0..5).map(|n| format!("q.{n}")).collect();
    for queue in &queues {
        switch_on(&rig, queue, EventBounds::default()).await;
    }
    let batch = (0..1_500).map(|n: usize| NewJob::new("k").queue(queues[n % 5].as_str()));
    let ids = rig.enqueue_all(batch).await;
    let mut cursors = BTreeSet::new();
    for (offset, queue) in queues.iter().enumerate() {
        let mut request = EventsRequest::new(queue.as_str()).limit(100);
        let mut seen = Vec::new();
        for _ in 0..3 {
            let page = read(&rig, request.clone()).await;
            seen.extend(jobs(&page.events));
            cursors.extend(page.events.into_iter().map(|entry| entry.cursor));
            request = request.after(page.next);
        }
        let expected: Vec<JobId> = ids.iter().skip(offset).step_by(5).copied().collect();
        assert_eq!(seen, expected);
    }
    assert_eq!(cursors.len(), 1_500);
}
