//! Changes to jobs by operators, compared with the state machine.

use crate::rig::{QUEUE, Rig, assert_code, assert_refused};
use windlass_core::engine::{
    Change, ChangeItem, Edits, Filter, List, Outcome, SessionId, SettleItem, UpdateItem,
};
use windlass_core::limits::DELAY_MAX_MS;
use windlass_core::machine::{Facts, step};
use windlass_core::model::{Due, Finish, Job, NewJob, State};
use windlass_core::policy::Unique;
use windlass_core::time::{DAY_MS, HOUR_MS, MINUTE_MS};
use windlass_core::{Error, JobId};

/// One change of each type.
fn changes() -> [Change; 10] {
    [
        Change::Cancel,
        Change::Promote,
        Change::Reschedule(Due::After(DAY_MS)),
        Change::Reschedule(Due::Now),
        Change::Reprioritise(7),
        Change::Pause,
        Change::Resume,
        Change::signal("go"),
        Change::replay(),
        Change::Discard,
    ]
}

/// A job in `state`, in its own lane; a blocked one waits for a signal.
async fn standing(rig: &Rig, session: &SessionId, state: State, kind: &str) -> JobId {
    let job = NewJob::new(kind).queue(QUEUE);
    let started = async |job: NewJob, outcome: Option<Outcome>| {
        let id = rig.enqueue(job).await;
        let claimed = rig.claim(rig.wants(session, 1).kind(kind, 1)).await.remove(0);
        if let Some(outcome) = outcome {
            rig.settle(&claimed, outcome).await;
        }
        id
    };
    match state {
        State::Scheduled => rig.enqueue(job.due(Due::After(DAY_MS))).await,
        State::Available => rig.enqueue(job).await,
        State::Blocked => started(job, Some(Outcome::WAIT)).await,
        State::Running => started(job, None).await,
        State::Completed => started(job, Some(Outcome::DONE)).await,
        State::Dead => started(job, Some(Outcome::fail("e", "m"))).await,
        State::Paused => {
            let id = rig.enqueue(job).await;
            rig.change(id, Change::Pause).await;
            id
        }
        State::Cancelled => {
            let id = rig.enqueue(job).await;
            rig.change(id, Change::Cancel).await;
            id
        }
        State::Expired => {
            let id = rig.enqueue(job.max_wait_ms(1)).await;
            rig.pass(1_000).await;
            id
        }
        other => panic!("the kit has no job in the state {other}"),
    }
}

/// The facts about a job in `state` at the time of a change.
fn facts(state: State, change: &Change) -> Facts {
    let later = matches!(change, Change::Reschedule(Due::After(_)));
    // A blocked job waits for any signal.
    let waits = state == State::Blocked;
    Facts { due: !later, waits, signalled: waits, ..Facts::default() }
}

pub(super) async fn every_change_in_every_state_does_what_the_machine_says(rig: Rig) {
    let session = rig.long_session().await;
    let mut lane = 0;
    for state in State::ALL {
        for change in changes() {
            lane += 1;
            let id = standing(&rig, &session, state, &format!("lane{lane}")).await;
            rig.assert_state(id, state).await;
            let expected = step(Some(state), change.event(), facts(state, &change));
            let answer = rig.try_change(id, change.clone()).await;
            let found = rig.find(id).await.map(|job| job.state);
            match expected {
                Ok(taken) => {
                    let changed = answer.unwrap_or_else(|e| panic!("{state}, {change:?}: {e}"));
                    assert_eq!(found, taken.next, "{state}, {change:?}");
                    assert_eq!((changed.id, changed.state), (id, found), "{state}, {change:?}");
                }
                Err(_) => {
                    let error = answer.expect_err("the state machine refuses it");
                    assert_eq!(error.code(), "refused", "{state}, {change:?}: {error}");
                    assert_eq!(found, Some(state), "{state}, refused {change:?}");
                }
            }
        }
    }
    rig.assert_sound().await;
}

