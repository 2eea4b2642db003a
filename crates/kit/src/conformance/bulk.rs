//! Enqueueing many jobs at once.

use crate::rig::{KIND, QUEUE, Rig, assert_code, assert_refused};
use std::collections::HashSet;
use windlass_core::engine::{
    Atomicity, Change, Configure, Disposition, Enqueue, Enqueued, Outcome, StatsRequest,
};
use windlass_core::limits::{CLAIM_BATCH_MAX, ENQUEUE_BATCH_MAX};
use windlass_core::model::{Due, NewJob, QueuePatch, State};
use windlass_core::policy::{OnConflict, Unique};
use windlass_core::time::HOUR_MS;
use windlass_core::{Error, JobId, Result};

pub(super) async fn each_job_of_a_batch_is_answered_in_its_place(rig: Rig) {
    let there = rig.enqueue(Rig::job().id(Rig::fresh_id())).await;
    let ids = [Rig::fresh_id(), there, Rig::fresh_id()];
    let answers = send(&rig, Enqueue::each(ids.map(|id| Rig::job().id(id)))).await;
    let got: Vec<_> = answers.iter().map(|answer| answer.as_ref().expect("taken").id).collect();
    assert_eq!(got, ids);
    assert_eq!(dispositions(&answers), [CREATED, Some(Disposition::Existing), CREATED]);
}

pub(super) async fn a_bad_job_fails_alone(rig: Rig) {
    let jobs = [Rig::job().json("1"), NewJob::new("bad kind").queue(QUEUE), Rig::job().json("3")];
    let [first, bad, last] = send(&rig, Enqueue::each(jobs)).await.try_into().expect("3 answers");
    assert_refused(bad, "invalid", "kind");
    let stored = [first, last].map(|answer: Result<Enqueued>| answer.expect("taken").id);
    assert_eq!(rig.drain(10).await, stored);
}

pub(super) async fn an_empty_batch_has_no_answers(rig: Rig) {
    assert!(send(&rig, Enqueue::each([])).await.is_empty());
    assert!(send(&rig, Enqueue::all_or_nothing([])).await.is_empty());
}

pub(super) async fn jobs_of_one_batch_start_in_the_order_of_the_batch(rig: Rig) {
    let ids = rig.enqueue_all(vec![Rig::job(); 50]).await;
    assert_eq!(rig.drain(100).await, ids);
}

pub(super) async fn later_jobs_of_a_batch_see_the_earlier_ones(rig: Rig) {
    let (a, b, c) = (Rig::fresh_id(), Rig::fresh_id(), Rig::fresh_id());
    let unique = |id| Rig::job().id(id).unique(Unique::by("u").on_conflict(OnConflict::Replace));
    let jobs = [Rig::job().id(a), Rig::job().id(a), unique(b), unique(c)];
    let answers = send(&rig, Enqueue::each(jobs)).await;
    let expected = [CREATED, Some(Disposition::Existing), CREATED, Some(Disposition::Replaced(b))];
    assert_eq!(dispositions(&answers), expected);
    rig.assert_state(b, State::Cancelled).await;
    assert_eq!(rig.drain(10).await, [a, c]);
    rig.assert_sound().await;
}

pub(super) async fn an_all_or_nothing_batch_is_stored_whole(rig: Rig) {
    let there = rig.enqueue_one().await;
    let jobs = [Rig::job(), Rig::job().id(there), Rig::job()];
    let answers = send(&rig, Enqueue::all_or_nothing(jobs)).await;
    let expected = [CREATED, Some(Disposition::Existing), CREATED];
    assert_eq!(dispositions(&answers), expected, "an existing job does not refuse the batch");
    assert_eq!(rig.drain(10).await.len(), 3);
}

pub(super) async fn a_bad_job_in_the_middle_aborts_an_all_or_nothing_batch(rig: Rig) {
    let jobs = [Rig::job(), Rig::job().max_attempts(0), Rig::job()];
    let answers = send(&rig, Enqueue::all_or_nothing(jobs)).await;
    assert_refused(answers[1].clone(), "invalid", "max_attempts");
    assert_aborted(&answers, 1);
    rig.assert_nothing_to_claim().await;
}

