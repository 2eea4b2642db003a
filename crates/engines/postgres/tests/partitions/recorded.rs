//! Queues that record events: the removal of a job is an event, and so the executor removes their jobs.

use crate::rig::{KEPT_MS, Rig};
use std::collections::BTreeSet;
use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::limits::{EVENTS_KEPT_MAX, PAGE_MAX};
use windlass_core::machine::EventKind;
use windlass_core::model::{EventBounds, NewJob, QueuePatch, State};
use windlass_core::policy::{KeepMax, Retention};

/// More than a survey reads in one step.
const MANY: u64 = 21_000;
/// How long a partition is not surveyed again in which too many jobs had to stay.
const SURVEY_AGAIN_MS: u64 = 600_000;

async fn configure(rig: &Rig, queue: &str, patch: QueuePatch) {
    let done = rig.engine.configure(vec![Configure::queue(queue, patch)]).await;
    done.expect("configures").value.remove(0).expect("is taken");
}

async fn switch_on(rig: &Rig) {
    let bounds = EventBounds::default().with_max(EVENTS_KEPT_MAX);
    configure(rig, "default", QueuePatch::events(Some(bounds))).await;
}

/// The jobs whose removal is an event, each once.
async fn removals(rig: &Rig) -> BTreeSet<JobId> {
    let mut request = EventsRequest::new("default").limit(PAGE_MAX);
    let mut removed = BTreeSet::new();
    loop {
        let page = rig.engine.events(request.clone()).await.expect("events").value;
        for EventEntry { event, .. } in &page.events {
            if event.state.is_none() {
                assert_eq!(event.event, EventKind::Retain);
                assert!(removed.insert(event.job), "twice: {event:?}");
            }
        }
        if page.events.len() < PAGE_MAX as usize {
            return removed;
        }
        request = request.after(page.next);
    }
}

#[tokio::test]
async fn many_ended_jobs_are_removed_as_events_even_if_a_survey_has_begun_before() {
    let mut rig = Rig::new().await;
    let retention = QueuePatch::retention(Retention::uniform_ms(KEPT_MS));
    configure(&rig, "plain", retention).await;
    let [first, last] = rig.fill(MANY).await;
    let plain = NewJob::new("k").queue("plain").json("{}");
    rig.engine.enqueue(Enqueue::each([plain])).await.expect("enqueues").value[0].as_ref().unwrap();
    let claimed = rig.claim_from("plain", 1).await;
    rig.settle(&claimed, Outcome::DONE).await;
    rig.pass(KEPT_MS * 5 / 4);
    let partitions = rig.partitions().await;
    // Surveys the first page, and finds that its jobs can go with the partition.
    rig.step().await;
    assert!(rig.count("SELECT count(*) FROM {s}.job").await >= MANY as i64, "they are still there");
    switch_on(&rig).await;
    let removed = rig.upkeep(Work::Retain).await;
    assert!((MANY..=MANY + 2).contains(&removed), "{removed}");
    let events = removals(&rig).await;
    assert!(events.contains(&first) && events.contains(&last));
    assert!((MANY..=MANY + 1).contains(&(events.len() as u64)), "{}", events.len());
    rig.pass(SURVEY_AGAIN_MS + KEPT_MS * 2);
    rig.upkeep(Work::Retain).await;
    assert_eq!(rig.count("SELECT count(*) FROM {s}.job").await, 0, "in the plain queue, too");
    assert!(rig.partitions().await < partitions, "the empty partition is dropped");
    rig.is_sound().await;
}

#[tokio::test]
async fn ended_jobs_beyond_the_number_that_a_queue_keeps_are_removed_as_events() {
    let mut rig = Rig::new().await;
    switch_on(&rig).await;
    configure(&rig, "default", QueuePatch::keep_max(KeepMax::default().with_completed(1))).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let id = rig.enqueue(1).await;
        rig.complete(&id).await;
        ids.extend(id);
        rig.pass(1);
    }
    rig.upkeep(Work::Retain).await;
    let removed = removals(&rig).await;
    assert!(removed.contains(&ids[0]) && removed.contains(&ids[1]), "{removed:?}");
    assert_eq!(rig.state(ids[2]).await, Some(State::Completed), "the latest stays");
    rig.is_sound().await;
}
