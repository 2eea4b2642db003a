//! Unique keys: which job holds one, how long, and what happens to the next job.

use crate::rig::{KIND, QUEUE, Rig, assert_code, assert_refused};
use std::collections::HashSet;
use windlass_core::engine::{
    Capability, Change, Claim, Disposition, Enqueued, Outcome, SettleItem, Work,
};
use windlass_core::limits::RETENTION_DEAD_DEFAULT_MS;
use windlass_core::model::{Due, Finish, NewJob, State};
use windlass_core::policy::{Backoff, OnConflict, Retention, Unique, UniqueScope, Until};
use windlass_core::time::{HOUR_MS, MINUTE_MS};
use windlass_core::{Error, JobId};

const WAITING: [State; 4] = [State::Scheduled, State::Blocked, State::Available, State::Paused];
const ENDED: [State; 4] = [State::Completed, State::Dead, State::Cancelled, State::Expired];

pub(super) async fn while_a_job_lives_the_next_is_answered_with_it(rig: Rig) {
    for state in WAITING.into_iter().chain([State::Running]) {
        let holder = holder_in(&rig, state, Until::Finished).await;
        let answer = next(&rig, state, OnConflict::Existing).await;
        let expected = (holder, Disposition::Existing, Some(state));
        assert_eq!((answer.id, answer.disposition, answer.state), expected);
        rig.assert_state(holder, state).await;
    }
    let available = rig.drain(10).await;
    assert_eq!(available.len(), 1, "no duplicate was stored: {available:?}");
}

pub(super) async fn while_a_job_lives_a_newcomer_can_ask_to_be_rejected(rig: Rig) {
    for state in WAITING.into_iter().chain([State::Running]) {
        let holder = holder_in(&rig, state, Until::Finished).await;
        let newcomer = job(state).unique(unique(OnConflict::Reject));
        let refused = rig.try_enqueue(newcomer).await;
        assert_eq!(refused, Err(Error::Duplicate { key: "u".into(), holder }), "{state}");
        rig.assert_state(holder, state).await;
    }
    rig.assert_sound().await;
}

pub(super) async fn a_waiting_job_is_replaced_and_says_by_which(rig: Rig) {
    for on_conflict in [OnConflict::Replace, OnConflict::Debounce] {
        for state in WAITING {
            let holder = holder_in(&rig, state, Until::Finished).await;
            let answer = next(&rig, state, on_conflict).await;
            assert_eq!(
                answer.disposition,
                Disposition::Replaced(holder),
                "{on_conflict:?} {state}"
            );
            let replaced = rig.get(holder).await;
            let expected = (State::Cancelled, Some(Finish::ReplacedBy(answer.id)));
            assert_eq!((replaced.state, replaced.finish), expected, "{on_conflict:?} {state}");
            assert_eq!(rig.get(answer.id).await.header.id, answer.id);
            let third = next(&rig, state, OnConflict::Existing).await;
            assert_eq!(third.id, answer.id, "the new job holds the key");
            rig.change(answer.id, Change::Cancel).await;
        }
    }
    rig.assert_sound().await;
}

pub(super) async fn a_running_job_gets_a_successor_that_takes_over_the_key(rig: Rig) {
    for on_conflict in [OnConflict::Replace, OnConflict::Debounce] {
        rig.enqueue(Rig::job().unique(Unique::by("u"))).await;
        let session = rig.session().await;
        let running = rig.take_one(&session).await;
        let newcomer = Rig::job().unique(unique(on_conflict));
        let answer = rig.try_enqueue(newcomer).await.expect("enqueue");
        assert_eq!(answer.disposition, Disposition::Created, "a running job is not replaced");
        rig.assert_state(running.header.id, State::Running).await;
        rig.settle(&running, Outcome::DONE).await;

        let third = rig.try_enqueue(Rig::job().unique(Unique::by("u"))).await.expect("enqueue");
        let expected = (answer.id, Disposition::Existing);
        assert_eq!(
            (third.id, third.disposition),
            expected,
            "the end of the first does not release the key"
        );
        assert_eq!(rig.drain(10).await, [answer.id]);
    }
    rig.assert_sound().await;
}

