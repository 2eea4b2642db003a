//! Dead jobs: separate from the others, visible, and replayable.

use crate::rig::{KIND, QUEUE, Rig, assert_code};
use windlass_core::engine::{
    Change, ChangeItem, Configure, Disposition, Edits, Filter, List, Outcome,
};
use windlass_core::model::{
    Counters, Due, JobError, NewJob, Part, PartEdit, Policy, QueuePatch, State,
};
use windlass_core::policy::{Retention, Unique};
use windlass_core::time::{DAY_MS, HOUR_MS, MINUTE_MS};
use windlass_core::{Error, JobId};

async fn dead_letters(rig: &Rig) -> Vec<JobId> {
    let mut list = List::new(Filter::state(State::Dead).queue(QUEUE));
    let mut found = Vec::new();
    loop {
        let page = rig.engine().list(list.clone()).await.expect("list").value;
        found.extend(page.rows.iter().map(|job| job.header.id));
        match page.next {
            Some(next) => list = list.after(Some(next)),
            None => return found,
        }
    }
}

/// Lets a worker claim `id`, the only claimable job, and fail it.
async fn fail_once(rig: &Rig, id: JobId) {
    let session = rig.session().await;
    let job = rig.take_one(&session).await;
    assert_eq!(job.header.id, id);
    let retry = Outcome::Retry { error: JobError::new("e", "m"), delay_ms: Some(0) };
    rig.settle(&job, retry).await;
}

pub(super) async fn the_dead_are_neither_claimed_nor_counted_as_depth(rig: Rig) {
    let dead = rig.dead(Rig::job()).await;
    let lane = rig.lane(QUEUE, KIND).await;
    assert_eq!((lane.dead, lane.depth(), lane.available), (1, 0, 0));
    rig.configure(Configure::queue(QUEUE, QueuePatch::max_depth(Some(1)))).await;
    let alive = rig.enqueue_one().await;
    assert_code(rig.try_enqueue(Rig::job()).await, "queue_full");
    rig.pass(DAY_MS).await;
    assert_eq!(rig.drain(5).await, [alive]);
    rig.assert_state(dead, State::Dead).await;
}

pub(super) async fn the_dead_are_listed_with_why_they_died(rig: Rig) {
    let first = rig.dead(Rig::job()).await;
    let second = rig.dead(Rig::job()).await;
    rig.enqueue_one().await;
    let mut found = dead_letters(&rig).await;
    found.sort();
    let mut expected = vec![first, second];
    expected.sort();
    assert_eq!(found, expected);
    let job = rig.get(first).await;
    assert_eq!(job.error.map(|error| error.code).as_deref(), Some("bad"));
}

pub(super) async fn a_dead_letter_frees_its_keys(rig: Rig) {
    let job = || Rig::job().unique(Unique::by("u")).key("a");
    let dead = rig.dead(job()).await;
    let next = rig.try_enqueue(job()).await.expect("enqueue");
    assert_eq!((next.disposition, next.state), (Disposition::Created, Some(State::Available)));
    assert_ne!(next.id, dead);
}

pub(super) async fn a_replayed_job_runs_again_with_its_budgets_whole(rig: Rig) {
    let id = rig.enqueue(Rig::job().json("1").max_attempts(2)).await;
    fail_once(&rig, id).await;
    fail_once(&rig, id).await;
    rig.assert_state(id, State::Dead).await;
    assert_eq!(rig.change(id, Change::replay()).await.state, Some(State::Available));
    assert!(dead_letters(&rig).await.is_empty());
    let job = rig.get(id).await;
    assert_eq!((job.finish, job.finished_at), (None, None));
    assert_eq!(job.header.counters, Counters { attempt: 2, failures: 0, crashes: 0 });
    assert_eq!(job.history.len(), 2, "the history is kept");
    fail_once(&rig, id).await;
    rig.assert_state(id, State::Available).await;
    fail_once(&rig, id).await;
    let job = rig.get(id).await;
    assert_eq!((job.state, job.header.counters.attempt), (State::Dead, 4));
    rig.assert_sound().await;
}

pub(super) async fn a_replay_can_edit_the_job(rig: Rig) {
    let mut job = Rig::job().json("wrong");
    job.parts.checkpoint = Some(Part::new("half way"));
    job.parts.metadata = Some(Part::new("notes"));
    let id = rig.dead(job).await;
    let mut policy = Policy::default();
    policy.max_attempts = 1;
    let mut edits = Edits::default();
    edits.payload = PartEdit::Set(Part::new("right"));
    edits.checkpoint = PartEdit::Unset;
    edits.priority = Some(-4);
    edits.policy = Some(policy.clone());
    rig.change(id, Change::Replay(Box::new(edits))).await;
    let job = rig.get(id).await;
    assert_eq!(job.parts.payload, Some(Part::new("right")));
    assert_eq!((job.parts.checkpoint, job.parts.metadata), (None, Some(Part::new("notes"))));
    assert_eq!((job.header.priority, job.header.policy), (-4, policy));
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    assert_eq!(claimed.parts.payload, Some(Part::new("right")));
    rig.settle(&claimed, Outcome::retry("e", "m")).await;
    rig.assert_state(id, State::Dead).await;
}

pub(super) async fn a_replay_can_be_put_off(rig: Rig) {
    let id = rig.dead(Rig::job()).await;
    let mut edits = Edits::default();
    edits.due = Due::After(HOUR_MS);
    let changed = rig.change(id, Change::Replay(Box::new(edits))).await;
    assert_eq!(changed.state, Some(State::Scheduled));
    rig.assert_nothing_to_claim().await;
    rig.pass(HOUR_MS + MINUTE_MS).await;
    assert_eq!(rig.drain(5).await, [id]);
}

