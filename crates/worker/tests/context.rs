//! Reports of a handler through its context, and what is stored of them.
#![allow(clippy::unwrap_used, reason = "unwrapping is how a test says that this must hold")]

mod support;

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use support::flaky::Flaky;
use support::{
    change, enqueue, enqueue_all, eventually, get, local, memory, reaches, until, worker,
};
use tokio::sync::Notify;
use windlass_core::engine::{Change, Configure, Engine, Filter, Hold, List};
use windlass_core::model::{Job, Limit, NewJob, PartName, QueuePatch, State as JobState};
use windlass_core::policy::Backoff;
use windlass_core::{TypedJob, limits};
use windlass_worker::{Cause, Ctx, Data, Raw, Stop};

#[derive(Serialize, Deserialize)]
struct Next {
    page: u32,
}

impl TypedJob for Next {
    const KIND: &'static str = "next";
    type Output = ();

    fn template() -> NewJob {
        NewJob::new(Self::KIND).queue("later").max_attempts(7)
    }
}

async fn jobs_of(engine: &Arc<dyn Engine>, kind: &str) -> Vec<Job> {
    let filter = Filter::default().kind(kind.to_owned());
    engine.list(List::new(filter)).await.unwrap().value.rows
}

fn retried(kind: &'static str) -> NewJob {
    NewJob::new(kind).backoff(Backoff::exactly(3_600_000))
}

