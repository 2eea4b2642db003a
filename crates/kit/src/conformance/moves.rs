//! Moves to another queue, and jobs that are ended as dead by hand.

use crate::rig::{KIND, QUEUE, Rig, assert_code, assert_refused};
use windlass_core::engine::{
    Capability, Change, Claim, ClaimedJob, Configure, Edits, Outcome, SettleItem,
};
use windlass_core::model::{
    Due, Finish, Job, NewJob, Order, Part, PartEdit, QueuePatch, State,
};
use windlass_core::policy::{Unique, UniqueScope, Until};
use windlass_core::time::{HOUR_MS, MINUTE_MS};
use windlass_core::{JobId, Result};

/// The queue that jobs are moved to.
const OTHER: &str = "other";

fn to_other() -> Change {
    Change::Move(OTHER.into())
}

/// Whether the engine can move jobs; if not, asserts that it refuses to.
async fn can_move(rig: &Rig) -> bool {
    if !rig.has(Capability::Move) {
        let id = rig.enqueue_one().await;
        assert_code(rig.try_change(id, to_other()).await, "unsupported");
    }
    rig.has(Capability::Move)
}

/// Claims one job of a queue.
async fn take_from(rig: &Rig, queue: &str) -> Option<ClaimedJob> {
    let session = rig.session().await;
    rig.claim(Claim::new(rig.claimant(&session), queue, 1)).await.pop()
}

/// Claims and completes all jobs of the other queue; returns their ids in the order of their start.
async fn drain_other(rig: &Rig) -> Vec<JobId> {
    let mut order = Vec::new();
    while let Some(job) = take_from(rig, OTHER).await {
        order.push(job.header.id);
        rig.settle(&job, Outcome::DONE).await;
    }
    order
}

fn report(job: &ClaimedJob, outcome: Outcome) -> SettleItem {
    SettleItem::new(job.header.id, job.lease.clone(), outcome)
}

/// Asserts that a move has changed the queue of a job, which is a transition, and nothing else.
async fn assert_moved(rig: &Rig, before: Job) {
    let after = rig.get(before.header.id).await;
    let mut expected = before;
    expected.transitions += 1;
    expected.changed_at = after.changed_at;
    expected.header.queue = OTHER.into();
    assert_eq!(after, expected);
}

pub(super) async fn a_moved_job_keeps_everything_but_its_queue(rig: Rig) {
    if !can_move(&rig).await {
        return;
    }
    let mut job = Rig::job().json("{}").tenant("t").tag("a").priority(3).key("k");
    job.parts.metadata = Some(Part::new("noted"));
    let id = rig.enqueue(job.unique(Unique::by("u"))).await;
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    let again = report(&claimed, Outcome::retry("e", "m")).checkpoint(PartEdit::Set(Part::new("step")));
    rig.try_settle(again).await.expect("settle");
    rig.pass(HOUR_MS).await;
    let before = rig.get(id).await;
    let changed = rig.change(id, to_other()).await;
    assert_eq!(changed.state, Some(State::Available));
    assert_moved(&rig, before).await;
    rig.assert_nothing_to_claim().await;
    assert_eq!((rig.lane(QUEUE, KIND).await.available, rig.lane(OTHER, KIND).await.available), (0, 1));
    let claimed = take_from(&rig, OTHER).await.expect("the moved job");
    assert_eq!((claimed.header.id, &*claimed.header.queue), (id, OTHER));
    assert_eq!((claimed.header.counters.attempt, claimed.header.counters.failures), (2, 1));
    rig.settle(&claimed, Outcome::DONE).await;
    assert_eq!(rig.get(id).await.history.len(), 2);
    assert_eq!(rig.lane(OTHER, KIND).await.depth() + rig.lane(QUEUE, KIND).await.depth(), 0);
    rig.assert_sound().await;
}

