//! Directories written by earlier versions, kept forever: they open, and their content is unchanged.
//!
//! `tests/formats/N` contains a directory of format N and, in `told.txt`, the replies of the version that wrote it.
//! The ignored test below writes the directory of a new format; existing directories are never written again.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_core::engine::*;
use windlass_core::model::{NewJob, Part, PartEdit, PartSet, QueuePatch, State};
use windlass_core::policy::{Retention, Unique};
use windlass_core::random::Seeded;
use windlass_core::time::{HOUR_MS, ManualClock};
use windlass_core::{JobId, Result, Timestamp};
use windlass_local::{LocalEngine, Options};

const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const FORMATS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/formats");
const DATABASE: &str = "windlass.db";

fn open(dir: &Path, at: Timestamp) -> LocalEngine {
    let clock = Arc::new(ManualClock::at(at));
    let options = Options::new(dir).clock(clock).random(Arc::new(Seeded::new(1)));
    LocalEngine::open(options).expect("opens")
}

/// Stores jobs in most states, a record, a log and the settings of a queue.
async fn fill(engine: &LocalEngine) -> Result<()> {
    let queue = QueuePatch::retention(Retention::uniform(HOUR_MS));
    engine.configure(vec![Configure::queue("mail", queue)]).await?;
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
            item("retried", Outcome::retry("busy", "try again")).state(state),
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
async fn tell(engine: &LocalEngine) -> Result<String> {
    let mut told = String::new();
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
            format!("payload {:?} state {:?}", text(&job.parts.payload), text(&job.parts.state)),
            format!(
                "result {:?} error {:?}",
                text(&job.result),
                job.error.as_ref().map(|e| &e.code)
            ),
            format!("started {:?} finished {:?}", job.started_at, job.finished_at),
            format!("progress {:?}", job.progress.as_ref().map(|p| (p.done, p.total, &p.note))),
            format!("log {:?}", job.log.iter().map(|line| &line.text).collect::<Vec<_>>()),
        ];
        for line in lines {
            writeln!(told, "{line}").expect("text takes text");
        }
        for attempt in &job.history {
            let why = attempt.error.as_ref().map(|error| &error.message);
            writeln!(
                told,
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
                writeln!(told, "record {} v{} {:?}", record.key, record.version, record.value)
            }
            RecordReply::Entries(entries) => {
                let entries: Vec<_> = entries.iter().map(|e| (e.number, &e.value)).collect();
                writeln!(told, "log {entries:?}")
            }
            other => writeln!(told, "{other:?}"),
        }
        .expect("text takes text");
    }
    for lane in engine.stats(StatsRequest::default()).await?.value {
        let waiting = (lane.available, lane.scheduled, lane.blocked, lane.paused);
        writeln!(
            told,
            "lane {}/{} {waiting:?} {} {}",
            lane.queue, lane.kind, lane.running, lane.dead
        )
        .expect("text takes text");
    }
    for (queue, settings) in engine.settings().await?.value.queues {
        let kept = settings.retention.of(State::Completed);
        writeln!(told, "queue {queue} keeps {kept}").expect("text takes text");
    }
    Ok(told)
}

/// Copies a directory, so that the original stays unchanged.
fn copy(original: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::copy(original.join(DATABASE), dir.path().join(DATABASE)).expect("a copy");
    dir
}

#[tokio::test]
async fn directories_of_every_earlier_format_open_and_tell_what_they_told() {
    let mut formats: Vec<PathBuf> =
        std::fs::read_dir(FORMATS).unwrap().map(|entry| entry.unwrap().path()).collect();
    formats.sort();
    assert!(!formats.is_empty(), "the first format is there");
    for original in formats {
        let dir = copy(&original);
        let before = std::fs::read_to_string(original.join("told.txt")).unwrap();
        let engine = open(dir.path(), START.plus(1));
        assert_eq!(tell(&engine).await.unwrap(), before, "{}", original.display());
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
}

/// For a new format only: `FORMAT=2 cargo test -p windlass-local --test formats -- --ignored`.
#[tokio::test]
#[ignore = "writes the directory of a new format"]
async fn write_a_directory_of_the_present_format() {
    let Ok(format) = std::env::var("FORMAT") else { return };
    let kept = Path::new(FORMATS).join(format);
    assert!(!kept.exists(), "{} is kept as it is", kept.display());
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), START);
    fill(&engine).await.unwrap();
    let told = tell(&engine).await.unwrap();
    drop(engine);
    std::fs::create_dir_all(&kept).unwrap();
    std::fs::copy(dir.path().join(DATABASE), kept.join(DATABASE)).unwrap();
    std::fs::write(kept.join("told.txt"), told).unwrap();
}
