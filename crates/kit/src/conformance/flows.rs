//! Graphs of jobs: stored whole, refused whole, resolved in bounded steps.

use crate::rig::{Rig, assert_code, assert_refused};
use windlass_core::engine::{
    CauseCode, Change, Disposition, Filter, List, Outcome, SettleItem, Work,
};
use windlass_core::limits::{
    CALL_RESOLUTION_BYTES_MAX, CASCADE_MAX, NAME_BYTES_MAX, RESOLUTIONS_MAX, RESULT_BYTES_MAX,
};
use windlass_core::model::{Dependency, Finish, NewJob, OnFailure, Part, State};
use windlass_core::policy::Unique;
use windlass_core::{Error, JobId};

/// Names each of these jobs.
fn named<const N: usize>() -> [JobId; N] {
    std::array::from_fn(|_| Rig::fresh_id())
}

/// The number of jobs in the store.
async fn stored(rig: &Rig) -> u64 {
    rig.engine().check(false).await.expect("check").value.jobs
}

pub(super) async fn a_graph_is_stored_whole_whatever_the_order_of_its_jobs(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let before = stored(&rig).await;
    let [a, b, c, d] = named();
    let jobs = [
        Rig::job().id(d).after(b).after(c),
        Rig::job().id(b).after(a),
        Rig::job().id(c).after(a),
        Rig::job().id(a),
    ];
    assert_eq!(rig.enqueue_whole(jobs).await, [d, b, c, a], "results are in the order of the request");
    assert_eq!(stored(&rig).await, before + 4);
    rig.assert_sound().await;
    let order = rig.drain(9).await;
    let place = |id| order.iter().position(|done| *done == id).expect("it ran");
    assert_eq!((order.len(), place(a), place(d)), (4, 0, 3), "{order:?}");
    rig.assert_sound().await;
}

pub(super) async fn a_graph_that_is_enqueued_again_changes_nothing(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let [a, b] = named();
    let graph = || [Rig::job().id(b).after(a), Rig::job().id(a)];
    rig.enqueue_whole(graph()).await;
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    for round in 0..2 {
        let again = rig.try_enqueue_whole(graph()).await;
        let read = |item: &Result<windlass_core::engine::Enqueued, Error>| {
            let item = item.clone().expect("enqueue");
            (item.id, item.disposition)
        };
        let read: Vec<_> = again.iter().map(read).collect();
        assert_eq!(read, [(b, Disposition::Existing), (a, Disposition::Existing)], "{round}");
        if round == 0 {
            rig.settle(&claimed, Outcome::DONE).await;
            rig.change(a, Change::Discard).await;
            rig.enqueue(Rig::job().id(a)).await;
        }
    }
    rig.assert_state(b, State::Available).await;
    rig.assert_sound().await;
}

pub(super) async fn cycles_and_unknown_jobs_are_refused_and_nothing_is_stored(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let before = stored(&rig).await;
    let [a, b, c, unknown] = named();
    let cycle = [
        Rig::job(),
        Rig::job().id(a).after(c),
        Rig::job().id(b).after(a),
        Rig::job().id(c).after(b),
    ];
    let refused = rig.try_enqueue_whole(cycle).await;
    let culprit = refused.iter().position(|item| {
        item.as_ref().is_err_and(|error| error.field() == Some("after"))
    });
    assert!(culprit.is_some_and(|index| index > 0), "{refused:?}");
    assert!(refused.iter().all(Result::is_err), "{refused:?}");
    let graph = [Rig::job().id(a), Rig::job().after(a).after(unknown)];
    let refused = rig.try_enqueue_whole(graph).await;
    assert_code(refused[0].clone(), "aborted");
    assert_refused(refused[1].clone(), "invalid", "after");
    assert_refused(rig.try_enqueue(Rig::job().after(unknown)).await, "invalid", "after");
    assert_eq!(stored(&rig).await, before);
    // One by one, a job may depend on one before it and not on one behind it.
    let jobs = [Rig::job().id(a), Rig::job().id(b).after(a), Rig::job().after(c), Rig::job().id(c)];
    let reply = rig.engine().enqueue(windlass_core::engine::Enqueue::each(jobs)).await;
    let items = reply.expect("enqueue").value;
    let refused: Vec<bool> = items.iter().map(Result::is_err).collect();
    assert_eq!(refused, [false, false, true, false], "{items:?}");
    rig.assert_state(b, State::Blocked).await;
    rig.assert_sound().await;
}