pub(super) async fn every_end_frees_the_key(rig: Rig) {
    for state in ENDED {
        for on_conflict in ALL_UNTIL_FINISHED {
            let ended = holder_in(&rig, state, Until::Finished).await;
            let answer = next(&rig, state, on_conflict).await;
            assert_eq!(answer.disposition, Disposition::Created, "{state} {on_conflict:?}");
            rig.assert_state(ended, state).await;
            rig.change(answer.id, Change::Cancel).await;
        }
    }
    rig.assert_sound().await;
}

pub(super) async fn used_up_budgets_free_the_key(rig: Rig) {
    let once = || Rig::job().unique(unique(OnConflict::Reject)).max_attempts(1).max_crashes(0);
    let session = rig.session().await;
    rig.enqueue(once()).await;
    rig.settle(&rig.take_one(&session).await, Outcome::retry("code", "last attempt")).await;
    let second = rig.enqueue(once()).await;
    rig.take_one(&session).await;
    rig.crash(&session).await;
    rig.assert_state(second, State::Dead).await;
    let third = rig.enqueue(once()).await;
    let session = rig.session().await;
    rig.settle(&rig.take_one(&session).await, Outcome::Cancel).await;
    rig.assert_state(third, State::Cancelled).await;
    rig.enqueue(once()).await;
    rig.assert_sound().await;
}

pub(super) async fn the_key_is_held_through_backoff_snooze_release_and_wait(rig: Rig) {
    let outcomes = [
        Outcome::retry("code", "again"),
        Outcome::Snooze { delay_ms: HOUR_MS },
        Outcome::Release,
        Outcome::WAIT,
    ];
    for (index, outcome) in outcomes.into_iter().enumerate() {
        let unique = Unique::by(format!("key {index}")).on_conflict(OnConflict::Reject);
        let job = Rig::job().unique(unique).backoff(Backoff::exactly(HOUR_MS));
        let holder = rig.enqueue(job.clone()).await;
        let session = rig.session().await;
        rig.settle(&rig.take_one(&session).await, outcome.clone()).await;
        assert_code(rig.try_enqueue(job.clone()).await, "duplicate");
        rig.pass(2 * HOUR_MS).await;
        assert_code(rig.try_enqueue(job).await, "duplicate");
        assert!(!rig.state(holder).await.is_terminal(), "{outcome:?}");
        rig.change(holder, Change::Pause).await;
    }
}

pub(super) async fn a_window_holds_the_key_whatever_becomes_of_the_job(rig: Rig) {
    for state in ENDED {
        let holder = holder_in(&rig, state, Until::window_ms(HOUR_MS)).await;
        let answer = next(&rig, state, OnConflict::Existing).await;
        let expected = (holder, Disposition::Existing, Some(state));
        assert_eq!((answer.id, answer.disposition, answer.state), expected);
        let rejected = rig.try_enqueue(job(state).unique(unique(OnConflict::Reject))).await;
        assert_eq!(rejected, Err(Error::Duplicate { key: "u".into(), holder }));
    }
    rig.pass(HOUR_MS).await;
    for state in ENDED {
        let answer = next(&rig, state, OnConflict::Reject).await;
        assert_eq!(answer.disposition, Disposition::Created, "{state}: the window is over");
    }
    rig.assert_sound().await;
}

pub(super) async fn an_ended_job_in_its_window_is_succeeded_not_replaced(rig: Rig) {
    for on_conflict in [OnConflict::Replace, OnConflict::Debounce] {
        for state in ENDED {
            let holder = holder_in(&rig, state, Until::window_ms(HOUR_MS)).await;
            let answer = next(&rig, state, on_conflict).await;
            assert_eq!(answer.disposition, Disposition::Created, "{on_conflict:?} {state}");
            rig.assert_state(holder, state).await;
            let third = next(&rig, state, OnConflict::Existing).await;
            assert_eq!(third.id, answer.id, "the successor holds the key");
            rig.change(answer.id, Change::Cancel).await;
        }
    }
    rig.assert_sound().await;
}

