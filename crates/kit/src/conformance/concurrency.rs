//! Concurrent clients: whatever the interleaving, every job is claimed by one worker and ends once.

use crate::rig::{KIND, QUEUE, Rig};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use windlass_core::JobId;
use windlass_core::engine::{
    Change, ClaimedJob, Configure, Disposition, Outcome, SettleItem, Wait, Work,
};
use windlass_core::model::{AttemptEnd, Due, JobError, KindPatch, State};
use windlass_core::policy::Unique;
use windlass_core::time::MINUTE_MS;

/// Maximum number of claims until a ready job must have been found.
const DRAIN_TRIES_MAX: usize = 1_000;

/// Runs `times` instances of `task` concurrently and returns their results.
async fn at_once<T, F>(rig: &Rig, times: usize, task: impl Fn(Rig, usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let handles: Vec<_> =
        (0..times).map(|number| tokio::spawn(task(rig.clone(), number))).collect();
    let mut results = Vec::with_capacity(times);
    for handle in handles {
        results.push(handle.await.expect("a task of the check panicked"));
    }
    results
}

fn done(job: &ClaimedJob) -> SettleItem {
    SettleItem::new(job.header.id, job.lease.clone(), Outcome::DONE)
}

/// A worker that claims and completes in one call until `left` reaches zero; returns the jobs that it
/// completed.
async fn work(rig: Rig, left: Arc<AtomicUsize>) -> Vec<JobId> {
    let session = rig.long_session().await;
    let mut completed = Vec::new();
    let mut reports = Vec::new();
    while left.load(Ordering::SeqCst) > 0 {
        let claim = rig.wants(&session, 7);
        let (answers, claimed) = rig.settle_and_claim(std::mem::take(&mut reports), claim).await;
        for answer in answers {
            let settled = answer.expect("its own lease is valid");
            assert!(!settled.already, "{settled:?} was completed before");
            completed.push(settled.id);
            left.fetch_sub(1, Ordering::SeqCst);
        }
        if claimed.jobs.is_empty() {
            rig.engine().wait(Wait::new([QUEUE], 20)).await.expect("wait");
        }
        reports = claimed.jobs.iter().map(done).collect();
    }
    assert!(reports.is_empty(), "all jobs were completed, but a claim returned {reports:?}");
    completed
}

pub(super) async fn producers_and_workers_at_once_complete_every_job_once(rig: Rig) {
    let (producers, each) = (4, 50);
    let left = Arc::new(AtomicUsize::new(producers * each));
    let workers = (0..3).map(|_| tokio::spawn(work(rig.clone(), Arc::clone(&left))));
    let workers: Vec<_> = workers.collect();
    let produced = at_once(&rig, producers, move |rig, _| async move {
        let mut ids = Vec::new();
        for batch in [1, 9, 40] {
            ids.extend(rig.enqueue_all(vec![Rig::job(); batch]).await);
        }
        ids
    })
    .await;
    let mut completed = Vec::new();
    for worker in workers {
        completed.extend(worker.await.expect("a worker"));
    }
    completed.sort();
    let mut expected = produced.concat();
    expected.sort();
    assert_eq!(completed, expected);
    rig.assert_nothing_to_claim().await;
    rig.assert_sound().await;
}

pub(super) async fn claims_at_once_never_hand_out_a_job_twice(rig: Rig) {
    let mut ids = rig.enqueue_all(vec![Rig::job(); 120]).await;
    let taken = at_once(&rig, 8, |rig, _| async move {
        let session = rig.session().await;
        let mut taken = Vec::new();
        // A short claim does not prove that the queue is empty while other claims hold locks.
        for _ in 0..20 {
            taken.extend(rig.take(&session, 3).await.iter().map(|job| job.header.id));
        }
        taken
    })
    .await;
    let mut taken = taken.concat();
    let session = rig.session().await;
    taken.extend(rig.take(&session, 200).await.iter().map(|job| job.header.id));
    taken.sort();
    ids.sort();
    assert_eq!(taken, ids);
}

pub(super) async fn one_claim_sent_many_times_at_once_is_one_claim(rig: Rig) {
    rig.enqueue_all(vec![Rig::job(); 20]).await;
    let session = rig.session().await;
    let claim = rig.wants(&session, 2);
    let answers = at_once(&rig, 6, |rig, _| {
        let claim = claim.clone();
        async move {
            let jobs = rig.claim(claim).await;
            jobs.into_iter().map(|job| (job.header.id, job.lease)).collect::<HashSet<_>>()
        }
    })
    .await;
    assert!(answers.iter().all(|jobs| *jobs == answers[0]), "{answers:?}");
    assert_eq!((answers[0].len(), rig.lane(QUEUE, KIND).await.available), (2, 18));
}

pub(super) async fn enqueues_of_one_unique_key_at_once_create_one_job(rig: Rig) {
    let answers = at_once(&rig, 12, |rig, _| async move {
        rig.try_enqueue(Rig::job().unique(Unique::by("only"))).await.expect("enqueue")
    })
    .await;
    let created: Vec<_> =
        answers.iter().filter(|answer| answer.disposition == Disposition::Created).collect();
    assert_eq!(created.len(), 1, "{answers:?}");
    assert!(answers.iter().all(|answer| answer.id == created[0].id), "{answers:?}");
    assert_eq!(rig.drain(20).await, [created[0].id]);
    rig.assert_sound().await;
}

pub(super) async fn enqueues_of_one_id_at_once_create_one_job(rig: Rig) {
    let id = Rig::fresh_id();
    let answers = at_once(&rig, 12, move |rig, _| async move {
        rig.try_enqueue(Rig::job().id(id)).await.expect("enqueue")
    })
    .await;
    let created =
        answers.iter().filter(|answer| answer.disposition == Disposition::Created).count();
    assert_eq!(created, 1, "{answers:?}");
    assert_eq!(rig.drain(20).await, [id]);
}

pub(super) async fn reports_under_one_lease_at_once_count_once(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    let job = rig.take_one(&session).await;
    let answers = at_once(&rig, 8, |rig, number| {
        let error = JobError::new("e", "m");
        let outcome = match number % 3 {
            0 => Outcome::DONE,
            1 => Outcome::Retry { error, delay_ms: Some(MINUTE_MS) },
            _ => Outcome::Fail { error },
        };
        let item = SettleItem::new(job.header.id, job.lease.clone(), outcome);
        async move { rig.try_settle(item.follow_up(Rig::job())).await.expect("settle") }
    })
    .await;
    let first: Vec<_> = answers.iter().filter(|settled| !settled.already).collect();
    assert_eq!(first.len(), 1, "{answers:?}");
    assert!(answers.iter().all(|settled| settled.end == first[0].end), "{answers:?}");
    assert_eq!(rig.get(id).await.history.len(), 1);
    assert_eq!(rig.drain(10).await, [first[0].follow_ups[0].id], "one follow-up");
    rig.assert_sound().await;
}

pub(super) async fn heartbeats_among_reports_lose_nothing(rig: Rig) {
    let ids = rig.enqueue_all(vec![Rig::job(); 60]).await;
    let session = rig.session().await;
    let jobs = Arc::new(rig.take(&session, 60).await);
    at_once(&rig, 4, |rig, number| {
        let (session, jobs) = (session.clone(), Arc::clone(&jobs));
        async move {
            for job in jobs.iter().skip(number).step_by(4) {
                // Unacknowledged results count as held, so all of them are declared.
                let held: Vec<_> = jobs.iter().collect();
                rig.heartbeat(&session, &held).await.expect("heartbeat");
                rig.settle(job, Outcome::DONE).await;
            }
        }
    })
    .await;
    for id in ids {
        let job = rig.get(id).await;
        assert_eq!((job.state, job.history.len()), (State::Completed, 1));
    }
    rig.assert_sound().await;
}

pub(super) async fn closing_a_session_among_its_reports_ends_each_attempt_once(rig: Rig) {
    rig.enqueue_all(vec![Rig::job(); 40]).await;
    let session = rig.session().await;
    let jobs = Arc::new(rig.take(&session, 40).await);
    at_once(&rig, 2, |rig, number| {
        let (session, jobs) = (session.clone(), Arc::clone(&jobs));
        async move {
            if number == 1 {
                rig.engine().close_session(session).await.expect("close_session");
                return;
            }
            for job in jobs.iter() {
                // Either the close has released it or this report completes it.
                let _ = rig.try_settle(done(job)).await;
            }
        }
    })
    .await;
    for job in jobs.iter() {
        let job = rig.get(job.header.id).await;
        assert_eq!(job.history.len(), 1, "{:?}", job.history);
        let expected = match job.history[0].end {
            AttemptEnd::Complete => State::Completed,
            _ => State::Available,
        };
        assert_eq!(job.state, expected);
    }
    rig.assert_sound().await;
}

pub(super) async fn of_a_replay_and_a_discard_at_once_one_wins(rig: Rig) {
    for _ in 0..10 {
        let id = rig.dead(Rig::job()).await;
        let answers = at_once(&rig, 2, move |rig, number| async move {
            let change = if number == 0 { Change::replay() } else { Change::Discard };
            rig.try_change(id, change).await.map(|changed| changed.state)
        })
        .await;
        match (&answers[0], &answers[1]) {
            (Ok(_), Err(error)) => {
                assert_eq!(error.code(), "refused");
                assert_eq!(rig.drain(2).await, [id]);
            }
            (Err(error), Ok(_)) => {
                assert_eq!(error.code(), "not_found");
                assert_eq!(rig.find(id).await, None);
            }
            _ => panic!("exactly one must succeed: {answers:?}"),
        }
    }
    rig.assert_sound().await;
}

/// Completes one ready job. A claim may skip a job that another call has locked, so it is repeated.
async fn drain_one(rig: &Rig) -> Vec<JobId> {
    for _ in 0..DRAIN_TRIES_MAX {
        let done = rig.drain(1).await;
        if !done.is_empty() {
            return done;
        }
    }
    Vec::new()
}

pub(super) async fn a_discard_decided_for_the_dead_takes_no_completed_job(rig: Rig) {
    let mut dead = Vec::new();
    for _ in 0..30 {
        dead.push(rig.dead(Rig::job()).await);
    }
    let ids = dead.clone();
    let discarded = at_once(&rig, 2, move |rig, number| {
        let ids = ids.clone();
        async move {
            let mut gone = Vec::new();
            for id in ids {
                if number == 0 {
                    // Replayed, unless it has already been removed, and completed.
                    if rig.try_change(id, Change::replay()).await.is_ok() {
                        assert_eq!(drain_one(&rig).await, [id]);
                    }
                } else if rig.try_change_if(id, Change::Discard, State::Dead).await.is_ok() {
                    gone.push(id);
                }
            }
            gone
        }
    })
    .await
    .concat();
    for id in dead {
        let expected = (!discarded.contains(&id)).then_some(State::Completed);
        assert_eq!(rig.find(id).await.map(|job| job.state), expected);
    }
    rig.assert_sound().await;
}

pub(super) async fn a_job_cancelled_during_its_claim_is_reported_or_never_starts(rig: Rig) {
    for _ in 0..10 {
        let id = rig.enqueue_one().await;
        let session = rig.session().await;
        let claimed = at_once(&rig, 2, move |rig, number| {
            let session = session.clone();
            async move {
                if number == 0 {
                    return rig.take(&session, 1).await;
                }
                rig.change(id, Change::Cancel).await;
                vec![]
            }
        })
        .await
        .concat();
        let job = rig.get(id).await;
        match claimed.first() {
            Some(claimed) => {
                assert_eq!((job.state, job.cancel_requested), (State::Running, true));
                rig.settle(claimed, Outcome::Release).await;
            }
            None => assert_eq!(job.state, State::Cancelled),
        }
        rig.assert_state(id, State::Cancelled).await;
    }
}

pub(super) async fn maintainers_and_workers_at_once_start_due_jobs_once(rig: Rig) {
    let job = || Rig::job().due(Due::After(MINUTE_MS));
    let mut ids = rig.enqueue_all(vec![job(); 60]).await;
    rig.advance(2 * MINUTE_MS);
    let left = Arc::new(AtomicUsize::new(ids.len()));
    let started = at_once(&rig, 4, |rig, number| {
        let left = Arc::clone(&left);
        async move {
            if number < 2 {
                return work(rig, left).await;
            }
            while rig.maintain_step(Work::Promote, 3).await.more {}
            vec![]
        }
    })
    .await;
    let mut started = started.concat();
    started.sort();
    ids.sort();
    assert_eq!(started, ids);
    rig.assert_sound().await;
}

pub(super) async fn permits_are_never_overdrawn(rig: Rig) {
    rig.enqueue_all(vec![Rig::job(); 50]).await;
    rig.configure(Configure::kind(KIND, KindPatch::permits(Some(5)))).await;
    let taken = at_once(&rig, 8, |rig, _| async move {
        let session = rig.session().await;
        let mut taken = 0;
        for _ in 0..5 {
            taken += rig.take(&session, 2).await.len();
        }
        taken
    })
    .await;
    assert_eq!(taken.iter().sum::<usize>(), 5, "{taken:?}");
}

pub(super) async fn jobs_of_one_key_run_one_at_a_time_and_in_order_under_load(rig: Rig) {
    let (keys, each) = (3, 12);
    let mut expected: HashMap<String, Vec<JobId>> = HashMap::new();
    for number in 0..keys * each {
        let key = format!("key{}", number % keys);
        let id = rig.enqueue(Rig::job().key(&key)).await;
        expected.entry(key).or_default().push(id);
    }
    let active: Arc<Mutex<HashSet<String>>> = Arc::default();
    let order: Arc<Mutex<HashMap<String, Vec<JobId>>>> = Arc::default();
    let left = Arc::new(AtomicUsize::new(keys * each));
    at_once(&rig, 4, |rig, _| {
        let (active, order, left) = (Arc::clone(&active), Arc::clone(&order), Arc::clone(&left));
        async move {
            let session = rig.session().await;
            while left.load(Ordering::SeqCst) > 0 {
                let jobs = rig.take(&session, 2).await;
                if jobs.is_empty() {
                    rig.engine().wait(Wait::new([QUEUE], 20)).await.expect("wait");
                }
                for job in jobs {
                    let key = job.header.key.clone().expect("a key");
                    assert!(active.lock().expect("lock").insert(key.clone()), "{key} runs twice");
                    let started = |order: &mut HashMap<String, Vec<JobId>>| {
                        order.entry(key.clone()).or_default().push(job.header.id);
                    };
                    started(&mut order.lock().expect("lock"));
                    tokio::task::yield_now().await;
                    active.lock().expect("lock").remove(&key);
                    rig.settle(&job, Outcome::DONE).await;
                    left.fetch_sub(1, Ordering::SeqCst);
                }
            }
        }
    })
    .await;
    assert_eq!(*order.lock().expect("lock"), expected);
    rig.assert_sound().await;
}