pub(super) async fn bad_dependencies_are_refused_by_field(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let upstream = rig.enqueue_one().await;
    let before = stored(&rig).await;
    let own = Rig::fresh_id();
    let on = || Dependency::on(upstream);
    for (job, field, code) in [
        (Rig::job().id(own).after(own), "after", "invalid"),
        (Rig::job().after(upstream).after(upstream), "after", "invalid"),
        (Rig::job().after(on().named("")), "after.name", "invalid"),
        (Rig::job().after(on().named("x".repeat(NAME_BYTES_MAX + 1))), "after.name", "too_large"),
        (Rig::job().flow("no spaces"), "flow", "invalid"),
        (Rig::job().flow(""), "flow", "invalid"),
    ] {
        assert_refused(rig.try_enqueue(job).await, code, field);
    }
    assert_eq!(stored(&rig).await, before);
    rig.assert_sound().await;
}

pub(super) async fn a_job_that_others_need_must_not_be_a_duplicate(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let unique = || Rig::job().unique(Unique::by("u"));
    let holder = rig.enqueue(unique()).await;
    let before = stored(&rig).await;
    let a = Rig::fresh_id();
    let refused = rig.try_enqueue_whole([Rig::job().after(a), unique().id(a)]).await;
    let error = assert_refused(refused[1].clone(), "invalid", "unique.key");
    assert!(error.to_string().contains(&holder.to_string()), "{error}");
    assert_eq!(stored(&rig).await, before);
    let stored = rig.try_enqueue_whole([Rig::job(), unique()]).await;
    let known = stored[1].as_ref().expect("enqueue");
    assert_eq!((known.id, known.disposition), (holder, Disposition::Existing));
    rig.assert_sound().await;
}

pub(super) async fn follow_ups_inherit_the_flow_and_may_depend_on_each_other(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let parent = rig.enqueue(Rig::job().flow("f")).await;
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    assert_eq!(claimed.header.flow.as_deref(), Some("f"));
    let [a, b] = named();
    let report = |outcome| SettleItem::new(parent, claimed.lease.clone(), outcome);
    let bad = report(Outcome::DONE).follow_up(Rig::job().after(Rig::fresh_id()));
    assert_refused(rig.try_settle(bad).await, "invalid", "follow_ups[0].after");
    let good = report(Outcome::DONE)
        .follow_up(Rig::job().id(b).after(a).after(parent))
        .follow_up(Rig::job().id(a))
        .follow_up(Rig::job().flow("other"));
    let settled = rig.try_settle(good).await.expect("settle");
    let other = settled.follow_ups[2].id;
    for (id, flow, state) in [
        (a, "f", State::Available),
        (b, "f", State::Blocked),
        (other, "other", State::Available),
    ] {
        let job = rig.get(id).await;
        assert_eq!((job.header.flow.as_deref(), job.state), (Some(flow), state));
    }
    let mut order = rig.drain(9).await;
    assert_eq!(order.pop(), Some(b), "{order:?}");
    rig.assert_sound().await;
}

pub(super) async fn jobs_are_listed_by_their_flow(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let flow = |name: &str| Rig::job().flow(name);
    let [a, b, ..] = rig.enqueue_all([flow("one"), flow("one"), flow("two"), Rig::job()]).await[..]
    else {
        panic!("four jobs")
    };
    let listed = async |filter: Filter| {
        let page = rig.engine().list(List::new(filter)).await.expect("list").value;
        let mut ids: Vec<JobId> = page.rows.iter().map(|job| job.header.id).collect();
        ids.sort_unstable();
        ids
    };
    let mut both = vec![a, b];
    both.sort_unstable();
    assert_eq!(listed(Filter::default().flow("one")).await, both);
    rig.change(a, Change::Cancel).await;
    assert_eq!(listed(Filter::state(State::Cancelled).flow("one")).await, [a]);
    assert_eq!(listed(Filter::default().flow("none")).await, []);
    let bad = rig.engine().list(List::new(Filter::default().flow("no spaces"))).await;
    assert_refused(bad, "invalid", "flow");
}