pub(super) async fn a_rejected_duplicate_aborts_an_all_or_nothing_batch(rig: Rig) {
    let unique = Unique::by("u").on_conflict(OnConflict::Reject);
    let duplicate = || Rig::job().unique(unique.clone());
    let within = [Rig::job(), duplicate(), Rig::job(), duplicate()];
    let answers = send(&rig, Enqueue::all_or_nothing(within)).await;
    assert_code(answers[3].clone(), "duplicate");
    assert_aborted(&answers, 3);

    let holder = rig.enqueue(duplicate()).await;
    let answers = send(&rig, Enqueue::all_or_nothing([Rig::job(), duplicate()])).await;
    assert_eq!(answers[1], Err(Error::Duplicate { key: "u".into(), holder }));
    assert_aborted(&answers, 1);
    assert_eq!(rig.drain(10).await, [holder], "the aborted batches stored nothing");
}

pub(super) async fn an_aborted_batch_leaves_no_trace(rig: Rig) {
    let unique = |key: &str| Unique::by(key).on_conflict(OnConflict::Replace);
    let holder = rig.enqueue(Rig::job().unique(unique("held"))).await;
    let id = Rig::fresh_id();
    let jobs = [
        Rig::job().id(id),
        Rig::job().unique(unique("held")),
        Rig::job().unique(unique("free")),
        Rig::job().key("line"),
        Rig::job().max_attempts(0),
    ];
    assert_aborted(&send(&rig, Enqueue::all_or_nothing(jobs)).await, 4);
    rig.assert_state(holder, State::Available).await;
    assert!(rig.find(id).await.is_none());
    let again = [Rig::job().id(id), Rig::job().unique(unique("free")), Rig::job().key("line")];
    for job in again {
        let answer = rig.try_enqueue(job).await.expect("enqueue");
        let expected = (Disposition::Created, Some(State::Available));
        assert_eq!((answer.disposition, answer.state), expected, "ids and keys were not taken");
    }
    assert_eq!(rig.drain(10).await.len(), 4);
    rig.assert_sound().await;
}

pub(super) async fn an_all_or_nothing_batch_spans_queues_only_where_the_engine_is_that_wide(
    rig: Rig,
) {
    let jobs = [Rig::job(), Rig::job().queue("there")];
    let reply = rig.engine().enqueue(Enqueue::all_or_nothing(jobs)).await;
    let session = rig.session().await;
    let claim = rig.wants(&session, 10).queue("there", 10);
    let stored = rig.claim(claim).await.len();
    match rig.engine().capabilities().atomicity {
        Atomicity::Store => {
            let answers = reply.expect("enqueue").value;
            assert!(answers.iter().all(Result::is_ok), "{answers:?}");
            assert_eq!(stored, 2);
        }
        Atomicity::Queue => {
            let taken = reply.is_ok_and(|reply| reply.value.iter().any(Result::is_ok));
            assert!(!taken && stored == 0, "a batch that cannot be atomic is refused");
        }
        other => panic!("the kit does not know {other:?}"),
    }
}

pub(super) async fn ten_thousand_jobs_go_in_with_one_call(rig: Rig) {
    let stored = rig.enqueue_all(vec![Rig::job(); ENQUEUE_BATCH_MAX]).await;
    let stored: HashSet<JobId> = stored.into_iter().collect();
    assert_eq!(stored.len(), ENQUEUE_BATCH_MAX);
    let session = rig.session().await;
    let mut started = HashSet::new();
    for _ in 0..ENQUEUE_BATCH_MAX / CLAIM_BATCH_MAX as usize {
        let jobs = rig.take(&session, CLAIM_BATCH_MAX).await;
        started.extend(jobs.iter().map(|job| job.header.id));
    }
    assert_eq!(started, stored, "every stored job starts exactly once");
    rig.assert_nothing_to_claim().await;
}

pub(super) async fn ten_thousand_jobs_go_in_all_or_nothing(rig: Rig) {
    let mut jobs = vec![Rig::job(); ENQUEUE_BATCH_MAX];
    jobs[ENQUEUE_BATCH_MAX - 1].policy.max_attempts = 0;
    let answers = send(&rig, Enqueue::all_or_nothing(jobs.clone())).await;
    assert_aborted(&answers, ENQUEUE_BATCH_MAX - 1);
    rig.assert_nothing_to_claim().await;
    jobs[ENQUEUE_BATCH_MAX - 1].policy.max_attempts = 1;
    let answers = send(&rig, Enqueue::all_or_nothing(jobs)).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(depth(&rig).await, ENQUEUE_BATCH_MAX as u64);
}

