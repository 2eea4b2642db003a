//! Jobs of another store, stored as they were there; and hints about the queue of a job.

use crate::rig::{KIND, QUEUE, Rig, assert_code, assert_refused};
use windlass_core::engine::{
    Change, ChangeItem, Disposition, Enqueued, Get, Import, Outcome, SettleItem, UpdateItem, Work,
};
use windlass_core::limits::{HISTORY_MAX, SUSPECT_CRASHES};
use windlass_core::model::{Attempt, AttemptEnd, Continuation, Counters, Due, Envelope, Finish, Job, JobError, LogLine, Part, PartEdit, PartSet, Progress, SignalWait, State};
use windlass_core::policy::{Unique, Until};
use windlass_core::time::{DAY_MS, HOUR_MS, MINUTE_MS};
use windlass_core::{JobId, Result, Timestamp};

/// Imports one job; returns the result.
async fn try_import(rig: &Rig, job: Job) -> Result<Enqueued> {
    let reply = rig.engine().import(Import::new([job])).await?;
    let [item] = <[_; 1]>::try_from(reply.value).expect("one result for one job");
    item
}

/// Imports one job, which must be new.
async fn import(rig: &Rig, job: Job) -> State {
    let imported = try_import(rig, job).await.expect("import");
    assert_eq!(imported.disposition, Disposition::Created);
    imported.state.expect("a state")
}

/// A job of another store: as this one would return it, but a week old and with an id of its own.
async fn exported(rig: &Rig, state: State) -> Job {
    let mut new = Rig::job().json("{}").tenant("t").tag("a").priority(3).max_attempts(9);
    new.parts.checkpoint = Some(Part::new("step"));
    new.parts.metadata = Some(Part::sealed(Envelope::PLAIN, "noted"));
    let id = rig.enqueue(new.due(Due::After(HOUR_MS))).await;
    let mut job = rig.get(id).await;
    rig.change(id, Change::Cancel).await;
    let now = rig.now().await;
    let at = |ago_ms| now.minus(ago_ms);
    let header = &mut job.header;
    header.id = JobId::new(at(7 * DAY_MS), &windlass_core::random::SystemRandom);
    header.created_at = at(7 * DAY_MS);
    header.run_at = if state == State::Scheduled { now.plus(HOUR_MS) } else { at(DAY_MS) };
    header.counters = Counters { attempt: 2, failures: 1, crashes: 1 };
    job.state = state;
    job.started_at = Some(at(DAY_MS));
    (job.transitions, job.changed_at) = (7, at(2 * HOUR_MS));
    job.error = Some(JobError::new("e", "m"));
    job.progress = Some(Progress { done: 1, total: Some(2), note: "half".into() });
    job.log = vec![LogLine::new(at(DAY_MS), "line".into())];
    job.history = vec![attempt(1, AttemptEnd::Retry, at(3 * DAY_MS)), attempt(2, AttemptEnd::Lost, at(DAY_MS))];
    if state.is_terminal() {
        job.finished_at = Some(at(2 * HOUR_MS));
        job.finish = Some(match state {
            State::Completed => Finish::Completed,
            State::Dead => Finish::AttemptsSpent,
            State::Cancelled => Finish::Cancelled,
            _ => Finish::Expired,
        });
    }
    if state == State::Completed {
        job.result = Some(Part::new("7"));
    }
    waits_for_a_signal(&mut job, state == State::Blocked);
    job
}

/// Lets a job wait for any signal, or for none.
fn waits_for_a_signal(job: &mut Job, waits: bool) {
    let mut kept = Continuation::default();
    kept.begin(SignalWait::ANY);
    (job.waits, job.continuation) = (waits, waits.then(|| Box::new(kept)));
}

fn attempt(number: u32, end: AttemptEnd, at: Timestamp) -> Attempt {
    let error = (end == AttemptEnd::Retry).then(|| JobError::new("e", "m"));
    let worker = "elsewhere".to_owned();
    let mut attempt = Attempt::new(number, worker, at, at.plus(1_000), end);
    attempt.error = error;
    attempt
}