pub(super) async fn a_window_is_counted_from_the_enqueue(rig: Rig) {
    let unique = Unique::by("u").until(Until::window_ms(HOUR_MS)).on_conflict(OnConflict::Reject);
    let late = Rig::job().unique(unique.clone()).due(Due::After(2 * HOUR_MS));
    let first = rig.enqueue(late).await;
    rig.pass(HOUR_MS - MINUTE_MS).await;
    assert_code(rig.try_enqueue(Rig::job().unique(unique.clone())).await, "duplicate");
    rig.pass(MINUTE_MS).await;
    let second = rig.enqueue(Rig::job().unique(unique)).await;
    rig.assert_state(first, State::Scheduled).await;
    assert_eq!(rig.drain(10).await, [second]);
    rig.assert_sound().await;
}

pub(super) async fn a_window_ends_on_time_even_without_maintenance(rig: Rig) {
    let unique = Unique::by("u").until(Until::window_ms(HOUR_MS)).on_conflict(OnConflict::Reject);
    rig.enqueue(Rig::job().unique(unique.clone())).await;
    rig.advance(HOUR_MS);
    rig.enqueue(Rig::job().unique(unique)).await;
    assert_eq!(rig.drain(10).await.len(), 2);
}

pub(super) async fn a_window_outlives_the_job_that_opened_it(rig: Rig) {
    let until = Until::window_ms(HOUR_MS);
    let mut job = Rig::job().unique(Unique::by("u").until(until));
    job.policy.retention = Some(Retention::uniform_ms(0));
    let holder = rig.enqueue(job.clone()).await;
    rig.drain(1).await;
    rig.pass(1).await;
    assert!(rig.find(holder).await.is_none(), "its retention is over");
    let answer = rig.try_enqueue(job).await.expect("enqueue");
    let expected = (holder, Disposition::Existing, None);
    assert_eq!((answer.id, answer.disposition, answer.state), expected);
    rig.assert_nothing_to_claim().await;
    rig.assert_sound().await;
}

pub(super) async fn a_record_holds_the_key_until_it_is_removed(rig: Rig) {
    for state in ENDED {
        let holder = holder_in(&rig, state, Until::Removed).await;
        let answer = next(&rig, state, OnConflict::Existing).await;
        let expected = (holder, Disposition::Existing, Some(state));
        assert_eq!((answer.id, answer.disposition, answer.state), expected);
        let rejected = rig.try_enqueue(job(state).unique(unique(OnConflict::Reject))).await;
        assert_eq!(rejected, Err(Error::Duplicate { key: "u".into(), holder }));
    }
    rig.assert_sound().await;
    rig.pass(LONGEST_RETENTION_MS + MINUTE_MS).await;
    for state in ENDED {
        let answer = next(&rig, state, OnConflict::Reject).await;
        assert_eq!(answer.disposition, Disposition::Created, "{state}: the record is gone");
    }
    rig.assert_sound().await;
}

pub(super) async fn a_record_with_its_own_retention_frees_the_key_at_its_end(rig: Rig) {
    let mut job = Rig::job().unique(Unique::by("u").until(Until::Removed));
    job.policy.retention = Some(Retention::uniform_ms(HOUR_MS));
    let holder = rig.enqueue(job.clone()).await;
    assert_eq!(rig.drain(1).await, [holder]);
    rig.pass(HOUR_MS - MINUTE_MS).await;
    assert_eq!(rig.enqueue(job.clone()).await, holder);
    rig.pass(2 * MINUTE_MS).await;
    assert!(rig.find(holder).await.is_none(), "its retention is over");
    assert_ne!(rig.enqueue(job).await, holder);
    rig.assert_sound().await;
}

pub(super) async fn a_discard_frees_the_key_of_a_record(rig: Rig) {
    for state in ENDED {
        let holder = holder_in(&rig, state, Until::Removed).await;
        rig.assert_sound().await;
        rig.change(holder, Change::Discard).await;
        let answer = next(&rig, state, OnConflict::Reject).await;
        assert_eq!(answer.disposition, Disposition::Created, "{state}");
    }
    rig.assert_sound().await;
}