pub(super) async fn a_full_queue_refuses_only_the_jobs_beyond_its_limit(rig: Rig) {
    limit_depth(&rig, 3).await;
    let mut jobs = vec![Rig::job(); 5];
    jobs.push(Rig::job().queue("roomy"));
    let answers = send(&rig, Enqueue::each(jobs)).await;
    assert!(answers[..3].iter().all(Result::is_ok), "{answers:?}");
    for refused in &answers[3..5] {
        let Err(Error::QueueFull { queue, depth: 3, limit: 3, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(queue, QUEUE);
    }
    assert!(answers[5].is_ok(), "another queue has room");
    let first = rig.drain(1).await;
    assert_eq!(first, [answers[0].as_ref().expect("taken").id]);
    rig.enqueue_one().await;
    assert_code(rig.try_enqueue(Rig::job()).await, "queue_full");
}

pub(super) async fn a_full_queue_refuses_an_all_or_nothing_batch_whole(rig: Rig) {
    limit_depth(&rig, 3).await;
    let answers = send(&rig, Enqueue::all_or_nothing(vec![Rig::job(); 4])).await;
    assert_code(answers[3].clone(), "queue_full");
    assert_aborted(&answers, 3);
    assert_eq!(depth(&rig).await, 0);
    let answers = send(&rig, Enqueue::all_or_nothing(vec![Rig::job(); 3])).await;
    assert!(answers.iter().all(Result::is_ok), "three of them are within the limit");
}

pub(super) async fn depth_counts_what_waits_and_nothing_else(rig: Rig) {
    limit_depth(&rig, 4).await;
    let session = rig.session().await;
    for outcome in [Outcome::DONE, Outcome::fail("code", "for good")] {
        rig.enqueue_one().await;
        rig.settle(&rig.take_one(&session).await, outcome).await;
    }
    rig.enqueue(Rig::job().key("line")).await;
    rig.take_one(&session).await;
    let cancelled = rig.enqueue_one().await;
    rig.change(cancelled, Change::Cancel).await;

    rig.enqueue(Rig::job().due(Due::After(HOUR_MS))).await;
    rig.enqueue(Rig::job().key("line")).await;
    rig.enqueue_one().await;
    let paused = rig.enqueue_one().await;
    rig.change(paused, Change::Pause).await;
    assert_code(rig.try_enqueue(Rig::job()).await, "queue_full");
    rig.configure(Configure::queue(QUEUE, QueuePatch::max_depth(None))).await;
    rig.enqueue_one().await;
}

pub(super) async fn an_enqueue_can_be_repeated_although_the_queue_is_full_by_now(rig: Rig) {
    limit_depth(&rig, 2).await;
    let plain = Rig::job().id(Rig::fresh_id());
    let unique = Rig::job().unique(Unique::by("u"));
    let stored = [rig.enqueue(plain.clone()).await, rig.enqueue(unique.clone()).await];
    for mode in [Enqueue::each, Enqueue::all_or_nothing] {
        let answers = send(&rig, mode([plain.clone(), unique.clone()])).await;
        for (answer, id) in answers.into_iter().zip(stored) {
            let answer = answer.expect("an existing job needs no room");
            assert_eq!((answer.id, answer.disposition), (id, Disposition::Existing));
        }
    }
}

const CREATED: Option<Disposition> = Some(Disposition::Created);

async fn send(rig: &Rig, batch: Enqueue) -> Vec<Result<Enqueued>> {
    let expected = batch.jobs.len();
    let answers = rig.engine().enqueue(batch).await.expect("enqueue").value;
    assert_eq!(answers.len(), expected, "one result per job");
    answers
}

fn dispositions(answers: &[Result<Enqueued>]) -> Vec<Option<Disposition>> {
    let disposition = |answer: &Result<Enqueued>| Some(answer.as_ref().ok()?.disposition);
    answers.iter().map(disposition).collect()
}

/// Asserts that every job except the culprit was valid, and was not stored because of it.
fn assert_aborted(answers: &[Result<Enqueued>], culprit: usize) {
    for (index, answer) in answers.iter().enumerate() {
        let aborted = matches!(answer, Err(Error::Aborted { culprit: found }) if *found == culprit);
        assert!(aborted != (index == culprit), "item {index}: {answer:?}");
        assert!(answer.is_err(), "item {index}: {answer:?}");
    }
}

async fn limit_depth(rig: &Rig, limit: u64) {
    rig.configure(Configure::queue(QUEUE, QueuePatch::max_depth(Some(limit)))).await;
}

async fn depth(rig: &Rig) -> u64 {
    let lanes = rig.engine().stats(StatsRequest::queue(QUEUE)).await.expect("stats").value;
    assert!(lanes.iter().all(|lane| &*lane.kind == KIND), "{lanes:?}");
    lanes.iter().map(|lane| lane.depth()).sum()
}
