//! Steps of handlers: what runs once, what waits without a slot, and what happens to a wrong name. The killed process is
//! this test binary, run again.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "unwrapping is how a test says that this must hold")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use support::{enqueue, eventually, get, memory, worker};
use windlass_core::JobId;
use windlass_core::engine::{Change, Engine, Work};
use windlass_core::model::{Job, Join, NewJob, OnFailure, Signal, State as JobState};
use windlass_core::random::{Random as _, SystemRandom};
use windlass_local::{LocalEngine, Options};
use windlass_worker::{Ctx, Json, Raw, Stop, code};

const DIR: &str = "WINDLASS_TEST_STEPS_DIR";
/// Steps of the handler that is killed.
const STEPS: u32 = 10;

/// Promotes due jobs until `id` is in this state.
async fn served(engine: &Arc<dyn Engine>, id: JobId, state: JobState) -> Job {
    eventually(&format!("job {id} to be {state}"), || async {
        support::maintain(engine, Work::Promote).await;
        let job = get(engine, id).await;
        (job.state == state).then_some(job)
    })
    .await
}

#[tokio::test]
async fn a_step_runs_once_however_often_its_handler_runs() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    async fn order(_: Raw, ctx: Ctx) -> Result<(u32, String), Stop> {
        let run = || RUNS.fetch_add(1, Ordering::SeqCst);
        let first: u32 = ctx.step("first", async || Ok(run())).await?;
        if ctx.attempt() == 1 {
            return Err(Stop::retry("once more").after(Duration::ZERO));
        }
        let second: String = ctx.step("second", async || Ok(format!("{first}-{}", run()))).await?;
        if ctx.attempt() == 2 {
            return Err(Stop::release());
        }
        let again: String = ctx.step("second", async || Ok(String::new())).await?;
        assert_eq!(again, second);
        Ok((first, second))
    }
    let engine = memory();
    let running = worker(&engine).handle_kind("order", order).build().unwrap().start();
    let id = enqueue(&engine, NewJob::new("order")).await;
    let job = served(&engine, id, JobState::Completed).await;
    assert_eq!(job.result.unwrap().bytes, r#"[0,"0-1"]"#);
    assert_eq!((job.header.counters.attempt, RUNS.load(Ordering::SeqCst)), (3, 2));
    assert_eq!(job.continuation.unwrap().steps.len(), 2);
    assert!(job.parts.checkpoint.is_none(), "the checkpoint belongs to the handler");
    running.drain().await;
}

