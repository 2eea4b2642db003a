//! A directory in the current format, stored beside this test: it opens, and its content is unchanged.
//!
//! `tests/format/windlass.db` is the database and `replies.txt` the replies of the build that wrote it. After a change of
//! the schema or of a row format, write both again:
//!
//! ```sh
//! WINDLASS_WRITE_FORMAT=1 cargo nextest run -p windlass-local --test format
//! ```

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use windlass_core::engine::*;
use windlass_core::model::{NewJob, Part, PartEdit, PartSet, QueuePatch, State};
use windlass_core::policy::{Retention, Unique};
use windlass_core::random::Seeded;
use windlass_core::time::{HOUR_MS, ManualClock};
use windlass_core::{JobId, Result, Timestamp};
use windlass_local::{LocalEngine, Options};

const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/format");
const DATABASE: &str = "windlass.db";
const REPLIES: &str = "replies.txt";
/// Set to `1`: the tests write the fixture anew.
const WRITE: &str = "WINDLASS_WRITE_FORMAT";

fn open(dir: &Path, at: Timestamp) -> LocalEngine {
    let clock = Arc::new(ManualClock::at(at));
    let options = Options::new(dir).clock(clock).random(Arc::new(Seeded::new(1)));
    LocalEngine::open(options).expect("opens")
}

