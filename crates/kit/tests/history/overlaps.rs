//! Histories that can be explained are accepted: overlapping calls, lost replies, replays.

use crate::script::{DONE, Script, applied, job, keyed, lease_lost, started};
use windlass_core::engine::Lease;
use windlass_core::model::{AttemptEnd, State};
use windlass_core::policy::OnConflict;
use windlass_kit::history::{
    Admission, Call, Event, Options, Receipt, Reply, Report, Wanted, Wish,
};

#[test]
fn an_unanswered_enqueue_may_have_happened_or_not() {
    let mut script = Script::default();
    let verdict = script.enqueue(1.., Wanted::plain(job(1))).is_fine();
    assert_eq!((verdict.counts.acknowledged, verdict.counts.unanswered), (0, 1));
    script.claim(2..3, job(1), "L1", 1).done(4..5, job(1), "L1").ends(job(1), State::Completed);
    script.is_fine();
}

#[test]
fn a_repeat_that_was_refused_does_not_forbid_the_first_try() {
    let mut script = Script::default();
    script.enqueue(1.., Wanted::plain(job(1)));
    script.enqueue_as(2..3, Wanted::plain(job(1)), Admission::Refused).ends(job(1), State::Dead);
    script.is_fine();
}

#[test]
fn a_lost_claim_answered_by_its_repetition_is_one_start() {
    let mut script = Script::default();
    script.enqueue(1..2, Wanted::plain(job(1)));
    script.claim_as(3.., "c", job(1), "L1", 1).claim_as(4..5, "c", job(1), "L1", 1);
    script.claim_as(6..7, "c", job(1), "L1", 1).done(8..9, job(1), "L1");
    let verdict = script.ends(job(1), State::Completed).is_fine();
    assert_eq!((verdict.counts.starts, verdict.counts.duplicates), (1, 0));
}

#[test]
fn a_settle_repeated_after_a_lost_reply_is_answered_already() {
    let mut script = started();
    let already = Receipt::Already { end: DONE, state: State::Completed };
    script.done(5.., job(1), "L1").settle(6..7, job(1), "L1", DONE, already);
    script.ends(job(1), State::Completed).is_fine();
}

#[test]
fn follow_ups_of_a_report_that_lost_to_another_need_not_be_there() {
    let mut script = started();
    let report = |follow_ups| {
        let report = Report { id: job(1), lease: Lease::new("L1"), end: DONE, follow_ups };
        Call::Settle { items: vec![report], claim: None }
    };
    let reply = |item| Reply::Settled { items: vec![item], claimed: Vec::new() };
    let already = Receipt::Already { end: DONE, state: State::Completed };
    script.call(5..6, report(Vec::new()), reply(applied(State::Completed)));
    script.call(7..8, report(vec![Wanted::plain(job(2))]), reply(already));
    script.ends(job(1), State::Completed).is_fine();
}

#[test]
fn a_completion_without_an_answer_may_have_counted_or_not() {
    let mut script = started();
    script.done(5.., job(1), "L1").ends(job(1), State::Completed).is_fine();
    script.ends(job(1), State::Dead).is_fine();
}

#[test]
fn a_report_that_overlaps_the_next_claim_may_have_come_first() {
    let mut script = started();
    script
        .settle(5..9, job(1), "L1", AttemptEnd::Retry, applied(State::Available))
        .claim(6..7, job(1), "L2", 2)
        .done(8..10, job(1), "L2")
        .ends(job(1), State::Completed)
        .is_fine();
}

#[test]
fn a_claim_that_was_answered_late_may_have_come_first() {
    // The old lease is seen again after the new claim was answered, but the new one may be older.
    let mut script = Script::default();
    script.enqueue(1..2, Wanted::plain(job(1)));
    script.claim(3..20, job(1), "L1", 1).claim(4..10, job(1), "L2", 2);
    script.update(15..16, job(1), "L2").settle(21..22, job(1), "L1", DONE, lease_lost());
    script.done(23..24, job(1), "L2").ends(job(1), State::Completed).is_fine();
    let forgotten = Options::default().claims_forgotten();
    script.with(forgotten).is_fine();
}

#[test]
fn equal_stamps_give_no_order() {
    let mut script = started();
    script.claim(5..6, job(1), "L2", 2);
    script.settle(6..7, job(1), "L1", AttemptEnd::Release, applied(State::Available));
    script.done(8..9, job(1), "L2").ends(job(1), State::Completed).is_fine();
}

#[test]
fn a_job_that_runs_again_after_a_crash_is_a_duplicate_and_no_more() {
    let mut script = started();
    script.claim(5..6, job(1), "L2", 2).settle(7..8, job(1), "L1", DONE, lease_lost());
    let verdict = script.done(9..10, job(1), "L2").ends(job(1), State::Completed).is_fine();
    assert_eq!((verdict.counts.duplicates, verdict.counts.completed), (1, 1));
}

#[test]
fn a_forgotten_claim_lets_an_attempt_repeat() {
    let mut script = started();
    script.claim(5..6, job(1), "L2", 1).settle(7..8, job(1), "L1", DONE, lease_lost());
    script.done(9..10, job(1), "L2").ends(job(1), State::Completed);
    script.with(Options::default().claims_forgotten()).is_fine();
}

