//! Many jobs at once: each for itself, or all or none.

use crate::support::*;
use windlass::engine::Change;
use windlass::limits::ENQUEUE_BATCH_MAX;
use windlass::policy::Pace;
use windlass::testing::TestQueue;
use windlass::{Error, IntoJob, JobBuilder, State};

fn named(kinds: &[&'static str]) -> Vec<JobBuilder> {
    kinds.iter().map(|kind| windlass::job_of(*kind)).collect()
}

#[tokio::test]
async fn more_jobs_than_one_call_takes_are_all_stored_and_answered_in_order() {
    let queue = TestQueue::new();
    let client = queue.client();
    let count = ENQUEUE_BATCH_MAX + 5;
    let ids: Vec<_> = (0..count).map(|_| client.new_id()).collect();
    let jobs = ids.iter().map(|id| windlass::job(email("ada")).id(*id));
    let answers = client.enqueue_all(jobs).await;
    let answered: Vec<_> = answers.into_iter().map(|answer| answer.unwrap().id()).collect();
    assert!(answered == ids, "the answers are not in the order of the jobs");
    assert_eq!(queue.counts()["send_email"], count);
}

#[tokio::test]
async fn paced_jobs_fall_due_at_their_pace_across_calls() {
    let queue = TestQueue::new();
    let client = queue.client();
    let start = client.engine().health().await.unwrap().now;
    let count = ENQUEUE_BATCH_MAX + 2;
    let jobs = (0..count).map(|n| match n {
        3 => windlass::job_of("no words").payload(&Unspeakable),
        _ => windlass::job_of("paced"),
    });
    let answers = client.enqueue_paced(Pace::per_second(100).unwrap(), jobs).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_err()).count(), 1);
    let stored = answers.into_iter().filter_map(Result::ok).map(|answer| answer.id());
    let mut due = Vec::new();
    for id in stored.collect::<Vec<_>>().into_iter().rev().take(5) {
        due.push(client.get(id).await.unwrap().unwrap().header.run_at.since(start));
    }
    let last = (count as u64 - 2) * 10;
    assert_eq!(due, [last, last - 10, last - 20, last - 30, last - 40], "the bad one took no turn");
}

#[tokio::test]
async fn typed_jobs_go_as_they_are() {
    let queue = TestQueue::new();
    let answers = queue.client().enqueue_all(["ada", "alan"].map(email)).await;
    assert!(answers.iter().all(Result::is_ok));
    queue.assert_enqueued::<SendEmail>(|job| job.to == "alan");
    queue.assert_count::<SendEmail>(2);
}

#[tokio::test]
async fn a_bad_job_fails_alone_and_in_its_place() {
    let queue = TestQueue::new();
    let client = queue.client();
    let jobs = named(&["good", "no spaces", "good", "no words", "good"]);
    let jobs = jobs.into_iter().enumerate().map(|(index, job)| match index {
        3 => job.payload(&Unspeakable),
        _ => job,
    });
    let answers = client.enqueue_all(jobs).await;
    let codes: Vec<_> =
        answers.iter().map(|a| a.as_ref().map_or_else(Error::code, |_| "ok")).collect();
    assert_eq!(codes, ["ok", "invalid", "ok", "unwritable", "ok"]);
    assert_eq!(queue.counts()["good"], 3);
}

#[tokio::test]
async fn an_empty_batch_changes_nothing() {
    let client = TestQueue::new().client();
    assert!(client.enqueue_all(Vec::<SendEmail>::new()).await.is_empty());
    assert!(client.enqueue_atomic(Vec::<SendEmail>::new()).await.unwrap().is_empty());
}

#[tokio::test]
async fn of_an_atomic_batch_all_is_stored_or_nothing() {
    let queue = TestQueue::new();
    let client = queue.client();
    let error = client.enqueue_atomic(named(&["a", "b", "no spaces", "c"])).await.unwrap_err();
    assert!(matches!(error, Error::NotStored { index: 2, .. }), "{error}");
    assert_eq!(error.as_engine().unwrap().field(), Some("kind"));
    assert!(queue.jobs().is_empty());
    let error = client.enqueue_atomic([email("ada")].map(IntoOddJob)).await.unwrap_err();
    assert!(matches!(error, Error::NotStored { index: 0, .. }), "{error}");
    let stored = client.enqueue_atomic(named(&["a", "b"])).await.unwrap();
    assert_eq!((stored.len(), queue.jobs().len()), (2, 2));
}

/// Something of the application's own that cannot be written.
struct IntoOddJob(SendEmail);

impl IntoJob for IntoOddJob {
    type Job = SendEmail;

    fn into_new_job(self) -> windlass::Result<windlass::NewJob> {
        drop(self.0);
        Unspeakable.into_new_job()
    }
}

#[tokio::test]
async fn an_atomic_batch_beyond_the_limit_is_refused_even_if_it_never_ends() {
    let queue = TestQueue::new();
    let endless = std::iter::repeat_with(|| email("ada"));
    let error = queue.client().enqueue_atomic(endless).await.unwrap_err();
    assert_eq!((error.code(), error.as_engine().unwrap().field()), ("too_large", Some("jobs")));
    assert!(queue.jobs().is_empty());
}

#[tokio::test]
async fn many_jobs_are_changed_at_once_and_each_answers_for_itself() {
    let queue = TestQueue::new();
    let client = queue.client();
    let stored = client.enqueue_all(["ada", "alan"].map(email)).await;
    let mut ids: Vec<_> = stored.into_iter().map(|answer| answer.unwrap().id()).collect();
    ids.insert(1, client.new_id());
    let answers = client.change_all(ids, Change::Cancel).await;
    let codes: Vec<_> =
        answers.iter().map(|a| a.as_ref().map_or_else(Error::code, |_| "ok")).collect();
    assert_eq!(codes, ["ok", "not_found", "ok"]);
    let cancelled = client.jobs().in_state(State::Cancelled).page().await.unwrap();
    assert_eq!(cancelled.rows.len(), 2);
}