pub(super) async fn a_moved_job_enters_at_the_tail_of_its_new_queue(rig: Rig) {
    if !can_move(&rig).await {
        return;
    }
    let (first, second) = (rig.enqueue_one().await, rig.enqueue_one().await);
    let there = rig.enqueue(Rig::job().queue(OTHER)).await;
    rig.change(second, to_other()).await;
    rig.change(first, to_other()).await;
    let last = rig.enqueue(Rig::job().queue(OTHER)).await;
    assert_eq!(drain_other(&rig).await, [there, second, first, last]);
    rig.assert_sound().await;
}

pub(super) async fn a_moved_job_is_ranked_by_the_order_of_its_new_queue(rig: Rig) {
    if !can_move(&rig).await {
        return;
    }
    rig.configure(Configure::queue(OTHER, QueuePatch::order(Order::Lifo))).await;
    let there = rig.enqueue(Rig::job().queue(OTHER).priority(-5)).await;
    let id = rig.enqueue(Rig::job().priority(5)).await;
    rig.advance(10);
    rig.change(id, to_other()).await;
    assert_eq!(drain_other(&rig).await, [id, there], "the newest is first there");
}

pub(super) async fn jobs_in_every_waiting_state_can_be_moved_and_stay_in_it(rig: Rig) {
    if !can_move(&rig).await {
        return;
    }
    let waits = rig.enqueue_one().await;
    let session = rig.session().await;
    rig.settle(&rig.take_one(&session).await, Outcome::WAIT).await;
    let scheduled = rig.enqueue(Rig::job().due(Due::After(HOUR_MS))).await;
    let paused = rig.enqueue_one().await;
    rig.change(paused, Change::Pause).await;
    let ready = rig.enqueue_one().await;
    for id in [waits, scheduled, paused, ready] {
        let before = rig.get(id).await;
        let changed = rig.change(id, to_other()).await;
        assert_eq!(changed.state, Some(before.state));
        assert_moved(&rig, before).await;
    }
    let lane = rig.lane(OTHER, KIND).await;
    assert_eq!((lane.scheduled, lane.blocked, lane.available, lane.paused), (1, 1, 1, 1));
    assert_eq!(rig.lane(QUEUE, KIND).await.depth(), 0);
    rig.assert_sound().await;
    rig.change(waits, Change::signal("go")).await;
    rig.change(paused, Change::Resume).await;
    rig.pass(HOUR_MS + MINUTE_MS).await;
    let mut ran = drain_other(&rig).await;
    ran.sort_unstable();
    let mut all = [waits, scheduled, paused, ready];
    all.sort_unstable();
    assert_eq!(ran, all);
}

pub(super) async fn a_running_or_ended_job_cannot_be_moved(rig: Rig) {
    if !can_move(&rig).await {
        return;
    }
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    let before = rig.get(id).await;
    let error = assert_code(rig.try_change(id, to_other()).await, "refused").to_string();
    assert!(error.contains("queue") && error.contains("cancel it"), "the way out: {error}");
    assert_eq!(rig.get(id).await, before);
    rig.settle(&claimed, Outcome::DONE).await;
    assert_code(rig.try_change(id, to_other()).await, "refused");
    let dead = rig.dead(Rig::job()).await;
    assert_code(rig.try_change(dead, to_other()).await, "refused");
}

pub(super) async fn a_move_to_its_own_queue_changes_nothing(rig: Rig) {
    if !can_move(&rig).await {
        return;
    }
    rig.configure(Configure::queue(QUEUE, QueuePatch::max_depth(Some(2)))).await;
    let ids = rig.enqueue_all([Rig::job(), Rig::job()]).await;
    let changed = rig.change(ids[0], Change::Move(QUEUE.into())).await;
    assert_eq!(changed.state, Some(State::Available));
    assert_eq!(rig.drain(5).await, ids, "it keeps its position");
}