#[test]
fn a_replayed_job_may_start_and_end_again() {
    let fail = AttemptEnd::Fail;
    let mut script = started();
    script.settle(5..6, job(1), "L1", fail, applied(State::Dead));
    script.change(7.., job(1), Wish::Replay, Some(State::Available));
    script.claim(9..10, job(1), "L2", 2).done(11..12, job(1), "L2");
    script.ends(job(1), State::Completed).is_fine();
}

#[test]
fn overlapping_ends_of_two_lives_may_have_come_either_way_round() {
    let mut script = started();
    script.claim(3..4, job(1), "L2", 2).settle(
        5..100,
        job(1),
        "L2",
        DONE,
        applied(State::Completed),
    );
    script.settle(10..20, job(1), "L1", AttemptEnd::Fail, applied(State::Dead));
    script.change(50..60, job(1), Wish::Replay, Some(State::Available));
    // The claim of the second life was answered early only because it was the first one's twin.
    script.events.retain(|event: &Event| event.op != 3);
    let verdict = script.ends(job(1), State::Completed).verdict();
    assert_eq!(verdict.count(windlass_kit::history::Kind::SettledTwice), 0, "{verdict}");
}

#[test]
fn a_discarded_or_retained_job_may_be_gone() {
    let mut script = started();
    script.done(5..6, job(1), "L1").change(7.., job(1), Wish::Discard, None);
    assert_eq!(script.is_fine().counts.removed, 1);
    let mut script = started();
    script.done(5..6, job(1), "L1").with(Options::default().retention()).is_fine();
}

#[test]
fn an_enqueue_that_comes_late_makes_a_discarded_job_anew() {
    let mut script = Script::default();
    script.enqueue(1.., Wanted::plain(job(1))).enqueue(2..3, Wanted::plain(job(1)));
    script.claim(4..5, job(1), "L1", 1).claim(6..7, job(1), "L2", 2).done(8..9, job(1), "L2");
    script.change(10..11, job(1), Wish::Discard, None);
    script.claim(12..13, job(1), "L3", 1).done(14..15, job(1), "L3");
    script.ends(job(1), State::Completed).is_fine();
}

#[test]
fn a_replaced_job_ends_cancelled() {
    let replaces = |n| Wanted { unique: Some(OnConflict::Replace), ..Wanted::plain(job(n)) };
    let stored = Admission::Stored { state: State::Available, replaced: Some(job(1)) };
    let mut script = Script::default();
    script.enqueue(1..2, Wanted::plain(job(1))).enqueue_as(3..4, replaces(2), stored);
    script.ends(job(1), State::Cancelled).ends(job(2), State::Dead).is_fine();
    let mut script = Script::default();
    script.enqueue(1..2, Wanted::plain(job(1))).enqueue(3.., replaces(2));
    script.ends(job(1), State::Cancelled).ends(job(2), State::Dead).is_fine();
}

#[test]
fn jobs_of_a_key_enqueued_at_the_same_time_have_no_order() {
    let mut script = Script::default();
    script.enqueue(1..4, keyed(1)).enqueue(2..3, keyed(2));
    script.claim(5..6, job(2), "L2", 1).done(7..8, job(2), "L2");
    script.claim(9..10, job(1), "L1", 1).done(11..12, job(1), "L1");
    script.ends(job(1), State::Completed).ends(job(2), State::Completed).is_fine();
}

#[test]
fn the_next_job_of_a_key_may_start_once_the_end_was_requested() {
    let mut script = Script::default();
    script.enqueue(1..2, keyed(1)).enqueue(3..4, keyed(2)).claim(5..6, job(1), "L1", 1);
    script.done(7..20, job(1), "L1").claim(6..8, job(2), "L2", 1).done(9..10, job(2), "L2");
    script.ends(job(1), State::Completed).ends(job(2), State::Completed).is_fine();
}

#[test]
fn a_key_is_let_go_by_a_cancel_a_crash_or_a_lost_completion() {
    let start = || {
        let mut script = Script::default();
        script.enqueue(1..2, keyed(1)).enqueue(3..4, keyed(2));
        script.claim(20..21, job(2), "L2", 1).done(22..23, job(2), "L2");
        script.ends(job(2), State::Completed);
        script
    };
    let mut script = start();
    script.change(5.., job(1), Wish::Cancel, None).ends(job(1), State::Cancelled).is_fine();
    let mut script = start();
    script.claim(5..6, job(1), "L1", 1).ends(job(1), State::Dead).is_fine();
    let mut script = start();
    script.claim(5..6, job(1), "L1", 1).done(7.., job(1), "L1");
    script.ends(job(1), State::Completed).is_fine();
}

#[test]
fn a_job_that_was_paused_or_is_due_later_has_no_place_in_line() {
    let run = |script: &mut Script| {
        script.claim(15..16, job(2), "L2", 1).done(17..18, job(2), "L2");
        script.claim(19..20, job(1), "L1", 1).done(21..22, job(1), "L1");
        script.ends(job(1), State::Completed).ends(job(2), State::Completed).is_fine();
    };
    let mut script = Script::default();
    script.enqueue(1..2, keyed(1)).enqueue(3..4, keyed(2));
    run(script.change(5..6, job(1), Wish::Move, Some(State::Paused)));
    let mut script = Script::default();
    let later = Wanted { in_line: false, ..keyed(1) };
    run(script.enqueue(1..2, later).enqueue(3..4, keyed(2)));
}