pub(super) async fn a_change_decided_for_another_state_is_refused_and_changes_nothing(rig: Rig) {
    let session = rig.long_session().await;
    for (lane, state) in State::ALL.into_iter().enumerate() {
        let id = standing(&rig, &session, state, &format!("lane{lane}")).await;
        let before = rig.get(id).await;
        let others = State::ALL.into_iter().filter(|other| *other != state);
        for (expected, change) in others.zip(changes().into_iter().cycle()) {
            let answer = rig.try_change_if(id, change, expected).await;
            assert_eq!(answer, Err(Error::StateConflict { id, expected, found: state }));
        }
        assert_eq!(rig.get(id).await, before, "{state}");
    }
    rig.assert_sound().await;
}

pub(super) async fn a_change_decided_for_the_state_of_a_job_is_made(rig: Rig) {
    let session = rig.long_session().await;
    for (lane, state) in State::ALL.into_iter().enumerate() {
        let id = standing(&rig, &session, state, &format!("lane{lane}")).await;
        let change = if state.is_terminal() { Change::Discard } else { Change::Cancel };
        rig.try_change_if(id, change, state).await.expect("it is in that state");
        let after = rig.find(id).await;
        let is_cancelled = |job: &Job| job.cancel_requested || job.state == State::Cancelled;
        assert!(state.is_terminal() == after.is_none(), "{state}: {after:?}");
        assert!(after.is_none_or(|job| is_cancelled(&job)), "{state}");
    }
    let missing = rig.try_change_if(Rig::fresh_id(), Change::Discard, State::Dead).await;
    assert_code(missing, "not_found");
    let available = rig.enqueue_one().await;
    let refused = rig.try_change_if(available, Change::Discard, State::Available).await;
    assert_code(refused, "refused");
    rig.assert_sound().await;
}

pub(super) async fn a_waiting_job_that_is_cancelled_never_runs(rig: Rig) {
    let now = rig.enqueue_one().await;
    let later = rig.enqueue(Rig::job().due(Due::After(MINUTE_MS))).await;
    for id in [now, later] {
        rig.change(id, Change::Cancel).await;
        let job = rig.get(id).await;
        assert_eq!((job.state, job.finish), (State::Cancelled, Some(Finish::Cancelled)));
        assert!(job.finished_at.is_some());
        rig.change(id, Change::Cancel).await;
    }
    rig.pass(HOUR_MS).await;
    rig.assert_nothing_to_claim().await;
}

pub(super) async fn cancelling_frees_the_unique_and_the_ordering_key(rig: Rig) {
    let job = || Rig::job().key("a").unique(Unique::by("u"));
    let first = rig.enqueue(job()).await;
    let in_line = rig.enqueue(Rig::job().key("a")).await;
    rig.change(first, Change::Cancel).await;
    let second = rig.enqueue(job()).await;
    assert_ne!(first, second, "the unique key was free");
    assert_eq!(rig.drain(5).await, [in_line, second]);
}

pub(super) async fn a_promoted_job_runs_now(rig: Rig) {
    let id = rig.enqueue(Rig::job().due(Due::After(DAY_MS))).await;
    rig.assert_nothing_to_claim().await;
    rig.change(id, Change::Promote).await;
    assert_eq!(rig.drain(5).await, [id]);
    rig.pass(2 * DAY_MS).await;
    rig.assert_nothing_to_claim().await;
}

pub(super) async fn a_rescheduled_job_runs_at_its_new_time(rig: Rig) {
    let later = rig.enqueue_one().await;
    let sooner = rig.enqueue(Rig::job().due(Due::After(DAY_MS))).await;
    rig.change(later, Change::Reschedule(Due::After(2 * HOUR_MS))).await;
    rig.change(sooner, Change::Reschedule(Due::After(HOUR_MS))).await;
    rig.assert_nothing_to_claim().await;
    rig.pass(HOUR_MS + MINUTE_MS).await;
    assert_eq!(rig.drain(5).await, [sooner]);
    rig.pass(HOUR_MS).await;
    assert_eq!(rig.drain(5).await, [later]);
    rig.assert_sound().await;
}

pub(super) async fn a_paused_job_remembers_its_new_time(rig: Rig) {
    let id = rig.enqueue_one().await;
    rig.change(id, Change::Pause).await;
    rig.change(id, Change::Reschedule(Due::After(HOUR_MS))).await;
    rig.change(id, Change::Resume).await;
    rig.assert_state(id, State::Scheduled).await;
    rig.pass(HOUR_MS + MINUTE_MS).await;
    assert_eq!(rig.drain(5).await, [id]);
}