pub(super) async fn a_bad_edit_leaves_the_dead_letter_as_it_was(rig: Rig) {
    let id = rig.dead(Rig::job().json("1")).await;
    let before = rig.get(id).await;
    let mut edits = Edits::default();
    edits.priority = Some(-4);
    edits.payload = PartEdit::Set(Part::new(vec![0; 17 * 1024 * 1024]));
    let answer = rig.try_change(id, Change::Replay(Box::new(edits))).await;
    crate::rig::assert_refused(answer, "too_large", "payload");
    assert_eq!(rig.get(id).await, before);
}

pub(super) async fn a_replay_takes_the_unique_key_again(rig: Rig) {
    let job = || Rig::job().unique(Unique::by("u"));
    let id = rig.dead(job()).await;
    rig.change(id, Change::replay()).await;
    let again = rig.try_enqueue(job()).await.expect("enqueue");
    assert_eq!((again.id, again.disposition), (id, Disposition::Existing));
}

pub(super) async fn a_replay_whose_unique_key_is_held_is_refused_and_changes_nothing(rig: Rig) {
    let job = || Rig::job().unique(Unique::by("u"));
    let dead = rig.dead(job()).await;
    let holder = rig.enqueue(job()).await;
    let before = rig.get(dead).await;
    let answer = rig.try_change(dead, Change::replay()).await;
    assert_eq!(answer, Err(Error::Duplicate { key: "u".into(), holder }));
    assert_eq!(rig.get(dead).await, before);
    assert_eq!(rig.drain(5).await, [holder]);
    rig.change(dead, Change::replay()).await;
    assert_eq!(rig.drain(5).await, [dead], "after the key was released");
    rig.assert_sound().await;
}

pub(super) async fn a_replayed_keyed_job_is_last_in_line(rig: Rig) {
    let dead = rig.dead(Rig::job().key("a")).await;
    let holder = rig.enqueue(Rig::job().key("a")).await;
    let changed = rig.change(dead, Change::replay()).await;
    assert_eq!(changed.state, Some(State::Blocked));
    assert_eq!(rig.drain(5).await, [holder, dead]);
}

pub(super) async fn a_replayed_job_is_no_longer_up_for_removal(rig: Rig) {
    let kept = Retention::uniform_ms(HOUR_MS);
    rig.configure(Configure::queue(QUEUE, QueuePatch::retention(kept))).await;
    let id = rig.dead(Rig::job()).await;
    rig.change(id, Change::replay()).await;
    rig.pass(DAY_MS).await;
    assert_eq!(rig.drain(5).await, [id]);
}

pub(super) async fn a_discarded_dead_letter_is_gone(rig: Rig) {
    let [gone, kept] = [rig.dead(Rig::job()).await, rig.dead(Rig::job()).await];
    rig.change(gone, Change::Discard).await;
    assert_eq!(rig.find(gone).await, None);
    assert_eq!(dead_letters(&rig).await, [kept]);
    assert_eq!(rig.lane(QUEUE, KIND).await.dead, 1);
    assert_code(rig.try_change(gone, Change::replay()).await, "not_found");
    rig.assert_sound().await;
}

pub(super) async fn dead_letters_are_replayed_in_bulk_each_for_itself(rig: Rig) {
    let dead = [rig.dead(Rig::job()).await, rig.dead(Rig::job()).await];
    let done = rig.enqueue_one().await;
    rig.drain(1).await;
    let ids = [dead[0], Rig::fresh_id(), done, dead[1]];
    let batch = ids.map(|id| ChangeItem::new(id, Change::replay())).to_vec();
    let reply = rig.engine().change(batch).await.expect("change").value;
    let codes: Vec<_> =
        reply.iter().map(|item| item.as_ref().map_or_else(|e| e.code(), |_| "ok")).collect();
    assert_eq!(codes, ["ok", "not_found", "refused", "ok"]);
    let mut started = rig.drain(5).await;
    started.sort();
    let mut expected = dead;
    expected.sort();
    assert_eq!(started, expected);
}

pub(super) async fn one_poisoned_job_does_not_hold_up_its_neighbours(rig: Rig) {
    let poison = rig.enqueue(Rig::job().priority(-9).max_crashes(3)).await;
    let neighbours = rig.enqueue_all(vec![Rig::job().max_crashes(3); 5]).await;
    let mut done = Vec::new();
    for _ in 0..20 {
        let session = rig.session().await;
        let jobs = rig.take(&session, 3).await;
        // The worker dies of the poison job, together with the other jobs of its batch.
        if jobs.iter().any(|job| job.header.id == poison) {
            rig.crash(&session).await;
            continue;
        }
        for job in &jobs {
            rig.settle(job, Outcome::DONE).await;
            done.push(job.header.id);
        }
    }
    rig.assert_state(poison, State::Dead).await;
    done.sort();
    let mut expected = neighbours;
    expected.sort();
    assert_eq!(done, expected, "every other job was completed exactly once");
}

pub(super) async fn the_dead_of_one_lane_leave_the_others_alone(rig: Rig) {
    for _ in 0..20 {
        rig.dead(Rig::job()).await;
    }
    let other = rig.enqueue(NewJob::new("other").queue(QUEUE)).await;
    let lane = rig.lane(QUEUE, "other").await;
    assert_eq!((lane.dead, lane.available), (0, 1));
    assert_eq!(rig.drain(5).await, [other]);
    assert_eq!(dead_letters(&rig).await.len(), 20);
}