pub(super) async fn an_imported_job_is_the_job_that_was_exported(rig: Rig) {
    for state in State::ALL.into_iter().filter(|state| *state != State::Running) {
        let job = exported(&rig, state).await;
        assert_eq!(import(&rig, job.clone()).await, state);
        assert_eq!(rig.get(job.header.id).await, job, "{state}");
    }
    let lane = rig.lane(QUEUE, KIND).await;
    assert_eq!((lane.scheduled, lane.blocked, lane.available, lane.paused), (1, 1, 1, 1));
    assert_eq!(lane.dead, 1);
    rig.assert_sound().await;
}

pub(super) async fn an_imported_job_lives_on_where_it_was(rig: Rig) {
    let mut ids = Vec::new();
    for state in [State::Scheduled, State::Blocked, State::Available, State::Paused, State::Dead] {
        let job = exported(&rig, state).await;
        ids.push(job.header.id);
        import(&rig, job).await;
    }
    rig.change(ids[1], Change::signal("go")).await;
    rig.change(ids[3], Change::Resume).await;
    rig.change(ids[4], Change::replay()).await;
    rig.advance(2 * HOUR_MS);
    rig.maintain(Work::Promote).await;
    let mut ran = rig.drain(9).await;
    ran.sort_unstable();
    ids.sort_unstable();
    assert_eq!(ran, ids);
    for id in ids {
        let job = rig.get(id).await;
        assert_eq!((job.header.counters.attempt, job.history.len()), (3, 3), "{job:?}");
    }
    let ended = exported(&rig, State::Completed).await;
    let id = ended.header.id;
    import(&rig, ended).await;
    rig.pass(8 * DAY_MS).await;
    assert_eq!(rig.find(id).await, None, "its retention counts from its end");
    rig.assert_sound().await;
}

pub(super) async fn a_running_job_is_imported_as_available(rig: Rig) {
    let id = rig.enqueue(Rig::job().json("1")).await;
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    let noted = UpdateItem::new(id, claimed.lease.clone()).progress(1, None, "half").log("line");
    rig.update(noted).await.expect("update");
    let mut running = rig.get(id).await;
    assert_eq!(running.state, State::Running);
    running.header.id = Rig::fresh_id();
    assert_eq!(import(&rig, running.clone()).await, State::Available);
    let arrived = rig.get(running.header.id).await;
    assert_eq!(arrived.header, running.header, "no crash is counted");
    assert_eq!((arrived.running, arrived.history), (None, Vec::new()));
    assert_eq!((&arrived.progress, &arrived.log), (&running.progress, &running.log));
    let again = rig.take_one(&session).await;
    assert_eq!((again.header.id, again.header.counters.attempt), (running.header.id, 2));
    assert!(again.header.counters.crashes < SUSPECT_CRASHES);
    rig.assert_sound().await;
}

/// A running job of another store whose cancellation was requested.
async fn running_to_be_cancelled(rig: &Rig) -> Job {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    rig.take_one(&session).await;
    rig.change(id, Change::Cancel).await;
    let mut running = rig.get(id).await;
    running.header.id = Rig::fresh_id();
    running
}

pub(super) async fn a_running_job_to_be_cancelled_is_imported_as_cancelled(rig: Rig) {
    let running = running_to_be_cancelled(&rig).await;
    assert_eq!(import(&rig, running.clone()).await, State::Cancelled);
    assert_eq!(rig.get(running.header.id).await.finish, Some(Finish::Cancelled));
    rig.assert_nothing_to_claim().await;
    rig.assert_sound().await;
}

pub(super) async fn an_import_of_a_known_id_changes_nothing(rig: Rig) {
    let job = exported(&rig, State::Available).await;
    let id = job.header.id;
    import(&rig, job.clone()).await;
    rig.change(id, Change::Pause).await;
    let before = rig.get(id).await;
    let again = try_import(&rig, job).await.expect("import");
    let existing = (Disposition::Existing, Some(State::Paused));
    assert_eq!((again.id, (again.disposition, again.state)), (id, existing));
    assert_eq!(rig.get(id).await, before);
}

