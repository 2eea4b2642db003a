//! Events: which transitions are recorded, and what they say. See `event_streams` for reading them.

use crate::rig::{QUEUE, Rig, assert_code, assert_refused};
use windlass_core::engine::{
    Capability, Change, Configure, Event, EventEntry, EventsReply, EventsRequest, Outcome,
    SettleItem, Work,
};
use windlass_core::limits::PAGE_MAX;
use windlass_core::machine::EventKind as E;
use windlass_core::model::{
    Dependency, Due, EventBounds, Finish, NewJob, OnFailure, QueuePatch, State,
};
use windlass_core::policy::{Backoff, OnConflict, Retention, Unique};
use windlass_core::time::{HOUR_MS, MINUTE_MS, SECOND_MS};
use windlass_core::{JobId, Result};

/// Another queue.
pub(super) const OTHER: &str = "other";

pub(super) async fn switch_on(rig: &Rig, queue: &str, bounds: EventBounds) {
    rig.configure(Configure::queue(queue, QueuePatch::events(Some(bounds)))).await;
}

/// Switches the events of the default queue on, if the engine has events.
pub(super) async fn on(rig: &Rig) -> bool {
    let has = rig.has(Capability::Events);
    if has {
        switch_on(rig, QUEUE, EventBounds::default()).await;
    }
    has
}

pub(super) async fn try_read(rig: &Rig, request: EventsRequest) -> Result<EventsReply> {
    rig.engine().events(request).await.map(|reply| reply.value)
}

pub(super) async fn read(rig: &Rig, request: EventsRequest) -> EventsReply {
    try_read(rig, request).await.expect("events")
}

/// All events of a queue that are kept.
pub(super) async fn all(rig: &Rig, queue: &str) -> Vec<Event> {
    let mut request = EventsRequest::new(queue).limit(PAGE_MAX);
    let mut all = Vec::new();
    loop {
        let page = read(rig, request.clone()).await;
        assert!(!page.gap, "nothing is dropped");
        let is_last = page.events.len() < PAGE_MAX as usize;
        all.extend(page.events.into_iter().map(|entry| entry.event));
        if is_last {
            return all;
        }
        request = request.after(page.next);
    }
}

/// What happened to a job.
fn life(events: &[Event], job: JobId) -> Vec<(E, Option<State>)> {
    let of_job = events.iter().filter(|event| event.job == job);
    of_job.map(|event| (event.event, event.state)).collect()
}

pub(super) fn jobs(entries: &[EventEntry]) -> Vec<JobId> {
    entries.iter().map(|entry| entry.event.job).collect()
}

pub(super) async fn every_transition_of_a_job_is_an_event_in_its_order(rig: Rig) {
    if !on(&rig).await {
        return;
    }
    let mut job = Rig::job().due(Due::After(MINUTE_MS));
    job.policy.backoff = Backoff::Fixed { delay_ms: SECOND_MS, jitter_ms: 0 };
    job.policy.retention = Some(Retention::uniform_ms(HOUR_MS));
    let begin = rig.now().await;
    let id = rig.enqueue(job).await;
    rig.pass(MINUTE_MS).await;
    let session = rig.long_session().await;
    let first = rig.take_one(&session).await;
    rig.settle(&first, Outcome::retry("smtp_451", "try later")).await;
    rig.pass(MINUTE_MS).await;
    let second = rig.take_one(&session).await;
    rig.settle(&second, Outcome::DONE).await;
    assert_eq!(rig.get(id).await.transitions, 7);
    rig.pass(2 * HOUR_MS).await;
    let events = all(&rig, QUEUE).await;
    let expected = [
        (E::Enqueue, Some(State::Scheduled)),
        (E::Due, Some(State::Available)),
        (E::Claim, Some(State::Running)),
        (E::Retry, Some(State::Scheduled)),
        (E::Due, Some(State::Available)),
        (E::Claim, Some(State::Running)),
        (E::Complete, Some(State::Completed)),
        (E::Retain, None),
    ];
    assert_eq!(life(&events, id), expected);
    let numbers: Vec<u32> = events.iter().map(|event| event.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8]);
    let attempts: Vec<u32> = events.iter().map(|event| event.attempt).collect();
    assert_eq!(attempts, [0, 0, 1, 1, 1, 2, 2, 2]);
    let errors: Vec<_> = events.iter().map(|event| event.error.as_deref()).collect();
    assert_eq!(errors, [None, None, None, Some("smtp_451"), None, None, None, None]);
    let reasons: Vec<_> = events.iter().filter_map(|event| event.reason.clone()).collect();
    assert_eq!(reasons, [Finish::Completed]);
    let times: Vec<u64> = events.iter().map(|event| event.at.since(begin)).collect();
    assert_eq!(times[..4], [0, MINUTE_MS, MINUTE_MS, MINUTE_MS], "the store's clock");
    assert!(events.iter().all(|event| &*event.queue == QUEUE && &*event.kind == "k"));
}