pub(super) async fn a_replay_keeps_the_key_of_its_record(rig: Rig) {
    for state in [State::Dead, State::Cancelled, State::Expired] {
        let holder = holder_in(&rig, state, Until::Removed).await;
        rig.change(holder, Change::replay()).await;
        let answer = next(&rig, state, OnConflict::Existing).await;
        assert_eq!((answer.id, answer.disposition), (holder, Disposition::Existing), "{state}");
        rig.change(holder, Change::Cancel).await;
        let answer = next(&rig, state, OnConflict::Existing).await;
        assert_eq!((answer.id, answer.disposition), (holder, Disposition::Existing), "{state}");
    }
    rig.assert_sound().await;
}

pub(super) async fn the_key_of_a_record_that_a_successor_took_stays_with_it(rig: Rig) {
    for state in ENDED {
        let holder = holder_in(&rig, state, Until::Removed).await;
        let newcomer = job(state).unique(unique(OnConflict::Replace).until(Until::Removed));
        let successor = rig.try_enqueue(newcomer).await.expect("enqueue");
        assert_eq!(successor.disposition, Disposition::Created, "{state}: it had ended");
        rig.change(holder, Change::Discard).await;
        let third = next(&rig, state, OnConflict::Existing).await;
        let expected = (successor.id, Disposition::Existing);
        assert_eq!((third.id, third.disposition), expected, "the removal frees no key of others");
    }
    rig.assert_sound().await;
}

pub(super) async fn a_follow_up_cannot_take_the_key_of_its_parents_record(rig: Rig) {
    let unique = unique(OnConflict::Reject).until(Until::Removed);
    let parent = rig.enqueue(Rig::job().unique(unique.clone())).await;
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    let report = SettleItem::new(parent, claimed.lease.clone(), Outcome::DONE);
    let refused = rig.try_settle(report.follow_up(Rig::job().unique(unique))).await;
    assert_code(refused, "duplicate");
    rig.assert_state(parent, State::Running).await;
    rig.settle(&claimed, Outcome::DONE).await;
    rig.assert_sound().await;
}

pub(super) async fn throttle_takes_one_job_per_window(rig: Rig) {
    let unique = Unique::by("u").until(Until::window_ms(MINUTE_MS)).on_conflict(OnConflict::Throttle);
    for _ in 0..3 {
        let first = rig.try_enqueue(Rig::job().unique(unique.clone())).await.expect("enqueue");
        assert_eq!(first.disposition, Disposition::Created);
        for state in [State::Available, State::Completed] {
            let dropped = rig.try_enqueue(Rig::job().unique(unique.clone())).await;
            let dropped = dropped.expect("a throttled job is not an error");
            let expected = (first.id, Disposition::Throttled, Some(state));
            assert_eq!((dropped.id, dropped.disposition, dropped.state), expected);
            if state == State::Available {
                assert_eq!(rig.drain(10).await, [first.id]);
            }
        }
        rig.pass(MINUTE_MS).await;
    }
}

pub(super) async fn throttle_without_a_window_is_refused(rig: Rig) {
    let newcomer = Rig::job().unique(unique(OnConflict::Throttle));
    assert_refused(rig.try_enqueue(newcomer).await, "invalid", "unique.until");
    rig.assert_nothing_to_claim().await;
}

pub(super) async fn a_replacement_keeps_the_earlier_time(rig: Rig) {
    let replace = |ms| Rig::job().due(Due::After(ms)).unique(unique(OnConflict::Replace));
    let first = rig.enqueue(replace(HOUR_MS)).await;
    let due = rig.get(first).await.header.run_at;
    let later = rig.enqueue(replace(2 * HOUR_MS)).await;
    assert_eq!(rig.get(later).await.header.run_at, due, "replacements keep the earliest run time");
    let sooner = rig.enqueue(replace(MINUTE_MS)).await;
    assert!(rig.get(sooner).await.header.run_at < due);
    rig.pass(MINUTE_MS).await;
    assert_eq!(rig.state(sooner).await, State::Available);
    let ready = rig.try_enqueue(replace(HOUR_MS)).await.expect("enqueue");
    let expected = (Disposition::Replaced(sooner), Some(State::Available));
    assert_eq!((ready.disposition, ready.state), expected, "the one it replaces was ready");
    assert_eq!(rig.drain(10).await, [ready.id]);
}