pub(super) async fn imported_jobs_keep_the_order_of_their_key(rig: Rig) {
    let (mut jobs, mut ids) = (Vec::new(), Vec::new());
    for state in [State::Available, State::Blocked, State::Blocked] {
        let mut job = exported(&rig, state).await;
        job.header.key = Some("k".into());
        waits_for_a_signal(&mut job, false);
        ids.push(job.header.id);
        jobs.push(job);
    }
    let reply = rig.engine().import(Import::new(jobs)).await.expect("import").value;
    let states: Vec<_> = reply.into_iter().map(|item| item.expect("import").state).collect();
    let (ready, blocked) = (Some(State::Available), Some(State::Blocked));
    assert_eq!(states, [ready, blocked, blocked]);
    rig.assert_sound().await;
    assert_eq!(rig.drain(5).await, ids);
    // A line whose first job waits for a signal, so that no job holds the key.
    let mut ids = Vec::new();
    for waits in [true, false] {
        let mut job = exported(&rig, State::Blocked).await;
        job.header.key = Some("k".into());
        waits_for_a_signal(&mut job, waits);
        ids.push(job.header.id);
        assert_eq!(import(&rig, job).await, State::Blocked, "behind the jobs in line");
    }
    rig.change(ids[0], Change::signal("go")).await;
    assert_eq!(rig.drain(5).await, ids);
}

pub(super) async fn an_import_with_a_taken_unique_key_is_refused(rig: Rig) {
    let unique = |until| Unique::by("u").until(until);
    let mut job = exported(&rig, State::Available).await;
    job.header.unique = Some(unique(Until::Finished));
    let holder = rig.enqueue(Rig::job().unique(unique(Until::Finished))).await;
    let error = assert_code(try_import(&rig, job.clone()).await, "duplicate");
    assert!(error.to_string().contains(&holder.to_string()), "{error}");
    assert_eq!(rig.find(job.header.id).await, None);
    let mut ended = exported(&rig, State::Dead).await;
    ended.header.unique = Some(unique(Until::Finished));
    import(&rig, ended).await;
    rig.change(holder, Change::Cancel).await;
    import(&rig, job.clone()).await;
    let same = rig.enqueue(Rig::job().unique(unique(Until::Finished))).await;
    assert_eq!(same, job.header.id, "it holds the key");
    let mut old = exported(&rig, State::Available).await;
    old.header.unique = Some(Unique::by("window").until(Until::window_ms(DAY_MS)));
    let id = old.header.id;
    import(&rig, old).await;
    let windowed = Rig::job().unique(Unique::by("window").until(Until::window_ms(DAY_MS)));
    assert_ne!(rig.enqueue(windowed).await, id, "its window was over");
    rig.assert_sound().await;
}

pub(super) async fn an_imported_job_that_has_ended_holds_its_key_until_it_is_removed(rig: Rig) {
    let unique = || Unique::by("u").until(Until::Removed);
    let new = || Rig::job().unique(unique());
    for state in [State::Completed, State::Dead, State::Cancelled, State::Expired] {
        let mut job = exported(&rig, state).await;
        job.header.unique = Some(unique());
        let id = job.header.id;
        import(&rig, job).await;
        assert_eq!(rig.enqueue(new()).await, id, "{state}: it holds the key");
        let mut rival = exported(&rig, state).await;
        rival.header.unique = Some(unique());
        let error = assert_code(try_import(&rig, rival).await, "duplicate");
        assert!(error.to_string().contains(&id.to_string()), "{error}");
        rig.assert_sound().await;
        match state {
            State::Completed => rig.pass(8 * DAY_MS).await,
            _ => drop(rig.change(id, Change::Discard).await),
        }
        let next = rig.enqueue(new()).await;
        assert_ne!(next, id, "{state}: its key is free");
        rig.change(next, Change::Cancel).await;
        rig.change(next, Change::Discard).await;
    }
    let mut running = running_to_be_cancelled(&rig).await;
    running.header.unique = Some(unique());
    let id = running.header.id;
    assert_eq!(import(&rig, running).await, State::Cancelled);
    assert_eq!(rig.enqueue(new()).await, id, "it holds the key");
    rig.assert_sound().await;
}

