//! Events of a store with many writers: transactions that commit late, several readers that number events, readers in other
//! processes, and the SQL functions.

use crate::common::listener::Listener;
use crate::common::{OwnSchema, application, open};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_postgres::Client;
use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::limits::{EVENTS_KEPT_MAX, PAGE_MAX};
use windlass_core::machine::EventKind;
use windlass_core::model::{EventBounds, NewJob, QueuePatch, State};
use windlass_postgres::{PostgresEngine, Transactional};

/// The queue that records events.
const QUEUE: &str = "mail";
/// Longer than anything here should take.
const LONG_MS: u64 = 20_000;
/// Jobs of each writer.
const JOBS: usize = 150;

fn job() -> NewJob {
    NewJob::new("send").queue(QUEUE).json("{}")
}

async fn configure(
    engine: &PostgresEngine,
    bounds: Option<EventBounds>,
) -> windlass_core::Result<()> {
    let change = Configure::queue(QUEUE, QueuePatch::events(bounds));
    engine.configure(vec![change]).await?.value.remove(0)
}

async fn switch_on(engine: &PostgresEngine) {
    let bounds = EventBounds::default().with_max(EVENTS_KEPT_MAX);
    configure(engine, Some(bounds)).await.expect("switched on");
}

async fn enqueue(engine: &PostgresEngine) -> JobId {
    let reply = engine.enqueue(Enqueue::each([job()])).await.expect("enqueues").value;
    reply[0].as_ref().expect("stored").id
}

async fn claim(engine: &PostgresEngine) -> ClaimedJob {
    let session = engine.open_session(OpenSession::new("w")).await.expect("opens").value.id;
    let by = Claimant::Session { session, claim_no: 1 };
    let claimed = engine.claim(Claim::new(by, QUEUE, 1)).await.expect("claims").value;
    claimed.jobs.into_iter().next().expect("a job")
}

async fn complete(engine: &PostgresEngine, job: &ClaimedJob) {
    let item = SettleItem::new(job.header.id, job.lease.clone(), Outcome::DONE);
    let reply = engine.settle(Settle::new([item])).await.expect("settles").value;
    reply.items[0].as_ref().expect("completed");
}

async fn read(engine: &PostgresEngine, request: EventsRequest) -> EventsReply {
    engine.events(request).await.expect("events").value
}

/// The events after a position, without gaps.
async fn after(engine: &PostgresEngine, cursor: &Cursor) -> Vec<EventEntry> {
    let mut request = EventsRequest::new(QUEUE).after(cursor.clone()).limit(PAGE_MAX);
    let mut all = Vec::new();
    loop {
        let page = read(engine, request.clone()).await;
        assert!(!page.gap, "nothing is dropped");
        let is_last = page.events.len() < PAGE_MAX as usize;
        all.extend(page.events);
        if is_last {
            return all;
        }
        request = request.after(page.next);
    }
}

async fn begin(engine: &PostgresEngine) -> Cursor {
    read(engine, EventsRequest::new(QUEUE)).await.next
}

fn steps(entries: &[EventEntry]) -> Vec<(JobId, EventKind, Option<State>)> {
    let step = |EventEntry { event, .. }: &EventEntry| (event.job, event.event, event.state);
    entries.iter().map(step).collect()
}

fn enqueued(id: JobId) -> (JobId, EventKind, Option<State>) {
    (id, EventKind::Enqueue, Some(State::Available))
}

/// A schema with an engine, and an application's connection.
async fn store() -> (OwnSchema, PostgresEngine, Client) {
    let schema = OwnSchema::new();
    let (engine, client) = (open(&schema).await, application().await);
    switch_on(&engine).await;
    (schema, engine, client)
}

