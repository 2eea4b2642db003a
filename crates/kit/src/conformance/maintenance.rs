//! Maintenance: bounded steps, safe to run from any number of processes concurrently.

use crate::rig::{KIND, QUEUE, Rig, assert_refused};
use windlass_core::engine::{Change, Configure, MaintainRequest, Tally, Work};
use windlass_core::limits::{MAINTAIN_BUDGET_MAX, SESSION_TTL_DEFAULT_MS};
use windlass_core::model::{Due, NewJob, QueuePatch, State};
use windlass_core::policy::Retention;
use windlass_core::time::{HOUR_MS, MINUTE_MS};

const JOBS: usize = 10;

/// The types of maintenance that move jobs.
const MOVES: [Work; 4] = [Work::Promote, Work::Reclaim, Work::Expire, Work::Retain];

/// Ten jobs that `work` will have to process in about an hour.
async fn prepare(rig: &Rig, work: Work) {
    match work {
        Work::Promote => {
            rig.enqueue_all(vec![Rig::job().due(Due::After(HOUR_MS)); JOBS]).await;
        }
        Work::Reclaim => {
            rig.enqueue_all(vec![Rig::job(); JOBS]).await;
            let session = rig.long_session().await;
            assert_eq!(rig.take(&session, JOBS as u32).await.len(), JOBS);
        }
        Work::Expire => {
            rig.enqueue_all(vec![Rig::job().max_wait_ms(HOUR_MS); JOBS]).await;
        }
        _ => {
            let kept = Retention::uniform_ms(HOUR_MS);
            rig.configure(Configure::queue(QUEUE, QueuePatch::retention(kept))).await;
            for id in rig.enqueue_all(vec![Rig::job(); JOBS]).await {
                rig.change(id, Change::Cancel).await;
            }
        }
    }
}

/// The transition that `work` makes with the jobs of [`prepare`].
fn moved(work: Work) -> (State, Option<State>) {
    match work {
        Work::Promote => (State::Scheduled, Some(State::Available)),
        Work::Reclaim => (State::Running, Some(State::Scheduled)),
        Work::Expire => (State::Available, Some(State::Expired)),
        _ => (State::Cancelled, None),
    }
}

/// The number of jobs in these tallies; all must be the expected transition of `work`.
fn counted(tallies: &[Tally], work: Work) -> u64 {
    let (from, to) = moved(work);
    for tally in tallies {
        assert_eq!((&*tally.queue, tally.from, tally.to), (QUEUE, from, to), "{work}");
    }
    tallies.iter().map(|tally| tally.count).sum()
}

pub(super) async fn where_nothing_is_to_be_done_nothing_is_done(rig: Rig) {
    rig.enqueue_one().await;
    rig.enqueue(Rig::job().due(Due::After(HOUR_MS)).max_wait_ms(MINUTE_MS)).await;
    rig.dead(NewJob::new("other").queue(QUEUE).priority(-1)).await;
    for work in MOVES {
        let reply = rig.maintain_step(work, 100).await;
        assert_eq!((reply.done, reply.more), (0, false), "{work}");
        assert!(reply.tallies.is_empty(), "{work}: {:?}", reply.tallies);
    }
}

pub(super) async fn a_step_keeps_to_its_budget_and_says_that_more_is_left(rig: Rig) {
    for work in MOVES {
        prepare(&rig, work).await;
        rig.advance(HOUR_MS + MINUTE_MS);
        let mut moves = 0;
        let mut steps = 0;
        loop {
            let reply = rig.maintain_step(work, 3).await;
            assert!(reply.done <= 3, "{work} did {}", reply.done);
            moves += counted(&reply.tallies, work);
            steps += 1;
            assert!(steps < 50, "{work} does not end");
            if !reply.more {
                break;
            }
            assert!(reply.done > 0, "{work} gets nowhere");
        }
        assert_eq!(moves, JOBS as u64, "{work}: `more` must be set until all jobs are done");
        assert!(steps >= JOBS / 3, "{work}: {JOBS} jobs in {steps} steps of 3");
        // Removes them before the next type of maintenance is tested.
        rig.pass(MINUTE_MS).await;
        rig.drain(2 * JOBS).await;
        rig.pass(365 * 24 * HOUR_MS).await;
        rig.configure(Configure::queue(QUEUE, QueuePatch::retention(Retention::default()))).await;
    }
    rig.assert_sound().await;
}

pub(super) async fn a_step_returns_when_the_next_work_is_due(rig: Rig) {
    for work in MOVES {
        let idle = rig.maintain_step(work, 100).await;
        assert_eq!(idle.next_at, None, "{work} of an empty store");
    }
    for work in MOVES {
        prepare(&rig, work).await;
        let reply = rig.maintain_step(work, 100).await;
        let now = rig.now().await;
        let next_at =
            reply.next_at.unwrap_or_else(|| panic!("{work} must report that it is due in an hour"));
        assert!(next_at > now && next_at.since(now) <= HOUR_MS, "{work}: {now}, {next_at}");
        rig.advance(next_at.since(now) + 1);
        let reply = rig.maintain_step(work, 100).await;
        assert!(counted(&reply.tallies, work) > 0, "{work}: nothing was due at the reported time");
        rig.pass(MINUTE_MS).await;
        rig.drain(2 * JOBS).await;
        rig.pass(365 * 24 * HOUR_MS).await;
        rig.configure(Configure::queue(QUEUE, QueuePatch::retention(Retention::default()))).await;
    }
}

