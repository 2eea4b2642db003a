//! Children: jobs that a running job creates and waits for, and jobs that are added to a group that is still open.

use crate::rig::{Rig, assert_code, assert_refused};
use windlass_core::JobId;
use windlass_core::engine::{
    Capability, Change, ClaimedJob, Outcome, SessionId, SettleItem, Settled,
};
use windlass_core::model::{Due, Finish, Join, NewJob, OnFailure, Part, State};
use windlass_core::policy::Unique;
use windlass_core::time::MINUTE_MS;
use windlass_core::Result;

/// Starts the one claimable job.
async fn start(rig: &Rig, session: &SessionId) -> ClaimedJob {
    rig.take_one(session).await
}

/// Reports that a job waits for these children.
async fn branch(
    rig: &Rig,
    job: &ClaimedJob,
    children: impl IntoIterator<Item = NewJob>,
) -> Result<Settled> {
    let id = job.header.id;
    let item = SettleItem::new(id, job.lease.clone(), Outcome::WaitForJobs);
    let child = |job: NewJob| if job.joins.is_none() { job.joins(Join::SELF) } else { job };
    rig.try_settle(children.into_iter().map(child).fold(item, SettleItem::follow_up)).await
}

/// A running parent, and the session that runs it.
async fn parent(rig: &Rig, job: NewJob) -> (ClaimedJob, SessionId) {
    let session = rig.long_session().await;
    rig.enqueue(job).await;
    (start(rig, &session).await, session)
}

fn ids(settled: &Settled) -> Vec<JobId> {
    settled.follow_ups.iter().map(|job| job.id).collect()
}

pub(super) async fn a_parent_runs_again_once_all_its_children_have_ended(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let (job, session) = parent(&rig, Rig::job().flow("order")).await;
    let id = job.header.id;
    let children = ["small", "large"].map(|name| Rig::job().joins(Join::SELF.named(name)));
    let settled = branch(&rig, &job, children).await.expect("the report is accepted");
    assert_eq!((settled.state, settled.follow_ups.len()), (State::Blocked, 2));
    rig.assert_sound().await;
    for (at, child) in ids(&settled).into_iter().enumerate() {
        rig.assert_state(id, State::Blocked).await;
        let claimed = start(&rig, &session).await;
        assert_eq!(claimed.header.id, child);
        assert_eq!(claimed.header.parent, Some(id));
        assert_eq!(claimed.header.flow.as_deref(), Some("order"), "children inherit the flow");
        rig.settle(&claimed, Outcome::Complete { result: Some(Part::new(at.to_string())) }).await;
    }
    let waited = rig.get(id).await;
    assert_eq!((waited.state, waited.dependencies.open), (State::Available, 0));
    let read = waited.inputs.iter().map(|input| {
        let text = input.result.as_ref().map(|part| part.bytes.clone());
        (input.name.as_deref(), input.outcome, text)
    });
    let read: Vec<_> = read.collect();
    let result = |text: &'static str| Some(bytes::Bytes::from_static(text.as_bytes()));
    let done = Some(State::Completed);
    assert_eq!(read, [(Some("small"), done, result("0")), (Some("large"), done, result("1"))]);
    assert_eq!(rig.drain(5).await, [id]);
    rig.assert_sound().await;
}

pub(super) async fn a_parent_without_children_runs_again_at_once(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let (job, session) = parent(&rig, Rig::job()).await;
    assert_eq!(branch(&rig, &job, []).await.expect("the report is accepted").state, State::Available);
    assert_eq!(start(&rig, &session).await.header.counters.attempt, 2);
}

pub(super) async fn a_parent_sees_failures_unless_a_policy_ends_it(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    for (policy, expected) in [
        (None, State::Available),
        (Some(OnFailure::Run), State::Available),
        (Some(OnFailure::Fail), State::Dead),
        (Some(OnFailure::Cancel), State::Cancelled),
    ] {
        let (job, session) = parent(&rig, Rig::job()).await;
        let id = job.header.id;
        let join = policy.map_or(Join::SELF, |policy| Join::SELF.on_failure(policy));
        let settled = branch(&rig, &job, [Rig::job().joins(join), Rig::job()]).await.expect("the report is accepted");
        let [bad, good] = ids(&settled)[..] else { panic!("two children") };
        let claimed = start(&rig, &session).await;
        assert_eq!(claimed.header.id, bad);
        rig.settle(&claimed, Outcome::fail("e", "m")).await;
        if expected == State::Available {
            rig.assert_state(id, State::Blocked).await;
        }
        assert_eq!(rig.drain(1).await, [good]);
        let ended = rig.get(id).await;
        assert_eq!(ended.state, expected, "{policy:?}");
        assert_eq!(ended.inputs[0].outcome, Some(State::Dead));
        match expected {
            State::Available => assert_eq!(rig.drain(5).await, [id]),
            _ => assert_eq!(ended.finish, Some(Finish::Dependency(bad)), "{policy:?}"),
        }
        rig.assert_sound().await;
    }
}

