//! Jobs whose dependents, follow-ups and children are in other queues. A store whose atomicity is the queue reaches them by
//! messages, which maintenance delivers if nothing else has.

use crate::rig::{KIND, QUEUE, Rig, assert_code, assert_refused};
use windlass_core::JobId;
use windlass_core::engine::{
    Atomicity, Change, ClaimedJob, Disposition, Outcome, SessionId, SettleItem, Settled, Work,
};
use windlass_core::limits::{
    CASCADE_MAX, INPUT_BYTES_MAX, RESOLUTIONS_MAX, RESULT_BYTES_MAX, RETENTION_FINISHED_DEFAULT_MS,
};
use windlass_core::model::{Dependency, Finish, Join, NewJob, OnFailure, Part, State};
use windlass_core::policy::{OnConflict, Unique};

const OTHER: &str = "there";
const THIRD: &str = "beyond";

fn job_in(queue: &str) -> NewJob {
    NewJob::new(KIND).queue(queue)
}

fn is_by_queue(rig: &Rig) -> bool {
    rig.engine().capabilities().atomicity < Atomicity::Store
}

/// Lets all messages arrive.
async fn arrive(rig: &Rig) {
    rig.maintain(Work::Promote).await;
}

/// Starts the first job of a queue.
async fn start(rig: &Rig, session: &SessionId, queue: &str) -> ClaimedJob {
    rig.take_from(session, queue, 1).await.pop().expect("a job to claim")
}

/// Completes what is ready in these queues, until nothing is. Returns the ids in the order of their start.
async fn drain(rig: &Rig, queues: &[&str]) -> Vec<JobId> {
    let session = rig.long_session().await;
    let mut order = Vec::new();
    loop {
        arrive(rig).await;
        let mut jobs = Vec::new();
        for queue in queues {
            jobs.extend(rig.take_from(&session, queue, 1).await);
        }
        if jobs.is_empty() {
            return order;
        }
        for job in jobs {
            order.push(job.header.id);
            rig.settle(&job, Outcome::DONE).await;
        }
    }
}

/// Reports an outcome with these follow-ups.
async fn report(
    rig: &Rig,
    job: &ClaimedJob,
    outcome: Outcome,
    follow_ups: impl IntoIterator<Item = NewJob>,
) -> windlass_core::Result<Settled> {
    let item = SettleItem::new(job.header.id, job.lease.clone(), outcome);
    rig.try_settle(follow_ups.into_iter().fold(item, SettleItem::follow_up)).await
}

pub(super) async fn a_job_runs_after_one_in_another_queue_and_receives_its_result(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let session = rig.session().await;
    let upstream = rig.enqueue_one().await;
    let running = rig.enqueue_one().await;
    let claimed = [start(&rig, &session, QUEUE).await, start(&rig, &session, QUEUE).await];
    let dependent = rig.enqueue(job_in(OTHER).after(upstream).after(running)).await;
    let late = rig.enqueue(job_in(OTHER).after(running)).await;
    rig.assert_state(dependent, State::Blocked).await;
    let result = Some(Part::new("42"));
    rig.settle(&claimed[0], Outcome::Complete { result: result.clone() }).await;
    arrive(&rig).await;
    let waits = rig.get(dependent).await;
    assert_eq!((waits.state, waits.dependencies.open), (State::Blocked, 1));
    assert_eq!((waits.inputs[0].outcome, &waits.inputs[0].result), (Some(State::Completed), &result));
    rig.assert_sound().await;
    rig.settle(&claimed[1], Outcome::DONE).await;
    arrive(&rig).await;
    for id in [dependent, late] {
        rig.assert_state(id, State::Available).await;
    }
    assert!(!rig.get(running).await.followed);
    assert_eq!(rig.get(dependent).await.transitions, 2, "enqueued, and released once");
    rig.assert_sound().await;
    assert_eq!(drain(&rig, &[OTHER]).await, [dependent, late]);
    rig.assert_sound().await;
}