pub(super) async fn a_debounced_job_runs_once_when_things_are_quiet(rig: Rig) {
    let debounce = || Rig::job().due(Due::After(MINUTE_MS)).unique(unique(OnConflict::Debounce));
    let mut latest = rig.enqueue(debounce()).await;
    for _ in 0..5 {
        rig.pass(MINUTE_MS / 2).await;
        rig.assert_nothing_to_claim().await;
        latest = rig.enqueue(debounce()).await;
    }
    rig.pass(MINUTE_MS).await;
    assert_eq!(rig.drain(10).await, [latest]);
    rig.assert_sound().await;
}

pub(super) async fn a_key_is_unique_in_its_lane_its_queue_its_kind_or_everywhere(rig: Rig) {
    let scoped = |scope, queue: &'static str, kind: &'static str| {
        NewJob::new(kind).queue(queue).unique(Unique::by("u").scope(scope))
    };
    let places = [("q1", "k1"), ("q1", "k2"), ("q2", "k1")];
    let mut scopes = vec![(UniqueScope::Lane, 3), (UniqueScope::Queue, 2)];
    if rig.has(Capability::GlobalUnique) {
        scopes.extend([(UniqueScope::Kind, 2), (UniqueScope::Global, 1)]);
    }
    for (scope, expected) in scopes {
        let mut stored = HashSet::new();
        for (queue, kind) in places {
            stored.insert(rig.enqueue(scoped(scope, queue, kind)).await);
        }
        assert_eq!(stored.len(), expected, "{scope:?}: scopes are independent of each other");
        let last = rig.enqueue(scoped(scope, "q2", "k1")).await;
        assert!(stored.contains(&last), "{scope:?}: the key of the third place is held");
    }
    if rig.has(Capability::GlobalUnique) {
        let [first, third] = [("q1", "k1"), ("q2", "k1")]
            .map(|(queue, kind)| rig.enqueue(scoped(UniqueScope::Kind, queue, kind)));
        assert_eq!(first.await, third.await, "one kind, in whichever queue");
    }
}

pub(super) async fn a_key_across_queues_is_refused_where_the_engine_cannot_hold_it(rig: Rig) {
    for scope in [UniqueScope::Kind, UniqueScope::Global] {
        let answer = rig.try_enqueue(Rig::job().unique(Unique::by("u").scope(scope)));
        if rig.has(Capability::GlobalUnique) {
            assert_eq!(answer.await.expect("enqueue").disposition, Disposition::Created);
        } else {
            assert_code(answer.await, "unsupported");
            rig.assert_nothing_to_claim().await;
        }
    }
}

pub(super) async fn lanes_whose_names_run_together_have_keys_of_their_own(rig: Rig) {
    for (queue, kind) in [("a:b", "c"), ("a", "b:c"), ("a/b", "c"), ("a", "b/c")] {
        let job = NewJob::new(kind).queue(queue).unique(unique(OnConflict::Reject));
        rig.enqueue(job).await;
    }
}

pub(super) async fn keys_are_compared_byte_by_byte(rig: Rig) {
    // The last two look the same: a composed and a decomposed é.
    for key in ["u", "U", "u ", " u", "u%", "u_", "u\\", "\u{e9}", "e\u{301}"] {
        let unique = Unique::by(key).on_conflict(OnConflict::Reject);
        rig.enqueue(Rig::job().unique(unique.clone())).await;
        assert_code(rig.try_enqueue(Rig::job().unique(unique)).await, "duplicate");
    }
}