pub(super) async fn whatever_ends_a_child_wakes_its_parent(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let (job, _) = parent(&rig, Rig::job()).await;
    let later = || Rig::job().due(Due::After(MINUTE_MS));
    let children = [later(), later(), Rig::job().max_wait_ms(1), later()];
    let settled = branch(&rig, &job, children).await.expect("the report is accepted");
    let [cancelled, killed, expired, last] = ids(&settled)[..] else { panic!("four children") };
    rig.change(cancelled, Change::Cancel).await;
    rig.change(killed, Change::Kill).await;
    rig.pass(1_000).await;
    rig.assert_state(expired, State::Expired).await;
    rig.assert_state(job.header.id, State::Blocked).await;
    rig.change(last, Change::Cancel).await;
    rig.assert_state(job.header.id, State::Available).await;
    let outcomes: Vec<_> =
        rig.get(job.header.id).await.inputs.iter().filter_map(|input| input.outcome).collect();
    assert_eq!(outcomes, [State::Cancelled, State::Dead, State::Expired, State::Cancelled]);
    rig.assert_sound().await;
}

pub(super) async fn a_parent_can_wait_several_times(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let (mut job, session) = parent(&rig, Rig::job()).await;
    let id = job.header.id;
    for round in 1..=3 {
        let settled = branch(&rig, &job, [Rig::job()]).await.expect("the report is accepted");
        assert_eq!(rig.drain(1).await, ids(&settled));
        job = start(&rig, &session).await;
        assert_eq!(job.header.id, id);
        let inputs = rig.get(id).await.inputs;
        assert_eq!((inputs.len(), inputs.last().and_then(|input| input.outcome)), (round, Some(State::Completed)));
    }
    rig.settle(&job, Outcome::DONE).await;
    rig.assert_sound().await;
}

pub(super) async fn children_can_run_after_each_other_and_have_children(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let (job, session) = parent(&rig, Rig::job()).await;
    let [a, b] = [Rig::fresh_id(), Rig::fresh_id()];
    let children = [Rig::job().id(b).after(a), Rig::job().id(a)];
    branch(&rig, &job, children).await.expect("the report is accepted");
    let child = start(&rig, &session).await;
    assert_eq!(child.header.id, a);
    let settled = branch(&rig, &child, [Rig::job()]).await.expect("the report is accepted");
    let grandchild = ids(&settled)[0];
    assert_eq!(rig.drain(9).await, [grandchild, a, b, job.header.id]);
    rig.assert_sound().await;
}

pub(super) async fn the_last_child_and_its_parent_can_be_claimed_with_one_report(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let (job, session) = parent(&rig, Rig::job()).await;
    let item = SettleItem::new(job.header.id, job.lease.clone(), Outcome::WaitForJobs);
    let item = item.follow_up(Rig::job().joins(Join::SELF));
    let (settled, claimed) = rig.settle_and_claim(vec![item], rig.wants(&session, 5)).await;
    let child = settled[0].as_ref().expect("settle").follow_ups[0].id;
    assert_eq!(claimed.jobs.len(), 1);
    assert_eq!(claimed.jobs[0].header.id, child);
    let done = SettleItem::new(child, claimed.jobs[0].lease.clone(), Outcome::DONE);
    let (_, claimed) = rig.settle_and_claim(vec![done], rig.wants(&session, 5)).await;
    assert_eq!(claimed.jobs[0].header.id, job.header.id);
}

pub(super) async fn a_repeated_report_creates_no_more_children(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let (job, _) = parent(&rig, Rig::job()).await;
    branch(&rig, &job, [Rig::job()]).await.expect("the report is accepted");
    let again = branch(&rig, &job, [Rig::job()]).await.expect("the report is accepted");
    assert!(again.already);
    let waits = rig.get(job.header.id).await;
    assert_eq!((waits.state, waits.dependencies.total), (State::Blocked, 1));
    rig.assert_sound().await;
}

pub(super) async fn a_cancelled_parent_creates_no_children(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let (job, _) = parent(&rig, Rig::job()).await;
    rig.change(job.header.id, Change::Cancel).await;
    let settled = branch(&rig, &job, [Rig::job()]).await.expect("the report is accepted");
    assert_eq!((settled.state, settled.follow_ups.len()), (State::Cancelled, 0));
    rig.assert_nothing_to_claim().await;
}

pub(super) async fn a_running_job_adds_jobs_to_a_group_that_is_open(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let session = rig.long_session().await;
    let member = rig.enqueue_one().await;
    let group = rig.enqueue(Rig::job().after(member)).await;
    let claimed = start(&rig, &session).await;
    let item = SettleItem::new(member, claimed.lease.clone(), Outcome::DONE);
    let added = Rig::job().joins(Join::to(group).named("more"));
    let settled = rig.try_settle(item.follow_up(added)).await.expect("the report is accepted");
    let more = settled.follow_ups[0].id;
    let open = rig.get(group).await;
    assert_eq!((open.state, open.dependencies.total, open.dependencies.open), (State::Blocked, 2, 1));
    rig.assert_sound().await;
    assert_eq!(rig.drain(9).await, [more, group], "the group did not start early");
    let inputs = rig.get(group).await.inputs;
    assert_eq!((inputs[1].job, inputs[1].name.as_deref()), (more, Some("more")));

    // The group has ended, and a new one has not begun to wait.
    for (closed, code) in [(group, "refused"), (rig.enqueue(Rig::job().priority(9)).await, "refused")] {
        rig.enqueue_one().await;
        let claimed = start(&rig, &session).await;
        let item = SettleItem::new(claimed.header.id, claimed.lease.clone(), Outcome::DONE);
        let late = item.follow_up(Rig::job().joins(Join::to(closed)));
        assert_code(rig.try_settle(late).await, code);
        rig.assert_state(claimed.header.id, State::Running).await;
        rig.settle(&claimed, Outcome::DONE).await;
    }
    rig.assert_sound().await;
}