pub(super) async fn tallies_count_ended_jobs_by_queue(rig: Rig) {
    for (queue, count) in [(QUEUE, 3), ("other", 2)] {
        let job = NewJob::new(KIND).queue(queue).due(Due::After(MINUTE_MS));
        rig.enqueue_all(vec![job; count]).await;
    }
    rig.advance(2 * MINUTE_MS);
    let mut tallies = rig.maintain_step(Work::Promote, 100).await.tallies;
    tallies.sort_by_key(|tally| tally.count);
    let reported: Vec<_> = tallies.iter().map(|t| (&*t.queue, t.from, t.to, t.count)).collect();
    let to = Some(State::Available);
    assert_eq!(reported, [("other", State::Scheduled, to, 2), (QUEUE, State::Scheduled, to, 3)]);
}

pub(super) async fn tallies_count_dead_and_retried_jobs_separately(rig: Rig) {
    rig.enqueue_all([Rig::job(), Rig::job().max_crashes(0), Rig::job()]).await;
    let session = rig.session().await;
    let jobs = rig.take(&session, 3).await;
    rig.change(jobs[2].header.id, Change::Cancel).await;
    rig.advance(SESSION_TTL_DEFAULT_MS + 1_000);
    let mut tallies = rig.maintain_step(Work::Reclaim, 100).await.tallies;
    tallies.sort_by_key(|tally| tally.to);
    let reported: Vec<_> = tallies.iter().map(|t| (t.from, t.to, t.count)).collect();
    let expected = [State::Scheduled, State::Dead, State::Cancelled];
    assert_eq!(reported, expected.map(|to| (State::Running, Some(to), 1)));
}

pub(super) async fn a_job_in_line_for_a_key_is_not_counted_as_ready(rig: Rig) {
    let job = || Rig::job().key("a").due(Due::After(MINUTE_MS));
    rig.enqueue_all([job(), job()]).await;
    rig.advance(2 * MINUTE_MS);
    let mut tallies = rig.maintain_step(Work::Promote, 100).await.tallies;
    tallies.sort_by_key(|tally| tally.to);
    let reported: Vec<_> = tallies.iter().map(|t| (t.from, t.to, t.count)).collect();
    let expected = [State::Blocked, State::Available];
    assert_eq!(reported, expected.map(|to| (State::Scheduled, Some(to), 1)));
}

pub(super) async fn maintainers_at_once_do_everything_once(rig: Rig) {
    for work in MOVES {
        prepare(&rig, work).await;
        rig.advance(HOUR_MS + MINUTE_MS);
        let maintainers: Vec<_> = (0..4)
            .map(|_| {
                let rig = rig.clone();
                tokio::spawn(async move {
                    let mut moves = 0;
                    for _ in 0..50 {
                        let reply = rig.maintain_step(work, 2).await;
                        moves += counted(&reply.tallies, work);
                    }
                    moves
                })
            })
            .collect();
        let mut moves = 0;
        for maintainer in maintainers {
            moves += maintainer.await.expect("a maintainer");
        }
        assert_eq!(moves, JOBS as u64, "{work}: each job was moved once");
        rig.pass(MINUTE_MS).await;
        if work == Work::Reclaim {
            let session = rig.session().await;
            for job in rig.take(&session, JOBS as u32).await {
                assert_eq!(job.header.counters.crashes, 1, "one death is one crash");
            }
            rig.engine().close_session(session).await.expect("close_session");
        }
        rig.drain(2 * JOBS).await;
        rig.pass(365 * 24 * HOUR_MS).await;
        rig.configure(Configure::queue(QUEUE, QueuePatch::retention(Retention::default()))).await;
    }
    rig.assert_sound().await;
}

pub(super) async fn one_kind_of_work_does_not_do_anothers(rig: Rig) {
    let scheduled = rig.enqueue(Rig::job().due(Due::After(MINUTE_MS))).await;
    let late = rig.enqueue(Rig::job().max_wait_ms(MINUTE_MS)).await;
    rig.advance(HOUR_MS);
    for work in [Work::Reclaim, Work::Retain, Work::Compact] {
        rig.maintain(work).await;
    }
    rig.assert_state(scheduled, State::Scheduled).await;
    rig.assert_state(late, State::Available).await;
    rig.maintain(Work::Expire).await;
    rig.assert_state(scheduled, State::Scheduled).await;
    rig.assert_state(late, State::Expired).await;
    rig.maintain(Work::Promote).await;
    rig.assert_state(scheduled, State::Available).await;
}

pub(super) async fn compacting_loses_nothing(rig: Rig) {
    let ids = rig.enqueue_all(vec![Rig::job(); 20]).await;
    assert_eq!(rig.drain(10).await, ids[..10]);
    rig.maintain(Work::Compact).await;
    for id in &ids[..10] {
        rig.assert_state(*id, State::Completed).await;
    }
    assert_eq!(rig.drain(20).await, ids[10..]);
    rig.assert_sound().await;
}

pub(super) async fn a_budget_of_nothing_or_beyond_the_limit_is_refused(rig: Rig) {
    for work in Work::ALL {
        for budget in [0, MAINTAIN_BUDGET_MAX + 1] {
            let answer = rig.engine().maintain(MaintainRequest::new(work, budget)).await;
            assert_refused(answer, "invalid", "budget");
        }
    }
}

pub(super) async fn a_check_reads_every_job(rig: Rig) {
    rig.enqueue_all(vec![Rig::job(); 3]).await;
    rig.enqueue(Rig::job().due(Due::After(HOUR_MS))).await;
    rig.drain(1).await;
    for repair in [false, true] {
        let report = rig.engine().check(repair).await.expect("check").value;
        assert_eq!((report.jobs, report.findings), (4, vec![]));
    }
    assert_eq!(rig.drain(5).await.len(), 2);
}