pub(super) async fn every_end_reaches_dependents_in_other_queues_by_their_policy(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let session = rig.long_session().await;
    for end in [State::Completed, State::Dead, State::Cancelled] {
        for policy in OnFailure::ALL {
            for enqueued_after in [false, true] {
                let told = format!("{end}, {policy:?}, {enqueued_after}");
                let upstream = rig.enqueue_one().await;
                let on = Dependency::on(upstream).on_failure(policy);
                let dependent = Rig::fresh_id();
                let job = job_in(OTHER).id(dependent).after(on);
                if !enqueued_after {
                    rig.enqueue(job.clone()).await;
                }
                match end {
                    State::Completed => {
                        let claimed = start(&rig, &session, QUEUE).await;
                        rig.settle(&claimed, Outcome::DONE).await;
                    }
                    State::Dead => drop(rig.change(upstream, Change::Kill).await),
                    _ => drop(rig.change(upstream, Change::Cancel).await),
                }
                if enqueued_after {
                    rig.enqueue(job).await;
                }
                arrive(&rig).await;
                let job = rig.get(dependent).await;
                assert_eq!(job.inputs[0].outcome, Some(end), "{told}");
                let expected = match policy {
                    _ if end == State::Completed => State::Available,
                    OnFailure::Run => State::Available,
                    OnFailure::Fail => State::Dead,
                    OnFailure::Cancel => State::Cancelled,
                };
                assert_eq!(job.state, expected, "{told}");
                match expected {
                    State::Available => assert_eq!(drain(&rig, &[OTHER]).await, [dependent]),
                    _ => assert_eq!(job.finish, Some(Finish::Dependency(upstream)), "{told}"),
                }
                rig.assert_sound().await;
                // Nothing is left to learn: it can be removed.
                rig.change(upstream, Change::Discard).await;
            }
        }
    }
}

pub(super) async fn failures_pass_through_queues_in_bounded_steps(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let mut chain = vec![rig.enqueue_one().await];
    for at in 1..3 * CASCADE_MAX as usize + 2 {
        let queue = [QUEUE, OTHER, OTHER, THIRD][at % 4];
        chain.push(rig.enqueue(job_in(queue).after(chain[at - 1])).await);
    }
    rig.change(chain[0], Change::Kill).await;
    arrive(&rig).await;
    for pair in chain.windows(2) {
        let job = rig.get(pair[1]).await;
        assert_eq!((job.state, job.finish), (State::Dead, Some(Finish::Dependency(pair[0]))));
    }
    rig.assert_sound().await;
}

pub(super) async fn follow_ups_in_several_queues_may_depend_on_each_other(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let session = rig.long_session().await;
    let parent = rig.enqueue(Rig::job().flow("f")).await;
    let claimed = start(&rig, &session, QUEUE).await;
    let [a, b, c, d] = [(); 4].map(|()| Rig::fresh_id());
    let follow_ups = [
        Rig::job().id(d).after(b).after(c),
        job_in(THIRD).id(c).after(a).after(parent),
        job_in(OTHER).id(b).after(a),
        job_in(OTHER).id(a),
    ];
    let settled = report(&rig, &claimed, Outcome::DONE, follow_ups).await.expect("settle");
    let deferred = |id| {
        let item = settled.follow_ups.iter().find(|item| item.id == id).expect("it is in the reply");
        item.disposition == Disposition::Deferred
    };
    assert_eq!([a, b, c].map(deferred), [is_by_queue(&rig); 3]);
    assert!(!deferred(d), "it is stored in the step of the report");
    arrive(&rig).await;
    rig.assert_sound().await;
    for (id, queue, state) in [
        (a, OTHER, State::Available),
        (b, OTHER, State::Blocked),
        (c, THIRD, State::Blocked),
        (d, QUEUE, State::Blocked),
    ] {
        let job = rig.get(id).await;
        assert_eq!((&*job.header.queue, job.state), (queue, state));
        assert_eq!((job.header.parent, job.header.flow.as_deref()), (Some(parent), Some("f")));
    }
    let order = drain(&rig, &[OTHER, THIRD, QUEUE]).await;
    assert_eq!((order.len(), order[0], order[3]), (4, a, d), "{order:?}");
    rig.assert_sound().await;
}