pub(super) async fn a_replayed_job_takes_its_key_again(rig: Rig) {
    for state in [State::Dead, State::Cancelled, State::Expired] {
        let ended = holder_in(&rig, state, Until::Finished).await;
        rig.change(ended, Change::replay()).await;
        let answer = next(&rig, state, OnConflict::Existing).await;
        assert_eq!((answer.id, answer.disposition), (ended, Disposition::Existing), "{state}");
    }
    rig.assert_sound().await;
}

pub(super) async fn a_replay_is_refused_while_another_job_holds_the_key(rig: Rig) {
    for state in [State::Dead, State::Cancelled, State::Expired] {
        let ended = holder_in(&rig, state, Until::Finished).await;
        let holder = next(&rig, state, OnConflict::Reject).await.id;
        let before = rig.get(ended).await;
        let refused = rig.try_change(ended, Change::replay()).await;
        assert_eq!(refused, Err(Error::Duplicate { key: "u".into(), holder }), "{state}");
        assert_eq!(rig.get(ended).await, before, "nothing was changed");
        rig.change(holder, Change::Cancel).await;
        rig.change(ended, Change::replay()).await;
    }
    rig.assert_sound().await;
}

pub(super) async fn of_many_jobs_with_one_key_at_the_same_time_one_is_stored(rig: Rig) {
    let job = || Rig::job().unique(Unique::by("u"));
    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let rig = rig.clone();
            tokio::spawn(async move { rig.try_enqueue(job()).await.expect("enqueue") })
        })
        .collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.expect("no panic"));
    }
    let created = answers.iter().filter(|answer| answer.disposition == Disposition::Created);
    assert_eq!(created.count(), 1, "{answers:?}");
    assert!(answers.iter().all(|answer| answer.id == answers[0].id), "{answers:?}");
    assert_eq!(rig.drain(20).await, [answers[0].id]);
}

/// The longest default retention of a state.
const LONGEST_RETENTION_MS: u64 = RETENTION_DEAD_DEFAULT_MS;

const ALL_UNTIL_FINISHED: [OnConflict; 4] =
    [OnConflict::Existing, OnConflict::Replace, OnConflict::Debounce, OnConflict::Reject];

fn unique(on_conflict: OnConflict) -> Unique {
    Unique::by("u").on_conflict(on_conflict)
}

/// A job in a separate lane for each state, so that one check can have a holder in every state.
fn job(state: State) -> NewJob {
    NewJob::new(state.as_str()).queue(QUEUE)
}

/// Enqueues another job with the key of [`holder_in`].
async fn next(rig: &Rig, state: State, on_conflict: OnConflict) -> Enqueued {
    rig.try_enqueue(job(state).unique(unique(on_conflict))).await.expect("enqueue")
}

/// A job that acquired the unique key `u` of its lane and then reached `state`.
async fn holder_in(rig: &Rig, state: State, until: Until) -> JobId {
    let mut new = job(state).unique(unique(OnConflict::Reject).until(until));
    match state {
        State::Scheduled => new = new.due(Due::After(100 * HOUR_MS)),
        State::Blocked => {
            rig.enqueue(NewJob::new(KIND).queue(QUEUE).key("line")).await;
            let session = rig.session().await;
            rig.claim(rig.wants(&session, 1).kind(KIND, 1)).await;
            new = new.key("line");
        }
        State::Expired => new = new.max_wait_ms(1),
        _ => {}
    }
    let id = rig.enqueue(new).await;
    match state {
        State::Paused => drop(rig.change(id, Change::Pause).await),
        State::Cancelled => drop(rig.change(id, Change::Cancel).await),
        State::Expired => {
            rig.advance(1);
            rig.maintain(Work::Expire).await;
        }
        State::Running | State::Completed | State::Dead => {
            let session = rig.session().await;
            let claim = Claim::new(rig.claimant(&session), QUEUE, 1).kind(state.as_str(), 1);
            let claimed = rig.claim(claim).await.pop().expect("the job");
            if state == State::Completed {
                rig.settle(&claimed, Outcome::DONE).await;
            } else if state == State::Dead {
                rig.settle(&claimed, Outcome::fail("code", "for good")).await;
            }
        }
        _ => {}
    }
    rig.assert_state(id, state).await;
    id
}