#[tokio::test]
async fn a_transaction_that_commits_late_is_delayed_and_delays_no_others() {
    let (_schema, engine, mut client) = store().await;
    let cursor = begin(&engine).await;
    let late = client.transaction().await.unwrap();
    let added = engine.enqueue_in(&late, Enqueue::each([job(), job()])).await.unwrap().value;
    let added: Vec<JobId> = added.into_iter().map(|item| item.unwrap().id).collect();
    let first = enqueue(&engine).await;
    let before = after(&engine, &cursor).await;
    assert_eq!(steps(&before), [enqueued(first)], "the open transaction stalls nothing");
    let cursor = before[0].cursor.clone();
    let second = enqueue(&engine).await;
    let page = after(&engine, &cursor).await;
    assert_eq!(steps(&page), [enqueued(second)]);
    late.commit().await.unwrap();
    let rest = after(&engine, &page[0].cursor).await;
    assert_eq!(steps(&rest), [enqueued(added[0]), enqueued(added[1])], "it is not skipped");
    let all = after(&engine, &begin_of(&before[0])).await;
    assert_eq!(all.len(), 4, "each once");
    assert_eq!(engine.check(false).await.unwrap().value.findings, []);
}

/// The position before the first event of a stream.
fn begin_of(first: &EventEntry) -> Cursor {
    let place = EventPlace::of(&first.cursor, &QUEUE.into()).expect("a position");
    EventPlace { number: place.stream, ..place }.cursor(&QUEUE.into())
}

#[tokio::test]
async fn an_unrelated_transaction_that_stays_open_stalls_no_stream_and_no_maintenance() {
    let (schema, engine, client) = store().await;
    let cursor = begin(&engine).await;
    // It has a snapshot and a transaction id, and has read all tables.
    let sql = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id();
        SELECT count(*) FROM {s}.event_inbox; SELECT count(*) FROM {s}.event; SELECT count(*) FROM {s}.event_stream";
    client.batch_execute(&sql.replace("{s}", &format!("\"{}\"", schema.name))).await.unwrap();
    let mut expected = Vec::new();
    for _ in 0..3 {
        let id = enqueue(&engine).await;
        let claimed = claim(&engine).await;
        complete(&engine, &claimed).await;
        expected.extend([
            enqueued(id),
            (id, EventKind::Claim, Some(State::Running)),
            (id, EventKind::Complete, Some(State::Completed)),
        ]);
        assert_eq!(steps(&after(&engine, &cursor).await), expected);
        engine.maintain(MaintainRequest::new(Work::Compact, 100)).await.unwrap();
    }
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(steps(&after(&engine, &cursor).await), expected);
}

/// Enqueues, claims and completes jobs.
async fn write(engine: PostgresEngine) -> Vec<JobId> {
    let session = engine.open_session(OpenSession::new("w")).await.expect("opens").value.id;
    let mut ids = Vec::new();
    for claim_no in 1..=JOBS as u64 {
        ids.push(enqueue(&engine).await);
        let by = Claimant::Session { session: session.clone(), claim_no };
        let claimed = engine.claim(Claim::new(by, QUEUE, 1)).await.expect("claims").value;
        for job in claimed.jobs {
            complete(&engine, &job).await;
        }
    }
    ids
}