pub(super) async fn children_in_other_queues_wake_their_parent(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let session = rig.long_session().await;
    let parent = rig.enqueue_one().await;
    let claimed = start(&rig, &session, QUEUE).await;
    let child = |queue| job_in(queue).joins(Join::SELF);
    let children = [child(OTHER), child(THIRD), child(QUEUE)];
    let settled = report(&rig, &claimed, Outcome::WaitForJobs, children).await.expect("settle");
    assert_eq!(settled.state, State::Blocked);
    arrive(&rig).await;
    rig.assert_sound().await;
    let waits = rig.get(parent).await;
    assert_eq!((waits.state, waits.dependencies.open), (State::Blocked, 3));
    let [other, third, own] = [0, 1, 2].map(|at: usize| settled.follow_ups[at].id);
    rig.change(other, Change::Kill).await;
    assert_eq!(drain(&rig, &[THIRD]).await, [third]);
    rig.assert_state(parent, State::Blocked).await;
    assert_eq!(drain(&rig, &[QUEUE]).await, [own, parent]);
    let outcomes: Vec<_> =
        rig.get(parent).await.inputs.iter().filter_map(|input| input.outcome).collect();
    assert_eq!(outcomes, [State::Dead, State::Completed, State::Completed]);
    rig.assert_sound().await;
}

pub(super) async fn a_group_in_another_queue_is_joined_or_the_report_is_refused(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let session = rig.long_session().await;
    let member = rig.enqueue_one().await;
    let group = rig.enqueue(job_in(OTHER).after(member)).await;
    arrive(&rig).await;
    let claimed = start(&rig, &session, QUEUE).await;
    let joining = job_in(OTHER).joins(Join::to(group));
    let settled = report(&rig, &claimed, Outcome::DONE, [joining]).await;
    if is_by_queue(&rig) {
        assert_refused(settled, "invalid", "follow_ups[0].joins");
        rig.assert_state(member, State::Running).await;
        rig.settle(&claimed, Outcome::DONE).await;
        assert_eq!(drain(&rig, &[OTHER]).await, [group]);
    } else {
        let more = settled.expect("settle").follow_ups[0].id;
        assert_eq!(drain(&rig, &[OTHER]).await, [more, group]);
    }
    rig.assert_sound().await;
}

pub(super) async fn a_fan_into_another_queue_is_resolved_in_bounded_steps(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let session = rig.long_session().await;
    let upstream = rig.enqueue_one().await;
    let count = RESOLUTIONS_MAX as usize + 5;
    rig.enqueue_all(vec![job_in(OTHER).after(upstream); count]).await;
    let claimed = start(&rig, &session, QUEUE).await;
    rig.settle(&claimed, Outcome::Complete { result: Some(Part::new("1")) }).await;
    let ready = async || rig.lane(OTHER, KIND).await.available as usize;
    assert!(ready().await <= RESOLUTIONS_MAX as usize, "one step resolves a bounded number");
    assert_code(rig.try_change(upstream, Change::Discard).await, "refused");
    rig.assert_sound().await;
    let before = ready().await;
    let step = rig.maintain_step(Work::Promote, 10).await;
    assert!(step.done <= 10 && ready().await <= before + 10, "{step:?}");
    arrive(&rig).await;
    assert_eq!(ready().await, count, "none is forgotten");
    rig.assert_sound().await;
    rig.change(upstream, Change::Discard).await;
}

pub(super) async fn a_job_stays_until_its_readers_in_other_queues_have_ended(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let fitting = INPUT_BYTES_MAX / RESULT_BYTES_MAX;
    let upstream = rig.enqueue_all(vec![Rig::job(); fitting + 1]).await;
    let job = upstream.iter().fold(job_in(OTHER), |job, id| job.after(*id));
    let readers = rig.enqueue_all([job.clone(), job]).await;
    let session = rig.long_session().await;
    for _ in &upstream {
        let claimed = start(&rig, &session, QUEUE).await;
        let result = Part::new(vec![b'1'; RESULT_BYTES_MAX]);
        rig.settle(&claimed, Outcome::Complete { result: Some(result) }).await;
    }
    arrive(&rig).await;
    rig.assert_sound().await;
    let inputs = rig.get(readers[0]).await.inputs;
    let omitted = inputs.iter().find(|input| input.omitted).expect("one is omitted").job;
    let retain = async |ms| {
        rig.pass(ms).await;
        rig.maintain(Work::Retain).await;
    };
    retain(RETENTION_FINISHED_DEFAULT_MS).await;
    let copied = inputs.iter().find(|input| !input.omitted).expect("others are not").job;
    assert!(rig.find(copied).await.is_none(), "its result was copied");
    rig.change(readers[0], Change::Cancel).await;
    retain(0).await;
    assert!(rig.find(omitted).await.is_some(), "the second one reads it");
    rig.assert_sound().await;
    assert_eq!(drain(&rig, &[OTHER]).await, [readers[1]]);
    arrive(&rig).await;
    retain(0).await;
    assert!(rig.find(omitted).await.is_none(), "nothing reads it any more");
    rig.assert_sound().await;
}