/// Stores jobs in most states, a record, a log and the settings of a queue.
async fn fill(engine: &LocalEngine) -> Result<()> {
    let queue = QueuePatch::retention(Retention::uniform_ms(HOUR_MS));
    engine.configure(vec![Configure::queue("mail", queue)]).await?;
    let upstream = [NewJob::new("before").queue("mail"), NewJob::new("cut").queue("mail")];
    let upstream = engine.enqueue(Enqueue::each(upstream)).await?.value;
    let upstream = upstream.into_iter().map(|item| Ok(item?.id)).collect::<Result<Vec<JobId>>>()?;
    let jobs = [
        NewJob::new("done").json(r#"{"n":1}"#),
        NewJob::new("dead").max_attempts(1).tag("red").tag("blue"),
        NewJob::new("retried").tenant("acme"),
        NewJob::new("running").json(r#"{"n":2}"#).priority(-5),
        NewJob::new("available").queue("mail").unique(Unique::by("once")),
        NewJob::new("scheduled").due(windlass_core::model::Due::After(HOUR_MS)),
        NewJob::new("first").queue("keyed").key("k"),
        NewJob::new("second").queue("keyed").key("k").max_wait_ms(HOUR_MS),
        NewJob::new("paused").queue("mail"),
        NewJob::new("cancelled").queue("mail"),
        NewJob::new("dependent").queue("mail").flow("f").after(upstream[0]).after(upstream[1]),
    ];
    let added = engine.enqueue(Enqueue::each(jobs)).await?.value;
    let ids = added.into_iter().map(|item| Ok(item?.id)).collect::<Result<Vec<JobId>>>()?;
    let change =
        vec![ChangeItem::new(ids[8], Change::Pause), ChangeItem::new(ids[9], Change::Cancel)];
    engine.change(change).await?;
    // A remote worker, which returns after the store was closed.
    let session = engine.open_session(OpenSession::new("far").remote()).await?.value.id;
    let by = Claimant::Session { session, claim_no: 1 };
    let claimed = engine.claim(Claim::new(by, "default", 10)).await?.value.jobs;
    let item = |kind: &str, outcome| {
        let job = claimed.iter().find(|job| &*job.header.kind == kind).expect("was claimed");
        SettleItem::new(job.header.id, job.lease.clone(), outcome)
    };
    let result = Some(Part::new("42"));
    let state = PartEdit::Set(Part::new("half way"));
    engine
        .settle(Settle::new([
            item("done", Outcome::Complete { result }),
            item("dead", Outcome::fail("broken", "it cannot work")),
            item("retried", Outcome::retry("busy", "try again")).checkpoint(state),
        ]))
        .await?;
    let running = claimed.iter().find(|job| &*job.header.kind == "running").expect("was claimed");
    let update = UpdateItem::new(running.header.id, running.lease.clone());
    let update = update.progress(3, Some(7), "counting").log("a line");
    engine.update(Update::new([update])).await?;
    let put = RecordOp::Put { key: "r".into(), value: "record".into(), expect: Expect::Absent };
    let append = RecordOp::Append { log: "l".into(), entries: vec!["entry".into()], keep: 10 };
    engine.records(vec![put, append]).await?;
    Ok(())
}

/// All replies of a store as text.
async fn replies(engine: &LocalEngine) -> Result<String> {
    let mut replies = String::new();
    let list = List::new(Filter::default()).order(ListOrder::Oldest).limit(1_000);
    let listed = engine.list(list).await?.value.rows;
    let ids: Vec<JobId> = listed.iter().map(|job| job.header.id).collect();
    let jobs = engine.get(Get::new(ids).parts(PartSet::ALL)).await?.value;
    for job in jobs.into_iter().flatten() {
        let (header, text) = (&job.header, |part: &Option<Part>| {
            part.as_ref().map(|part| String::from_utf8_lossy(&part.bytes).into_owned())
        });
        let counters = &header.counters;
        let lines = [
            format!("{} {}/{} {}", header.id, header.queue, header.kind, job.state),
            format!(
                "priority {} run_at {} created {}",
                header.priority, header.run_at, header.created_at
            ),
            format!("counters {} {} {}", counters.attempt, counters.failures, counters.crashes),
            format!("tenant {:?} key {:?} tags {:?}", header.tenant, header.key, header.tags),
            format!("unique {:?}", header.unique.as_ref().map(|unique| &unique.key)),
            format!("attempts {} wait {:?}", header.policy.max_attempts, header.policy.max_wait_ms),
            format!(
                "payload {:?} checkpoint {:?}",
                text(&job.parts.payload),
                text(&job.parts.checkpoint)
            ),
            format!(
                "result {:?} error {:?}",
                text(&job.result),
                job.error.as_ref().map(|e| &e.code)
            ),
            format!("started {:?} finished {:?}", job.started_at, job.finished_at),
            format!("progress {:?}", job.progress.as_ref().map(|p| (p.done, p.total, &p.note))),
            format!("flow {:?} {:?} followed {}", header.flow, job.dependencies, job.followed),
            format!(
                "inputs {:?}",
                job.inputs.iter().map(|it| (it.job, it.outcome)).collect::<Vec<_>>()
            ),
            format!("log {:?}", job.log.iter().map(|line| &line.text).collect::<Vec<_>>()),
        ];
        for line in lines {
            writeln!(replies, "{line}").expect("text takes text");
        }
        for attempt in &job.history {
            let why = attempt.error.as_ref().map(|error| &error.message);
            writeln!(
                replies,
                "attempt {} {:?} {why:?} by {}",
                attempt.number, attempt.end, attempt.worker
            )
            .expect("text takes text");
        }
    }
    let get = RecordOp::Get { key: "r".into() };
    let read = RecordOp::Read { log: "l".into(), after: 0, limit: 10 };
    for reply in engine.records(vec![get, read]).await?.value {
        match reply? {
            RecordReply::Record(Some(record)) => {
                writeln!(replies, "record {} v{} {:?}", record.key, record.version, record.value)
            }
            RecordReply::Entries(entries) => {
                let entries: Vec<_> = entries.iter().map(|e| (e.number, &e.value)).collect();
                writeln!(replies, "log {entries:?}")
            }
            other => writeln!(replies, "{other:?}"),
        }
        .expect("text takes text");
    }
    for lane in engine.stats(StatsRequest::default()).await?.value {
        let waiting = (lane.available, lane.scheduled, lane.blocked, lane.paused);
        writeln!(
            replies,
            "lane {}/{} {waiting:?} {} {}",
            lane.queue, lane.kind, lane.running, lane.dead
        )
        .expect("text takes text");
    }
    for (queue, settings) in engine.settings().await?.value.queues {
        let kept = settings.retention.of(State::Completed);
        writeln!(replies, "queue {queue} keeps {kept}").expect("text takes text");
    }
    Ok(replies)
}

/// Writes the fixture anew.
async fn write() {
    let dir = tempfile::tempdir().expect("a directory");
    let engine = open(dir.path(), START);
    fill(&engine).await.expect("jobs are stored");
    let replies = replies(&engine).await.expect("jobs are read");
    drop(engine);
    let fixture = Path::new(FIXTURE);
    std::fs::copy(dir.path().join(DATABASE), fixture.join(DATABASE)).expect("it is copied");
    std::fs::write(fixture.join(REPLIES), replies).expect("it is written");
}

/// A copy of the fixture, so that the original stays unchanged.
fn copy() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let original = Path::new(FIXTURE).join(DATABASE);
    std::fs::copy(original, dir.path().join(DATABASE)).expect("a copy");
    dir
}

/// The statements that created the tables and indexes of a database.
fn schema(dir: &Path) -> Vec<String> {
    let conn = rusqlite::Connection::open(dir.join(DATABASE)).expect("a connection");
    let sql = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name";
    let mut statement = conn.prepare(sql).expect("a statement");
    let rows = statement.query_map([], |row| row.get(0)).expect("rows");
    rows.collect::<rusqlite::Result<_>>().expect("text")
}

#[tokio::test]
async fn a_stored_directory_opens_with_its_content_unchanged() {
    if std::env::var(WRITE).is_ok_and(|value| value == "1") {
        write().await;
    }
    let (dir, new) = (copy(), tempfile::tempdir().unwrap());
    drop(open(new.path(), START));
    let hint = format!("the schema has changed: write the fixture again with {WRITE}=1");
    assert_eq!(schema(dir.path()), schema(new.path()), "{hint}");
    let before = std::fs::read_to_string(Path::new(FIXTURE).join(REPLIES)).unwrap();
    let engine = open(dir.path(), START.plus(1));
    assert_eq!(replies(&engine).await.unwrap(), before);
    assert_eq!(engine.check(false).await.unwrap().value.findings, []);
    // The store works: the remote worker repeats its claim and settles the job, and a unique key is still held.
    let sessions = engine.sessions().await.unwrap().value;
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    let by = Claimant::Session { session: sessions[0].id.clone(), claim_no: 1 };
    let again = engine.claim(Claim::new(by, "default", 10)).await.unwrap().value.jobs;
    assert_eq!(again.len(), 1, "the lease is held, and the claim repeated");
    let item = SettleItem::new(again[0].header.id, again[0].lease.clone(), Outcome::DONE);
    let settled = engine.settle(Settle::new([item])).await.unwrap().value.items;
    assert_eq!(settled[0].as_ref().unwrap().state, State::Completed);
    let twice = NewJob::new("available").queue("mail").unique(Unique::by("once"));
    let added = engine.enqueue(Enqueue::each([twice])).await.unwrap().value;
    assert_eq!(added[0].as_ref().unwrap().disposition, Disposition::Existing);
    assert_eq!(engine.check(false).await.unwrap().value.findings, []);
}
