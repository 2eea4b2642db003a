//! Steps that handlers record, so that they need not run again.

use crate::rig::{Rig, assert_code, assert_refused};
use windlass_core::engine::{Change, ClaimedJob, Edits, Outcome, SessionId, SettleItem, UpdateItem};
use windlass_core::limits::{STEP_BYTES_MAX, STEPS_BYTES_MAX, STEPS_MAX};
use windlass_core::model::{PartEdit, State, Step, StepKind};
use windlass_core::time::{HOUR_MS, MINUTE_MS};
use windlass_core::{JobId, Result};

fn run(name: &str, text: &str) -> Step {
    Step::new(name, StepKind::Run).json(text)
}

async fn record(rig: &Rig, job: &ClaimedJob, steps: impl IntoIterator<Item = Step>) -> Result<()> {
    let item = UpdateItem::new(job.header.id, job.lease.clone());
    rig.update(steps.into_iter().fold(item, UpdateItem::step)).await.map(|_| ())
}

/// The steps of a running job, as its worker reads them.
async fn recalled(rig: &Rig, job: &ClaimedJob) -> Vec<Step> {
    let item = UpdateItem::new(job.header.id, job.lease.clone()).recall();
    rig.update(item).await.expect("update").continuation.map_or_else(Vec::new, |kept| kept.steps)
}

async fn stored(rig: &Rig, id: JobId) -> Vec<Step> {
    rig.get(id).await.continuation.map_or_else(Vec::new, |kept| kept.steps)
}

async fn start(rig: &Rig) -> (ClaimedJob, SessionId) {
    let session = rig.session().await;
    (rig.take_one(&session).await, session)
}

pub(super) async fn a_recorded_step_outlives_crashes_retries_and_waits(rig: Rig) {
    let id = rig.enqueue(Rig::job().max_attempts(9)).await;
    let (job, session) = start(&rig).await;
    record(&rig, &job, [run("charge", r#"{"id": 1.50}"#)]).await.expect("the step is recorded");
    rig.crash(&session).await;
    rig.pass(MINUTE_MS).await;
    let mut expected = vec![run("charge", r#"{"id": 1.50}"#)];
    for (number, outcome) in [
        Outcome::Retry { error: windlass_core::model::JobError::new("e", "m"), delay_ms: Some(0) },
        Outcome::Release,
        Outcome::Snooze { delay_ms: 0 },
        Outcome::WAIT,
    ]
    .into_iter()
    .enumerate()
    {
        let (job, _) = start(&rig).await;
        assert_eq!(recalled(&rig, &job).await, expected, "{outcome:?}");
        let step = Step::new(format!("step-{number}"), StepKind::Sleep);
        let item = SettleItem::new(id, job.lease.clone(), outcome).step(step.clone());
        rig.try_settle(item).await.expect("the step is recorded");
        expected.push(step);
    }
    rig.change(id, Change::signal("go")).await;
    let (job, _) = start(&rig).await;
    assert_eq!(recalled(&rig, &job).await, expected);
    rig.settle(&job, Outcome::DONE).await;
    assert_eq!(stored(&rig, id).await, expected, "they are part of the job");
    rig.assert_sound().await;
}

pub(super) async fn a_step_is_recorded_once(rig: Rig) {
    let id = rig.enqueue_one().await;
    let (job, _) = start(&rig).await;
    record(&rig, &job, [run("a", "1")]).await.expect("the step is recorded");
    record(&rig, &job, [run("a", "1")]).await.expect("a repeated call changes nothing");
    assert_refused(record(&rig, &job, [run("a", "2")]).await, "invalid", "steps.name");
    let other = Step::new("a", StepKind::Signal);
    assert_refused(record(&rig, &job, [other.clone()]).await, "invalid", "steps.name");
    let item = SettleItem::new(id, job.lease.clone(), Outcome::Release).step(other);
    assert_refused(rig.try_settle(item).await, "invalid", "steps.name");
    rig.assert_state(id, State::Running).await;
    assert_eq!(stored(&rig, id).await, [run("a", "1")]);
    rig.assert_sound().await;
}

pub(super) async fn a_stale_lease_records_no_step(rig: Rig) {
    let id = rig.enqueue_one().await;
    let (job, session) = start(&rig).await;
    rig.crash(&session).await;
    assert_code(record(&rig, &job, [run("a", "1")]).await, "lease_lost");
    rig.pass(HOUR_MS).await;
    start(&rig).await;
    assert_code(record(&rig, &job, [run("a", "1")]).await, "lease_lost");
    assert_eq!(stored(&rig, id).await, []);
}

pub(super) async fn steps_are_bounded_and_bad_ones_refused(rig: Rig) {
    rig.enqueue_one().await;
    let (job, _) = start(&rig).await;
    let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    let large = |name: usize| run(&name.to_string(), &text(STEP_BYTES_MAX));
    for (steps, code, field) in [
        (vec![run("", "1")], "invalid", "steps.name"),
        (vec![run("a b", "1")], "invalid", "steps.name"),
        (vec![run("a", "{")], "invalid", "steps.result"),
        (vec![run("a", &text(STEP_BYTES_MAX + 1))], "too_large", "steps.result"),
        ((0..=STEPS_BYTES_MAX / STEP_BYTES_MAX).map(large).collect(), "too_large", "steps"),
        ((0..STEPS_MAX).map(|n| run(&format!("s{n}"), "1")).chain([run("z", "1")]).collect(), "too_large", "steps"),
    ] {
        assert_refused(record(&rig, &job, steps).await, code, field);
    }
    assert_eq!(recalled(&rig, &job).await, []);
}

pub(super) async fn a_replayed_job_keeps_its_steps_unless_it_starts_over(rig: Rig) {
    let id = rig.enqueue_one().await;
    let (job, _) = start(&rig).await;
    record(&rig, &job, [run("a", "1")]).await.expect("the step is recorded");
    rig.settle(&job, Outcome::fail("e", "m")).await;
    rig.change(id, Change::replay()).await;
    let (job, _) = start(&rig).await;
    assert_eq!(recalled(&rig, &job).await, [run("a", "1")]);
    rig.settle(&job, Outcome::fail("e", "m")).await;
    let mut edits = Edits::default();
    edits.checkpoint = PartEdit::Unset;
    rig.change(id, Change::Replay(Box::new(edits))).await;
    let (job, _) = start(&rig).await;
    assert_eq!(recalled(&rig, &job).await, []);
    rig.settle(&job, Outcome::DONE).await;
    rig.assert_sound().await;
}