/// Reads a stream until writers have stopped and no event is left.
async fn follow(engine: PostgresEngine, cursor: Cursor, stop: Arc<AtomicBool>) -> Vec<EventEntry> {
    let mut request = EventsRequest::new(QUEUE).after(cursor).limit(11).wait_ms(20);
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
async fn readers_of_two_processes_that_number_at_once_see_one_stream_with_each_event_once() {
    let (schema, first, _client) = store().await;
    let second = open(&schema).await;
    let (cursor, stop) = (begin(&first).await, Arc::new(AtomicBool::new(false)));
    let engines = || [first.clone(), second.clone()].into_iter();
    let reader = |engine| tokio::spawn(follow(engine, cursor.clone(), Arc::clone(&stop)));
    let readers: Vec<_> = engines().chain(engines()).map(reader).collect();
    let writers: Vec<_> = engines().chain(engines()).map(|it| tokio::spawn(write(it))).collect();
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
    assert_eq!(last.len(), ids.len());
    for batch in ids.chunks(1_000) {
        for job in first.get(Get::new(batch.to_vec())).await.unwrap().value.into_iter().flatten() {
            assert_eq!(last[&job.header.id], job.transitions, "none is lost");
        }
    }
    assert!(streams.windows(2).all(|pair| pair[0] == pair[1]), "all readers see the same stream");
    assert_eq!(first.check(false).await.unwrap().value.findings, []);
}

#[tokio::test]
async fn events_of_a_process_that_is_gone_and_of_a_sequencer_that_was_killed_are_not_lost() {
    let (schema, engine, client) = store().await;
    let cursor = begin(&engine).await;
    let gone = open(&schema).await;
    let ids = [enqueue(&gone).await, enqueue(&gone).await];
    drop(gone);
    // Numbers both events, and does not come to its commit.
    let name = format!("\"{}\"", schema.name);
    client.batch_execute("BEGIN").await.unwrap();
    let number = format!(
        "SELECT n.moved, pg_backend_pid() FROM {name}.event_stream s
        CROSS JOIN LATERAL {name}.number_events(s.id, 100, 100, true) n"
    );
    let row = client.query_one(&number, &[]).await.unwrap();
    let (moved, process): (i64, i32) = (row.get(0), row.get(1));
    assert_eq!(moved, 2);
    let reads = {
        let (engine, cursor) = (engine.clone(), cursor.clone());
        tokio::spawn(async move { after(&engine, &cursor).await })
    };
    let other = application().await;
    other.execute("SELECT pg_terminate_backend($1)", &[&process]).await.unwrap();
    let events = reads.await.unwrap();
    assert_eq!(steps(&events), ids.map(enqueued));
    assert_eq!(after(&engine, &cursor).await, events, "each once");
}

#[tokio::test]
async fn a_reader_in_another_process_is_woken_by_a_notification_about_its_queue() {
    let (schema, engine, client) = store().await;
    let channel = format!(
        "SELECT 'windlass_' || replace(value::text, '-', '') FROM \"{}\".secret",
        schema.name
    );
    let channel: String = client.query_one(&channel, &[]).await.unwrap().get(0);
    let mut listener = Listener::at(&crate::common::url(), &channel).await;
    let other = open(&schema).await;
    let request = EventsRequest::new(QUEUE).after(begin(&other).await).wait_ms(LONG_MS);
    let waits = tokio::spawn(async move { read(&other, request).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let id = enqueue(&engine).await;
    listener.until("events mail").await;
    assert_eq!(steps(&waits.await.unwrap().events), [enqueued(id)]);
    // Other queues have no events, and so no such notification.
    let plain = NewJob::new("k").queue("plain");
    engine.enqueue(Enqueue::each([plain])).await.unwrap();
    let claimed = claim(&engine).await;
    let before = listener.until("events mail").await;
    assert!(before.iter().all(|payload| !payload.contains("plain")), "{before:?}");
    drop(claimed);
}

#[tokio::test]
async fn jobs_enqueued_and_completed_in_transactions_of_an_application_are_events() {
    let (schema, engine, mut client) = store().await;
    let cursor = begin(&engine).await;
    let name = format!("\"{}\"", schema.name);
    let enqueue = format!("SELECT {name}.enqueue('send', '{{}}', queue => '{QUEUE}')");
    let rolled_back = client.transaction().await.unwrap();
    rolled_back.execute(&enqueue, &[]).await.unwrap();
    rolled_back.rollback().await.unwrap();
    let id: uuid::Uuid = client.query_one(&enqueue, &[]).await.unwrap().get(0);
    let id = JobId::from_uuid(id);
    engine.maintain(MaintainRequest::new(Work::Promote, 10)).await.unwrap();
    let claimed = claim(&engine).await;
    let complete = format!("SELECT {name}.complete($1, $2)");
    let by_sql = client.query(&complete, &[&id.as_uuid(), &claimed.lease.as_str()]).await;
    let refused = by_sql.unwrap_err().as_db_error().unwrap().message().to_owned();
    assert!(refused.contains("records events"), "{refused}");
    let transaction = client.transaction().await.unwrap();
    let jobs = Transactional::new(&schema.name).unwrap();
    let mut transaction = transaction;
    jobs.complete(&mut transaction, id, &claimed.lease, None).await.unwrap();
    let added = jobs.enqueue(&mut transaction, Enqueue::each([job()])).await.unwrap();
    let second = added[0].as_ref().unwrap().id;
    assert_eq!(after(&engine, &cursor).await.len(), 3, "not committed yet");
    transaction.commit().await.unwrap();
    let events = after(&engine, &cursor).await;
    let expected = [
        (id, EventKind::Enqueue, Some(State::Scheduled)),
        (id, EventKind::Due, Some(State::Available)),
        (id, EventKind::Claim, Some(State::Running)),
        (id, EventKind::Complete, Some(State::Completed)),
        enqueued(second),
    ];
    assert_eq!(steps(&events), expected);
    let numbers: Vec<u32> = events.iter().map(|entry| entry.event.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 1]);
}

#[tokio::test]
async fn a_job_that_ran_when_events_were_switched_on_ends_with_an_event() {
    let schema = OwnSchema::new();
    let (engine, client) = (open(&schema).await, application().await);
    let ids = [enqueue(&engine).await, enqueue(&engine).await];
    let (first, second) = (claim(&engine).await, claim(&engine).await);
    // An application has completed a job, and may still roll back.
    let name = format!("\"{}\"", schema.name);
    client.batch_execute("BEGIN").await.unwrap();
    let complete_by_sql = format!("SELECT {name}.complete($1, $2)");
    client.execute(&complete_by_sql, &[&ids[0].as_uuid(), &first.lease.as_str()]).await.unwrap();
    let error = configure(&engine, Some(EventBounds::default())).await.expect_err("it is open");
    assert!(error.to_string().contains("leases of running jobs"), "{error}");
    let off = engine.events(EventsRequest::new(QUEUE)).await.expect_err("nothing has changed");
    assert!(off.to_string().contains("events are off"), "{off}");
    client.batch_execute("ROLLBACK").await.unwrap();
    switch_on(&engine).await;
    let cursor = begin(&engine).await;
    complete(&engine, &first).await;
    complete(&engine, &second).await;
    let ended = ids.map(|id| (id, EventKind::Complete, Some(State::Completed)));
    assert_eq!(steps(&after(&engine, &cursor).await), ended);
}

#[tokio::test]
async fn an_event_of_a_stream_that_has_ended_is_in_no_later_one() {
    let (schema, engine, mut client) = store().await;
    let name = format!("\"{}\"", schema.name);
    let late = client.build_transaction();
    let late = late.isolation_level(tokio_postgres::IsolationLevel::RepeatableRead);
    let late = late.start().await.unwrap();
    late.execute(&format!("SELECT {name}.enqueue('send', queue => '{QUEUE}')"), &[]).await.unwrap();
    configure(&engine, None).await.unwrap();
    switch_on(&engine).await;
    let cursor = begin(&engine).await;
    late.commit().await.unwrap();
    let id = enqueue(&engine).await;
    assert_eq!(steps(&after(&engine, &cursor).await), [enqueued(id)]);
    engine.maintain(MaintainRequest::new(Work::Compact, 100)).await.unwrap();
    for table in ["event_inbox", "event_stream WHERE ended"] {
        let sql = format!("SELECT count(*) FROM {name}.{table}");
        let left: i64 = client.query_one(&sql, &[]).await.unwrap().get(0);
        assert_eq!(left, 0, "{table}");
    }
}