pub(super) async fn a_follow_up_that_another_queue_refuses_does_not_disappear(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let session = rig.long_session().await;
    let unique = || Unique::by("u").on_conflict(OnConflict::Reject);
    let holder = rig.enqueue(job_in(OTHER).unique(unique())).await;
    let parent = rig.enqueue_one().await;
    let claimed = start(&rig, &session, QUEUE).await;
    let [refused, behind] = [Rig::fresh_id(), Rig::fresh_id()];
    let follow_ups = || [job_in(OTHER).id(refused).unique(unique()), Rig::job().id(behind).after(refused)];
    let settled = report(&rig, &claimed, Outcome::DONE, follow_ups()).await;
    if is_by_queue(&rig) {
        settled.expect("the other queue is not read by this step");
        arrive(&rig).await;
        let job = rig.get(refused).await;
        let error = job.error.expect("it says why it was refused");
        assert_eq!((job.state, error.code.as_str()), (State::Dead, "refused"));
        assert!(error.message.contains(&holder.to_string()), "{error:?}");
        assert_eq!(rig.get(behind).await.finish, Some(Finish::Dependency(refused)));
    } else {
        assert_code(settled, "duplicate");
        rig.assert_state(parent, State::Running).await;
        rig.settle(&claimed, Outcome::DONE).await;
    }
    assert_eq!(drain(&rig, &[OTHER]).await, [holder]);
    rig.assert_sound().await;
}

pub(super) async fn a_follow_up_in_another_queue_is_stored_once(rig: Rig) {
    let session = rig.long_session().await;
    rig.enqueue_one().await;
    let claimed = start(&rig, &session, QUEUE).await;
    let report = async || report(&rig, &claimed, Outcome::DONE, [job_in(OTHER)]).await;
    let stored = report().await.expect("settle").follow_ups[0].id;
    assert!(report().await.expect("a repeated report changes nothing").already);
    assert_eq!(drain(&rig, &[OTHER]).await, [stored]);
    rig.change(stored, Change::Discard).await;
    for work in Work::ALL {
        rig.maintain(work).await;
    }
    assert!(rig.find(stored).await.is_none(), "a message that is repeated stores nothing");
    assert_eq!(drain(&rig, &[OTHER]).await, []);
    rig.assert_sound().await;
}

pub(super) async fn a_graph_over_queues_is_stored_whole_or_refused_whole(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let [a, b, c] = [(); 3].map(|()| Rig::fresh_id());
    let graph = [job_in(OTHER).id(a), Rig::job().id(b).after(a), job_in(OTHER).id(c).after(b)];
    if is_by_queue(&rig) {
        let request = windlass_core::engine::Enqueue::all_or_nothing(graph.clone());
        let error = assert_refused(rig.engine().enqueue(request).await, "invalid", "jobs");
        assert!(error.to_string().contains("one request per queue"), "{error}");
        for id in [a, b, c] {
            assert!(rig.find(id).await.is_none());
        }
        rig.enqueue_all(graph).await;
    } else {
        rig.enqueue_whole(graph).await;
    }
    assert_eq!(drain(&rig, &[QUEUE, OTHER]).await, [a, b, c]);
    rig.assert_sound().await;
}

pub(super) async fn a_replayed_dependent_waits_for_a_replayed_job_in_another_queue(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    for completes_before in [false, true] {
        let upstream = rig.dead(Rig::job()).await;
        let dependent = rig.enqueue(job_in(OTHER).after(upstream)).await;
        arrive(&rig).await;
        rig.assert_state(dependent, State::Dead).await;
        rig.change(upstream, Change::replay()).await;
        if completes_before {
            assert_eq!(drain(&rig, &[QUEUE]).await, [upstream]);
        }
        rig.change(dependent, Change::replay()).await;
        arrive(&rig).await;
        rig.assert_sound().await;
        if !completes_before {
            rig.assert_state(dependent, State::Blocked).await;
            assert_eq!(drain(&rig, &[QUEUE]).await, [upstream]);
        }
        assert_eq!(drain(&rig, &[OTHER]).await, [dependent]);
        assert_eq!(rig.get(dependent).await.inputs[0].outcome, Some(State::Completed));
    }
    rig.assert_sound().await;
}