pub(super) async fn every_way_to_end_has_its_reason(rig: Rig) {
    if !on(&rig).await {
        return;
    }
    let mut once = Rig::job();
    once.policy.max_attempts = 1;
    let spent = rig.enqueue(once).await;
    let session = rig.long_session().await;
    let claimed = rig.take_one(&session).await;
    rig.settle(&claimed, Outcome::retry("oops", "again")).await;
    let failed = rig.dead(Rig::job()).await;
    let killed = rig.enqueue_one().await;
    rig.change(killed, Change::Kill).await;
    let cancelled = rig.enqueue_one().await;
    rig.change(cancelled, Change::Cancel).await;
    let expired = rig.enqueue(Rig::job().max_wait_ms(1)).await;
    rig.pass(SECOND_MS).await;
    rig.change(cancelled, Change::Discard).await;
    let mut fragile = Rig::job();
    fragile.policy.max_crashes = 0;
    let lost = rig.enqueue(fragile).await;
    let session = rig.session().await;
    rig.take_one(&session).await;
    rig.crash(&session).await;
    let events = all(&rig, QUEUE).await;
    let end = |job| {
        let last = events.iter().rfind(|event| event.job == job && event.state.is_some());
        let last = last.expect("an event");
        (last.event, last.state.expect("a state"), last.reason.clone(), last.error.as_deref())
    };
    let oops = Some("oops");
    assert_eq!(end(spent), (E::Retry, State::Dead, Some(Finish::AttemptsSpent), oops));
    assert_eq!(end(failed), (E::Fail, State::Dead, Some(Finish::Failed), Some("bad")));
    assert_eq!(end(killed), (E::Kill, State::Dead, Some(Finish::Killed), None));
    assert_eq!(end(cancelled), (E::Cancel, State::Cancelled, Some(Finish::Cancelled), None));
    assert_eq!(end(expired), (E::Expire, State::Expired, Some(Finish::Expired), None));
    assert_eq!(end(lost), (E::Lose, State::Dead, Some(Finish::CrashesSpent), None));
    let removed = events.iter().find(|event| event.state.is_none()).expect("the discard");
    assert_eq!((removed.job, removed.event, removed.number), (cancelled, E::Discard, 3));
}

pub(super) async fn follow_ups_and_jobs_that_others_free_or_replace_are_events(rig: Rig) {
    if !on(&rig).await {
        return;
    }
    let first = rig.enqueue(Rig::job().key("a")).await;
    let second = rig.enqueue(Rig::job().key("a")).await;
    let session = rig.long_session().await;
    let claimed = rig.take_one(&session).await;
    let item = SettleItem::new(first, claimed.lease, Outcome::DONE).follow_up(Rig::job());
    let follow_up = rig.try_settle(item).await.expect("settle").follow_ups[0].id;
    let unique = Unique::by("u").on_conflict(OnConflict::Replace);
    let replaced = rig.enqueue(Rig::job().unique(unique.clone())).await;
    let newer = rig.enqueue(Rig::job().unique(unique)).await;
    let events = all(&rig, QUEUE).await;
    let enqueued = (E::Enqueue, Some(State::Available));
    assert_eq!(
        life(&events, second),
        [(E::Enqueue, Some(State::Blocked)), (E::Free, Some(State::Available))]
    );
    assert_eq!(life(&events, follow_up), [enqueued]);
    assert_eq!(life(&events, replaced), [enqueued, (E::Cancel, Some(State::Cancelled))]);
    let cancel = events.iter().rfind(|event| event.job == replaced).expect("its end");
    assert_eq!(cancel.reason, Some(Finish::ReplacedBy(newer)));
}