pub(super) async fn an_imported_job_holds_its_key_for_the_rest_of_its_window(rig: Rig) {
    let unique = |days| Unique::by("u").until(Until::window_ms(days * DAY_MS));
    for state in [State::Available, State::Dead] {
        // A week old: this window is over, and another job may hold the key.
        let mut old = exported(&rig, state).await;
        old.header.unique = Some(unique(6));
        let holder = rig.enqueue(Rig::job().unique(unique(1))).await;
        import(&rig, old).await;
        assert_eq!(rig.enqueue(Rig::job().unique(unique(1))).await, holder, "{state}");
        let mut job = exported(&rig, state).await;
        job.header.unique = Some(unique(9));
        assert_code(try_import(&rig, job.clone()).await, "duplicate");
        rig.advance(DAY_MS);
        import(&rig, job.clone()).await;
        assert_eq!(rig.enqueue(Rig::job().unique(unique(1))).await, job.header.id, "{state}");
        rig.advance(DAY_MS);
        let next = rig.enqueue(Rig::job().unique(unique(1))).await;
        assert_ne!(next, job.header.id, "{state}: nine days after its creation");
        rig.advance(DAY_MS);
    }
    rig.assert_sound().await;
}

pub(super) async fn invalid_jobs_are_not_imported(rig: Rig) {
    let good = exported(&rig, State::Dead).await;
    type Edit = fn(&mut Job);
    let bad: [(Edit, &str, &str); 7] = [
        (|job| job.header.queue = "a b".into(), "invalid", "queue"),
        (|job| job.header.kind = "".into(), "invalid", "kind"),
        (|job| job.header.policy.max_attempts = 0, "invalid", "max_attempts"),
        (|job| job.finish = None, "invalid", "state"),
        (|job| job.state = State::Available, "invalid", "state"),
        (|job| job.header.created_at = Timestamp::from_millis(-1), "invalid", "created_at"),
        (
            |job| job.history = vec![attempt(1, AttemptEnd::Lost, Timestamp::EPOCH); HISTORY_MAX + 1],
            "too_large",
            "history",
        ),
    ];
    for (edit, code, field) in bad {
        let mut job = good.clone();
        edit(&mut job);
        assert_refused(try_import(&rig, job).await, code, field);
        assert_eq!(rig.find(good.header.id).await, None);
    }
    import(&rig, good).await;
}

pub(super) async fn a_queue_hint_never_changes_what_is_found(rig: Rig) {
    let id = rig.enqueue_one().await;
    let found = rig.get(id).await;
    for queue in [QUEUE, "other", "never-used"] {
        let get = Get::new([id]).parts(PartSet::ALL).queue_hint(queue);
        let got = rig.engine().get(get).await.expect("get").value;
        assert_eq!(got, [Some(found.clone())], "expected in {queue}");
    }
    let session = rig.session().await;
    for (change, queue) in [(Change::Pause, "other"), (Change::Resume, QUEUE)] {
        let item = ChangeItem::new(id, change).queue_hint(queue);
        let changed = rig.engine().change(vec![item]).await.expect("change").value;
        changed.into_iter().for_each(|item| assert!(item.is_ok(), "{item:?}"));
    }
    let claimed = rig.take_one(&session).await;
    let report = SettleItem::new(id, claimed.lease, Outcome::Snooze { delay_ms: MINUTE_MS });
    rig.try_settle(report.checkpoint(PartEdit::Set(Part::new("1")))).await.expect("settle");
    let bad = rig.engine().get(Get::new([id]).queue_hint("a b")).await;
    assert_refused(bad, "invalid", "queue_hint");
    let item = ChangeItem::new(id, Change::Cancel).queue_hint("a b");
    let refused = rig.engine().change(vec![item]).await.expect("change").value.remove(0);
    assert_refused(refused, "invalid", "queue_hint");
    rig.assert_state(id, State::Scheduled).await;
}
