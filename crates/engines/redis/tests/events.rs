//! Events of a store with many writers: readers and writers in several processes, wake-ups, and what is left behind.

mod common;

use common::{OwnStore, url};
use futures_util::StreamExt as _;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::limits::EVENTS_KEPT_MAX;
use windlass_core::machine::EventKind;
use windlass_core::model::{EventBounds, NewJob, QueuePatch};
use windlass_redis::{Options, RedisEngine};

/// The queue that records events.
const QUEUE: &str = "mail";
/// Longer than anything here should take.
const LONG_MS: u64 = 20_000;
/// Jobs of each writer.
const JOBS: u64 = 100;

async fn open(store: &OwnStore) -> RedisEngine {
    RedisEngine::connect(Options::new(url()).name(&store.name)).await.expect("connects")
}

async fn switch(engine: &RedisEngine, is_on: bool) {
    let bounds = is_on.then(|| EventBounds::default().with_max(EVENTS_KEPT_MAX));
    let change = Configure::queue(QUEUE, QueuePatch::events(bounds));
    engine.configure(vec![change]).await.expect("configures").value.remove(0).expect("switched");
}

async fn enqueue(engine: &RedisEngine) -> JobId {
    let job = NewJob::new("send").queue(QUEUE).json("{}");
    let reply = engine.enqueue(Enqueue::each([job])).await.expect("enqueues").value;
    reply[0].as_ref().expect("stored").id
}

async fn open_session(engine: &RedisEngine) -> SessionId {
    engine.open_session(OpenSession::new("w")).await.expect("opens").value.id
}

async fn claim(engine: &RedisEngine, session: &SessionId, claim_no: u64) -> Vec<ClaimedJob> {
    let by = Claimant::Session { session: session.clone(), claim_no };
    engine.claim(Claim::new(by, QUEUE, 1)).await.expect("claims").value.jobs
}

async fn complete(engine: &RedisEngine, job: &ClaimedJob) {
    let item = SettleItem::new(job.header.id, job.lease.clone(), Outcome::DONE);
    let reply = engine.settle(Settle::new([item])).await.expect("settles").value;
    reply.items[0].as_ref().expect("completed");
}

async fn read(engine: &RedisEngine, request: EventsRequest) -> EventsReply {
    engine.events(request).await.expect("events").value
}

/// Enqueues, claims and completes jobs.
async fn write(engine: RedisEngine) -> Vec<JobId> {
    let session = open_session(&engine).await;
    let mut ids = Vec::new();
    for claim_no in 1..=JOBS {
        ids.push(enqueue(&engine).await);
        for job in claim(&engine, &session, claim_no).await {
            complete(&engine, &job).await;
        }
    }
    ids
}

/// Reads a stream until writers have stopped and no event is left.
async fn follow(engine: RedisEngine, stop: Arc<AtomicBool>) -> Vec<EventEntry> {
    let mut request = EventsRequest::new(QUEUE).limit(11).wait_ms(20);
    let mut all = Vec::new();
    loop {
        let has_stopped = stop.load(Ordering::SeqCst);
        let page = read(&engine, request.clone()).await;
        assert!(!page.gap, "nothing is dropped");
        if page.events.is_empty() && has_stopped {
            return all;
        }
        all.extend(page.events);
        request = request.after(page.next);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_of_two_processes_see_one_stream_with_each_event_once() {
    let store = OwnStore::new();
    let (first, second) = (open(&store).await, open(&store).await);
    switch(&first, true).await;
    let stop = Arc::new(AtomicBool::new(false));
    let engines = || [first.clone(), second.clone()].into_iter();
    let readers: Vec<_> =
        engines().map(|engine| tokio::spawn(follow(engine, Arc::clone(&stop)))).collect();
    let writers: Vec<_> = engines().map(|engine| tokio::spawn(write(engine))).collect();
    let mut ids = Vec::new();
    for writer in writers {
        ids.extend(writer.await.expect("a writer"));
        first.maintain(MaintainRequest::new(Work::Compact, 100)).await.unwrap();
    }
    stop.store(true, Ordering::SeqCst);
    let mut streams = Vec::new();
    for reader in readers {
        streams.push(reader.await.expect("a reader"));
    }
    let mut last: BTreeMap<JobId, u32> = BTreeMap::new();
    for EventEntry { event, .. } in &streams[0] {
        let number = last.entry(event.job).or_default();
        *number += 1;
        assert_eq!(event.number, *number, "the transitions of a job, each once and in order");
    }
    for job in first.get(Get::new(ids)).await.unwrap().value.into_iter().flatten() {
        assert_eq!(last[&job.header.id], job.transitions, "none is lost");
    }
    assert_eq!(streams[0], streams[1]);
    assert_eq!(first.check(false).await.unwrap().value.findings, []);
}

#[tokio::test]
async fn a_reader_in_another_process_is_woken_by_a_message_about_its_queue() {
    let store = OwnStore::new();
    let (engine, other) = (open(&store).await, open(&store).await);
    switch(&engine, true).await;
    let client = redis::Client::open(url()).unwrap();
    let mut messages = client.get_async_pubsub().await.unwrap();
    messages.subscribe(format!("windlass:{{{}}}:wake", store.name)).await.unwrap();
    let next = read(&other, EventsRequest::new(QUEUE)).await.next;
    let request = EventsRequest::new(QUEUE).after(next).wait_ms(LONG_MS);
    let waits = tokio::spawn(async move { read(&other, request).await });
    let id = enqueue(&engine).await;
    let heard = async {
        let mut messages = messages.on_message();
        while messages.next().await.expect("a message").get_payload_bytes() != b"events mail" {}
    };
    tokio::time::timeout(Duration::from_millis(LONG_MS), heard).await.expect("it is heard");
    assert_eq!(waits.await.unwrap().events[0].event.job, id);
}

#[tokio::test]
async fn a_job_that_ran_when_events_were_switched_on_ends_with_an_event_and_scripts_read_it() {
    let store = OwnStore::new();
    let engine = open(&store).await;
    let id = enqueue(&engine).await;
    let session = open_session(&engine).await;
    let claimed = claim(&engine, &session, 1).await;
    switch(&open(&store).await, true).await;
    complete(&engine, &claimed[0]).await;
    let scripts = Options::new(url()).name(&store.name).scripts();
    let page = read(&RedisEngine::connect(scripts).await.unwrap(), EventsRequest::new(QUEUE)).await;
    let steps: Vec<_> = page.events.iter().map(|it| (it.event.job, it.event.event)).collect();
    assert_eq!(steps, [(id, EventKind::Complete)]);
}

#[tokio::test]
async fn a_queue_that_no_longer_records_events_leaves_nothing_behind() {
    let store = OwnStore::new();
    let engine = open(&store).await;
    switch(&engine, true).await;
    enqueue(&engine).await;
    let mut conn =
        redis::Client::open(url()).unwrap().get_multiplexed_async_connection().await.unwrap();
    let key = |name: &str| format!("windlass:{{{}}}:{name}", store.name);
    let mut exist = redis::cmd("EXISTS");
    exist.arg(key("event:mail")).arg(key("event_start"));
    assert_eq!(exist.query_async::<u32>(&mut conn).await.unwrap(), 2);
    switch(&engine, false).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    engine.maintain(MaintainRequest::new(Work::Compact, 100)).await.unwrap();
    assert_eq!(exist.query_async::<u32>(&mut conn).await.unwrap(), 0);
}