pub(super) async fn a_move_to_a_full_queue_is_refused(rig: Rig) {
    if !can_move(&rig).await {
        return;
    }
    rig.configure(Configure::queue(OTHER, QueuePatch::max_depth(Some(1)))).await;
    let first = rig.enqueue_one().await;
    rig.change(first, to_other()).await;
    let id = rig.enqueue_one().await;
    let before = rig.get(id).await;
    assert_code(rig.try_change(id, to_other()).await, "queue_full");
    assert_eq!(rig.get(id).await, before);
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    let report = report(&claimed, Outcome::Release).queue(OTHER);
    rig.try_settle(report).await.expect("a report may exceed the limit, as follow-ups may");
    assert_eq!(rig.lane(OTHER, KIND).await.available, 2);
    rig.assert_sound().await;
}

pub(super) async fn a_moved_job_leaves_the_line_of_its_key_and_joins_the_other_one(rig: Rig) {
    if !can_move(&rig).await {
        return;
    }
    let keyed = || Rig::job().key("k");
    let (holder, next) = (rig.enqueue(keyed()).await, rig.enqueue(keyed()).await);
    let there = rig.enqueue(keyed().queue(OTHER)).await;
    rig.assert_state(next, State::Blocked).await;
    let changed = rig.change(holder, to_other()).await;
    assert_eq!(changed.state, Some(State::Blocked), "the key is taken there");
    rig.assert_state(next, State::Available).await;
    rig.assert_sound().await;
    let in_line = rig.enqueue(keyed()).await;
    rig.change(in_line, to_other()).await;
    rig.assert_sound().await;
    assert_eq!(rig.drain(5).await, [next]);
    let free = rig.enqueue(keyed()).await;
    rig.assert_state(free, State::Available).await;
    assert_eq!(drain_other(&rig).await, [there, holder, in_line]);
    let back = rig.change(free, to_other()).await;
    assert_eq!(back.state, Some(State::Available), "it takes the key there");
    let behind = rig.enqueue(keyed().queue(OTHER)).await;
    rig.assert_state(behind, State::Blocked).await;
    rig.assert_sound().await;
}

pub(super) async fn a_unique_key_moves_with_its_job(rig: Rig) {
    if !can_move(&rig).await {
        return;
    }
    for (key, scope, until) in [
        ("lane", UniqueScope::Lane, Until::Finished),
        ("queue", UniqueScope::Queue, Until::Finished),
        ("window", UniqueScope::Queue, Until::window_ms(HOUR_MS)),
    ] {
        let job = |queue: &str| {
            Rig::job().queue(queue).unique(Unique::by(key).scope(scope).until(until))
        };
        let id = rig.enqueue(job(QUEUE)).await;
        rig.change(id, to_other()).await;
        let same = rig.enqueue(job(OTHER)).await;
        assert_eq!(same, id, "{key}: it holds the key there");
        let new = rig.enqueue(job(QUEUE)).await;
        assert_ne!(new, id, "{key}: and no longer here");
    }
    rig.assert_sound().await;
    assert_eq!(drain_other(&rig).await.len(), 3);
    rig.drain(5).await;
    let unique = |queue| Rig::job().queue(queue).unique(Unique::by("lane"));
    let again = rig.enqueue(unique(OTHER)).await;
    rig.assert_state(again, State::Available).await;
    rig.assert_sound().await;
}

pub(super) async fn a_move_to_a_taken_unique_key_is_refused_and_changes_nothing(rig: Rig) {
    if !can_move(&rig).await {
        return;
    }
    let unique = || Rig::job().unique(Unique::by("u").scope(UniqueScope::Queue));
    let there = rig.enqueue(unique().queue(OTHER)).await;
    let id = rig.enqueue(unique()).await;
    let before = rig.get(id).await;
    let error = assert_code(rig.try_change(id, to_other()).await, "duplicate");
    assert!(error.to_string().contains(&there.to_string()), "{error}");
    assert_eq!(rig.get(id).await, before);
    assert_eq!(rig.enqueue(unique()).await, id, "it still holds its key");
    assert_eq!(drain_other(&rig).await, [there]);
    rig.change(id, to_other()).await;
    assert_eq!(drain_other(&rig).await, [id]);
    rig.assert_sound().await;
}