#[tokio::test]
async fn sleeping_and_waiting_for_a_signal_hold_no_slot() {
    async fn approval(_: Raw, ctx: Ctx) -> Result<Option<String>, Stop> {
        ctx.sleep("cool-off", Duration::from_millis(20)).await?;
        let approved = ctx.signal("approved", None).await?;
        let late = ctx.signal("late", Duration::from_millis(20)).await?;
        assert_eq!(late, None, "the time ran out");
        Ok(approved.and_then(|signal| signal.payload))
    }
    let engine = memory();
    let running =
        worker(&engine).concurrency(1).handle_kind("approval", approval).build().unwrap().start();
    let id = enqueue(&engine, NewJob::new("approval")).await;
    let job = served(&engine, id, JobState::Blocked).await;
    assert_eq!(job.continuation.unwrap().steps.len(), 1, "it has slept");
    support::until("the slot to be free", || running.health().in_flight == 0).await;
    let signal = Signal::new("approved").json(r#"{"by":"eve"}"#);
    support::change(&engine, id, signal.into()).await;
    let job = served(&engine, id, JobState::Completed).await;
    assert_eq!(job.result.unwrap().bytes, r#""{\"by\":\"eve\"}""#);
    assert_eq!(job.continuation.unwrap().steps.len(), 3);
    running.drain().await;
}

#[tokio::test]
async fn a_signal_that_came_before_is_taken_at_once() {
    async fn order(_: Raw, ctx: Ctx) -> Result<bool, Stop> {
        Ok(ctx.signal("paid", Duration::from_secs(3600)).await?.is_some())
    }
    let engine = memory();
    let id = enqueue(&engine, NewJob::new("order")).await;
    support::change(&engine, id, Change::signal("paid")).await;
    let running = worker(&engine).handle_kind("order", order).build().unwrap().start();
    let job = served(&engine, id, JobState::Completed).await;
    assert_eq!(job.result.unwrap().bytes, "true");
    running.drain().await;
}

#[tokio::test]
async fn children_are_created_once_and_their_results_are_read() {
    async fn double(Json(n): Json<u32>) -> Result<u32, Stop> {
        if n == 3 { Err(Stop::fatal("not three")) } else { Ok(2 * n) }
    }
    async fn sum(_: Raw, ctx: Ctx) -> Result<Vec<Option<u32>>, Stop> {
        let child = |n: u32| NewJob::new("double").json(n.to_string());
        let mut read = Vec::new();
        for (name, numbers) in [("fan", vec![1, 2, 3]), ("none", vec![]), ("more", vec![5])] {
            let ended = ctx.children(name, numbers.into_iter().map(child)).await?;
            read.extend(ended.into_iter().map(|input| {
                input.result.map(|part| serde_json::from_slice(&part.bytes).unwrap())
            }));
        }
        Ok(read)
    }
    let engine = memory();
    let worker = worker(&engine).concurrency(1).handle_kind("sum", sum);
    let running = worker.handle_kind("double", double).build().unwrap().start();
    let id = enqueue(&engine, NewJob::new("sum").flow("sums")).await;
    let job = served(&engine, id, JobState::Completed).await;
    assert_eq!(job.result.unwrap().bytes, "[2,4,null,10]");
    assert_eq!(job.inputs.len(), 4);
    running.drain().await;
}

#[tokio::test]
async fn a_child_can_end_its_parent() {
    async fn child(_: Raw) -> Result<(), Stop> {
        Err(Stop::fatal("no"))
    }
    async fn parent(_: Raw, ctx: Ctx) -> Result<(), Stop> {
        let child = NewJob::new("child").joins(Join::SELF.on_failure(OnFailure::Fail));
        ctx.children("fan", [child]).await.map(drop)
    }
    let engine = memory();
    let worker = worker(&engine).handle_kind("parent", parent).handle_kind("child", child);
    let running = worker.build().unwrap().start();
    let id = enqueue(&engine, NewJob::new("parent")).await;
    let job = served(&engine, id, JobState::Dead).await;
    assert_eq!(job.header.counters.attempt, 1, "it does not run again");
    running.drain().await;
}

#[tokio::test]
async fn a_step_name_of_another_type_makes_the_job_dead() {
    async fn kinds(_: Raw, ctx: Ctx) -> Result<(), Stop> {
        let _: u32 = ctx.step("one", async || Ok(1)).await?;
        ctx.sleep("one", Duration::ZERO).await
    }
    async fn types(_: Raw, ctx: Ctx) -> Result<(), Stop> {
        let _: u32 = ctx.step("one", async || Ok(1)).await?;
        ctx.step("one", async || Ok(String::new())).await.map(drop)
    }
    async fn name(_: Raw, ctx: Ctx) -> Result<(), Stop> {
        ctx.step("", async || Ok(())).await
    }
    let engine = memory();
    let worker = worker(&engine).handle_kind("kinds", kinds).handle_kind("types", types);
    let running = worker.handle_kind("name", name).build().unwrap().start();
    for kind in ["kinds", "types", "name"] {
        let id = enqueue(&engine, NewJob::new(kind)).await;
        let job = served(&engine, id, JobState::Dead).await;
        let error = job.error.unwrap();
        assert_eq!(error.code, code::STEP_MISMATCH, "{kind}: {}", error.message);
    }
    running.drain().await;
}

fn open(dir: &Path) -> Arc<dyn Engine> {
    // The owner before may still be closing.
    for _ in 0..500 {
        if let Ok(engine) = LocalEngine::open(Options::new(dir)) {
            return Arc::new(engine);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Arc::new(LocalEngine::open(Options::new(dir)).unwrap())
}

fn append(name: &str, line: &str) {
    let dir = PathBuf::from(std::env::var_os(DIR).unwrap());
    let mut file = OpenOptions::new().append(true).create(true).open(dir.join(name)).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Ten steps. Each execution of one has a token of its own; what the handler goes on with is noted, too.
async fn ten(_: Raw, ctx: Ctx) -> Result<(), Stop> {
    println!("started {}", ctx.id());
    for number in 0..STEPS {
        let step = format!("step-{number}");
        let effect = async || {
            let token = format!("{}-{}", ctx.attempt(), uuid());
            append("effects", &format!("{} {step} {token}", ctx.id()));
            tokio::time::sleep(Duration::from_millis(3)).await;
            Ok(token)
        };
        let token: String = ctx.step(&step, effect).await?;
        append("seen", &format!("{} {step} {token}", ctx.id()));
    }
    Ok(())
}

/// A number that no other execution has.
fn uuid() -> u128 {
    SystemRandom.next_u128()
}

/// Not a test of its own: what the child process does.
#[tokio::test]
async fn child() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    let engine = open(&dir);
    let worker = worker(&engine).handle_kind("ten", ten).build().unwrap();
    worker.run_until_signal().await.unwrap();
}

/// Runs jobs of ten steps, kills their process this many times with SIGKILL, and returns the number of steps recorded and
/// of effects executed.
async fn killed(kills: u32) -> (usize, usize) {
    let dir = tempfile::tempdir().unwrap();
    let mut ids = Vec::new();
    let (mut done, mut total) = (0, kills);
    while done < total {
        {
            let engine = open(dir.path());
            let last = match ids.last() {
                Some(id) => Some(get(&engine, *id).await),
                None => None,
            };
            match last.filter(|job| job.state != JobState::Completed) {
                None if done + 1 < total => {
                    let job = NewJob::new("ten").max_crashes(1_000_000);
                    ids.push(enqueue(&engine, job).await);
                }
                None => break,
                Some(job) => {
                    // The work of the services, without the delay after a crash.
                    support::maintain(&engine, Work::Reclaim).await;
                    support::change(&engine, job.header.id, Change::Promote).await;
                }
            }
        }
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child", "--exact", "--nocapture"])
            .env(DIR, dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let started = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("started")));
        assert!(started.is_some(), "the child ended");
        std::thread::sleep(Duration::from_millis(u64::from(done * 7 % 40)));
        child.kill().unwrap();
        child.wait().unwrap();
        done += 1;
        // The last job runs to its end.
        if done == total
            && get(&open(dir.path()), *ids.last().unwrap()).await.state != JobState::Completed
        {
            total += 1;
        }
    }
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    let engine = open(dir.path());
    let mut tokens: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for line in read("seen").lines() {
        let [id, step, token] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        tokens.entry((id.into(), step.into())).or_default().insert(token.into());
    }
    let mut recorded = 0;
    for id in &ids {
        let job = get(&engine, *id).await;
        assert_eq!(job.state, JobState::Completed);
        let steps = job.continuation.unwrap().steps;
        assert_eq!(steps.len(), STEPS as usize, "each step is recorded once");
        for step in steps {
            let token: String = serde_json::from_str(step.result.as_deref().unwrap()).unwrap();
            let seen = &tokens[&(id.to_string(), step.name.to_string())];
            assert_eq!(seen, &BTreeSet::from([token]), "the handler went on with one result");
            recorded += 1;
        }
    }
    let effects = read("effects").lines().count();
    println!(
        "{done} kills, {} jobs, {recorded} steps recorded, {effects} effects executed",
        ids.len()
    );
    (recorded, effects)
}

#[tokio::test]
async fn each_step_of_a_killed_handler_is_recorded_once() {
    let (recorded, effects) = killed(10).await;
    assert!(effects >= recorded);
}

#[tokio::test]
#[ignore = "long: 200 processes"]
async fn each_step_of_a_handler_that_is_killed_200_times_is_recorded_once() {
    let (recorded, effects) = killed(200).await;
    assert!(effects >= recorded);
    // Only what ran when its process died may run twice.
    assert!(effects <= recorded + 200, "{effects} effects of {recorded} steps");
}
