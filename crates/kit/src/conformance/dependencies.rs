//! Jobs that run after others: when they start, what they receive, and what happens if a job before them is not completed.

// tidy: long because it covers every end of a job with every policy.

use crate::rig::{Rig, assert_code};
use windlass_core::JobId;
use windlass_core::engine::{Change, Outcome, Work};
use windlass_core::limits::{INPUT_BYTES_MAX, RESULT_BYTES_MAX, RETENTION_FINISHED_DEFAULT_MS};
use windlass_core::model::{
    Dependency, Due, Finish, Input, Job, Limit, NewJob, OnFailure, Part, State,
};
use windlass_core::policy::{OnConflict, Retention, Unique};
use windlass_core::time::{HOUR_MS, MINUTE_MS, SECOND_MS};

/// The ways in which a job can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Complete,
    Fail,
    AttemptsSpent,
    CrashesSpent,
    CancelSelf,
    Cancel,
    CancelWhileRunning,
    Kill,
    Expire,
    Replace,
}

impl End {
    const ALL: [Self; 10] = [
        Self::Complete,
        Self::Fail,
        Self::AttemptsSpent,
        Self::CrashesSpent,
        Self::CancelSelf,
        Self::Cancel,
        Self::CancelWhileRunning,
        Self::Kill,
        Self::Expire,
        Self::Replace,
    ];

    /// A job that can end in this way.
    fn job(self) -> NewJob {
        let job = Rig::job();
        match self {
            Self::AttemptsSpent => job.max_attempts(1),
            Self::CrashesSpent => job.max_crashes(0),
            Self::Expire => job.max_wait_ms(MINUTE_MS),
            Self::Replace => {
                job.due(Due::After(HOUR_MS)).unique(Unique::by("u").on_conflict(OnConflict::Replace))
            }
            Self::Complete
            | Self::Fail
            | Self::CancelSelf
            | Self::Cancel
            | Self::CancelWhileRunning
            | Self::Kill => job,
        }
    }

    /// Ends the job, which is the only claimable one; returns its state.
    async fn bring_about(self, rig: &Rig, id: JobId) -> State {
        let session = rig.long_session().await;
        let settle = async |outcome| {
            let claimed = rig.take_one(&session).await;
            assert_eq!(claimed.header.id, id);
            rig.settle(&claimed, outcome).await;
        };
        match self {
            Self::Complete => {
                settle(Outcome::Complete { result: Some(Part::new("42")) }).await;
            }
            Self::Fail => settle(Outcome::fail("e", "m")).await,
            Self::AttemptsSpent => settle(Outcome::retry("e", "m")).await,
            Self::CancelSelf => settle(Outcome::Cancel).await,
            Self::CrashesSpent => {
                let session = rig.session().await;
                assert_eq!(rig.take_one(&session).await.header.id, id);
                rig.crash(&session).await;
            }
            Self::Cancel => {
                rig.change(id, Change::Cancel).await;
            }
            Self::CancelWhileRunning => {
                let claimed = rig.take_one(&session).await;
                rig.change(id, Change::Cancel).await;
                rig.settle(&claimed, Outcome::Release).await;
            }
            Self::Kill => {
                rig.change(id, Change::Kill).await;
            }
            Self::Expire => {
                rig.advance(2 * MINUTE_MS);
                rig.maintain(Work::Expire).await;
            }
            Self::Replace => {
                let newer = rig.enqueue(self.job()).await;
                // So that the next story begins without a holder of the key.
                rig.change(newer, Change::Cancel).await;
            }
        }
        let state = rig.state(id).await;
        assert!(state.is_terminal(), "{self:?}: {state}");
        state
    }
}

fn after(upstream: JobId, policy: OnFailure) -> NewJob {
    Rig::job().after(Dependency::on(upstream).on_failure(policy))
}

/// Asserts that the end of `upstream` in this state has led to what the policy says, and completes a dependent that runs.
async fn assert_resolved(rig: &Rig, dependent: JobId, upstream: JobId, end: State, policy: OnFailure) {
    let told = format!("{end}, {policy:?}");
    let job = rig.get(dependent).await;
    let [input] = &job.inputs[..] else { panic!("{told}: {:?}", job.inputs) };
    assert_eq!((input.job, input.outcome, input.on_failure), (upstream, Some(end), policy), "{told}");
    assert_eq!((job.dependencies.total, job.dependencies.open), (1, 0), "{told}");
    let expected = match policy {
        _ if end == State::Completed => State::Available,
        OnFailure::Run => State::Available,
        OnFailure::Fail => State::Dead,
        OnFailure::Cancel => State::Cancelled,
    };
    assert_eq!(job.state, expected, "{told}");
    if expected == State::Available {
        assert_eq!(rig.drain(9).await, [dependent], "{told}");
    } else {
        assert_eq!(job.finish, Some(Finish::Dependency(upstream)), "{told}");
        rig.assert_nothing_to_claim().await;
    }
}