pub(super) async fn a_report_moves_a_job_that_runs_again(rig: Rig) {
    if !can_move(&rig).await {
        return;
    }
    let cases = [
        (Outcome::Release, State::Available),
        (Outcome::Snooze { delay_ms: MINUTE_MS }, State::Scheduled),
        (Outcome::retry("e", "m"), State::Scheduled),
        (Outcome::WAIT, State::Blocked),
    ];
    for job in [Rig::job(), Rig::job().key("k"), Rig::job().unique(Unique::by("u"))] {
        for (outcome, state) in &cases {
            let id = rig.enqueue(job.clone()).await;
            let session = rig.session().await;
            let claimed = rig.take_one(&session).await;
            let item = report(&claimed, outcome.clone()).queue(OTHER);
            let settled = rig.try_settle(item).await.expect("settle");
            assert_eq!(settled.state, *state, "{outcome:?}");
            assert_eq!(&*rig.get(id).await.header.queue, OTHER);
            rig.assert_sound().await;
            if *state == State::Blocked {
                rig.change(id, Change::signal("go")).await;
            }
            rig.pass(HOUR_MS).await;
            assert_eq!(drain_other(&rig).await, [id], "{outcome:?}");
            rig.assert_nothing_to_claim().await;
        }
    }
    rig.assert_sound().await;
}

pub(super) async fn a_report_that_ends_a_job_cannot_move_it(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    let before = rig.get(id).await;
    for outcome in [Outcome::DONE, Outcome::fail("e", "m"), Outcome::Cancel] {
        let item = report(&claimed, outcome).queue(OTHER);
        let error = assert_refused(rig.try_settle(item).await, "invalid", "queue");
        assert!(error.to_string().contains(OTHER), "{error}");
    }
    assert_eq!(rig.get(id).await, before, "it still runs");
    rig.settle(&claimed, Outcome::DONE).await;
}

pub(super) async fn a_report_that_moves_to_a_taken_unique_key_is_refused_and_its_lease_stays(
    rig: Rig,
) {
    if !can_move(&rig).await {
        return;
    }
    let unique = || Rig::job().unique(Unique::by("u"));
    rig.enqueue(unique().queue(OTHER)).await;
    let id = rig.enqueue(unique()).await;
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    let before = rig.get(id).await;
    let moves = || report(&claimed, Outcome::Release).queue(OTHER).follow_up(NewJob::new("later"));
    let refused: Result<_> = rig.try_settle(moves()).await;
    assert_code(refused, "duplicate");
    assert_eq!(rig.get(id).await, before);
    assert_eq!(drain_other(&rig).await.len(), 1);
    let settled = rig.try_settle(moves()).await.expect("the key is free by now");
    assert_eq!((settled.state, settled.follow_ups.len()), (State::Available, 1));
    assert_eq!(drain_other(&rig).await, [id]);
}

pub(super) async fn a_job_that_must_not_run_again_stays_in_its_queue(rig: Rig) {
    if !can_move(&rig).await {
        return;
    }
    let session = rig.session().await;
    let spent = rig.enqueue(Rig::job().max_attempts(1)).await;
    let claimed = rig.take_one(&session).await;
    let item = report(&claimed, Outcome::retry("e", "m")).queue(OTHER);
    assert_eq!(rig.try_settle(item).await.expect("settle").state, State::Dead);
    let cancelled = rig.enqueue_one().await;
    let claimed = rig.take_one(&session).await;
    rig.change(cancelled, Change::Cancel).await;
    let item = report(&claimed, Outcome::Release).queue(OTHER);
    assert_eq!(rig.try_settle(item).await.expect("settle").state, State::Cancelled);
    for id in [spent, cancelled] {
        assert_eq!(&*rig.get(id).await.header.queue, QUEUE);
    }
    rig.assert_sound().await;
}