pub(super) async fn a_follow_up_can_run_after_the_job_that_completes(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let session = rig.long_session().await;
    for joins in [false, true] {
        let upstream = rig.enqueue_one().await;
        let group = rig.enqueue(Rig::job().after(upstream)).await;
        let claimed = start(&rig, &session).await;
        let result = Some(Part::new("[1]"));
        let done = Outcome::Complete { result: result.clone() };
        let report = || {
            let item = SettleItem::new(upstream, claimed.lease.clone(), done.clone());
            let item = item.follow_up(Rig::job().after(upstream).due(Due::After(MINUTE_MS)));
            // Others may join a group in the same report.
            if joins { item.follow_up(Rig::job().joins(Join::to(group))) } else { item }
        };
        let settled = rig.try_settle(report()).await.expect("the report is accepted");
        let behind = rig.get(settled.follow_ups[0].id).await;
        assert_eq!((behind.state, behind.header.parent), (State::Scheduled, Some(upstream)));
        assert_eq!((behind.inputs[0].outcome, &behind.inputs[0].result), (Some(State::Completed), &result));
        let again = rig.try_settle(report()).await.expect("a repeated report changes nothing");
        assert!(again.already);
        rig.assert_sound().await;
        assert_eq!(rig.drain(9).await.len(), 1 + usize::from(joins), "the group, and what joined it");
        rig.change(behind.header.id, Change::Cancel).await;
    }

    // A job that does not complete would have to run first.
    let (job, _) = parent(&rig, Rig::job()).await;
    let member = Rig::job().joins(Join::SELF);
    let behind = Rig::job().after(job.header.id);
    let item = SettleItem::new(job.header.id, job.lease.clone(), Outcome::WaitForJobs);
    let item = item.follow_up(member).follow_up(behind);
    assert_refused(rig.try_settle(item).await, "invalid", "follow_ups[1].after");
    rig.settle(&job, Outcome::DONE).await;
    rig.assert_sound().await;
}

pub(super) async fn bad_children_are_refused_by_field_and_create_nothing(rig: Rig) {
    if !rig.has_flows().await {
        return;
    }
    let (job, _) = parent(&rig, Rig::job().key("k")).await;
    let (id, other) = (job.header.id, rig.enqueue(Rig::job().due(Due::After(MINUTE_MS))).await);
    let holder = rig.enqueue(Rig::job().due(Due::After(MINUTE_MS)).unique(Unique::by("u"))).await;
    let unknown = Rig::fresh_id();
    let joining = || Rig::job().joins(Join::SELF);
    for (children, field) in [
        (vec![joining().key("k")], "follow_ups[0].key"),
        (vec![joining().after(other)], "follow_ups[0].after"),
        (vec![joining(), Rig::job().joins(Join::SELF).after(id)], "follow_ups[1].after"),
        (vec![joining().id(other)], "follow_ups[0].id"),
        (vec![joining().unique(Unique::by("u"))], "follow_ups[0].unique.key"),
        (vec![Rig::job().joins(Join::to(unknown))], "follow_ups[0].joins"),
        (vec![Rig::job().joins(Join::SELF.named(""))], "follow_ups[0].joins.name"),
    ] {
        let told = format!("{children:?}");
        let refused = assert_refused(branch(&rig, &job, children).await, "invalid", field);
        assert!(!refused.to_string().is_empty(), "{told}");
    }
    rig.assert_state(id, State::Running).await;
    assert_eq!(rig.get(id).await.dependencies.total, 0);
    let item = SettleItem::new(id, job.lease.clone(), Outcome::DONE).follow_up(joining());
    assert_refused(rig.try_settle(item).await, "invalid", "follow_ups[0].joins");
    let alone = rig.try_enqueue(Rig::job().joins(Join::to(other))).await;
    assert_refused(alone, "invalid", "joins");
    rig.settle(&job, Outcome::DONE).await;
    rig.change(holder, Change::Cancel).await;
    rig.change(other, Change::Cancel).await;
    rig.assert_nothing_to_claim().await;
    rig.assert_sound().await;
}

pub(super) async fn an_engine_without_flows_refuses_children(rig: Rig) {
    if rig.has(Capability::Flows) {
        return;
    }
    let (job, _) = parent(&rig, Rig::job()).await;
    assert_code(branch(&rig, &job, []).await, "unsupported");
    assert_code(branch(&rig, &job, [Rig::job()]).await, "unsupported");
    rig.assert_state(job.header.id, State::Running).await;
}