pub(super) async fn a_job_that_waits_for_others_says_for_which(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let [a, b] = <[_; 2]>::try_from(rig.enqueue_all([Rig::job(), Rig::job()]).await).expect("two");
    let dependent = rig.enqueue(Rig::job().after(a).after(b)).await;
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    rig.settle(&claimed, Outcome::DONE).await;
    let why = rig.engine().why(dependent).await.expect("why").value;
    let cause = why.cause(CauseCode::Dependency).expect("a dependency").clone();
    assert_eq!((cause.dependencies, cause.holder), (Some(1), Some(b)));
    assert_eq!(cause.holder_state, Some(State::Available));
    let message = why.message(&cause);
    assert!(message.contains(&b.to_string()) && message.contains("1 dependency"), "{message}");
    rig.change(b, Change::Kill).await;
    let why = rig.engine().why(dependent).await.expect("why").value;
    let ended = why.cause(CauseCode::Ended).expect("it has ended");
    assert_eq!(ended.finish, Some(Finish::Dependency(b)));
}

/// Enqueues this many jobs that run after `upstream`.
async fn fan_out(rig: &Rig, upstream: JobId, count: usize) -> Vec<JobId> {
    let job = || Rig::job().after(Dependency::on(upstream).on_failure(OnFailure::Fail));
    let mut ids = Vec::new();
    while ids.len() < count {
        let batch = (count - ids.len()).min(1_000);
        ids.extend(rig.enqueue_all((0..batch).map(|_| job())).await);
    }
    ids
}

pub(super) async fn a_wide_fan_is_resolved_in_bounded_steps(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let most = RESOLUTIONS_MAX as usize;
    let upstream = rig.enqueue_one().await;
    let dependents = fan_out(&rig, upstream, 2 * most + 5).await;
    let lane = async || rig.lane(crate::rig::QUEUE, crate::rig::KIND).await;
    assert_eq!(rig.drain(1).await, [upstream]);
    let ready = lane().await.available as usize;
    assert_eq!(ready, most, "one step resolves a bounded number");
    assert!(rig.get(upstream).await.followed);
    rig.assert_sound().await;
    let step = rig.maintain_step(Work::Promote, 10).await;
    assert!(step.more && step.done <= 10, "{step:?}");
    assert_eq!(lane().await.available as usize, most + 10, "a step keeps to its budget");
    rig.maintain(Work::Promote).await;
    assert_eq!(lane().await.available as usize, dependents.len(), "none is forgotten");
    assert!(!rig.get(upstream).await.followed);
    rig.assert_sound().await;
}

pub(super) async fn a_step_copies_a_bounded_number_of_bytes(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let fitting = CALL_RESOLUTION_BYTES_MAX / RESULT_BYTES_MAX;
    let upstream = rig.enqueue_one().await;
    let dependents = fan_out(&rig, upstream, 2 * fitting + 3).await;
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    let result = Some(Part::new(vec![b'1'; RESULT_BYTES_MAX]));
    rig.settle(&claimed, Outcome::Complete { result }).await;
    let lane = async || rig.lane(crate::rig::QUEUE, crate::rig::KIND).await.available as usize;
    assert_eq!(lane().await, fitting, "the report copies what fits");
    // Dependents that are added now share the bound of their enqueue.
    let late = rig.enqueue_all(vec![Rig::job().after(upstream); fitting + 2]).await;
    assert_eq!(lane().await, 2 * fitting);
    rig.assert_sound().await;
    let step = rig.maintain_step(Work::Promote, 1_000).await;
    assert!(step.more, "{step:?}");
    assert_eq!(lane().await, 3 * fitting, "so does a step of maintenance");
    rig.maintain(Work::Promote).await;
    assert_eq!(lane().await, dependents.len() + late.len(), "none is forgotten");
    let last = rig.get(*late.last().expect("some")).await;
    assert!(last.inputs[0].result.is_some() && !last.inputs[0].omitted);
    rig.assert_sound().await;
}

pub(super) async fn a_long_chain_of_failures_ends_in_bounded_steps(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let ids: Vec<JobId> = (0..3 * CASCADE_MAX + 2).map(|_| Rig::fresh_id()).collect();
    let chain = ids.iter().enumerate().map(|(at, id)| match at {
        0 => Rig::job().id(*id),
        _ => Rig::job().id(*id).after(ids[at - 1]),
    });
    rig.enqueue_whole(chain.collect::<Vec<NewJob>>()).await;
    rig.change(ids[0], Change::Kill).await;
    rig.assert_state(ids[1], State::Dead).await;
    rig.assert_sound().await;
    rig.maintain(Work::Promote).await;
    for pair in ids.windows(2) {
        let job = rig.get(pair[1]).await;
        assert_eq!((job.state, job.finish), (State::Dead, Some(Finish::Dependency(pair[0]))));
    }
    rig.assert_nothing_to_claim().await;
    rig.assert_sound().await;
}

