//! Events on the disk: they outlive the process, and a check finds damage.

use rusqlite::Connection;
use windlass_core::engine::{
    Admin as _, Configure, Enqueue, EventsReply, EventsRequest, Jobs as _, Maintain as _,
    MaintainRequest, Work,
};
use windlass_core::model::{EventBounds, NewJob, QueuePatch};
use windlass_local::{LocalEngine, Options};

fn open(dir: &tempfile::TempDir) -> LocalEngine {
    LocalEngine::open(Options::new(dir.path())).expect("open")
}

async fn switch_on(engine: &LocalEngine, max: u64) {
    let bounds = EventBounds::default().with_max(max);
    let on = Configure::queue("q", QueuePatch::events(Some(bounds)));
    engine.configure(vec![on]).await.expect("configure").value.remove(0).expect("a change");
}

async fn enqueue(engine: &LocalEngine, count: usize) {
    let jobs = (0..count).map(|_| NewJob::new("k").queue("q"));
    engine.enqueue(Enqueue::each(jobs)).await.expect("enqueue");
}

async fn read(engine: &LocalEngine, request: EventsRequest) -> EventsReply {
    engine.events(request).await.expect("events").value
}

#[tokio::test]
async fn a_cursor_outlives_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&dir);
    switch_on(&engine, 100).await;
    enqueue(&engine, 3).await;
    let page = read(&engine, EventsRequest::new("q").limit(2)).await;
    drop(engine);
    let engine = open(&dir);
    enqueue(&engine, 1).await;
    let rest = read(&engine, EventsRequest::new("q").after(page.next)).await;
    assert_eq!((rest.events.len(), rest.gap), (2, false));
}

#[tokio::test]
async fn rows_of_dropped_events_are_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&dir);
    switch_on(&engine, 5_000).await;
    enqueue(&engine, 5_000).await;
    switch_on(&engine, 10).await;
    while engine.maintain(MaintainRequest::new(Work::Compact, 1_000)).await.unwrap().value.more {}
    let page = read(&engine, EventsRequest::new("q")).await;
    assert_eq!(page.events.len(), 10);
    drop(engine);
    let conn = Connection::open(dir.path().join("windlass.db")).unwrap();
    let rows = |table: &str| {
        let sql = format!("SELECT count(*) FROM {table}");
        conn.query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!((rows("event"), rows("event_stream")), (10, 1));
}

#[tokio::test]
async fn a_check_finds_missing_events_and_a_repair_leaves_a_gap() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&dir);
    switch_on(&engine, 100).await;
    let start = read(&engine, EventsRequest::new("q")).await.next;
    enqueue(&engine, 3).await;
    drop(engine);
    let conn = Connection::open(dir.path().join("windlass.db")).unwrap();
    let removed = "DELETE FROM event WHERE number = (SELECT last - 1 FROM event_stream)";
    assert_eq!(conn.execute(removed, []).unwrap(), 1);
    drop(conn);
    let engine = open(&dir);
    let findings = engine.check(false).await.unwrap().value.findings;
    assert_eq!(findings.len(), 1);
    assert!(findings[0].what.contains("events of queue q"), "{findings:?}");
    engine.check(true).await.unwrap();
    assert_eq!(engine.check(false).await.unwrap().value.findings, []);
    enqueue(&engine, 1).await;
    let page = read(&engine, EventsRequest::new("q").after(start)).await;
    assert_eq!((page.events.len(), page.gap), (1, true));
}