pub(super) async fn a_time_too_far_away_is_refused(rig: Rig) {
    let id = rig.enqueue_one().await;
    let change = Change::Reschedule(Due::After(DELAY_MAX_MS + 1));
    assert_refused(rig.try_change(id, change).await, "invalid", "delay_ms");
    assert_eq!(rig.drain(5).await, [id]);
}

pub(super) async fn a_new_priority_moves_a_job_in_line(rig: Rig) {
    let ids = rig.enqueue_all(vec![Rig::job(); 3]).await;
    let later = rig.enqueue(Rig::job().due(Due::After(MINUTE_MS))).await;
    let aside = rig.enqueue_one().await;
    rig.change(aside, Change::Pause).await;
    rig.change(ids[2], Change::Reprioritise(-1)).await;
    rig.change(later, Change::Reprioritise(-2)).await;
    rig.change(aside, Change::Reprioritise(-3)).await;
    rig.change(ids[0], Change::Reprioritise(5)).await;
    rig.change(aside, Change::Resume).await;
    rig.pass(2 * MINUTE_MS).await;
    assert_eq!(rig.drain(9).await, [aside, later, ids[2], ids[1], ids[0]]);
    rig.assert_sound().await;
}

pub(super) async fn a_paused_job_stays_aside_until_it_is_resumed(rig: Rig) {
    let ids = rig.enqueue_all([Rig::job(), Rig::job()]).await;
    rig.change(ids[0], Change::Pause).await;
    rig.change(ids[0], Change::Pause).await;
    assert_eq!(rig.drain(5).await, [ids[1]], "only this job is paused");
    rig.pass(DAY_MS).await;
    rig.assert_nothing_to_claim().await;
    rig.change(ids[0], Change::Resume).await;
    assert_eq!(rig.drain(5).await, [ids[0]]);
}

pub(super) async fn a_scheduled_job_paused_past_its_time_runs_when_resumed(rig: Rig) {
    let due = rig.enqueue(Rig::job().due(Due::After(HOUR_MS))).await;
    let early = rig.enqueue(Rig::job().due(Due::After(DAY_MS))).await;
    for id in [due, early] {
        rig.change(id, Change::Pause).await;
    }
    rig.pass(2 * HOUR_MS).await;
    rig.assert_nothing_to_claim().await;
    for id in [due, early] {
        rig.change(id, Change::Resume).await;
    }
    rig.assert_state(early, State::Scheduled).await;
    assert_eq!(rig.drain(5).await, [due]);
}

pub(super) async fn a_signal_wakes_only_the_job_it_is_for(rig: Rig) {
    let ids = rig.enqueue_all([Rig::job(), Rig::job()]).await;
    let session = rig.session().await;
    for job in rig.take(&session, 2).await {
        rig.settle(&job, Outcome::WAIT).await;
    }
    rig.change(ids[1], Change::signal("go")).await;
    assert_eq!(rig.drain(5).await, [ids[1]]);
    rig.assert_state(ids[0], State::Blocked).await;
}

pub(super) async fn a_signal_reaches_a_job_that_was_moved_while_it_waited(rig: Rig) {
    let ids = rig.enqueue_all([Rig::job(), Rig::job()]).await;
    let session = rig.session().await;
    for job in rig.take(&session, 2).await {
        rig.settle(&job, Outcome::WAIT).await;
    }
    rig.change(ids[0], Change::Pause).await;
    rig.change(ids[1], Change::Reschedule(Due::After(HOUR_MS))).await;
    for id in &ids {
        rig.change(*id, Change::signal("go")).await;
    }
    rig.assert_nothing_to_claim().await;
    rig.change(ids[0], Change::Resume).await;
    assert_eq!(rig.drain(5).await, [ids[0]], "it has received its signal");
    rig.pass(HOUR_MS + MINUTE_MS).await;
    assert_eq!(rig.drain(5).await, [ids[1]]);
}