/// Fifty chains of three jobs; `before` is what their first jobs run after. Returns the jobs, the first ones first.
async fn chains(rig: &Rig, before: Option<JobId>) -> Vec<JobId> {
    let ids: Vec<JobId> = (0..150).map(|_| Rig::fresh_id()).collect();
    let job = |at: usize| {
        let job = Rig::job().id(ids[at]).max_crashes(0);
        let upstream = if at < 50 { before } else { Some(ids[at - 50]) };
        upstream.into_iter().fold(job, NewJob::after)
    };
    rig.enqueue_whole((0..ids.len()).map(job).collect::<Vec<NewJob>>()).await;
    ids
}

pub(super) async fn a_failure_that_spreads_to_many_jobs_ends_them_all(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let id = rig.enqueue_one().await;
    let ids = chains(&rig, Some(id)).await;
    rig.change(id, Change::Kill).await;
    rig.maintain(Work::Promote).await;
    for id in ids {
        rig.assert_state(id, State::Dead).await;
    }
    rig.assert_sound().await;
}

pub(super) async fn the_jobs_behind_those_of_a_lost_worker_end_with_them(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let ids = chains(&rig, None).await;
    let session = rig.session().await;
    assert_eq!(rig.take(&session, 100).await.len(), 50);
    rig.crash(&session).await;
    rig.maintain(Work::Promote).await;
    for id in ids {
        rig.assert_state(id, State::Dead).await;
    }
    rig.assert_sound().await;
}

pub(super) async fn a_job_stays_until_its_dependents_are_resolved(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let upstream = rig.enqueue_one().await;
    let dependents = fan_out(&rig, upstream, RESOLUTIONS_MAX as usize + 1).await;
    assert_eq!(rig.drain(1).await, [upstream]);
    assert_code(rig.try_change(upstream, Change::Discard).await, "refused");
    rig.advance(windlass_core::limits::RETENTION_FINISHED_DEFAULT_MS);
    rig.maintain(Work::Retain).await;
    assert!(rig.find(upstream).await.is_some(), "its dependents have not all learned its end");
    rig.maintain(Work::Promote).await;
    rig.maintain(Work::Retain).await;
    assert!(rig.find(upstream).await.is_none());
    for id in [dependents[0], dependents[RESOLUTIONS_MAX as usize]] {
        rig.assert_state(id, State::Available).await;
    }
    rig.assert_sound().await;
}

pub(super) async fn many_jobs_before_one_release_it_once(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let upstream = rig.enqueue_all((0..500).map(|_| Rig::job())).await;
    let last = upstream.iter().fold(Rig::job(), |job, id| job.after(*id));
    let last = rig.enqueue(last).await;
    let session = rig.session().await;
    let claimed = rig.take(&session, 500).await;
    let reports = claimed
        .iter()
        .map(|job| SettleItem::new(job.header.id, job.lease.clone(), Outcome::DONE))
        .collect::<Vec<_>>();
    let engine = rig.engine();
    for batch in reports.chunks(125) {
        rig.assert_state(last, State::Blocked).await;
        let request = windlass_core::engine::Settle::new(batch.iter().cloned());
        let reply = engine.settle(request).await.expect("settle").value;
        assert!(reply.items.iter().all(Result::is_ok), "{reply:?}");
    }
    assert_eq!(rig.get(last).await.transitions, 2, "enqueued, and released once");
    assert_eq!(rig.drain(9).await, [last]);
    rig.assert_sound().await;
}

pub(super) async fn dependents_enqueued_while_their_job_ends_are_all_released(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let session = rig.session().await;
    for round in 0..20 {
        let upstream = rig.enqueue_one().await;
        let claimed = rig.take_one(&session).await;
        assert_eq!(claimed.header.id, upstream);
        let producers = (0..4).map(|_| {
            let rig = rig.clone();
            tokio::spawn(async move { rig.enqueue(Rig::job().after(upstream)).await })
        });
        let producers: Vec<_> = producers.collect();
        let worker = rig.clone();
        let worker = tokio::spawn(async move { worker.settle(&claimed, Outcome::DONE).await });
        let mut dependents = Vec::new();
        for producer in producers {
            dependents.push(producer.await.expect("enqueue"));
        }
        worker.await.expect("settle");
        let mut released = rig.drain(9).await;
        released.sort_unstable();
        dependents.sort_unstable();
        assert_eq!(released, dependents, "round {round}");
    }
    rig.assert_sound().await;
}