#[tokio::test]
async fn a_handler_knows_its_job() {
    async fn look(_: Raw, ctx: Ctx) -> Result<String, Stop> {
        Ok(format!(
            "{} {} {:?} {:?} {} {} {} {}",
            ctx.queue(),
            ctx.kind(),
            ctx.tenant(),
            ctx.tags(),
            ctx.attempt(),
            ctx.failures(),
            ctx.crashes(),
            ctx.is_last_attempt(),
        ))
    }
    let engine = memory();
    let running = worker(&engine).queue("q").handle_kind("look", look).build().unwrap().start();
    let job = NewJob::new("look").queue("q").tenant("acme").tag("red").max_attempts(1);
    let id = enqueue(&engine, job).await;
    let job = reaches(&engine, id, JobState::Completed).await;
    let seen = String::from_utf8(job.result.unwrap().bytes.to_vec()).unwrap();
    assert_eq!(seen, r#""q look Some(\"acme\") [\"red\"] 1 0 0 true""#);
    running.drain().await;
}

#[tokio::test]
async fn progress_and_log_lines_arrive_while_the_job_runs_and_before_its_outcome() {
    let flaky = Flaky::new(memory());
    let engine: Arc<dyn Engine> = flaky.clone();
    let gate = Arc::new(Notify::new());
    async fn count(_: Raw, ctx: Ctx, Data(gate): Data<Arc<Notify>>) {
        for done in 0..10_000 {
            ctx.set_progress(done, Some(20_000), "counting");
        }
        ctx.log("half way");
        gate.notified().await;
        ctx.set_progress(20_000, Some(20_000), "ü".repeat(1_000));
        ctx.log("done");
    }
    let builder = worker(&engine).data(gate.clone()).handle_kind("count", count);
    let running = builder.build().unwrap().start();
    let id = enqueue(&engine, NewJob::new("count")).await;
    let job = eventually("progress", || async {
        let job = get(&engine, id).await;
        job.progress.is_some().then_some(job)
    })
    .await;
    assert_eq!((job.state, job.progress.unwrap().done), (JobState::Running, 9_999));
    assert_eq!(job.log[0].text, "half way");
    gate.notify_one();
    let job = reaches(&engine, id, JobState::Completed).await;
    let progress = job.progress.unwrap();
    assert_eq!(progress.done, 20_000);
    assert!(progress.note.len() <= limits::PROGRESS_NOTE_BYTES_MAX);
    assert_eq!(job.log.len(), 2);
    let updates = flaky.updates.load(Ordering::SeqCst);
    assert!(updates <= 4, "ten thousand values were sent in {updates} calls");
    running.drain().await;
}

#[tokio::test]
async fn a_checkpoint_is_stored_when_it_returns_and_found_by_the_next_attempt() {
    async fn resume(_: Raw, ctx: Ctx, Data(gate): Data<Arc<Notify>>) -> Result<u32, Stop> {
        let checkpoint: Option<u32> = ctx.checkpoint().await?;
        if let Some(page) = checkpoint {
            return Ok(page);
        }
        ctx.save_checkpoint(&41).await?;
        ctx.save_checkpoint(&42).await?;
        assert_eq!(ctx.checkpoint().await?, Some(42));
        gate.notified().await;
        Err(Stop::retry("once").after(Duration::ZERO))
    }
    let (local, _dir) = local();
    for engine in [memory(), local] {
        let gate = Arc::new(Notify::new());
        let builder = worker(&engine).data(gate.clone()).handle_kind("resume", resume);
        let running = builder.build().unwrap().start();
        let id = enqueue(&engine, NewJob::new("resume")).await;
        eventually("the checkpoint", || async {
            let job = get(&engine, id).await;
            let stored = job.parts.checkpoint.is_some_and(|part| part.bytes == "42");
            (stored && job.state == JobState::Running).then_some(())
        })
        .await;
        gate.notify_one();
        let job = eventually("the second attempt", || async {
            support::maintain(&engine, windlass_core::engine::Work::Promote).await;
            let job = get(&engine, id).await;
            (job.state == JobState::Completed).then_some(job)
        })
        .await;
        assert_eq!(job.result.unwrap().bytes, "42");
        running.drain().await;
    }
}

#[tokio::test]
async fn parts_set_by_a_failed_attempt_are_kept_and_its_follow_ups_are_not_created() {
    async fn fail(_: Raw, ctx: Ctx) -> Result<(), Stop> {
        ctx.set_checkpoint(&"half")?;
        ctx.set_metadata(&"why")?;
        ctx.set_blob(&b"\x00\x01"[..])?;
        ctx.set_priority(-3);
        ctx.follow_up_with(&Next { page: 2 })?;
        panic!("no luck");
    }
    let engine = memory();
    let running = worker(&engine).handle_kind("fail", fail).build().unwrap().start();
    let id = enqueue(&engine, retried("fail")).await;
    let job = reaches(&engine, id, JobState::Scheduled).await;
    let bytes = |part: Option<windlass_core::model::Part>| part.unwrap().bytes;
    assert_eq!(bytes(job.parts.checkpoint), "\"half\"");
    assert_eq!(bytes(job.parts.metadata), "\"why\"");
    assert_eq!(bytes(job.parts.blob), &b"\x00\x01"[..]);
    assert_eq!(job.header.priority, -3);
    assert!(jobs_of(&engine, "next").await.is_empty());
    running.drain().await;
}

#[tokio::test]
async fn follow_ups_are_created_with_the_completion_and_know_their_parent() {
    async fn chain(_: Raw, ctx: Ctx) -> Result<(), Stop> {
        ctx.follow_up_with(&Next { page: 2 })?;
        ctx.follow_up(NewJob::new("other").tag("child"))?;
        let wrong = ctx.follow_up(NewJob::new("bad name")).unwrap_err();
        assert_eq!(wrong.field(), Some("kind"));
        Ok(())
    }
    let (local, _dir) = local();
    for engine in [memory(), local] {
        let running = worker(&engine).handle_kind("chain", chain).build().unwrap().start();
        let id = enqueue(&engine, NewJob::new("chain")).await;
        reaches(&engine, id, JobState::Completed).await;
        running.drain().await;
        let next = jobs_of(&engine, "next").await;
        let other = jobs_of(&engine, "other").await;
        assert_eq!((next.len(), other.len()), (1, 1));
        assert_eq!((next[0].header.parent, other[0].header.parent), (Some(id), Some(id)));
        assert_eq!((&*next[0].header.queue, next[0].header.policy.max_attempts), ("later", 7));
    }
}

#[tokio::test]
async fn heavy_parts_come_on_demand_or_with_the_claim() {
    async fn read(_: Raw, ctx: Ctx) -> Result<usize, Stop> {
        let blob = ctx.part(PartName::Blob).await?.ok_or("no blob")?;
        assert_eq!(ctx.part(PartName::Blob).await?.as_ref(), Some(&blob));
        assert_eq!(ctx.part(PartName::Metadata).await?, None);
        Ok(blob.bytes.len())
    }
    for (bring, calls) in [(false, 2), (true, 1)] {
        let flaky = Flaky::new(memory());
        let engine: Arc<dyn Engine> = flaky.clone();
        let builder = worker(&engine).handle_kind("read", read);
        let builder = if bring { builder.bring(PartName::Blob) } else { builder };
        let running = builder.build().unwrap().start();
        let mut job = NewJob::new("read");
        job.parts.blob = Some(windlass_core::model::Part::new(vec![7; 1_000_000]));
        let id = enqueue(&engine, job).await;
        let job = reaches(&engine, id, JobState::Completed).await;
        assert_eq!(job.result.unwrap().bytes, "1000000");
        assert_eq!(flaky.updates.load(Ordering::SeqCst), calls, "bring={bring}");
        running.drain().await;
    }
}

#[tokio::test]
async fn a_handler_edits_its_payload_and_moves_its_job_for_the_next_attempt() {
    async fn turn(Raw(payload): Raw, ctx: Ctx) -> Result<String, Stop> {
        assert_eq!(ctx.set_queue("a b").unwrap_err().field(), Some("queue"));
        ctx.set_payload(&format!("attempt {}", ctx.attempt() + 1))?;
        ctx.set_queue("other")?;
        match ctx.attempt() {
            1 => Err(Stop::snooze(Duration::ZERO)),
            // A job that ends stays in its queue.
            _ => Ok(format!("{} {}", ctx.queue(), String::from_utf8_lossy(&payload))),
        }
    }
    let engine = memory();
    let builder = worker(&engine).queue("default").queue("other").handle_kind("turn", turn);
    let running = builder.build().unwrap().start();
    let id = enqueue(&engine, NewJob::new("turn").json("\"first\"")).await;
    let job = reaches(&engine, id, JobState::Completed).await;
    assert_eq!(job.result.unwrap().bytes, r#""other \"attempt 2\"""#);
    assert_eq!((&*job.header.queue, job.history.len()), ("other", 2));
    assert_eq!(job.parts.payload.unwrap().bytes, "\"attempt 3\"");
    running.drain().await;
}

#[tokio::test]
async fn values_over_a_limit_are_refused_by_the_call_that_passes_them() {
    async fn large(_: Raw, ctx: Ctx) -> Result<(), Stop> {
        let large = "x".repeat(limits::METADATA_BYTES_MAX + 1);
        assert_eq!(ctx.set_metadata(&large).unwrap_err().code(), "too_large");
        let large = "x".repeat(limits::PAYLOAD_BYTES_MAX + 1);
        assert_eq!(ctx.set_payload(&large).unwrap_err().field(), Some("payload"));
        let large = vec![0; limits::CHECKPOINT_BYTES_MAX + 1];
        assert_eq!(ctx.save_checkpoint_bytes(large).await.unwrap_err().code(), "too_large");
        ctx.set_checkpoint(&"fits")?;
        Ok(())
    }
    let engine = memory();
    let running = worker(&engine).handle_kind("large", large).build().unwrap().start();
    let id = enqueue(&engine, retried("large")).await;
    let job = reaches(&engine, id, JobState::Completed).await;
    assert_eq!(job.parts.checkpoint.unwrap().bytes, "\"fits\"");
    running.drain().await;
}

#[tokio::test]
async fn a_cancellation_is_noticed_with_the_next_word_to_the_store() {
    let engine = memory();
    async fn talk(_: Raw, ctx: Ctx) -> Result<(), Stop> {
        loop {
            ctx.save_checkpoint(&0).await?;
            if ctx.is_cancelled() == Some(Cause::Operator) {
                return Err(Stop::cancel("as requested"));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    // Heartbeats are far apart: they cannot have brought the word.
    let (ttl, beat) = (Duration::from_secs(120), Duration::from_secs(60));
    let builder = worker(&engine).session(ttl, beat).handle_kind("talk", talk);
    let running = builder.build().unwrap().start();
    let id = enqueue(&engine, NewJob::new("talk")).await;
    until("it to run", || running.health().in_flight == 1).await;
    change(&engine, id, Change::Cancel).await;
    reaches(&engine, id, JobState::Cancelled).await;
    running.drain().await;
}

#[tokio::test]
async fn no_job_starts_between_a_hold_and_its_report() {
    let store = memory();
    let limit = Configure::limit("api", Limit::max_running(9));
    let listed = Configure::queue("default", QueuePatch::limits(["api"]));
    for set in store.configure(vec![limit, listed]).await.unwrap().value {
        set.unwrap();
    }
    let ids = enqueue_all(&store, (0..50).map(|_| NewJob::new("call"))).await;
    // A log line is stored before the outcome: meanwhile, the slot is free.
    async fn call(_: Raw, ctx: Ctx) -> Result<(), Stop> {
        ctx.log("429");
        ctx.hold(Hold::limits(60_000))?;
        Err(Stop::snooze(Duration::from_secs(60)))
    }
    let running = worker(&store).concurrency(1).handle_kind("call", call).build().unwrap().start();
    let first = reaches(&store, ids[0], JobState::Scheduled).await;
    assert_eq!((first.header.counters.failures, first.log.len()), (0, 1));
    // A claim that was sent before the report has been answered by then.
    running.drain().await;
    let stats = store.limits().await.unwrap().value;
    assert_eq!((stats[0].running, stats[0].waiting), (0, 49), "one job was started");
    assert!(stats[0].held_until.is_some());
}