pub(super) async fn a_job_that_waits_is_not_woken_by_anything_but_its_signal(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    let job = rig.take_one(&session).await;
    rig.settle(&job, Outcome::WAIT).await;
    rig.change(id, Change::Pause).await;
    rig.change(id, Change::Resume).await;
    rig.assert_state(id, State::Blocked).await;
    rig.change(id, Change::Reschedule(Due::After(HOUR_MS))).await;
    rig.pass(HOUR_MS + MINUTE_MS).await;
    rig.assert_state(id, State::Blocked).await;
    rig.change(id, Change::signal("go")).await;
    assert_eq!(rig.drain(5).await, [id]);
}

pub(super) async fn cancelled_and_expired_jobs_can_be_replayed(rig: Rig) {
    let cancelled = rig.enqueue_one().await;
    rig.change(cancelled, Change::Cancel).await;
    let expired = rig.enqueue(Rig::job().max_wait_ms(MINUTE_MS)).await;
    rig.pass(HOUR_MS).await;
    rig.assert_state(expired, State::Expired).await;
    rig.change(cancelled, Change::replay()).await;
    let mut later = Edits::default();
    later.due = Due::After(HOUR_MS);
    rig.change(expired, Change::Replay(Box::new(later))).await;
    assert_eq!(rig.drain(5).await, [cancelled]);
    let job = rig.get(expired).await;
    assert_eq!((job.state, job.finish, job.finished_at), (State::Scheduled, None, None));
    rig.pass(HOUR_MS + 1_000).await;
    assert_eq!(rig.drain(5).await, [expired]);
}

pub(super) async fn a_discarded_job_is_gone(rig: Rig) {
    let id = rig.enqueue_one().await;
    rig.drain(1).await;
    assert_eq!(rig.change(id, Change::Discard).await.state, None);
    assert_eq!(rig.find(id).await, None);
    assert_code(rig.try_change(id, Change::Discard).await, "not_found");
    rig.assert_sound().await;
}

pub(super) async fn an_id_enqueued_again_after_its_removal_is_a_new_job(rig: Rig) {
    let removed = rig.enqueue_one().await;
    let neighbour = rig.enqueue_one().await;
    let session = rig.session().await;
    let claimed = rig.take(&session, 2).await;
    rig.settle(&claimed[0], Outcome::DONE).await;
    rig.change(removed, Change::Discard).await;
    rig.enqueue(Rig::job().id(removed)).await;
    // The lease of the first job is over, although a lease from the same claim is still held.
    let job = rig.get(removed).await;
    assert_eq!((job.state, job.header.counters.attempt), (State::Available, 0), "{job:#?}");
    let running = List::new(Filter::state(State::Running)).limit(10);
    let running = rig.engine().list(running).await.expect("list").value.rows;
    assert_eq!(running.iter().map(|job| job.header.id).collect::<Vec<_>>(), [neighbour]);
    // Nor does the old lease come back once the job runs again.
    let second = rig.take_one(&session).await;
    assert_eq!((second.header.id, second.header.counters.attempt), (removed, 1));
    let update = UpdateItem::new(removed, second.lease.clone()).progress(1, None, "");
    rig.update(update).await.expect("update");
    let late = SettleItem::new(removed, claimed[0].lease.clone(), Outcome::DONE);
    assert_code(rig.try_settle(late).await, "lease_lost");
    rig.assert_state(removed, State::Running).await;
    rig.settle(&second, Outcome::DONE).await;
    rig.assert_state(removed, State::Completed).await;
    rig.settle(&claimed[1], Outcome::DONE).await;
    rig.assert_sound().await;
}

pub(super) async fn bad_changes_fail_alone(rig: Rig) {
    let ids = rig.enqueue_all([Rig::job(), Rig::job()]).await;
    let batch = vec![
        ChangeItem::new(Rig::fresh_id(), Change::Cancel),
        ChangeItem::new(ids[0], Change::Discard),
        ChangeItem::new(ids[1], Change::Cancel),
    ];
    let reply = rig.engine().change(batch).await.expect("change").value;
    let [unknown, refused, good] = <[_; 3]>::try_from(reply).expect("one result per item");
    assert_code(unknown, "not_found");
    assert_code(refused, "refused");
    assert_eq!(good.expect("cancelled").state, Some(State::Cancelled));
    rig.assert_state(ids[0], State::Available).await;
}