pub(super) async fn a_failure_that_ends_dependents_is_an_event_of_each(rig: Rig) {
    if !on(&rig).await || !rig.has_flows().await {
        return;
    }
    let first = rig.enqueue_one().await;
    let second = rig.enqueue(Rig::job().after(first)).await;
    let third = rig.enqueue(Rig::job().after(Dependency::on(second).on_failure(OnFailure::Cancel))).await;
    rig.change(first, Change::Kill).await;
    let events = all(&rig, QUEUE).await;
    let blocked = (E::Enqueue, Some(State::Blocked));
    let end = |job| events.iter().rfind(|event| event.job == job).expect("an event").clone();
    assert_eq!(life(&events, second)[0], blocked);
    assert_eq!(end(second).state, Some(State::Dead));
    assert_eq!(end(second).reason, Some(Finish::Dependency(first)));
    assert_eq!(end(third).state, Some(State::Cancelled));
    assert_eq!(end(third).reason, Some(Finish::Dependency(second)));
}

pub(super) async fn a_moved_job_is_an_event_of_both_queues(rig: Rig) {
    if !on(&rig).await || !rig.has(Capability::Move) {
        return;
    }
    let id = rig.enqueue_one().await;
    rig.change(id, Change::Move(OTHER.into())).await;
    let moved = |events: &[Event]| {
        let last = events.last().expect("an event");
        assert_eq!((last.job, last.event, &*last.queue, last.number), (id, E::Move, OTHER, 2));
    };
    moved(&all(&rig, QUEUE).await);
    rig.change(id, Change::Kill).await;
    assert_eq!(all(&rig, QUEUE).await.len(), 2, "it is in the other queue now");
    switch_on(&rig, OTHER, EventBounds::default()).await;
    let second = rig.enqueue_one().await;
    rig.change(second, Change::Move(OTHER.into())).await;
    let there = all(&rig, OTHER).await;
    assert_eq!(life(&there, second), [(E::Move, Some(State::Available))]);
    assert_eq!(all(&rig, QUEUE).await.last(), there.last(), "the same event");
}

pub(super) async fn what_is_refused_or_changes_no_state_is_no_event(rig: Rig) {
    if !on(&rig).await {
        return;
    }
    let id = rig.enqueue_one().await;
    let count = async || all(&rig, QUEUE).await.len();
    assert_eq!(count().await, 1);
    rig.try_change(id, Change::Discard).await.expect_err("it has not ended");
    rig.try_enqueue(Rig::job().id(id)).await.expect("the same job");
    let bad = NewJob::new("").queue(QUEUE);
    rig.try_enqueue(bad.clone()).await.expect_err("it has no kind");
    let whole = rig.try_enqueue_whole([Rig::job(), bad]).await;
    assert!(whole.iter().all(Result::is_err));
    let session = rig.long_session().await;
    let claimed = rig.take_one(&session).await;
    assert_eq!(count().await, 2);
    rig.change(id, Change::Cancel).await;
    let stale = SettleItem::new(id, Rig::forged_lease(), Outcome::DONE);
    rig.try_settle(stale).await.expect_err("a stale lease");
    rig.heartbeat(&session, &[&claimed]).await.expect("a heartbeat");
    assert_eq!(count().await, 2, "the request to cancel a running job ends nothing");
    rig.settle(&claimed, Outcome::DONE).await;
    let again = SettleItem::new(id, claimed.lease, Outcome::DONE);
    assert!(rig.try_settle(again).await.expect("a repeated report").already);
    assert_eq!(count().await, 3);
}

pub(super) async fn a_queue_without_events_has_none_and_says_so(rig: Rig) {
    if !rig.has(Capability::Events) {
        return;
    }
    let early = rig.enqueue_one().await;
    let error = assert_refused(try_read(&rig, EventsRequest::new(QUEUE)).await, "invalid", "queue");
    assert!(error.to_string().contains("events are off"), "{error}");
    on(&rig).await;
    assert_eq!(all(&rig, QUEUE).await, [], "only what happens from now on");
    assert_eq!(rig.drain(1).await, [early]);
    assert_eq!(all(&rig, QUEUE).await[0].number, 2, "its first transition was before");
    rig.configure(Configure::queue(QUEUE, QueuePatch::events(None))).await;
    assert_refused(try_read(&rig, EventsRequest::new(QUEUE)).await, "invalid", "queue");
    rig.maintain(Work::Compact).await;
    rig.assert_sound().await;
}

pub(super) async fn an_engine_without_events_refuses_them(rig: Rig) {
    if rig.has(Capability::Events) {
        return;
    }
    let change = Configure::queue(QUEUE, QueuePatch::events(Some(EventBounds::default())));
    assert_code(rig.try_configure(change).await, "unsupported");
    assert_code(try_read(&rig, EventsRequest::new(QUEUE)).await, "unsupported");
    rig.configure(Configure::queue(QUEUE, QueuePatch::events(None))).await;
}