pub(super) async fn a_job_runs_once_all_jobs_that_it_depends_on_are_completed(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let first = rig.enqueue_all([Rig::job(), Rig::job(), Rig::job()]).await;
    let last = first.iter().fold(Rig::job().priority(-9), |job, id| job.after(*id));
    let last = rig.enqueue(last).await;
    rig.assert_state(last, State::Blocked).await;
    let session = rig.session().await;
    for done in 0..3 {
        let job = rig.get(last).await;
        assert_eq!((job.state, job.dependencies.open), (State::Blocked, 3 - done));
        let claimed = rig.take_one(&session).await;
        assert!(first.contains(&claimed.header.id), "the dependent started early");
        rig.settle(&claimed, Outcome::DONE).await;
    }
    rig.assert_sound().await;
    assert_eq!(rig.drain(9).await, [last]);
    rig.assert_sound().await;
}

pub(super) async fn the_inputs_of_a_job_are_the_results_of_those_before_it(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let [a, b] = <[_; 2]>::try_from(rig.enqueue_all([Rig::job(), Rig::job()]).await).expect("two");
    let job = Rig::job().after(Dependency::on(b).named("b")).after(a);
    let last = rig.enqueue(job).await;
    let open = rig.get(last).await.inputs;
    assert!(open.iter().all(Input::is_open) && open.len() == 2, "{open:?}");
    let session = rig.session().await;
    for result in [Some(Part::new(r#"{"of":"a"}"#)), None] {
        let claimed = rig.take_one(&session).await;
        rig.settle(&claimed, Outcome::Complete { result }).await;
    }
    let inputs = rig.get(last).await.inputs;
    let read: Vec<_> = inputs
        .iter()
        .map(|input| (input.job, input.name.as_deref(), input.outcome, input.result.clone()))
        .collect();
    let done = Some(State::Completed);
    let result = Some(Part::new(r#"{"of":"a"}"#));
    assert_eq!(read, [(b, Some("b"), done, None), (a, None, done, result)]);
    assert!(inputs.iter().all(|input| !input.omitted));
}

pub(super) async fn every_end_of_a_job_resolves_its_dependents_by_their_policy(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    for end in End::ALL {
        for policy in OnFailure::ALL {
            let upstream = rig.enqueue(end.job()).await;
            let dependent = rig.enqueue(after(upstream, policy)).await;
            rig.assert_state(dependent, State::Blocked).await;
            let state = end.bring_about(&rig, upstream).await;
            assert_resolved(&rig, dependent, upstream, state, policy).await;
        }
    }
    rig.assert_sound().await;
}

pub(super) async fn a_job_that_ended_before_resolves_new_dependents_at_once(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    for end in End::ALL {
        for policy in OnFailure::ALL {
            let upstream = rig.enqueue(end.job()).await;
            let state = end.bring_about(&rig, upstream).await;
            let stored = rig.try_enqueue(after(upstream, policy)).await.expect("enqueue");
            assert_eq!(stored.state, Some(rig.state(stored.id).await), "{end:?}, {policy:?}");
            assert_resolved(&rig, stored.id, upstream, state, policy).await;
        }
    }
    rig.assert_sound().await;
}

pub(super) async fn the_ends_of_dependents_resolve_their_dependents(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let a = rig.enqueue_one().await;
    let b = rig.enqueue(after(a, OnFailure::Fail)).await;
    let c = rig.enqueue(after(b, OnFailure::Cancel)).await;
    let d = rig.enqueue(after(c, OnFailure::Run)).await;
    let e = rig.enqueue(after(c, OnFailure::Fail).after(d)).await;
    rig.change(a, Change::Kill).await;
    rig.maintain(Work::Promote).await;
    let ends = [
        (a, State::Dead, Finish::Killed),
        (b, State::Dead, Finish::Dependency(a)),
        (c, State::Cancelled, Finish::Dependency(b)),
        (e, State::Dead, Finish::Dependency(c)),
    ];
    for (id, state, finish) in ends {
        let job = rig.get(id).await;
        assert_eq!((job.state, job.finish), (state, Some(finish)));
    }
    assert_eq!(rig.drain(9).await, [d]);
    assert_eq!(rig.get(e).await.dependencies.open, 0, "it learns the rest after its end");
    rig.assert_sound().await;
}

pub(super) async fn a_job_that_completes_plainly_does_not_forget_a_late_dependent(rig: Rig) {
    if rig.has_flows().await {
        depend_late(&rig).await;
    }
}

pub(super) async fn a_job_under_a_limit_by_group_does_not_forget_a_late_dependent(rig: Rig) {
    if rig.has_flows().await && rig.limited(Limit::max_running(5).by_group()).await {
        // Engines may complete the later of several jobs of a group faster.
        depend_late(&rig).await;
        depend_late(&rig).await;
    }
}

/// Adds dependencies on a job that is ready, and on one that is running.
async fn depend_late(rig: &Rig) {
    let session = rig.session().await;
    let ready = rig.enqueue_one().await;
    let after_ready = rig.enqueue(after(ready, OnFailure::Fail)).await;
    let claimed = rig.take_one(&session).await;
    rig.settle(&claimed, Outcome::DONE).await;
    rig.assert_state(after_ready, State::Available).await;
    assert_eq!(rig.drain(9).await, [after_ready]);
    let running = rig.enqueue_one().await;
    let claimed = rig.take_one(&session).await;
    let after_running = rig.enqueue(after(running, OnFailure::Fail)).await;
    rig.assert_nothing_to_claim().await;
    rig.settle(&claimed, Outcome::DONE).await;
    rig.assert_state(after_running, State::Available).await;
    rig.assert_sound().await;
    assert_eq!(rig.drain(9).await, [after_running]);
}

pub(super) async fn a_dependent_that_is_not_due_or_paused_waits_for_both(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let upstream = rig.enqueue_all([Rig::job(), Rig::job(), Rig::job()]).await;
    let later = after(upstream[0], OnFailure::Fail).due(Due::After(SECOND_MS));
    let early = rig.enqueue(later.clone()).await;
    let late = rig.enqueue(after(upstream[1], OnFailure::Fail).due(Due::After(HOUR_MS))).await;
    let paused = rig.enqueue(after(upstream[2], OnFailure::Fail)).await;
    rig.change(paused, Change::Pause).await;
    rig.assert_state(early, State::Scheduled).await;
    rig.pass(SECOND_MS).await;
    rig.assert_state(early, State::Blocked).await;
    assert_eq!(rig.drain(3).await, upstream);
    rig.assert_state(early, State::Available).await;
    rig.assert_state(late, State::Scheduled).await;
    rig.assert_state(paused, State::Paused).await;
    assert_eq!(rig.drain(9).await, [early]);
    rig.change(paused, Change::Resume).await;
    assert_eq!(rig.drain(9).await, [paused]);
    rig.pass(HOUR_MS).await;
    assert_eq!(rig.drain(9).await, [late]);
    // A dependency that fails ends them in every waiting state.
    let upstream = rig.enqueue_one().await;
    let scheduled = rig.enqueue(after(upstream, OnFailure::Fail).due(Due::After(HOUR_MS))).await;
    let paused = rig.enqueue(after(upstream, OnFailure::Cancel)).await;
    rig.change(paused, Change::Pause).await;
    rig.change(upstream, Change::Cancel).await;
    rig.assert_state(scheduled, State::Dead).await;
    rig.assert_state(paused, State::Cancelled).await;
    rig.assert_sound().await;
}

pub(super) async fn a_dependent_waits_for_its_key_only_once_it_could_run(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    // The dependent is stored first and has the key of the job that it depends on: a place in line would be a deadlock.
    let upstream = Rig::fresh_id();
    let jobs = [after(upstream, OnFailure::Fail).key("k"), Rig::job().id(upstream).key("k")];
    let dependent = rig.enqueue_whole(jobs).await[0];
    let session = rig.session().await;
    let running = rig.take_one(&session).await;
    assert_eq!(running.header.id, upstream);
    let between = rig.enqueue(Rig::job().key("k")).await;
    rig.assert_nothing_to_claim().await;
    rig.settle(&running, Outcome::DONE).await;
    let mut order = rig.drain(9).await;
    order.sort_unstable();
    let mut both = [dependent, between];
    both.sort_unstable();
    assert_eq!(order, both, "both run, one after the other");
    rig.assert_sound().await;
}

pub(super) async fn a_dependent_that_ended_by_itself_learns_the_rest(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let upstream = rig.enqueue_one().await;
    let dependent = rig.enqueue(after(upstream, OnFailure::Fail)).await;
    rig.change(dependent, Change::Cancel).await;
    assert_eq!(rig.drain(9).await, [upstream]);
    let job = rig.get(dependent).await;
    assert_eq!((job.state, job.finish), (State::Cancelled, Some(Finish::Cancelled)));
    assert_eq!(job.inputs[0].outcome, Some(State::Completed));
    rig.change(dependent, replay()).await;
    assert_eq!(rig.drain(9).await, [dependent]);
    rig.assert_sound().await;
}

fn replay() -> Change {
    Change::replay()
}

pub(super) async fn a_replayed_dependent_waits_for_replayed_jobs_again(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let upstream = rig.dead(Rig::job()).await;
    let dependent = rig.enqueue(after(upstream, OnFailure::Fail)).await;
    rig.assert_state(dependent, State::Dead).await;
    rig.change(upstream, replay()).await;
    rig.change(dependent, replay()).await;
    let job = rig.get(dependent).await;
    assert_eq!((job.state, job.dependencies.open), (State::Blocked, 1));
    rig.assert_sound().await;
    assert_eq!(rig.drain(9).await, [upstream, dependent]);
    // Without its dependency, an operator's replay runs it as it is.
    let upstream = rig.dead(Rig::job()).await;
    let dependent = rig.enqueue(after(upstream, OnFailure::Fail)).await;
    rig.change(dependent, replay()).await;
    assert_eq!(rig.drain(9).await, [dependent]);
    assert_eq!(rig.get(dependent).await.inputs[0].outcome, Some(State::Dead));
    rig.assert_sound().await;
}

pub(super) async fn a_replayed_dependent_runs_after_what_was_completed_since(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let upstream = rig.dead(Rig::job()).await;
    let dependent = rig.enqueue(after(upstream, OnFailure::Fail)).await;
    rig.change(upstream, replay()).await;
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    rig.settle(&claimed, Outcome::Complete { result: Some(Part::new("7")) }).await;
    rig.change(dependent, replay()).await;
    let Job { state, inputs, .. } = rig.get(dependent).await;
    assert_eq!(state, State::Available);
    assert_eq!(inputs[0].outcome, Some(State::Completed));
    assert_eq!(inputs[0].result, Some(Part::new("7")));
    rig.assert_sound().await;
}

pub(super) async fn an_ended_job_can_be_removed_and_its_dependents_keep_its_result(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let upstream = rig.enqueue_one().await;
    let dependent = rig.enqueue(after(upstream, OnFailure::Fail)).await;
    let session = rig.long_session().await;
    let claimed = rig.take_one(&session).await;
    rig.settle(&claimed, Outcome::Complete { result: Some(Part::new("7")) }).await;
    rig.change(upstream, Change::Discard).await;
    assert!(rig.find(upstream).await.is_none());
    let input = rig.get(dependent).await.inputs[0].clone();
    assert_eq!((input.outcome, input.result), (Some(State::Completed), Some(Part::new("7"))));
    assert_code(rig.try_enqueue(after(upstream, OnFailure::Run)).await, "invalid");
    assert_eq!(rig.drain(9).await, [dependent]);
    rig.change(dependent, Change::Discard).await;
    assert!(rig.find(dependent).await.is_none());
    rig.assert_sound().await;
}

pub(super) async fn results_beyond_the_limit_stay_with_their_jobs(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let fitting = INPUT_BYTES_MAX / RESULT_BYTES_MAX;
    let upstream = rig.enqueue_all(vec![Rig::job(); fitting + 1]).await;
    let job = upstream.iter().fold(Rig::job(), |job, id| job.after(*id));
    let dependent = rig.enqueue(job).await;
    let session = rig.session().await;
    for _ in &upstream {
        let claimed = rig.take_one(&session).await;
        let result = Part::new(vec![b'1'; RESULT_BYTES_MAX]);
        rig.settle(&claimed, Outcome::Complete { result: Some(result) }).await;
    }
    let inputs = rig.get(dependent).await.inputs;
    let omitted: Vec<JobId> =
        inputs.iter().filter(|input| input.omitted).map(|input| input.job).collect();
    assert_eq!(omitted, [upstream[fitting]]);
    let copied = inputs.iter().filter(|input| input.result.is_some()).count();
    assert_eq!(copied, fitting);
    assert_eq!(rig.drain(9).await, [dependent]);
}

/// Completes as many jobs as fill the inputs of a dependent, and one more, whose result does not fit. Returns that job,
/// and a job that depends on all of them, enqueued before or after they end.
async fn too_large_together(rig: &Rig, upstream: NewJob, before: bool) -> (JobId, JobId) {
    let fitting = INPUT_BYTES_MAX / RESULT_BYTES_MAX;
    let upstream = rig.enqueue_all(vec![upstream; fitting + 1]).await;
    let job = upstream.iter().fold(Rig::job(), |job, id| job.after(*id));
    let early = if before { Some(rig.enqueue(job.clone()).await) } else { None };
    let session = rig.long_session().await;
    for _ in &upstream {
        let claimed = rig.take_one(&session).await;
        let result = Part::new(vec![b'1'; RESULT_BYTES_MAX]);
        rig.settle(&claimed, Outcome::Complete { result: Some(result) }).await;
    }
    let dependent = match early {
        Some(id) => id,
        None => rig.enqueue(job).await,
    };
    let inputs = rig.get(dependent).await.inputs;
    let omitted = inputs.iter().find(|input| input.omitted).expect("one is omitted");
    (omitted.job, dependent)
}

/// Maintenance after this time: the first retention, then whatever follows.
async fn retain_after(rig: &Rig, ms: u64) {
    rig.pass(ms).await;
    for work in [Work::Retain, Work::Promote, Work::Retain] {
        rig.maintain(work).await;
    }
}

pub(super) async fn a_job_stays_until_those_that_read_its_result_have_ended(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let own = || {
        let mut job = Rig::job();
        job.policy.retention = Some(Retention::uniform_ms(HOUR_MS));
        job
    };
    for (upstream, before) in [(Rig::job(), true), (Rig::job(), false), (own(), true), (own(), false)] {
        let (omitted, dependent) = too_large_together(&rig, upstream, before).await;
        let copied = rig.get(dependent).await.inputs[0].job;
        rig.assert_sound().await;
        retain_after(&rig, RETENTION_FINISHED_DEFAULT_MS).await;
        assert!(rig.find(copied).await.is_none(), "its result was copied");
        let kept = rig.get(omitted).await;
        assert_eq!(kept.result.map(|part| part.bytes.len()), Some(RESULT_BYTES_MAX));
        rig.assert_sound().await;
        assert_eq!(rig.drain(9).await, [dependent]);
        retain_after(&rig, 0).await;
        assert!(rig.find(omitted).await.is_none(), "nothing reads it any more");
        rig.assert_state(dependent, State::Completed).await;
        rig.assert_sound().await;
        retain_after(&rig, RETENTION_FINISHED_DEFAULT_MS).await;
        assert!(rig.find(dependent).await.is_none());
    }
    rig.assert_sound().await;
}

pub(super) async fn a_job_stays_for_each_of_several_readers_however_they_end(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let (omitted, first) = too_large_together(&rig, Rig::job(), true).await;
    let inputs = rig.get(first).await.inputs;
    let job = inputs.iter().fold(Rig::job(), |job, input| job.after(input.job));
    let second = rig.enqueue(job).await;
    rig.change(first, Change::Cancel).await;
    retain_after(&rig, RETENTION_FINISHED_DEFAULT_MS).await;
    assert!(rig.find(first).await.is_none(), "it keeps nothing any more");
    assert!(rig.find(omitted).await.is_some(), "the second one reads it");
    rig.assert_sound().await;
    rig.change(second, Change::Kill).await;
    retain_after(&rig, 0).await;
    assert!(rig.find(omitted).await.is_none());
    // An operator may discard a job all the same; a replay of a reader keeps nothing.
    let (omitted, reader) = too_large_together(&rig, Rig::job(), true).await;
    rig.change(omitted, Change::Discard).await;
    rig.assert_state(reader, State::Available).await;
    rig.change(reader, Change::Cancel).await;
    rig.change(reader, replay()).await;
    assert_eq!(rig.drain(9).await, [reader]);
}

pub(super) async fn an_engine_without_flows_refuses_them(rig: Rig) {
    rig.has_flows().await;
}