pub(super) async fn a_replay_can_run_a_job_in_another_queue(rig: Rig) {
    if !can_move(&rig).await {
        return;
    }
    let unique = || Rig::job().unique(Unique::by("u"));
    let id = rig.dead(unique().key("k")).await;
    let taken = rig.enqueue(unique().queue(OTHER)).await;
    let replay = || {
        let mut edits = Edits::default();
        edits.queue = Some(OTHER.into());
        Change::Replay(Box::new(edits))
    };
    assert_code(rig.try_change(id, replay()).await, "duplicate");
    assert_eq!(drain_other(&rig).await, [taken]);
    assert_eq!(rig.change(id, replay()).await.state, Some(State::Available));
    assert_eq!(rig.enqueue(unique().queue(OTHER)).await, id, "it holds its key there");
    assert_eq!(rig.lane(QUEUE, KIND).await.dead, 0);
    rig.assert_sound().await;
    assert_eq!(drain_other(&rig).await, [id]);
    let job = rig.get(id).await;
    assert_eq!((job.state, &*job.header.queue, job.history.len()), (State::Completed, OTHER, 2));
    rig.assert_sound().await;
}

pub(super) async fn a_move_to_a_bad_name_is_refused(rig: Rig) {
    let id = rig.enqueue_one().await;
    for name in ["", "a b", "{q}"] {
        let refused = rig.try_change(id, Change::Move(name.into())).await;
        assert_refused(refused, "invalid", "queue");
    }
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    let item = report(&claimed, Outcome::Release).queue("a b");
    assert_refused(rig.try_settle(item).await, "invalid", "queue");
    rig.settle(&claimed, Outcome::DONE).await;
}

pub(super) async fn a_killed_job_is_dead_and_frees_its_keys(rig: Rig) {
    let keyed = || Rig::job().key("k");
    let job = keyed().unique(Unique::by("u"));
    let (id, next) = (rig.enqueue(job.clone()).await, rig.enqueue(keyed()).await);
    let before = rig.get(id).await;
    assert_eq!(rig.change(id, Change::Kill).await.state, Some(State::Dead));
    let dead = rig.get(id).await;
    assert_eq!((dead.state, dead.finish), (State::Dead, Some(Finish::Killed)));
    assert!(dead.finished_at.is_some() && dead.history.is_empty() && dead.error.is_none());
    assert_eq!(dead.header, before.header);
    assert_eq!(rig.lane(QUEUE, KIND).await.dead, 1);
    rig.assert_state(next, State::Available).await;
    assert_eq!(rig.change(id, Change::Kill).await.state, Some(State::Dead), "it is in effect");
    let other = rig.enqueue(job).await;
    assert_ne!(other, id, "its unique key is free");
    rig.assert_sound().await;
    rig.change(other, Change::Cancel).await;
    rig.change(id, Change::replay()).await;
    assert_eq!(rig.drain(5).await, [next, id]);
}

pub(super) async fn only_waiting_jobs_can_be_killed(rig: Rig) {
    let scheduled = rig.enqueue(Rig::job().due(Due::After(HOUR_MS))).await;
    let paused = rig.enqueue_one().await;
    rig.change(paused, Change::Pause).await;
    for id in [scheduled, paused] {
        assert_eq!(rig.change(id, Change::Kill).await.state, Some(State::Dead));
    }
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    let error = assert_code(rig.try_change(id, Change::Kill).await, "refused");
    assert!(error.to_string().contains("cancel it"), "the way out: {error}");
    rig.settle(&claimed, Outcome::DONE).await;
    assert_code(rig.try_change(id, Change::Kill).await, "refused");
    rig.assert_sound().await;
}
